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

    @Test("An operation of the main queue that waits for another runs it inside the wait", arguments: Waiting.allCases)
    func anOperationRunsAnotherInsideItsWait(way: Waiting) {
        // On a thread, because a wait that hangs must end the test.
        TestThread {
            let engine = Engine(workerCount: 1)
            let main = engine.mainQueue
            let log = Log<String>()
            main.addOperation {
                log.append("begin")
                way.wait(
                    for: BlockOperation { log.append("inner \(OperationQueue.current === main) \(main.maxConcurrentOperationCount)") },
                    in: main
                )
                log.append("end \(OperationQueue.current === main)")
            }
            main.addOperation { log.append("next") }
            _ = engine.mainInbox.drain()
            #expect(log.entries.filter { $0 != "next" } == ["begin", "inner true 1", "end true"])
            #expect(log.entries.contains("next") && main.operationCount == 0)
            // Afterwards the queue runs one operation at a time again.
            let asynchronous = AsyncOperation()
            main.addOperations([asynchronous, BlockOperation { log.append("last") }], waitUntilFinished: false)
            _ = engine.mainInbox.drain()
            #expect(log.entries.last != "last")
            asynchronous.finish()
            _ = engine.mainInbox.drain()
            #expect(log.entries.last == "last")
        }.join()
    }

    /// The ways in which an operation of the main queue waits for another.
    enum Waiting: CaseIterable {
        case operation, deadline, batch, dependent, barrierOfAnotherQueue, job, innerWait, condition

        func wait(for operation: Operation, in main: OperationQueue) {
            let engine = main.engine
            let other = OperationQueue(engine: engine)
            switch self {
            case .batch: return main.addOperations([operation], waitUntilFinished: true)
            case .job:
                // The callback waits, inside the wait of the operation.
                let callback = BlockOperation {}
                engine.mainInbox.post {
                    main.addOperations([operation, callback], waitUntilFinished: true)
                }
                return callback.waitUntilFinished()
            default: break
            }
            main.addOperation(operation)
            switch self {
            case .operation: operation.waitUntilFinished()
            case .deadline: #expect((try? operation.tryWaitUntilFinished(until: .now + .seconds(60))) == true)
            case .dependent:
                let dependent = BlockOperation {}
                dependent.addDependency(operation)
                other.addOperations([dependent], waitUntilFinished: true)
            case .barrierOfAnotherQueue:
                let before = BlockOperation { operation.waitUntilFinished() }
                other.addOperation(before)
                other.addBarrierBlock {}
                other.waitUntilAllOperationsAreFinished()
            case .innerWait: main.addOperations([BlockOperation { operation.waitUntilFinished() }], waitUntilFinished: true)
            case .condition: #expect(engine.mainInbox.run(until: { operation.isFinished }) == .satisfied)
            case .batch, .job: break
            }
        }
    }

    @Test("On a thread of a host that drains, an operation of the main queue runs another inside its wait, too")
    func hostThreadsRunItInsideAWait() {
        let engine = Engine(workerCount: 1)
        let main = engine.mainQueue
        let log = Log<String>()
        main.addOperation {
            main.addOperations([BlockOperation { log.append("inner") }], waitUntilFinished: true)
            log.append("outer \(OperationQueue.current === main)")
        }
        // The engine was made on another thread, as with dispatchMain(), which ends the first thread.
        TestThread { _ = engine.mainInbox.drain() }.join()
        #expect(log.entries == ["inner", "outer true"])
    }

    @Test("A wait for an operation of the main queue that cannot end before the wait is refused")
    func aWaitForAnOperationBelowOnTheStackIsRefused() {
        let engine = Engine(workerCount: 1)
        let main = engine.mainQueue
        let log = Log<String>()
        @Sendable func tryToWait(_ wait: () throws -> Bool) { do { log.append("\(try wait())") } catch { log.append("\(error)") } }
        let outer = BlockOperation {
            main.addOperations([BlockOperation { tryToWait { try main.operations[0].tryWaitUntilFinished() } }], waitUntilFinished: true)
            engine.mainInbox.post { tryToWait { try main.tryWaitUntilAllOperationsAreFinished() } }
            _ = engine.mainInbox.drain()
        }
        outer.name = "outer"
        main.addOperation(outer)
        _ = engine.mainInbox.drain()
        let expected = "outer waits for itself; wait for it on another thread, or make the rest an operation that depends on it"
        #expect(log.entries == [expected, expected])
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
