import ClusterSupport
import TestSupport
import Testing

@testable import OpCluster

/// Sealed messages that a server without the key passes on in the wrong place, too late or twice. `RandomTests` has random attacks.
@Suite struct HostileServerTests {
    private func cluster(_ slots: Int...) -> SimulatedCluster {
        let cluster = SimulatedCluster(seed: 3)
        cluster.simulation.run(until: 0.5)
        for count in slots { cluster.addWorker(slots: count) }
        cluster.simulation.run(until: 2)
        return cluster
    }

    /// The message in sealed bytes.
    private func opened(_ message: OutgoingMessage) -> Message? {
        let seal = Seal(key: SimulatedCluster.key)
        guard case .message(let opened) = seal.open(message.bytes, from: message.subject, reply: message.reply ?? "") else { return nil }
        return try? Message(opened)
    }

    @Test func aSwappedQuestionHasNoAnswer() {
        let cluster = cluster(2)
        defer { cluster.end() }
        var body = Body(seconds: 1)
        body.asks = true
        let first = Locked<[UInt8]?>(nil)
        let swaps = Locked(0)
        cluster.server.intruder = { [self] message in
            guard case .ask? = opened(message) else { return [message] }
            var message = message
            let other = first.withLock { first in
                defer { if first == nil { first = message.bytes } }
                return first
            }
            guard let other, other != message.bytes else { return [message] }
            message.bytes = other
            swaps.withLock { $0 += 1 }
            return [message]
        }
        for _ in 0..<2 { cluster.submit(body) }
        cluster.simulation.run(until: 5)
        #expect(swaps.withLock { $0 } > 0)
        #expect(cluster.failures == [])
        #expect(cluster.known.values.allSatisfy { $0.outcomes.count == 1 })
        #expect(cluster.notices == [Exchange.alteredNotice])
    }

    @Test func aSwappedClaimLetsNoBodyBegin() {
        let cluster = cluster(1)
        defer { cluster.end() }
        let granted = Locked<[UInt8]?>(nil)
        let swaps = Locked(0)
        cluster.server.intruder = { [self] message in
            guard case .claim? = opened(message) else { return [message] }
            var message = message
            let first = granted.withLock { first in
                defer { if first == nil { first = message.bytes } }
                return first
            }
            guard let first, first != message.bytes else { return [message] }
            message.bytes = first
            swaps.withLock { $0 += 1 }
            return [message]
        }
        cluster.submit(Body(seconds: 10), isAtMostOnce: true)
        cluster.simulation.run(until: 3)
        let second = cluster.submit(Body(seconds: 1), isAtMostOnce: true)
        cluster.simulation.run(until: 20)
        #expect(swaps.withLock { $0 } > 0 && cluster.known[second]?.begins == [])
        cluster.server.intruder = nil
        cluster.simulation.run(until: 40)
        #expect(cluster.failures == [])
        #expect(cluster.known[second]?.outcomes == ["done \(second)"])
    }

    @Test func anAnswerToAnotherRequestIsNone() {
        let cluster = cluster(1)
        defer { cluster.end() }
        let old = Locked<[UInt8]?>(nil)
        cluster.server.intruder = { [self] message in
            guard case .claimed? = opened(message) else { return [message] }
            var message = message
            let first = old.withLock { first in
                defer { if first == nil { first = message.bytes } }
                return first
            }
            if let first { message.bytes = first }
            return [message]
        }
        cluster.submit(Body(seconds: 0.1), isAtMostOnce: true)
        cluster.simulation.run(until: 3)
        let second = cluster.submit(Body(seconds: 0.1), isAtMostOnce: true)
        cluster.simulation.run(until: 5)
        #expect(cluster.known[second]?.begins == [])
        cluster.server.intruder = nil
        cluster.simulation.run(until: 40)
        #expect(cluster.failures == [] && cluster.known[second]?.outcomes == ["done \(second)"])
    }

    @Test func theRepeatedHellosOfADeadWorkerDoNotKeepItsTasks() {
        let cluster = cluster(1)
        defer { cluster.end() }
        let hellos = Locked<[OutgoingMessage]>([])
        cluster.server.intruder = { message in
            if message.subject == Subject.hello { hellos.withLock { $0.append(message) } }
            return [message]
        }
        let number = cluster.submit(Body(seconds: 5))
        cluster.simulation.run(until: 4)
        cluster.kill(0, serverNotice: 1000)
        cluster.server.intruder = nil
        let recorded = hellos.withLock { $0 }
        for second in 0..<100 { cluster.simulation.at(4 + Double(second) / 2) { cluster.server.handle(recorded[second % recorded.count]) } }
        cluster.addWorker(slots: 1)
        cluster.simulation.run(until: 40)
        #expect(cluster.known[number]?.outcomes == ["done \(number)"] && cluster.failures == [])
    }

    @Test func aJobThatIsDamagedOnItsWayIsDeliveredAgain() {
        let cluster = cluster(1)
        defer { cluster.end() }
        let fabric = cluster.members[0].fabric
        let damages = Locked(2)
        fabric.change = { message in
            guard message.subject.hasPrefix(Subject.jobPrefix), damages.withLock({ $0 }) > 0 else { return message }
            damages.withLock { $0 -= 1 }
            var message = message
            message.bytes[50] ^= 1
            return message
        }
        let number = cluster.submit(Body(seconds: 0.1))
        cluster.simulation.run(until: 4)
        #expect(damages.withLock { $0 } == 0 && cluster.known[number]?.outcomes == ["done \(number)"])
        #expect(cluster.failures == [])
    }

    @Test func aJobThatIsLostAgainIsNoticedAsSoonAsTheFirstTime() {
        let cluster = cluster(1)
        defer { cluster.end() }
        let losses = Locked(3)
        cluster.server.intruder = { message in
            guard message.subject.hasPrefix(Subject.jobPrefix), losses.withLock({ $0 }) > 0 else { return [message] }
            losses.withLock { $0 -= 1 }
            var message = message
            message.bytes[50] ^= 1
            return [message]
        }
        let number = cluster.submit(Body(seconds: 0.1))
        cluster.simulation.run(until: 45)
        #expect(cluster.known[number]?.outcomes == ["done \(number)"] && cluster.failures == [])
    }
}
