import OpEngine
import TestSupport
import Testing

@Suite struct BarrierTests {
    @Test func aBarrierSeparatesWhatCameBeforeFromWhatComesAfter() {
        let queue = OperationQueue(engine: Engine(workerCount: 2))
        let log = Log<String>()
        queue.isSuspended = true
        for _ in 0..<50 { queue.addOperation { log.append("before") } }
        queue.addBarrierBlock { log.append(OperationQueue.current === queue && Operation.current != nil ? "barrier" : "nothing") }
        for _ in 0..<50 {
            let operation = BlockOperation { log.append("after") }
            operation.queuePriority = .veryHigh
            queue.addOperation(operation)
        }
        queue.addBarrierBlock { log.append("end") }
        queue.isSuspended = false
        queue.waitUntilAllOperationsAreFinished()
        let expected = Array(repeating: "before", count: 50) + ["barrier"] + Array(repeating: "after", count: 50) + ["end"]
        #expect(log.entries == expected)
    }

    @Test func onAnEmptyQueueABarrierRunsAtOnce() {
        let queue = OperationQueue(engine: Engine(workerCount: 2))
        let log = Log<Int>()
        queue.addBarrierBlock { log.append(1) }
        queue.waitUntilAllOperationsAreFinished()
        #expect(log.entries == [1])
    }

    @Test func aBarrierWaitsForAsynchronousOperations() {
        let queue = OperationQueue(engine: Engine(workerCount: 2))
        let log = Log<String>()
        let asynchronous = AsyncOperation()
        let gate = Gate()
        queue.addOperation(asynchronous)
        queue.addOperation { gate.open() }
        queue.addBarrierBlock { log.append("barrier") }
        gate.wait()
        log.append("finish")
        asynchronous.finish()
        queue.waitUntilAllOperationsAreFinished()
        #expect(log.entries == ["finish", "barrier"])
    }

    @Test func manyBarriersInARow() {
        let queue = OperationQueue(engine: Engine(workerCount: 2))
        let log = Log<Int>()
        for index in 0..<1000 {
            queue.addBarrierBlock { log.append(index) }
        }
        queue.waitUntilAllOperationsAreFinished()
        #expect(log.entries == Array(0..<1000))
    }

    @Test func cancelAllLeavesAPendingBarrierInItsPlace() {
        let queue = OperationQueue(engine: Engine(workerCount: 2))
        queue.isSuspended = true
        let log = Log<String>()
        queue.addOperation { log.append("before") }
        queue.addBarrierBlock { log.append("barrier") }
        queue.addOperation { log.append("after") }
        queue.cancelAllOperations()
        queue.isSuspended = false
        queue.waitUntilAllOperationsAreFinished()
        #expect(log.entries == ["barrier"])
    }

    @Test func onTheMainQueueABarrierKeepsItsPlaceToo() {
        let engine = Engine(workerCount: 1)
        let log = Log<String>()
        engine.mainQueue.addOperation { log.append("before") }
        engine.mainQueue.addBarrierBlock { log.append("barrier") }
        let after = BlockOperation { log.append("after") }
        after.queuePriority = .veryHigh
        engine.mainQueue.addOperation(after)
        #expect(engine.mainInbox.drain() == 3)
        #expect(log.entries == ["before", "barrier", "after"])
    }
}
