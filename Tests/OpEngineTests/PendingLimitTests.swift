import OpEngine
import TestSupport
import Testing

@Suite struct PendingLimitTests {
    @Test func addingWaitsUntilAnOperationStarts() {
        let engine = Engine(workerCount: 2)
        let queue = OperationQueue(engine: engine)
        #expect(queue.maxPendingOperationCount == nil)
        queue.maxConcurrentOperationCount = 1
        queue.maxPendingOperationCount = 3
        let log = Log<Int>()
        let most = Locked(0)
        // The producer has its own thread, because the test's thread is the main queue's.
        let producer = TestThread {
            for index in 0..<2000 {
                queue.addOperation {
                    let waiting = queue.operationCount - 1
                    most.withLock { $0 = max($0, waiting) }
                    log.append(index)
                }
            }
        }
        producer.join()
        queue.waitUntilAllOperationsAreFinished()
        #expect(log.entries == Array(0..<2000))
        #expect(most.withLock { $0 } <= 3)
        #expect(engine.shutdown(deadline: .seconds(10)).isEmpty)
    }

    @Test func severalProducersWaitAndNoneIsForgotten() {
        let engine = Engine(workerCount: 2)
        let queue = OperationQueue(engine: engine)
        queue.maxPendingOperationCount = 2
        let log = Log<Int>()
        let producers = (0..<4).map { _ in
            TestThread {
                for index in 0..<500 {
                    if index % 7 == 0 {
                        queue.addOperations([BlockOperation { log.append(1) }, BlockOperation { log.append(1) }], waitUntilFinished: false)
                    } else {
                        queue.addOperation { log.append(1) }
                    }
                }
            }
        }
        for producer in producers { producer.join() }
        queue.waitUntilAllOperationsAreFinished()
        #expect(log.count == 4 * (500 + 72))
        #expect(engine.shutdown(deadline: .seconds(10)).isEmpty)
    }

    @Test func aProducerOnAWorkerIsCompensated() {
        let engine = Engine(workerCount: 1)
        let (queue, producers) = (OperationQueue(engine: engine), OperationQueue(engine: engine))
        queue.maxPendingOperationCount = 1
        let log = Log<Int>()
        producers.addOperations(
            [BlockOperation { for index in 0..<100 { queue.addOperation { log.append(index) } } }], waitUntilFinished: true)
        queue.waitUntilAllOperationsAreFinished()
        #expect(log.entries == Array(0..<100))
        #expect(engine.shutdown(deadline: .seconds(10)).isEmpty)
    }

    @Test func onTheMainQueuesThreadThatQueueGoesOn() {
        let engine = Engine(workerCount: 1)
        engine.mainQueue.maxPendingOperationCount = 2
        let log = Log<Int>()
        for index in 0..<10 { engine.mainQueue.addOperation { log.append(index) } }
        #expect(log.entries == Array(0..<8))
        _ = engine.mainInbox.drain()
        #expect(log.entries == Array(0..<10))
    }

    /// Fills a queue, starts a thread that adds one more operation, calls `change`, and expects the thread to go on.
    private func expectPlace(after change: (OperationQueue, Operation) -> Void) {
        let engine = Engine(workerCount: 1)
        let queue = OperationQueue(engine: engine)
        queue.maxPendingOperationCount = 1
        let waiting = AsyncOperation()
        waiting.addDependency(Operation())
        queue.addOperation(waiting)
        let producer = TestThread { queue.addOperation {} }
        #expect(queue.operations == [waiting])
        change(queue, waiting)
        producer.join()
        waiting.cancel()
        queue.waitUntilAllOperationsAreFinished()
        #expect(queue.progress.completedUnitCount == 2)
        #expect(engine.shutdown(deadline: .seconds(10)).isEmpty)
    }

    @Test func aCancelledOneFreesAPlace() { expectPlace { $1.cancel() } }
    @Test func aFinishedOneFreesAPlace() { expectPlace { ($1 as? AsyncOperation)?.finish() } }
    @Test func aHigherLimitActsAtOnce() { expectPlace { queue, _ in queue.maxPendingOperationCount = 2 } }
    @Test func noLimitActsAtOnce() { expectPlace { queue, _ in queue.maxPendingOperationCount = nil } }

    @Test func aWaitThatNothingCanEndThrowsAndChangesNothing() throws {
        let engine = Engine(workerCount: 1, hostMayAddOperations: false)
        let queue = OperationQueue(engine: engine)
        queue.name = "q"
        queue.isSuspended = true
        queue.maxPendingOperationCount = 1
        queue.addOperation {}
        let operation = BlockOperation {}
        operation.name = "a"
        var message = ""
        do { try queue.tryAddOperation(operation) } catch { message = "\(error)" }
        #expect(message.hasPrefix("a cannot be added: 1 operations wait in queue q"))
        #expect(throws: OperationError.self) { try queue.tryAddOperations([operation], waitUntilFinished: false) }
        #expect(throws: OperationError.self) { try queue.tryAddBarrier(operation) }
        #expect(queue.operationCount == 1)
        queue.isSuspended = false
        try queue.tryAddOperation(operation)
        operation.waitUntilFinished()
        #expect(engine.shutdown(deadline: .seconds(10)).isEmpty)
    }

    @Test func shuttingDownEndsTheWaits() {
        let engine = Engine(workerCount: 1)
        let queue = OperationQueue(engine: engine)
        queue.isSuspended = true
        queue.maxPendingOperationCount = 1
        queue.addOperation {}
        let ended = Gate()
        let producer = TestThread {
            try? queue.tryAddOperation(BlockOperation {})
            ended.open()
        }
        #expect(engine.shutdown(deadline: .seconds(10)).isEmpty)
        ended.wait()
        producer.join()
    }

    @Test func aLimitBelowOneIsRefused() {
        let queue = OperationQueue(engine: Engine(workerCount: 1))
        #expect(throws: OperationError.self) { try queue.trySetMaxPendingOperationCount(0) }
        #expect(queue.maxPendingOperationCount == nil)
    }
}
