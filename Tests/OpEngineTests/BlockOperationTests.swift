import OpEngine
import Synchronization
import TestSupport
import Testing

@Suite struct BlockOperationTests {
    private let queue = OperationQueue(engine: Engine(workerCount: 2))

    @Test("A finished operation still has its blocks, and its main runs them again", arguments: [1, 2, 20])
    func keepsItsBlocks(count: Int) {
        let log = Log<Int>()
        let operation = BlockOperation()
        for index in 0..<count { operation.addExecutionBlock { log.append(index) } }
        queue.addOperations([operation], waitUntilFinished: true)
        #expect(operation.isFinished && operation.executionBlocks.count == count)
        operation.main()
        #expect(log.entries.sorted() == (0..<2 * count).map { $0 / 2 })
        operation.executionBlocks[0]()
        #expect(log.entries.last == 0 && operation.executionBlocks.count == count)
    }

    /// Runs each job at once, on a thread of its own.
    private final class Eager: OperationExecutor {
        func execute(_ job: @escaping @Sendable () -> Void) { onThreads(1) { _ in job() } }
    }

    @Test("The first block runs on the thread that starts the operation, although another thread takes blocks earlier")
    func firstBlock() {
        let helpers = queue.engine.helperQueue, log = Log<Bool>()
        helpers.underlyingQueue = Eager()
        queue.addOperations(
            [
                BlockOperation {
                    let here = Worker.current
                    let operation = BlockOperation()
                    for _ in 0..<3 { operation.addExecutionBlock { log.append(Worker.current === here) } }
                    operation.start()
                }
            ], waitUntilFinished: true)
        #expect(log.entries == [false, false, true])
    }

    /// Starts when it is asked whether it has finished.
    private final class StartedInBetween: BlockOperation, @unchecked Sendable {
        // Safety: `@unchecked Sendable` because the flag is atomic.
        let starts = Atomic<Bool>(false)
        override var isFinished: Bool {
            let hasFinished = super.isFinished
            if starts.exchange(false, ordering: .acquiringAndReleasing) { start() }
            return hasFinished
        }
    }

    @Test("A block that is added while the operation starts runs or is refused")
    func startedWhileABlockIsAdded() throws {
        let log = Log<Int>(), operation = StartedInBetween()
        operation.addExecutionBlock { log.append(0) }
        operation.starts.store(true, ordering: .releasing)
        #expect(throws: OperationError.self) { try operation.tryAddExecutionBlock { log.append(1) } }
        #expect(log.entries == [0] && operation.executionBlocks.count == 1)
    }

    @Test("An operation releases its blocks when it is released itself")
    func releasesItsBlocks() {
        let tracker = LifetimeTracker()
        do {
            let operation = BlockOperation { [token = tracker.token()] in withExtendedLifetime(token) {} }
            operation.addExecutionBlock { [token = tracker.token()] in withExtendedLifetime(token) {} }
            queue.addOperations([operation], waitUntilFinished: true)
            #expect(tracker.alive == 2)
        }
        queue.addOperation { [token = tracker.token()] in withExtendedLifetime(token) {} }
        queue.waitUntilAllOperationsAreFinished()
        #expect(queue.engine.shutdown(deadline: .seconds(60)).isEmpty)
        #expect(tracker.alive == 0)
    }

    @Test("A long chain of operations whose blocks refer to their dependencies is released without recursion")
    func aLongChainIsReleased() {
        let tracker = LifetimeTracker()
        var last: BlockOperation? = BlockOperation { [token = tracker.token()] in withExtendedLifetime(token) {} }
        for _ in 0..<200_000 {
            let next = BlockOperation { [last] in withExtendedLifetime(last) {} }
            next.addExecutionBlock { [last] in withExtendedLifetime(last) {} }
            if let last { next.addDependency(last) }
            last = next
        }
        last = nil
        #expect(tracker.alive == 0)
    }
}
