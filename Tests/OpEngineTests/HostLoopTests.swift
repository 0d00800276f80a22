import Glibc
import OpEngine
import TestSupport
import Testing

@Suite struct HostLoopTests {
    private let engine = Engine(workerCount: 1)
    private var inbox: Inbox { engine.mainInbox }

    /// - Parameter seconds: how long to wait until it is readable.
    private func isReadable(seconds: Int32 = 0) -> Bool {
        var event = pollfd(fd: inbox.fileDescriptor, events: Int16(POLLIN), revents: 0)
        return unsafe poll(&event, 1, seconds * 1000) == 1
    }

    @Test func theDescriptorIsReadableWhileThereIsSomethingToDrain() {
        #expect(!isReadable())
        inbox.post {}
        #expect(isReadable() && isReadable())
        #expect(inbox.drain() == 1 && !isReadable())
        engine.mainQueue.addOperation {}
        engine.mainQueue.addOperation {}
        #expect(isReadable())
        #expect(inbox.drain() == 2 && !isReadable())
    }

    @Test func whatWasThereBeforeTheDescriptorMakesItReadable() {
        inbox.post {}
        #expect(isReadable())
        let other = Engine(workerCount: 1)
        other.mainQueue.addOperation {}
        var event = pollfd(fd: other.mainInbox.fileDescriptor, events: Int16(POLLIN), revents: 0)
        #expect(unsafe poll(&event, 1, 0) == 1)
        // An inbox that is never drained would keep its engine alive.
        #expect(other.mainInbox.drain() == 1)
    }

    @Test func whatARunLeavesIsStillAnnounced() {
        #expect(!isReadable())
        let log = Log<Int>()
        inbox.post { log.append(1) }
        inbox.post { log.append(2) }
        #expect(inbox.run(until: { log.count == 1 }) == .satisfied)
        #expect(isReadable())
        #expect(inbox.run(until: { log.count == 2 }) == .satisfied)
        #expect(!isReadable())
    }

    @Test func aJobThatPostsAnotherIsFollowedByADrain() {
        #expect(!isReadable())
        inbox.post { [inbox] in inbox.post {} }
        #expect(inbox.drain() == 1)
        #expect(isReadable() && inbox.drain() == 1 && !isReadable())
    }

    @Test func aLoopThatPollsLosesNothing() {
        let count = 20000
        let log = Locked(0)
        _ = inbox.fileDescriptor
        let threads = (0..<2).map { _ in
            TestThread { [engine] in
                for index in 0..<count {
                    if index % 2 == 0 {
                        engine.mainInbox.post { log.withLock { $0 += 1 } }
                    } else {
                        engine.mainQueue.addOperation { log.withLock { $0 += 1 } }
                    }
                }
            }
        }
        while log.withLock({ $0 }) < 2 * count {
            guard isReadable(seconds: 30) else {
                Issue.record("the descriptor did not become readable")
                break
            }
            _ = inbox.drain()
        }
        for thread in threads { thread.join() }
        #expect(!isReadable())
    }

    @Test func theHookIsCalledOnceUntilTheNextDrain() {
        let log = Log<String>()
        inbox.onWake = { log.append("wake") }
        #expect(log.entries.isEmpty)
        inbox.post {}
        inbox.post {}
        engine.mainQueue.addOperation {}
        #expect(log.entries == ["wake"])
        #expect(inbox.drain() == 3)
        inbox.post {}
        #expect(log.entries == ["wake", "wake"])
        inbox.onWake = nil
        #expect(inbox.drain() == 1)
        inbox.post {}
        #expect(log.entries == ["wake", "wake"])
        inbox.onWake = { log.append("late") }
        #expect(log.entries == ["wake", "wake", "late"])
    }

    @Test func theHookMayDrainWhenItIsOnTheThread() {
        let log = Log<Int>()
        inbox.onWake = { [inbox] in _ = inbox.drain() }
        for index in 0..<10 { inbox.post { log.append(index) } }
        #expect(log.entries == Array(0..<10))
        inbox.onWake = nil
    }

    @Test func runUntilADeadlineRunsWhatIsThere() {
        let log = Log<Int>()
        inbox.post { log.append(1) }
        #expect(inbox.run(until: .now) == .timedOut)
        #expect(log.entries == [1])
        let ending = Engine(workerCount: 1, hostMayAddOperations: false)
        ending.mainQueue.addOperation { log.append(2) }
        ending.mainInbox.run()
        #expect(log.entries == [1, 2])
    }
}
