import Synchronization
import TestSupport
import Testing

@testable import OpEngine

/// Finished operations that serve other blocks.
@Suite struct SpareOperationsTests {
    private let queue = OperationQueue(engine: Engine())

    /// An operation that has finished in `queue`, and the reference to it.
    private func finished(_ change: (BlockOperation) -> Void = { _ in }) -> Unmanaged<Operation> {
        let operation = BlockOperation {}
        change(operation)
        operation.start()
        return unsafe .passRetained(operation)
    }

    /// Whether a list keeps the operation.
    private func keeps(_ operation: Unmanaged<Operation>) -> Bool {
        var spares = SpareOperations()
        defer { unsafe SpareOperations.release(spares.removeAll()) }
        return unsafe spares.keeps(operation, from: queue.core)
    }

    #if !WITHOUT_SPARE_OPERATIONS
        @Test func operationThatNobodyKnowsIsKept() { unsafe #expect(keeps(finished())) }

        @Test func keptOperationIsAsGoodAsNew() throws {
            var spares = SpareOperations()
            defer { unsafe SpareOperations.release(spares.removeAll()) }
            let operation = unsafe finished {
                $0.queuePriority = .high
                $0.qualityOfService = .utility
            }
            unsafe #expect(spares.keeps(operation, from: queue.core))
            let taken = try unsafe #require(spares.take(for: queue.core)).takeRetainedValue()
            #expect(!taken.isFinished && !taken.isCancelled && !taken.isExecuting && taken.isReady)
            #expect(taken.outcome == nil && taken.queuePriority == .normal && taken.qualityOfService == .default)
            unsafe #expect(spares.take(for: queue.core) == nil)
        }

        /// A worker leaves what it has at the queue when it has 32, and other threads get it there.
        @Test func operationsPassThroughTheQueue() {
            var worker = SpareOperations(), producer = SpareOperations(), other = SpareOperations()
            defer {
                unsafe SpareOperations.release(worker.removeAll())
                unsafe SpareOperations.release(producer.removeAll())
                unsafe SpareOperations.release(other.removeAll())
            }
            for _ in 0..<32 { unsafe #expect(worker.keeps(finished(), from: queue.core)) }
            unsafe #expect(producer.take(for: queue.core) == nil)
            for _ in 0..<32 { unsafe #expect(worker.keeps(finished(), from: queue.core)) }
            // The queue has some already.
            unsafe #expect(!worker.keeps(finished(), from: queue.core))
            for _ in 0..<32 {
                let taken = unsafe producer.take(for: queue.core)
                unsafe #expect(taken != nil)
                unsafe taken?.release()
            }
            unsafe #expect(producer.take(for: queue.core) == nil)
            unsafe #expect(worker.keeps(finished(), from: queue.core))
            // Those that nobody takes go with the queue.
        }

        @Test func workerKeepsTheOperationsOfBlocks() {
            let queue = OperationQueue(engine: Engine(workerCount: 1))
            queue.isSuspended = true
            for _ in 0..<100 { queue.addOperation {} }
            queue.isSuspended = false
            queue.waitUntilAllOperationsAreFinished()
            var producer = SpareOperations()
            let taken = unsafe producer.take(for: queue.core)
            unsafe #expect(taken != nil)
            unsafe taken?.release()
            unsafe SpareOperations.release(producer.removeAll())
        }
    #endif

    @Test func operationThatSomebodyKnowsIsNotKept() {
        let operation = unsafe finished()
        let reference = unsafe operation.takeUnretainedValue()
        unsafe #expect(!keeps(operation))
        #expect(reference.isFinished)
    }

    @Test func operationWithAWeakReferenceIsNotKept() {
        let operation = unsafe finished()
        weak let reference = unsafe operation.takeUnretainedValue()
        unsafe #expect(!keeps(operation))
        #expect(reference == nil)
    }

    @Test func operationWithAnUnownedReferenceIsNotKept() {
        let operation = unsafe finished()
        unowned let reference = unsafe operation.takeUnretainedValue()
        #expect(reference.isFinished)
        unsafe #expect(!keeps(operation))
    }

    @Test(
        arguments: [
            { $0.name = "named" },
            { $0.addDependency(BlockOperation()) },
            { $0.addExecutionBlock {} },
        ] as [@Sendable (BlockOperation) -> Void])
    func operationThatRefersToSomethingIsNotKept(_ change: @Sendable (BlockOperation) -> Void) {
        let operation = unsafe finished { operation in
            change(operation)
            operation.cancel()
        }
        unsafe #expect(!keeps(operation))
    }

    /// A worker that takes its next operation at once would wait for itself.
    @Test func releaseOfAnOperationMayWaitForTheNextOne() {
        let second = BlockOperation {}
        runInTurn(firstReleasing: { second.waitUntilFinished() }, second)
    }

    @Test func nextOperationMayWaitForTheReleaseOfTheFirst() {
        let released = Gate()
        runInTurn(firstReleasing: { released.open() }, BlockOperation { released.wait() })
    }

    /// Runs a block and an operation on one worker. The block adds a dependency to its operation, whose release calls `release`.
    private func runInTurn(firstReleasing release: @escaping @Sendable () -> Void, _ second: Operation) {
        let queue = OperationQueue(engine: Engine(workerCount: 1)), ended = Gate()
        queue.isSuspended = true
        queue.addOperation {
            Operation.current?.addDependency(
                TellingWhenReleased {
                    release()
                    ended.open()
                })
        }
        queue.addOperation(second)
        queue.isSuspended = false
        ended.wait()
        queue.waitUntilAllOperationsAreFinished()
    }

    /// Each block finds an operation that is like new, whatever the blocks before it have done to theirs.
    @Test func noBlockFindsWhatAnotherHasLeft() {
        let seed = UInt64.random(in: 0..<1_000_000)
        let random = Locked(SeededGenerator(seed: seed))
        let known = Locked<[Operation]>([]), faults = Locked<[String]>([]), other = BlockOperation()
        let completions = Atomic(0), expectedCompletions = Atomic(0)
        for _ in 0..<TestLength.size(20000) {
            queue.addOperation { [queue] in
                guard let operation = Operation.current as? BlockOperation else { return faults.withLock { $0.append("none") } }
                let isNew =
                    operation.name == nil && operation.dependencies.isEmpty && operation.completionBlock == nil
                    && operation.queuePriority == .normal && operation.qualityOfService == .default && !operation.isCancelled
                    && operation.isExecuting && !operation.isFinished && operation.executionBlocks.isEmpty
                if !isNew || known.withLock({ $0.contains { $0 === operation } }) { faults.withLock { $0.append("\(operation)") } }
                switch random.withLock({ Int.random(in: 0..<12, using: &$0) }) {
                case 0: operation.name = "named"
                case 1: operation.addDependency(other)
                case 2: operation.queuePriority = .veryHigh
                case 3: operation.qualityOfService = .utility
                case 4: operation.cancel()
                case 5: known.withLock { if $0.count < 100 { $0.append(operation) } }
                case 6:
                    expectedCompletions.add(1, ordering: .relaxed)
                    operation.completionBlock = { completions.add(1, ordering: .relaxed) }
                case 7: other.addDependency(operation)
                case 8: operation.fail(with: OperationError.dependsOnItself(operation: "test"))
                case 9: queue.addOperation {}
                default: break
                }
            }
        }
        queue.waitUntilAllOperationsAreFinished()
        let first = faults.withLock { $0.prefix(3) }
        #expect(first.isEmpty, "seed \(seed)")
        #expect(known.withLock { $0.allSatisfy { $0.isFinished } }, "seed \(seed)")
        #expect(queue.engine.shutdown(deadline: .seconds(10)).isEmpty)
        #expect(completions.load(ordering: .relaxed) == expectedCompletions.load(ordering: .relaxed), "seed \(seed)")
    }
}

// Safety: `@unchecked Sendable` because the closure is a constant.
private final class TellingWhenReleased: Operation, @unchecked Sendable {
    private let tell: @Sendable () -> Void
    init(_ tell: @escaping @Sendable () -> Void) { self.tell = tell }
    deinit { tell() }
}

extension SpareOperations {
    /// Whether the list keeps the operation, or releases it.
    fileprivate mutating func keeps(_ operation: Unmanaged<Operation>, from core: OperationQueue.Core) -> Bool {
        let before = count
        unsafe hold(operation)
        unsafe settle(from: core)?.release()
        return count != before
    }
}
