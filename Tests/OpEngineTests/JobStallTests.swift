import OpEngine
import TestSupport
import Testing

/// A job waits, or stands behind a wait, and nothing can end the wait. Such a wait fails, and so do all others.
@Suite struct JobStallTests {
    /// The outcome of a wait of the main thread, which nothing can end either.
    private func outcome(_ body: @escaping @Sendable (Engine) -> Void) -> Inbox.Outcome? {
        let outcomes = Log<Inbox.Outcome>()
        let thread = TestThread {
            let engine = Engine(workerCount: 1, hostMayAddOperations: false)
            body(engine)
            outcomes.append(engine.mainInbox.run(until: { false }))
        }
        thread.join()
        return outcomes.entries.first
    }

    @Test func aJobOfTheMainThreadWaits() {
        #expect(outcome { $0.mainInbox.post { _ = try? BlockOperation {}.tryWaitUntilFinished() } } == .stalled)
    }

    @Test func aJobOfAWorkerWaits() {
        let outcome = outcome { engine in
            OperationQueue(engine: engine).addOperation {
                Worker.current!.inbox.post { _ = try? BlockOperation {}.tryWaitUntilFinished() }
            }
        }
        #expect(outcome == .stalled)
    }

    @Test func aJobIsBehindAWait() {
        let outcome = outcome { engine in
            OperationQueue(engine: engine).addOperation {
                Worker.current!.inbox.post {}
                try BlockOperation {}.tryWaitUntilFinished()
            }
        }
        #expect(outcome == .stalled)
    }
}
