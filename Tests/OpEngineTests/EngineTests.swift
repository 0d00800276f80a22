import Glibc
import OpEngine
import TestSupport
import Testing

@Suite struct EngineTests {
    @Test func enginesDoNotDisturbEachOther() {
        let (busy, other) = (Engine(workerCount: 1), Engine(workerCount: 1))
        let mayEnd = Gate()
        let blocked = BlockOperation { mayEnd.wait() }
        OperationQueue(engine: busy).addOperation(blocked)
        let quick = BlockOperation {}
        OperationQueue(engine: other).addOperation(quick)
        quick.waitUntilFinished()
        #expect(busy.unfinishedOperationCount == 1 && other.unfinishedOperationCount == 0)
        #expect(busy.mainQueue !== other.mainQueue && busy.mainQueue === busy.mainQueue)
        mayEnd.open()
        blocked.waitUntilFinished()
    }

    @Test func shutdownEndsSuspendedQueuesBarriersAndTheMainQueue() {
        let engine = Engine(workerCount: 2)
        let queue = OperationQueue(engine: engine)
        queue.isSuspended = true
        let log = Log<String>()
        let operation = BlockOperation { log.append("ran") }
        queue.addOperation(operation)
        queue.addBarrierBlock { log.append("barrier") }
        let onMain = BlockOperation { log.append("main") }
        engine.mainQueue.addOperation(onMain)
        #expect(engine.shutdown(deadline: .seconds(10)).isEmpty)
        #expect(operation.outcome == .cancelled && onMain.outcome == .cancelled && log.entries.isEmpty)
        #expect(throws: OperationError.self) { try queue.tryAddOperation(BlockOperation {}) }
    }

    @Test func whoAddsDuringAShutdownCancelsWhatItAdds() {
        // Safety: the added property is constant and has a lock.
        final class Tidying: Operation, @unchecked Sendable {
            let added = Locked<[Operation]>([])

            override func cancel() {
                super.cancel()
                let operation = Operation()
                let count = added.withLock { added in
                    added.append(operation)
                    return added.count
                }
                // Without a limit, an operation that cancels this one again would never end.
                if count < 100 { try? queue?.tryAddOperation(operation) }
            }
        }
        let engine = Engine(workerCount: 1)
        let queue = OperationQueue(engine: engine)
        queue.isSuspended = true
        let operation = Tidying()
        queue.addOperation(operation)
        #expect(engine.shutdown(deadline: .seconds(10)).isEmpty)
        let added = operation.added.withLock { $0 }
        #expect(added.count == 1 && added[0].outcome == .cancelled)
    }

    @Test func shutdownReturnsWhatWouldNotEnd() {
        let engine = Engine(workerCount: 1)
        let queue = OperationQueue(engine: engine)
        let (began, mayEnd, ended) = (Gate(), Gate(), Gate())
        let stubborn = BlockOperation {
            began.open(); mayEnd.wait()
        }
        stubborn.completionBlock = { ended.open() }
        queue.addOperation(stubborn)
        began.wait()
        #expect(engine.shutdown(deadline: .milliseconds(20)) == [stubborn])
        mayEnd.open()
        ended.wait()
    }

    @Test func aWorkerRunsItsInboxBetweenOperationsAndWhenItSleeps() {
        let engine = Engine(workerCount: 1)
        let queue = OperationQueue(engine: engine)
        let workers = Log<Worker>()
        queue.addOperation { workers.append(Worker.current!) }
        queue.waitUntilAllOperationsAreFinished()
        let worker = workers.entries[0]
        #expect(worker.number == 1 && worker.engine === engine && Worker.current == nil)
        let log = Log<Bool>()
        let done = Gate()
        for _ in 0..<50 {
            worker.inbox.post {
                log.append(Worker.current === worker)
                done.open()
            }
            done.wait()
        }
        #expect(log.entries == Array(repeating: true, count: 50))
        #expect(engine.shutdown(deadline: .seconds(10)).isEmpty)
    }

    @Test func aWorkersContextGoesOnItsThread() {
        final class Context: Sendable {
            let log: Log<Bool>
            init(log: Log<Bool>) { self.log = log }
            deinit { log.append(Worker.current != nil) }
        }
        let engine = Engine(workerCount: 1)
        let log = Log<Bool>()
        let operation = BlockOperation { Worker.current!.context = Context(log: log) }
        OperationQueue(engine: engine).addOperations([operation], waitUntilFinished: true)
        #expect(engine.shutdown(deadline: .seconds(10)).isEmpty)
        #expect(log.entries == [true])
    }

    @Test func aBlockedWorkersInboxRunsJobs() {
        let engine = Engine(workerCount: 1)
        let queue = OperationQueue(engine: engine)
        let log = Log<String>()
        let workers = Log<Worker>()
        let began = Gate()
        let operation = BlockOperation {
            let worker = Worker.current!
            workers.append(worker)
            began.open()
            _ = worker.inbox.run(until: { log.count == 2 })
            log.append("end")
        }
        queue.addOperation(operation)
        began.wait()
        let other = BlockOperation { log.append("other") }
        queue.addOperation(other)
        other.waitUntilFinished()
        workers.entries[0].inbox.post { log.append("job") }
        operation.waitUntilFinished()
        #expect(log.entries == ["other", "job", "end"])
    }

    /// The job arrives while its worker looks for work, which keeps other workers from looking.
    @Test func aJobMayWaitForAnOperation() throws {
        let engine = Engine(workerCount: 2)
        let queue = OperationQueue(engine: engine)
        let ends = Log<Bool>()
        let done = Gate()
        for _ in 0..<300 {
            let workers = Log<Worker>()
            let first = BlockOperation { workers.append(Worker.current!) }
            queue.addOperation(first)
            while !first.isFinished { sched_yield() }
            workers.entries[0].inbox.post {
                let second = BlockOperation {}
                queue.addOperation(second)
                ends.append((try? second.tryWaitUntilFinished(until: .now + .seconds(10))) ?? false)
                done.open()
            }
            done.wait()
            try #require(ends.entries.allSatisfy { $0 })
        }
    }

    @Test func thereIsAtLeastOneProcessor() {
        #expect(Engine.processorCount >= 1)
        #expect(Engine(workerCount: 3).workerCount == 3 && Engine().workerCount == Engine.processorCount)
    }

    @Test func anEngineThatNobodyHoldsGoes() {
        weak var weakEngine: Engine?
        do {
            let engine = Engine(workerCount: 2)
            weakEngine = engine
            let operation = BlockOperation {}
            operation.addExecutionBlock {}
            OperationQueue(engine: engine).addOperations([operation], waitUntilFinished: true)
            engine.mainQueue.isSuspended = true
            engine.mainQueue.addOperation {}
            #expect(engine.unfinishedOperationCount == 1)
            engine.mainQueue.isSuspended = false
            _ = engine.shutdown(deadline: .seconds(10))
        }
        #expect(weakEngine == nil)
    }
}
