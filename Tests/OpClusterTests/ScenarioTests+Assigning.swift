import ClusterSupport
@_spi(Locking) import OpEngine
import TestSupport
import Testing

@testable import OpCluster

/// Tasks that are assigned, and do not pass the stream.
extension ScenarioTests {
    /// How many tasks were assigned, from now on.
    private func assignments(in cluster: SimulatedCluster) -> Locked<[Message]> {
        let assignments = Locked<[Message]>([])
        let seal = Seal(key: SimulatedCluster.key)
        cluster.server.trace = { _, isForServer, subject, bytes, _ in
            guard isForServer, case .message(let opened) = seal.open(bytes, from: subject), let message = try? Message(opened),
                case .assign = message
            else { return }
            assignments.withLock { $0.append(message) }
        }
        return assignments
    }

    @Test func aWorkerGetsItsNextTaskWithTheAnswer() {
        let cluster = cluster(1, 1)
        defer { cluster.end() }
        let assignments = assignments(in: cluster)
        let before = cluster.server.messageCount
        for _ in 0..<4 { cluster.submitChain(of: 250, Body(seconds: 0.02)) }
        // Half of the seconds at most are for the network, for what the workers learn, and at the end.
        #expect(finish(cluster) < 10.5)
        #expect(assignments.withLock { $0.count } > 950)
        // A report and an assignment for each, and what has to be said from time to time.
        let perTask = Double(cluster.server.messageCount - before) / 1000
        #expect(perTask < 2.5, "\(perTask) messages for each task")
    }

    @Test(arguments: [0.02, 0.09]) func tasksThatAreSubmittedTogetherRunSideBySide(seconds: Double) {
        let cluster = cluster(1, 1)
        defer { cluster.end() }
        let roundsLeft = Locked(50)
        let submitPair = { for _ in 0..<2 { cluster.submit(Body(seconds: seconds)) } }
        cluster.endHandler = { _ in
            guard cluster.unfinished.isEmpty, roundsLeft.withLock({ $0 }) > 0 else { return }
            roundsLeft.withLock { $0 -= 1 }
            submitPair()
        }
        submitPair()
        cluster.simulation.run(until: cluster.simulation.now + 100) { roundsLeft.withLock { $0 } == 0 && cluster.unfinished.isEmpty }
        #expect(cluster.simulation.now - 1 < 51 * (seconds + 0.005) && cluster.failures == [])
    }

    @Test func allWorkersGetTasksThatAreSubmittedTogether() {
        let cluster = cluster(8, 8)
        defer { cluster.end() }
        cluster.submit(Body(seconds: 0.001))
        let seconds = Locked(0.0)
        cluster.endHandler = { number in
            if number == 1 { for _ in 0..<16 { cluster.submit(Body(seconds: 0.05)) } }
            seconds.withLock { $0 = cluster.simulation.now - 1 }
        }
        _ = finish(cluster)
        #expect(seconds.withLock { $0 } < 0.07 && cluster.known.count == 17)
    }

    @Test func longBodiesAreNotAssigned() {
        let cluster = cluster(1, 1)
        defer { cluster.end() }
        let assignments = assignments(in: cluster)
        for _ in 0..<4 { cluster.submitChain(of: 20, Body(seconds: 0.2)) }
        _ = finish(cluster)
        #expect(assignments.withLock { $0.count } == 0)
    }

    @Test func theRoomOfAWorkerDoesNotCountForLong() {
        let cluster = cluster(1)
        defer { cluster.end() }
        for _ in 0..<10 { cluster.submit(Body(seconds: 0.001)) }
        _ = finish(cluster)
        let assignments = assignments(in: cluster)
        cluster.simulation.run(until: cluster.simulation.now + 0.05)
        cluster.submit(Body(seconds: 0.001))
        _ = finish(cluster)
        #expect(assignments.withLock { $0.count } == 0)
    }

    @Test func tasksThatMustNotRunTwiceAreNotAssigned() {
        let cluster = cluster(1)
        defer { cluster.end() }
        for _ in 0..<10 { cluster.submit(Body(seconds: 0.001)) }
        let assignments = assignments(in: cluster)
        // One of them has room for it.
        cluster.simulation.run(until: cluster.simulation.now + 100) { cluster.unfinished.count == 1 }
        cluster.submit(Body(seconds: 0.001), isAtMostOnce: true)
        _ = finish(cluster)
        #expect(assignments.withLock { $0.count } == 0)
    }

    @Test(arguments: [0.001, 0.02]) func whoeverHasManyTasksLeavesRoomForOtherCoordinators(seconds: Double) {
        let cluster = cluster(1, 1)
        defer { cluster.end() }
        for _ in 0..<4 { cluster.submitChain(of: 5000, Body(seconds: seconds)) }
        let fabric = SimulatedFabric("another", cluster.simulation, cluster.server, delay: cluster.delay)
        let other = Coordinator(fabric, key: SimulatedCluster.key, version: "1")
        other.start { error in if let error { Issue.record(error) } }
        cluster.simulation.run(until: 2)
        let ends = Locked<[Double]>([])
        for _ in 0..<20 {
            other.submit(
                Coordinator.Task(Payload(bytes: Body(seconds: seconds).bytes)),
                Coordinator.Handlers { _ in ends.withLock { $0.append(fabric.now) } })
        }
        cluster.simulation.run(until: 3 + 60 * seconds)
        #expect(ends.withLock { $0.count } == 20)
        // Neither of the two is held up.
        #expect(cluster.known.values.count { $0.times.map { $0.ended > 2 && $0.ended < 2.5 } ?? false } > Int(0.25 / seconds))
        other.close()
        fabric.forget()
    }

    @Test(arguments: [false, true]) func anAssignmentThatIsLostComesAgain(isStopped: Bool) {
        let cluster = cluster(1)
        defer { cluster.end() }
        for _ in 0..<10 { cluster.submit(Body(seconds: 0.001)) }
        cluster.simulation.run(until: cluster.simulation.now + 100) { cluster.unfinished.count == 1 }
        // The last report is on its way, and the answer gets lost.
        cluster.simulation.run(until: cluster.simulation.now + 100) { cluster.unfinished.isEmpty }
        let assignments = assignments(in: cluster)
        let number = cluster.submit(Body(seconds: 100))
        #expect(assignments.withLock { $0.count } == 0)
        cluster.members[0].fabric.breakConnection(downtime: 0.1)
        cluster.simulation.run(until: cluster.simulation.now + 0.2)
        #expect(cluster.known[number]?.takenCount == 1 && cluster.known[number]?.begins == [])
        if isStopped { cluster.stop(number, .cancel) }
        cluster.simulation.run(until: cluster.simulation.now + 1)
        #expect(assignments.withLock { $0.count } == 2)
        #expect(cluster.known[number]?.begins == (isStopped ? [] : ["worker1"]))
        #expect(cluster.known[number]?.outcomes == (isStopped ? ["stopped"] : []))
        #expect(cluster.failures == [])
    }

    @Test("Assignments and reports that overtake others come again", arguments: [true, false])
    func overtaking(ofAssignments: Bool) {
        let cluster = cluster(4)
        defer { cluster.end() }
        // One takes a longer way.
        let count = Locked(0)
        let fabric = ofAssignments ? cluster.members[0].fabric : cluster.fabric
        fabric.lateness = { message in
            guard case .message(let opened) = Seal(key: SimulatedCluster.key).open(message.bytes, from: message.subject),
                let opened = try? Message(opened)
            else { return nil }
            switch opened {
            case .assign where ofAssignments, .report where !ofAssignments: break
            default: return nil
            }
            let number = count.withLock { count in
                count += 1
                return count
            }
            return number == 100 ? 0.01 : nil
        }
        for _ in 0..<4 { cluster.submitChain(of: 100, Body(seconds: 0.005)) }
        // Half a second for each of 100 bodies, and a second for what comes again.
        #expect(finish(cluster) < 2.5)
        #expect(count.withLock { $0 } > 200)
        #expect(cluster.known.values.allSatisfy { $0.begins.count == 1 })
    }

    @Test(arguments: [StopRequest.cancel, .interrupt]) func aStopComesAfterTheAssignmentOfItsTask(_ request: StopRequest) {
        let cluster = cluster(1)
        defer { cluster.end() }
        for _ in 0..<10 { cluster.submit(Body(seconds: 0.001)) }
        _ = finish(cluster)
        let assignments = assignments(in: cluster)
        let number = cluster.submit(Body(seconds: 1000))
        cluster.stop(number, request)
        #expect(finish(cluster) < 0.01)
        #expect(assignments.withLock { $0.count } == 1)
        #expect(cluster.known[number]?.outcomes == ["interrupted 11"])
    }

    @Test(arguments: [false, true]) func anAssignmentThatIsLateIsTakenOnlyIfTheCoordinatorConsents(isStopped: Bool) {
        let cluster = cluster(1)
        defer { cluster.end() }
        for _ in 0..<10 { cluster.submit(Body(seconds: 0.001)) }
        _ = finish(cluster)
        cluster.members[0].fabric.stall(for: 20)
        let number = cluster.submit(Body(seconds: 0.5))
        cluster.simulation.run(until: cluster.simulation.now + 18)
        // The coordinator has given up the worker, but not the task, which nobody else can run.
        if isStopped { cluster.stop(number, .cancel) }
        cluster.simulation.run(until: cluster.simulation.now + 5)
        #expect(cluster.known[number]?.begins == (isStopped ? [] : ["worker1"]))
        #expect(cluster.known[number]?.outcomes == [isStopped ? "stopped" : "done 11"])
        #expect(cluster.failures == [])
    }

    @Test func aWorkerThatEndsGetsNoMore() {
        let cluster = cluster(1)
        defer { cluster.end() }
        for _ in 0..<10 { cluster.submit(Body(seconds: 0.001)) }
        _ = finish(cluster)
        cluster.members[0].worker.drain {}
        cluster.simulation.run(until: cluster.simulation.now + 0.005)
        let assignments = assignments(in: cluster)
        cluster.submit(Body(seconds: 0.001))
        cluster.simulation.run(until: cluster.simulation.now + 1)
        #expect(assignments.withLock { $0.count } == 0)
    }

    @Test func aWorkerThatEndsGivesAssignedTasksBack() {
        let cluster = cluster(1, 1)
        defer { cluster.end() }
        for _ in 0..<8 { cluster.submitChain(of: 200, Body(seconds: 0.01)) }
        cluster.simulation.run(until: 2)
        let isDrained = Locked(false)
        cluster.members[0].worker.drain { isDrained.withLock { $0 = true } }
        cluster.simulation.run(until: 2.2)
        #expect(isDrained.withLock { $0 })
        _ = finish(cluster)
        #expect(cluster.known.values.allSatisfy { $0.begins.count == 1 })
    }
}
