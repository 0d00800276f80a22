import ClusterSupport
import OpPlatform
import TestSupport
import Testing

@testable import OpCluster

/// How workers share tasks.
extension ScenarioTests {
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
        // Neither coordinator holds the other up.
        #expect(cluster.known.values.count { $0.times.map { $0.ended > 2 && $0.ended < 2.5 } ?? false } > Int(0.25 / seconds))
        other.close()
        fabric.forget()
    }

    @Test("Reports that overtake others come again") func overtaking() {
        let cluster = cluster(4)
        defer { cluster.end() }
        // One report is late.
        let count = Locked(0)
        cluster.fabric.lateness = { message in
            guard
                case .message(let opened) = Seal(key: SimulatedCluster.key).open(message.bytes, from: message.subject, reply: message.reply),
                case .report = try? Message(opened)
            else { return nil }
            let number = count.withLock { count in
                count += 1
                return count
            }
            return number == 100 ? 0.01 : nil
        }
        for _ in 0..<4 { cluster.submitChain(of: 100, Body(seconds: 0.005)) }
        // Half a second for the 100 bodies of a chain, and a second until reports are sent again.
        #expect(finish(cluster) < 2.5)
        #expect(count.withLock { $0 } > 200)
        #expect(cluster.known.values.allSatisfy { $0.begins.count == 1 })
    }

    @Test func aWorkerThatEndsGivesTasksBack() {
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
