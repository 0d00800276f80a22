import OpEngine
import TestSupport
import Testing

/// Who may go when, seen best under AddressSanitizer.
@Suite struct LifetimeTests {
    @Test func anAsynchronousOperationMayBeTheLastThatHoldsItsEngine() {
        weak var weakEngine: Engine?
        let operation = AsyncOperation()
        do {
            // No worker, which would keep the engine too.
            let engine = Engine(workerCount: 1)
            weakEngine = engine
            engine.mainQueue.addOperation(operation)
            #expect(engine.mainInbox.drain() == 1)
        }
        #expect(weakEngine != nil && operation.isExecuting)
        operation.finish()
        #expect(weakEngine == nil && operation.isFinished)
    }

    @Test func aQueueMayGoWhileItsLastOperationIsMadeReadyElsewhere() {
        let engine = Engine(workerCount: 2)
        for _ in 0..<2000 {
            let (never, ended) = (Operation(), Gate())
            let operation = BlockOperation {}
            operation.whenFinished { ended.open() }
            operation.addDependency(never)
            OperationQueue(engine: engine).addOperation(operation)
            operation.removeDependency(never)
            ended.wait()
        }
        #expect(engine.shutdown(deadline: .seconds(10)).isEmpty)
    }

    @Test func aFailedDependencyMayCancelOneThatEndsAtThatMoment() {
        let engine = Engine(workerCount: 2)
        let queue = OperationQueue(engine: engine)
        for _ in 0..<2000 {
            let failing = AsyncOperation()
            do {
                let operation = Operation()
                operation.dependencyPolicy = .succeeded
                operation.addDependency(failing)
                queue.addOperation(operation)
            }
            let thread = TestThread { queue.cancelAllOperations() }
            failing.finish(with: OperationError.dependsOnItself(operation: "test"))
            thread.join()
            queue.waitUntilAllOperationsAreFinished()
        }
        #expect(queue.operationCount == 0)
        #expect(engine.shutdown(deadline: .seconds(10)).isEmpty)
    }

    @Test func blocksStillRunWhenTheirEngineHasBeenShutDown() {
        let engine = Engine(workerCount: 1)
        let log = Log<Int>()
        let (began, mayGoOn, ended) = (Gate(), Gate(), Gate())
        let operation = BlockOperation {
            began.open()
            mayGoOn.wait()
            let inner = BlockOperation { log.append(0) }
            for index in 1..<4 { inner.addExecutionBlock { log.append(index) } }
            inner.start()
            ended.open()
        }
        OperationQueue(engine: engine).addOperation(operation)
        began.wait()
        #expect(engine.shutdown(deadline: .milliseconds(5)) == [operation])
        mayGoOn.open()
        ended.wait()
        #expect(log.entries == [0, 1, 2, 3])
    }
}
