import ClusterSupport
import OpPlatform
import Synchronization
import TestSupport
import Testing

@testable import OpCluster

/// Random runs of simulated clusters, with faults of all kinds.
@Suite struct RandomTests {
    enum Faults: CaseIterable { case none, connections, deaths, everything, intruder }

    @Test(arguments: Faults.allCases) func everyTaskHasOneOutcome(_ faults: Faults) {
        let count =
            TestLength.number("OPSCRIPT_CLUSTER_RUNS") ?? (TestLength.isLong ? 20000 : TestLength.isQuick ? 50 : TestLength.size(200))
        let seeds = TestLength.number("OPSCRIPT_CLUSTER_SEED").map { UInt64($0)...UInt64($0) }
        let first = seeds?.lowerBound ?? UInt64.random(in: 0...1 << 40)
        for seed in seeds ?? first...first + UInt64(count) {
            let failures = RandomRun(seed: seed, faults).failures
            if !failures.isEmpty {
                Issue.record(
                    """
                    \(failures.prefix(5).joined(separator: "\\n"))
                    to repeat: OPSCRIPT_CLUSTER_SEED=\(seed) SWIFT_DETERMINISTIC_HASHING=1, faults: \(faults)
                    """)
                return
            }
        }
    }
}

/// One run: a cluster, a few tasks, and faults during the first half minute.
struct RandomRun {
    private let cluster: SimulatedCluster
    private let faults: RandomTests.Faults
    private var simulation: Simulation { cluster.simulation }
    private let faultSeconds = 30.0, stillSeconds = 40.0
    var failures: [String] { cluster.failures }

    init(seed: UInt64, _ faults: RandomTests.Faults) {
        self.faults = faults
        cluster = SimulatedCluster(seed: seed, startsSurely: faults == .none, delay: seed % 3 == 0 ? 0.001...0.05 : 0.0001...0.001)
        if TestLength.number("OPSCRIPT_CLUSTER_TRACE") == 1 { cluster.server.trace = { [cluster] in cluster.show($0, $1, $2, $3, $4, $5) } }
        simulation.run(until: 0.5)
        for _ in 0..<random(1...4) { cluster.addWorker(slots: random(1...3)) }
        // A server keeps the order of one member's messages. Only the speed may depend on that.
        let isUnordered = seed % 2 == 0
        for fabric in [cluster.fabric] + cluster.members.map(\.fabric) where isUnordered {
            fabric.lateness = { [simulation, delay = cluster.delay] message in
                let mayBeLate = ["opscript.run.", "opscript.worker."].contains { message.subject.hasPrefix($0) }
                return mayBeLate && simulation.chance(0.2) ? 3 * simulation.seconds(in: delay) : nil
            }
        }
        if chance(0.2) { cluster.addWorker(slots: 2, key: ClusterKey(Array("another key of 32 bytes".utf8))) }
        if chance(0.2) { cluster.addWorker(slots: 2, version: "2") }
        for _ in 0..<random(1...25) { planTask() }
        for _ in 0..<random(0...3) { planChain() }
        if faults == .intruder { planIntruder() } else if faults != .none { for _ in 0..<random(1...6) { planFault() } }
        // Afterwards no more faults happen, and a new worker does the rest.
        simulation.run(until: faultSeconds + 1)
        cluster.addWorker(slots: 3)
        // A message that arrives too early is sent again a second later.
        let limit = faults == .none ? isUnordered ? 300.0 : 120.0 : 600.0
        // The last fault may cut a member off for a minute.
        let calm = faultSeconds + 60
        simulation.run(until: limit) {
            if simulation.now > max(calm, cluster.lastMove) + stillSeconds { return cluster.unfinished.isEmpty || cluster.standsStill }
            return simulation.now > faultSeconds + 2 && cluster.unfinished.isEmpty
        }
        if cluster.standsStill { cluster.fail("nothing happens for \(stillSeconds) seconds: \(cluster.state)") }
        if !cluster.unfinished.isEmpty { cluster.fail("tasks without an outcome: \(cluster.unfinished)") }
        check()
        cluster.end()
    }

    private func random(_ range: ClosedRange<Int>) -> Int { .random(in: range, using: &simulation.random) }
    private func chance(_ probability: Double) -> Bool { simulation.chance(probability) }

    private func planTask() {
        var body = Body(seconds: chance(0.5) ? simulation.seconds(in: 0...0.1) : simulation.seconds(in: 0...20))
        if chance(0.3) { body.outputCount = random(1...10) }
        if chance(0.2) { body.argumentCount = chance(0.05) ? random(1...600_000) : random(1...3000) }
        if chance(0.2) { body.resultCount = chance(0.05) ? random(1...600_000) : random(1...3000) }
        body.listens = chance(0.7)
        if faults == .intruder { body.asks = chance(0.7) }
        let (isAtMostOnce, priority) = (chance(0.3), UInt8(random(0...4)))
        let isStopped = chance(0.2)
        let request: StopRequest = chance(0.5) ? .cancel : .interrupt
        let stopDelay = simulation.seconds(in: 0...10)
        simulation.at(simulation.seconds(in: 0.5...20)) { [cluster, simulation] in
            let number = cluster.submit(body, isAtMostOnce: isAtMostOnce, priority: priority)
            if isStopped { simulation.after(stopDelay) { cluster.stop(number, request) } }
        }
    }

    /// A chain of tasks. Each is submitted when the one before it has just ended.
    private func planChain() {
        var body = Body(seconds: simulation.seconds(in: 0...0.15))
        if chance(0.3) { body.outputCount = random(1...3) }
        if chance(0.2) { body.argumentCount = random(1...3000) }
        if chance(0.2) { body.resultCount = random(1...3000) }
        let count = random(1...100)
        let stops = chance(0.5) ? (0..<random(1...5)).map { _ in simulation.seconds(in: 0...10) } : []
        let request: StopRequest = chance(0.5) ? .cancel : .interrupt
        simulation.at(simulation.seconds(in: 0.5...25)) { [cluster, simulation] in
            cluster.submitChain(of: count, body)
            for delay in stops { simulation.after(delay) { if let last = cluster.unfinished.last { cluster.stop(last, request) } } }
        }
    }

    private func planIntruder() {
        let attacks = HostileServer.Attack.allCases.filter { _ in chance(0.5) }
        let hostile = HostileServer(cluster.server, simulation, attacks, probability: [0.02, 0.1, 0.3, 0.6][random(0...3)])
        simulation.at(1) { hostile.begin() }
        simulation.at(faultSeconds) { hostile.end() }
    }

    private func planFault() {
        let kind = random(0...(faults == .connections ? 5 : faults == .deaths ? 7 : 12))
        let (index, seconds, isQuiet) = (random(0...100), simulation.seconds(in: 0...1), chance(0.5))
        let long = chance(0.2) ? seconds * 60 : seconds * 10
        let (first, second) = (simulation.seconds(in: 0...5), simulation.seconds(in: 0...5))
        simulation.at(simulation.seconds(in: 1...faultSeconds)) { [cluster, simulation] in
            if cluster.server.trace != nil { print("\(simulation.now) fault \(kind) \(long) \(seconds) \(isQuiet)") }
            let alive = cluster.members.indices.filter { cluster.members[$0].isAlive }
            let member = alive.isEmpty ? nil : alive[index % alive.count]
            let fabric = member.map { cluster.members[$0].fabric }
            switch kind {
            case 0: fabric?.breakConnection(downtime: long, notice: isQuiet ? first : 0, serverNotice: isQuiet ? second : 0)
            case 1: cluster.fabric.breakConnection(downtime: long, notice: isQuiet ? first : 0, serverNotice: isQuiet ? second : 0)
            case 2: fabric?.stall(for: long)
            case 3: cluster.fabric.stall(for: long)
            case 4: cluster.server.restart(downtime: seconds * 5)
            case 5: fabric?.repeatsMessages = true
            case 6:
                if let member { cluster.kill(member, serverNotice: isQuiet ? long : 0) }
                cluster.addWorker(slots: 2)
            case 7:
                guard let member else { return }
                cluster.members[member].worker.drain {
                    if cluster.members[member].isAlive { cluster.members[member].worker.close() }
                    cluster.members[member].isAlive = false
                }
                cluster.addWorker(slots: 1)
            case 8: cluster.server.restart(downtime: seconds * 5, losesStreams: true)
            case 9: cluster.server.removeStreams()
            case 10:
                cluster.server.room = 0
                simulation.after(seconds * 8) { cluster.server.room = .max }
            case 11:
                cluster.server.restart(downtime: seconds * 5)
                cluster.server.passOver(seconds)
            default: cluster.fabric.repeatsMessages = true
            }
        }
    }

    private func check() {
        for member in cluster.members where member.fabric.name != "" {
            if member.runner.greatestCount > 3 { cluster.fail("\(member.runner.name) runs more than it has slots") }
        }
        for (number, known) in cluster.known {
            if faults == .none {
                if known.begins.count > 1 { cluster.fail("task \(number) began without need at \(known.begins)") }
                if let outcome = known.outcomes.first, outcome.hasPrefix("lost") || outcome.hasPrefix("refused") {
                    cluster.fail("task \(number) has the outcome \(outcome)")
                }
            }
            if let outcome = known.outcomes.first, outcome.hasPrefix("refused"), faults != .everything {
                cluster.fail("task \(number) has the outcome \(outcome)")
            }
            if let outcome = known.outcomes.first, outcome.hasPrefix("lost"), !known.task.isAtMostOnce,
                outcome.split(separator: ",").count < known.task.maximumDeliveries
            {
                cluster.fail("task \(number) has the outcome \(outcome)")
            }
            if faults == .none, let stopped = known.stoppedAt, let reached = known.stopReachedAt, reached - stopped > 0.4 {
                cluster.fail("the stop of task \(number) took \(reached - stopped) seconds")
            }
        }
        // All members come to rest, and keep nothing.
        let alive = cluster.members.filter(\.isAlive)
        let (rest, coordinator, server) = (simulation.now + 90, cluster.coordinator, cluster.server)
        var nextLook = simulation.now
        simulation.run(until: rest) {
            if simulation.now < nextLook { return false }
            nextLook = simulation.now + 1
            return (server.storedCount == 0 || server.hasPassedOver) && coordinator.leftovers.isEmpty
                && alive.allSatisfy { $0.runner.running.isEmpty && $0.worker.leftovers.isEmpty }
        }
        for member in alive where !member.runner.running.isEmpty { cluster.fail("\(member.runner.name) still runs what nobody needs") }
        for member in alive { for text in member.worker.leftovers { cluster.fail("\(member.runner.name) keeps \(text)") } }
        for text in cluster.coordinator.leftovers { cluster.fail("the coordinator keeps \(text)") }
        // The messages that the server has passed over are removed with the run.
        if cluster.server.storedCount > 0, !cluster.server.hasPassedOver {
            cluster.fail("the stream keeps \(cluster.server.storedCount) jobs")
        }
        cluster.coordinator.close()
        let end = simulation.now + 70
        simulation.run(until: end) { alive.allSatisfy { $0.worker.hasNoRuns } }
        for member in alive where !member.worker.hasNoRuns { cluster.fail("\(member.runner.name) keeps a run that is over") }
    }
}

extension Coordinator {
    /// The state that is left although no task is unfinished.
    var leftovers: [String] {
        state.withLock { state in
            var texts: [String] = []
            if !state.entries.isEmpty { texts.append("\(state.entries.count) tasks") }
            if !state.refused.isEmpty { texts.append("\(state.refused.count) refused tasks") }
            let tasks = state.peers.values.reduce(0) { $0 + $1.tasks.count }
            if tasks > 0 { texts.append("\(tasks) tasks of workers") }
            return texts + exchange.leftovers
        }
    }
}

extension ClusterWorker {
    var leftovers: [String] {
        state.withLock { state in
            var texts: [String] = []
            if state.taskCount > 0 { texts.append("\(state.running.count), \(state.preparing.count) and \(state.waiting.count) tasks") }
            if !state.ended.isEmpty { texts.append("\(state.ended.count) ended tasks") }
            for run in state.runs.values where !run.isQuiet { texts.append("something of a run") }
            return texts + exchange.leftovers
        }
    }

    var hasNoRuns: Bool { state.withLock { $0.runs.isEmpty } }
}

extension Exchange {
    fileprivate var leftovers: [String] {
        let (requests, transfers) = waitingCounts
        return requests > 1 || transfers > 0 ? ["\(requests) requests and \(transfers) transfers"] : []
    }
}
