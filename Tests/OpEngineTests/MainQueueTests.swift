import OpEngine
import TestSupport
import Testing

@Suite struct MainQueueTests {
    @Test func itsOperationsRunOnTheThreadThatDrainsInPriorityOrder() {
        let engine = Engine(workerCount: 1)
        let main = engine.mainQueue
        let log = Log<String>()
        for name in ["a", "b"] { main.addOperation { log.append("\(name) \(OperationQueue.current === main)") } }
        let important = BlockOperation { log.append("important") }
        important.queuePriority = .high
        main.addOperation(important)
        #expect(log.entries.isEmpty && main.operationCount == 3)
        #expect(engine.mainInbox.drain() == 3)
        #expect(log.entries == ["important", "a true", "b true"])
        #expect(main.maxConcurrentOperationCount == 1)
    }

    @Test func waitingOnItsThreadRunsIt() {
        let engine = Engine(workerCount: 1)
        let queue = OperationQueue(engine: engine)
        let log = Log<String>()
        let onMain = BlockOperation { log.append("main") }
        let onWorker = BlockOperation { log.append("worker") }
        onWorker.addDependency(onMain)
        queue.addOperation(onWorker)
        engine.mainQueue.addOperation(onMain)
        onWorker.waitUntilFinished()
        #expect(log.entries == ["main", "worker"])
    }

    @Test func cancelAllReachesIt() {
        let engine = Engine(workerCount: 1)
        let log = Log<String>()
        let operation = BlockOperation { log.append("ran") }
        engine.mainQueue.addOperation(operation)
        engine.mainQueue.cancelAllOperations()
        #expect(operation.isCancelled && !operation.isFinished)
        _ = engine.mainInbox.drain()
        #expect(operation.outcome == .cancelled && log.entries.isEmpty)
    }

    @Test func jobsRunInOrderAndWakeTheThread() {
        let engine = Engine(workerCount: 1)
        let log = Log<Int>()
        let thread = TestThread { for index in 0..<100 { engine.mainInbox.post { log.append(index) } } }
        #expect(engine.mainInbox.run(until: { log.count == 100 }) == .satisfied)
        thread.join()
        #expect(log.entries == Array(0..<100))
    }

    @Test func aJobIsNotPartOfTheOperationThatWaits() {
        let engine = Engine(workerCount: 1)
        let log = Log<Bool>()
        let operation = BlockOperation {
            engine.mainInbox.post { log.append(Operation.current == nil) }
            _ = engine.mainInbox.run(until: { log.count == 1 })
            log.append(Operation.current != nil)
        }
        engine.mainQueue.addOperation(operation)
        _ = engine.mainInbox.drain()
        #expect(log.entries == [true, true])
    }

    @Test func aDeadlineEndsTheRun() {
        let engine = Engine(workerCount: 1, hostMayAddOperations: false)
        #expect(engine.mainInbox.run(until: { false }, deadline: .now + .milliseconds(5)) == .timedOut)
    }

    @Test func suspendingItHoldsItsOperations() {
        let engine = Engine(workerCount: 1)
        let main = engine.mainQueue
        main.isSuspended = true
        main.addOperation {}
        #expect(engine.mainInbox.drain() == 0)
        main.isSuspended = false
        #expect(engine.mainInbox.drain() == 1)
    }

    @Test func anInboxMayOutliveItsEngine() {
        let inbox = Engine(workerCount: 1).mainInbox
        let log = Log<Int>()
        inbox.post { log.append(1) }
        #expect(inbox.drain() == 1)
        #expect(inbox.run(until: { log.count == 1 }) == .satisfied)
    }
}
