import OpEngine
import TestSupport
import Testing

/// Keeps its jobs until a test runs them.
private final class ManualExecutor: OperationExecutor {
    private let jobs = Locked<[@Sendable () -> Void]>([])
    let isMain: Bool

    init(isMain: Bool = false) { self.isMain = isMain }

    func execute(_ job: @escaping @Sendable () -> Void) { jobs.withLock { $0.append(job) } }

    var count: Int { jobs.withLock { $0.count } }

    /// Runs the oldest job. Returns false when there is none.
    @discardableResult
    func runOne() -> Bool {
        guard let job = jobs.withLock({ $0.isEmpty ? nil : $0.removeFirst() }) else { return false }
        job()
        return true
    }

    func runAll() { while runOne() {} }
}

@Suite struct ExecutorTests {
    private let engine = Engine(workerCount: 1, hostMayAddOperations: false)
    private let executor = ManualExecutor()
    private let log = Log<String>()

    private func queue() -> OperationQueue {
        let queue = OperationQueue(engine: engine)
        queue.underlyingQueue = executor
        return queue
    }

    private func named(_ name: String) -> BlockOperation {
        let operation = BlockOperation { [log] in log.append(name) }
        operation.name = name
        return operation
    }

    @Test func operationsRunWhereItRunsThemInTheUsualOrder() {
        let queue = queue()
        let (a, b, c) = (named("a"), named("b"), named("c"))
        c.queuePriority = .high
        a.addDependency(b)
        queue.isSuspended = true
        queue.addOperations([a, b, c], waitUntilFinished: false)
        #expect(executor.count == 0)
        queue.isSuspended = false
        queue.addOperation { [log] in log.append("\(OperationQueue.current === queue) \(Worker.current == nil)") }
        executor.runAll()
        #expect(log.entries == ["c", "b", "true true", "a"])
        #expect(queue.operationCount == 0 && engine.threadCount == 0)
    }

    @Test func theMaximumHolds() {
        let queue = queue()
        queue.maxConcurrentOperationCount = 1
        let asynchronous = AsyncOperation()
        queue.addOperation(asynchronous)
        queue.addOperation(named("after"))
        executor.runAll()
        #expect(asynchronous.isExecuting && log.entries.isEmpty && executor.count == 0)
        asynchronous.finish()
        executor.runAll()
        #expect(log.entries == ["after"])
    }

    @Test func barriersHold() throws {
        let queue = queue()
        let before = AsyncOperation()
        queue.addOperation(before)
        try queue.tryAddBarrier(named("barrier"))
        queue.addOperation(named("after"))
        executor.runAll()
        #expect(log.entries.isEmpty)
        before.finish()
        executor.runAll()
        #expect(log.entries == ["barrier", "after"])
    }

    @Test func itIsSettableOnlyWhileTheQueueIsEmpty() {
        let queue = queue()
        queue.name = "q"
        queue.addOperation {}
        let error = #expect(throws: OperationError.self) { try queue.trySetUnderlyingQueue(nil) }
        #expect(
            "\(error!)"
                == "the underlying queue of queue q cannot be set: it has operations; set it before adding any, or wait until they have finished"
        )
        executor.runAll()
        queue.underlyingQueue = nil
        #expect(queue.underlyingQueue == nil)
        queue.addOperations([named("on a worker")], waitUntilFinished: true)
        #expect(log.entries == ["on a worker"] && executor.count == 0)
    }

    @Test func theMainQueueHasNoneAndNoQueueHasAMainOne() {
        #expect(throws: OperationError.self) { try engine.mainQueue.trySetUnderlyingQueue(executor) }
        #expect(throws: OperationError.self) {
            try OperationQueue(engine: engine).trySetUnderlyingQueue(ManualExecutor(isMain: true))
        }
    }

    @Test func aJobOnItsWayKeepsTheEngineFromStalling() {
        let queue = queue()
        let operation = named("a")
        queue.addOperation(operation)
        #expect(!engine.isQuiescent)
        let thread = TestThread { [executor] in executor.runAll() }
        #expect(engine.mainInbox.run(until: { operation.isFinished }) == .satisfied)
        thread.join()
        #expect(engine.mainInbox.run(until: { false }) == .stalled)
    }

    @Test func aJobOfAnExecutorThatWasTakenAwayRunsNothing() {
        let queue = queue()
        let gone = named("gone")
        queue.addOperation(gone)
        // `finish` is called from outside, so the queue is empty while its job has not run yet.
        let later = ManualExecutor()
        // Safety: adds nothing to its superclass.
        final class Ended: AsyncOperation, @unchecked Sendable {}
        let ended = Ended()
        executor.runAll()
        queue.addOperation(ended)
        ended.finish()
        #expect(queue.operationCount == 0 && executor.count == 1)
        queue.underlyingQueue = later
        queue.addOperation(named("later"))
        executor.runAll()
        #expect(log.entries == ["gone"] && later.count == 1)
        later.runAll()
        #expect(log.entries == ["gone", "later"])
    }

    @Test func shutdownWaitsForIt() {
        let queue = queue()
        let operation = named("a")
        queue.addOperation(operation)
        #expect(engine.shutdown(deadline: .zero) == [operation])
        executor.runAll()
        #expect(operation.outcome == .cancelled && log.entries.isEmpty)
    }
}
