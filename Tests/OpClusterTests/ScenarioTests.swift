import ClusterSupport
import OpPlatform
import Synchronization
import TestSupport
import Testing

@testable import OpCluster

/// Single situations of simulated clusters.
@Suite struct ScenarioTests {
    func cluster(_ slots: Int...) -> SimulatedCluster {
        let cluster = SimulatedCluster(seed: 1)
        cluster.simulation.run(until: 0.5)
        for count in slots { cluster.addWorker(slots: count) }
        cluster.simulation.run(until: 1)
        return cluster
    }

    /// Lets the cluster work until all tasks have ended, and returns how many seconds that took.
    func finish(_ cluster: SimulatedCluster, within seconds: Double = 100) -> Double {
        let (start, simulation) = (cluster.simulation.now, cluster.simulation)
        simulation.run(until: start + seconds) { cluster.unfinished.isEmpty }
        #expect(cluster.unfinished.isEmpty && cluster.failures.isEmpty, "\(cluster.unfinished) \(cluster.failures)")
        return simulation.now - start
    }

    @Test func theTimesOfATaskAreThoseOfTheCoordinatorsClock() throws {
        let cluster = cluster(1)
        let number = cluster.submit(Body(seconds: 2))
        _ = finish(cluster)
        let known = try #require(cluster.known[number]), times = try #require(known.times)
        // The network takes a part of the time before the beginning.
        #expect(abs(times.ended - times.began - 2) < 0.001 && times.began - known.submittedAt < 0.2, "\(times)")
    }

    // MARK: servers

    @Test(arguments: [(seconds: 4.0, copies: 3), (seconds: .infinity, copies: 1)])
    func severalServersKeepThreeCopiesOnceTheyHaveFoundEachOther(seconds: Double, copies: Int) {
        let cluster = SimulatedCluster(seed: 1)
        defer { cluster.end() }
        (cluster.server.isOneOfSeveral, cluster.server.othersAreThereAt) = (true, seconds)
        cluster.addWorker(slots: 1)
        cluster.simulation.run(until: 15)
        #expect(Array(cluster.server.copies.values) == [copies])
        let number = cluster.submit(Body(seconds: 1))
        _ = finish(cluster)
        #expect(cluster.known[number]?.outcomes.count == 1)
    }

    @Test func whoClosesDoesNotWaitForOtherServers() throws {
        let simulation = Simulation(seed: 1)
        let server = SimulatedServer(simulation)
        (server.isOneOfSeveral, server.othersAreThereAt) = (true, .infinity)
        let fabric = SimulatedFabric("coordinator", simulation, server, delay: 0.001...0.002)
        let coordinator = Coordinator(fabric, key: nil, version: "1")
        let answers = Locked<[ClusterError?]>([])
        coordinator.start { answer in answers.withLock { $0.append(answer) } }
        simulation.run(until: 3.5)
        #expect(answers.withLock { $0.isEmpty })
        coordinator.close()
        #expect(answers.withLock { $0.count == 1 && $0[0] != nil })
        simulation.run(until: 20)
        #expect(answers.withLock { $0.count } == 1)
    }

    // MARK: workers that go

    @Test func theTasksOfAWorkerThatDiesRunElsewhereSoon() {
        let cluster = cluster(2)
        defer { cluster.end() }
        let number = cluster.submit(Body(seconds: 60))
        cluster.simulation.run(until: 5)
        cluster.kill(0)
        cluster.addWorker(slots: 1)
        cluster.simulation.run(until: 9)
        #expect(cluster.known[number]?.begins == ["worker1", "worker2"])
        _ = finish(cluster)
        #expect(cluster.known[number]?.outcomes == ["done 1"])
    }

    @Test func theTasksOfASilentWorkerRunElsewhereAfterAwhile() {
        let cluster = cluster(2)
        defer { cluster.end() }
        let number = cluster.submit(Body(seconds: 60))
        cluster.simulation.run(until: 5)
        cluster.kill(0, serverNotice: 1000)
        cluster.addWorker(slots: 1)
        cluster.simulation.run(until: 22)
        #expect(cluster.known[number]?.begins == ["worker1", "worker2"])
        _ = finish(cluster)
    }

    @Test func aTaskIsLostWithItsThirdWorker() {
        let cluster = cluster(1)
        defer { cluster.end() }
        let number = cluster.submit(Body(seconds: 60))
        for index in 0..<3 {
            cluster.simulation.run(until: Double(5 + 5 * index))
            cluster.kill(index)
            cluster.addWorker(slots: 1)
        }
        _ = finish(cluster)
        #expect(cluster.known[number]?.outcomes == ["lost: worker1 on host, worker2 on host, worker3 on host"])
    }

    @Test func aTaskThatMustNotRunTwiceIsLostWithItsWorker() {
        let cluster = cluster(1)
        defer { cluster.end() }
        let number = cluster.submit(Body(seconds: 60), isAtMostOnce: true)
        cluster.simulation.run(until: 5)
        cluster.kill(0)
        cluster.addWorker(slots: 1)
        _ = finish(cluster)
        #expect(cluster.known[number]?.outcomes == ["lost: worker1 on host"])
        #expect(cluster.known[number]?.begins.count == 1)
    }

    @Test func aDrainedWorkerGivesBackWhatHasNotBegun() {
        let cluster = cluster(1)
        defer { cluster.end() }
        for _ in 0..<5 { cluster.submit(Body(seconds: 3)) }
        cluster.simulation.run(until: 1.5)
        let isDrained = Locked(false)
        cluster.members[0].worker.drain { isDrained.withLock { $0 = true } }
        cluster.addWorker(slots: 1)
        _ = finish(cluster)
        #expect(isDrained.withLock { $0 })
        #expect(cluster.known.values.allSatisfy { $0.begins.count == 1 })
        #expect(cluster.known.values.count { $0.begins == ["worker1"] } == 1)
    }

    @Test func aDeadCoordinatorsRunEndsWithinAMinute() {
        let cluster = cluster(2)
        defer { cluster.end() }
        cluster.submit(Body(seconds: 1000))
        cluster.simulation.run(until: 5)
        cluster.fabric.kill()
        cluster.simulation.run(until: 65)
        #expect(cluster.members[0].runner.running.isEmpty && cluster.runEnds.map(\.worker) == ["worker1"])
        // The coordinator's messages in the stream are removed as well.
        cluster.simulation.run(until: 200)
        #expect(cluster.server.storedCount == 0)
    }

    @Test func theQueueOfADeadCoordinatorDoesNotHinderOthers() {
        let cluster = cluster(2)
        defer { cluster.end() }
        for _ in 0..<20 { cluster.submit(Body(seconds: 1)) }
        cluster.fabric.kill()
        cluster.simulation.run(until: 200)
        #expect(cluster.server.storedCount == 0)
        #expect(cluster.members[0].runner.running.isEmpty)
    }

    @Test func aCoordinatorThatWasAwayForLongGoesOn() {
        let cluster = cluster(2)
        defer { cluster.end() }
        for _ in 0..<20 { cluster.submit(Body(seconds: 20)) }
        cluster.simulation.run(until: 5)
        cluster.fabric.breakConnection(downtime: 150)
        _ = finish(cluster, within: 600)
        #expect(cluster.known.values.allSatisfy { $0.outcomes.first?.hasPrefix("done") ?? false })
    }

    @Test func aStreamThatIsRemovedIsMadeAgain() {
        let cluster = cluster(1)
        defer { cluster.end() }
        for _ in 0..<5 { cluster.submit(Body(seconds: 1)) }
        cluster.simulation.run(until: 1.5)
        cluster.server.removeStreams()
        #expect(finish(cluster) < 25)
        #expect(cluster.known.values.allSatisfy { $0.begins.count == 1 })
    }

    @Test("What the server believes to be delivered is published again when a worker has nothing to do")
    func passedOver() {
        let cluster = cluster(0)
        defer { cluster.end() }
        for _ in 0..<5 { cluster.submit(Body(seconds: 1)) }
        cluster.simulation.run(until: 1)
        cluster.server.passOver(1)
        cluster.addWorker(slots: 1)
        #expect(finish(cluster) < 25)
        #expect(cluster.known.values.allSatisfy { $0.begins.count == 1 })
        // The worker acknowledges the last task with its next request.
        cluster.simulation.run(until: cluster.simulation.now + 20)
        #expect(cluster.server.storedCount == 0)
    }

    @Test("What the server believes to be delivered is published again although all workers are busy")
    func passedOverByOthers() {
        let cluster = cluster(0)
        defer { cluster.end() }
        let number = cluster.submit(Body(seconds: 1))
        cluster.simulation.run(until: 1)
        cluster.server.passOver(1)
        cluster.addWorker(slots: 1)
        for second in 0..<60 {
            cluster.simulation.run(until: 2 + Double(second))
            if second < 50 { cluster.submit(Body(seconds: 1)) }
        }
        let known = cluster.known[number]
        #expect(known?.begins.count == 1 && known?.times?.began ?? 100 < 45, "\(String(describing: known?.times))")
        _ = finish(cluster)
    }

    // MARK: stopping

    @Test func aTaskThatNobodyHasStopsAtOnceAndGoesFromTheStream() {
        let cluster = cluster()
        defer { cluster.end() }
        let number = cluster.submit(Body(seconds: 1))
        cluster.simulation.run(until: 2)
        #expect(cluster.server.storedCount == 1)
        cluster.stop(number, .cancel)
        #expect(cluster.known[number]?.outcomes == ["stopped"])
        cluster.simulation.run(until: 3)
        #expect(cluster.server.storedCount == 0)
    }

    @Test func aRunningBodyIsStoppedAfterTwoDelays() {
        let cluster = cluster(1)
        defer { cluster.end() }
        let number = cluster.submit(Body(seconds: 100))
        cluster.simulation.run(until: 5)
        cluster.stop(number, .interrupt)
        #expect(finish(cluster) < 0.01)
        #expect(cluster.known[number]?.outcomes == ["interrupted 1"])
    }

    @Test func aStopReachesAWorkerThatWasAway() {
        let cluster = cluster(1)
        defer { cluster.end() }
        let number = cluster.submit(Body(seconds: 100))
        cluster.simulation.run(until: 5)
        cluster.members[0].fabric.breakConnection(downtime: 1)
        cluster.simulation.run(until: 5.1)
        cluster.stop(number, .cancel)
        #expect(finish(cluster) < 3)
        #expect(cluster.known[number]?.outcomes == ["interrupted 1"])
    }

    // MARK: order and places

    @Test func aHigherPriorityGoesFirst() {
        let cluster = cluster()
        defer { cluster.end() }
        for priority in [0, 3, 1, 4, 2] as [UInt8] { cluster.submit(Body(seconds: 1), priority: priority) }
        let order = Locked<[UInt64]>([])
        cluster.beginHandler = { number in order.withLock { $0.append(number) } }
        cluster.simulation.run(until: 1.5)
        cluster.addWorker(slots: 1)
        _ = finish(cluster)
        #expect(order.withLock { $0 } == [4, 2, 5, 3, 1])
    }

    @Test func aBusyWorkerLeavesTasksToOthers() {
        let cluster = cluster(1, 1, 1)
        defer { cluster.end() }
        for priority in [0, 3, 1] as [UInt8] { cluster.submit(Body(seconds: 5), priority: priority) }
        #expect(finish(cluster) < 5.1)
    }

    @Test func noTaskWaitsLongBehindALongBody() {
        let cluster = cluster(1, 1)
        defer { cluster.end() }
        // The workers learn that bodies are short, and fetch more than they have slots for.
        for _ in 0..<100 { cluster.submit(Body(seconds: 0.001)) }
        cluster.simulation.run(until: 5)
        cluster.submit(Body(seconds: 100))
        for _ in 0..<100 { cluster.submit(Body(seconds: 0.001)) }
        cluster.simulation.run(until: 8)
        #expect(cluster.known.values.reduce(0) { $0 + $1.outcomes.count } == 200)
    }

    @Test(arguments: [false, true]) func aBusyWorkerMayGiveATaskBackAnyNumberOfTimes(isBusy: Bool) {
        let cluster = cluster()
        defer { cluster.end() }
        let number = cluster.submit(Body(seconds: 1))
        for attempt in 1...60 as ClosedRange<UInt64> {
            for (index, entry) in [Report.Entry.taken(acknowledgement: "a"), .declined(isBusy: isBusy)].enumerated() {
                let report = Report(
                    worker: "w", session: 1, sequence: 2 * attempt - 1 + UInt64(index), entries: [(number, attempt - 1, entry)],
                    sentAt: cluster.simulation.now)
                cluster.coordinator.handle(.report(report), on: "", replyTo: "nobody")
            }
        }
        cluster.simulation.run(until: cluster.simulation.now + 0.01)
        #expect(cluster.known[number]?.outcomes.count == (isBusy ? 0 : 1))
    }

    @Test func tasksThatShareAValueGetItOnce() {
        let cluster = cluster(3)
        defer { cluster.end() }
        var body = Body(seconds: 1)
        body.argumentCount = 1_000_000
        for _ in 0..<3 { cluster.submit(body) }
        let pieces = Locked(0)
        cluster.server.trace = { _, isForServer, _, _, bytes, _ in
            if isForServer, bytes.count > 100_000 { pieces.withLock { $0 += 1 } }
        }
        _ = finish(cluster)
        #expect(pieces.withLock { $0 } == 4)
    }

    // MARK: nothing too much

    @Test func anIdleClusterSaysLittle() {
        let cluster = cluster(4, 4)
        defer { cluster.end() }
        cluster.submit(Body(seconds: 0.1))
        _ = finish(cluster)
        let (count, now) = (cluster.server.messageCount, cluster.simulation.now)
        cluster.simulation.run(until: now + 100)
        let rate = Double(cluster.server.messageCount - count) / 100
        #expect(rate < 4, "\(rate) messages a second")
    }

    @Test func nothingIsKeptOfManyTasks() {
        let cluster = cluster(4)
        defer { cluster.end() }
        var body = Body(seconds: 0.001)
        (body.resultCount, body.argumentCount, body.outputCount) = (100, 100, 1)
        for round in 0..<20 {
            for _ in 0..<100 { cluster.submit(body, isAtMostOnce: round % 2 == 0) }
            _ = finish(cluster)
        }
        cluster.simulation.run(until: cluster.simulation.now + 5)
        #expect(cluster.coordinator.leftovers == [] && cluster.members[0].worker.leftovers == [])
        #expect(cluster.server.storedCount == 0)
    }

    @Test func lostWorkersAreForgotten() {
        let cluster = cluster(1)
        defer { cluster.end() }
        for index in 0..<20 {
            cluster.submit(Body(seconds: 0.1))
            _ = finish(cluster)
            cluster.kill(index)
            cluster.addWorker(slots: 1)
        }
        cluster.simulation.run(until: cluster.simulation.now + 400)
        let counts = cluster.coordinator.state.withLock { ($0.peers.count, $0.formerPeers.count) }
        #expect(counts == (1, 0))
    }
}
