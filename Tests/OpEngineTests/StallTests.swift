import OpEngine
import TestSupport
import Testing

@Suite struct StallTests {
    private func engine(_ workers: Int = 2) -> Engine { Engine(workerCount: workers, hostMayAddOperations: false) }

    @Test func aRunThatNothingCanEndSaysSo() {
        let engine = engine()
        #expect(engine.mainInbox.run(until: { false }) == .stalled)
        // The same holds for an inbox whose engine is gone.
        let orphan = Engine(workerCount: 1).mainInbox
        #expect(orphan.run(until: { false }) == .stalled)
    }

    @Test func whatStillRunsIsWaitedFor() {
        let engine = engine()
        let queue = OperationQueue(engine: engine)
        let log = Log<Int>()
        for index in 0..<100 { queue.addOperation { log.append(index) } }
        #expect(engine.mainInbox.run(until: { false }) == .stalled)
        #expect(log.count == 100 && engine.unfinishedOperationCount == 0)
    }

    @Test func aWaitForAnOperationThatCannotRunThrowsItsName() {
        let engine = engine()
        let queue = OperationQueue(engine: engine)
        let (a, b) = (BlockOperation {}, BlockOperation {})
        a.name = "a"
        a.addDependency(b)
        queue.addOperation(a)
        #expect(throws: OperationError.self) { try a.tryWaitUntilFinished() }
        #expect(throws: OperationError.self) { try queue.tryWaitUntilAllOperationsAreFinished() }
        a.cancel()
        a.waitUntilFinished()
    }

    @Test func aWorkersWaitFailsBeforeTheMainThreadGivesUp() {
        let engine = engine()
        let queue = OperationQueue(engine: engine)
        let never = BlockOperation {}
        let waiting = BlockOperation { try never.tryWaitUntilFinished() }
        queue.addOperation(waiting)
        waiting.waitUntilFinished()
        #expect(waiting.outcome == .failed)
        #expect("\(waiting.error, default: "")".contains("can never end"))
    }

    @Test func aHoldKeepsTheEngineAlive() {
        let engine = engine()
        engine.hold()
        #expect(!engine.isQuiescent)
        let thread = TestThread {
            engine.mainInbox.post {}
            engine.release()
        }
        #expect(engine.mainInbox.run(until: { false }) == .stalled)
        thread.join()
    }

    @Test func anAsynchronousOperationKeepsTheEngineAlive() {
        let engine = engine()
        let queue = OperationQueue(engine: engine)
        let began = Gate()
        let operation = AsyncOperation()
        let after = BlockOperation { began.open() }
        queue.addOperations([operation, after], waitUntilFinished: false)
        let thread = TestThread {
            began.wait()
            operation.finish()
        }
        #expect(engine.mainInbox.run(until: { operation.isFinished }) == .satisfied)
        thread.join()
        #expect(engine.mainInbox.run(until: { false }) == .stalled)
    }

    @Test func anAsynchronousOperationStartedByHandKeepsEveryEngineAlive() throws {
        // Safety: a lock guards the added property.
        final class Overriding: Operation, @unchecked Sendable {
            private let isRunning = Locked(false)
            private let hasEnded = Locked(false)
            override var isAsynchronous: Bool { true }
            override var isExecuting: Bool { isRunning.withLock { $0 } }
            override var isFinished: Bool { hasEnded.withLock { $0 } }
            override func start() { isRunning.withLock { $0 = true } }
            func finish() {
                willChangeValue(forKey: "isFinished")
                isRunning.withLock { $0 = false }
                hasEnded.withLock { $0 = true }
                didChangeValue(forKey: "isFinished")
            }
        }
        let engine = engine()
        let (plain, overriding) = (AsyncOperation(), Overriding())
        plain.start()
        try overriding.tryStart()
        #expect(!engine.isQuiescent)
        let thread = TestThread {
            plain.finish()
            overriding.finish()
        }
        plain.waitUntilFinished()
        #expect(engine.mainInbox.run(until: { false }) == .stalled)
        #expect(overriding.isFinished)
        thread.join()
    }

    @Test func oneThatIsGivenUpKeepsNothingAlive() {
        let engine = engine()
        AsyncOperation().start()
        #expect(engine.mainInbox.run(until: { false }) == .stalled)
    }

    @Test func aSuspendedQueueIsNotRunnable() {
        let engine = engine()
        let queue = OperationQueue(engine: engine)
        queue.isSuspended = true
        queue.addOperation {}
        #expect(engine.mainInbox.run(until: { false }) == .stalled)
        #expect(engine.unfinishedOperations() == queue.operations)
    }

    @Test func aTimedWaitOnAWorkerEndsByItself() {
        let engine = engine()
        let queue = OperationQueue(engine: engine)
        let never = BlockOperation {}
        let log = Log<Bool>()
        queue.addOperation { log.append(try never.tryWaitUntilFinished(until: .now + .milliseconds(5))) }
        #expect(engine.mainInbox.run(until: { log.count == 1 }) == .satisfied)
        #expect(log.entries == [false])
    }
}
