import OpEngine
import TestLimits
import TestSupport
import Testing

/// Jobs that wait begin inside each other's waits. The thread's stack has room for any number of them.
@Suite(.endsWithin(seconds: 60)) struct NestedJobTests {
    enum Owner: CaseIterable, Sendable {
        case mainThread, worker
    }

    /// Calls `body` with an engine and the inbox of a thread, on that thread.
    private func with(_ owner: Owner, hostMayAddOperations: Bool = false, _ body: @escaping @Sendable (Engine, Inbox) -> Void) {
        let thread = TestThread {
            let engine = Engine(workerCount: 2, hostMayAddOperations: hostMayAddOperations)
            guard owner == .worker else { return body(engine, engine.mainInbox) }
            let operation = BlockOperation { body(engine, Worker.current!.inbox) }
            OperationQueue(engine: engine).addOperation(operation)
            operation.waitUntilFinished()
        }
        thread.join()
    }

    /// The stack of the thread would have no room for 20,000 jobs that begin inside each other.
    @Test(arguments: Owner.allCases) func manyJobsThatWaitNestToAFixedDepth(_ owner: Owner) {
        let depth = Locked(0), most = Locked(0), ended = Locked(0)
        with(owner) { engine, inbox in
            let queue = OperationQueue(engine: engine)
            for _ in 0..<20_000 {
                inbox.post {
                    let now = depth.withLock {
                        $0 += 1; return $0
                    }
                    most.withLock { $0 = max($0, now) }
                    let operation = BlockOperation { inbox.wake() }
                    queue.addOperation(operation)
                    #expect(inbox.run(until: { operation.isFinished }) == .satisfied)
                    depth.withLock { $0 -= 1 }
                    ended.withLock { $0 += 1 }
                }
            }
            #expect(inbox.run(until: { ended.withLock { $0 } == 20_000 }) == .satisfied)
        }
        #expect(ended.withLock { $0 } == 20_000)
        // Each wait is short, so a deeper one begins only on a machine that is very busy.
        #expect((2...80).contains(most.withLock { $0 }))
    }

    /// Also in an engine that cannot tell that nothing else goes on.
    @Test(arguments: Owner.allCases) func jobsThatWaitForLaterOnesNestAsDeepAsTheyMust(_ owner: Owner) {
        let begun = Locked(0), outcomes = Log<Inbox.Outcome>()
        with(owner, hostMayAddOperations: true) { _, inbox in
            for number in 1..<30 {
                inbox.post {
                    begun.withLock { $0 = number }
                    outcomes.append(inbox.run(until: { begun.withLock { $0 } > number || number == 29 }))
                }
            }
            _ = inbox.run(until: { outcomes.count == 29 })
        }
        #expect(outcomes.entries == Array(repeating: .satisfied, count: 29))
    }

    @Test func jobsThatDrainNestToAFixedDepth() {
        let depth = Locked(0), most = Locked(0), ended = Locked(0)
        with(.mainThread) { _, inbox in
            for _ in 0..<20_000 {
                inbox.post {
                    let now = depth.withLock {
                        $0 += 1; return $0
                    }
                    most.withLock { $0 = max($0, now) }
                    _ = inbox.drain()
                    depth.withLock { $0 -= 1 }
                    ended.withLock { $0 += 1 }
                }
            }
            _ = inbox.drain()
        }
        #expect(ended.withLock { $0 } == 20_000)
        #expect(most.withLock { $0 } == 16)
    }

    @Test func jobsThatPostOthersDoNotPutOffADeadline() {
        let outcomes = Log<Inbox.Outcome>(), mayEnd = Locked(false)
        with(.mainThread) { _, inbox in
            @Sendable func again() { if !mayEnd.withLock({ $0 }) { inbox.post { again() } } }
            again()
            outcomes.append(inbox.run(until: { false }, deadline: .now + .milliseconds(1)))
            mayEnd.withLock { $0 = true }
            _ = inbox.drain()
        }
        #expect(outcomes.entries == [.timedOut])
    }
}
