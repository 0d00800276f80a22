import OpPlatform

/// An operation that runs one or more blocks concurrently, and finishes when all of them have returned.
///
/// The blocks do not count towards the queue's maximum. All blocks run even if one throws. The operation keeps the first error.
open class BlockOperation: Operation, @unchecked Sendable {
    // Safety: `@unchecked Sendable` because the blocks are guarded by `lock`.
    /// The first block. Further blocks are in the extras.
    @safe @exclusivity(unchecked) fileprivate var first: (@Sendable () throws -> Void)?

    /// Creates an operation without blocks.
    public override init() { super.init() }

    /// Creates an operation that runs `block`.
    public convenience init(block: @escaping @Sendable () throws -> Void) {
        self.init()
        first = block
    }

    /// Adds a block. Traps if the operation is executing or has finished.
    open func addExecutionBlock(_ block: @escaping @Sendable () -> Void) {
        do { try tryAddExecutionBlock(block) } catch { trap(error) }
    }

    deinit {
        // The blocks are released first: they may refer to dependencies, and the superclass releases a chain of these without recursion.
        first = nil
        rareExtras?.otherBlocks = []
    }

    /// The blocks in order of addition. Errors are dropped when the returned closures are called.
    ///
    /// The operation keeps its blocks, as Foundation's does. A block that refers to its own operation captures it `unowned` or `weak`;
    /// otherwise neither is ever released.
    open var executionBlocks: [@Sendable () -> Void] {
        let all = lock.withLock { (first.map { [$0] } ?? []) + (rareExtras?.otherBlocks ?? []) }
        return all.map { block in { try? block() } }
    }

    /// Runs the first block on the calling thread and the others on free workers, and returns when all have returned.
    open override func main() {
        // Locks explicitly, because a closure returned from `withLock` would be allocated again.
        lock.lock()
        let first = self.first
        let others = rareExtras?.otherBlocks ?? []
        prefetchExtras()
        lock.unlock()
        guard let first else { return }
        if others.isEmpty { run(first) } else { runConcurrently([first] + others) }
    }
}

extension BeyondFoundation where Self: BlockOperation {
    /// Like `addExecutionBlock` for a block that may throw. The operation keeps the first error that a block throws.
    public func addExecutionBlock(_ block: @escaping @Sendable () throws -> Void) {
        do { try tryAddExecutionBlock(block) } catch { trap(error) }
    }

    /// Like `addExecutionBlock`, but throws `OperationError.executionBlockAddedTooLate` instead of trapping.
    public func tryAddExecutionBlock(_ block: @escaping @Sendable () throws -> Void) throws {
        let isTooLate =
            isExecuting || isFinished
            || lock.withLock {
                // An operation that does not execute yet takes its blocks in `main`, under this lock.
                if loadState().has(Operation.State.executing | Operation.State.finished) { return true }
                if first == nil { first = block } else { ensureRareExtras().otherBlocks.append(block) }
                return false
            }
        if isTooLate { throw OperationError.executionBlockAddedTooLate(operation: label) }
    }
}

extension Operation {
    /// Runs `blocks` as parts of this operation on the calling thread and on free workers, and returns when all have returned. The
    /// operation keeps the first error that a block throws.
    package func runConcurrently(_ blocks: [@Sendable () throws -> Void]) {
        let context = ThreadContext.current
        let core = context.currentCore
        let share = BlockShare(blocks: blocks, parker: context.parker)
        // Each helper takes the next block, and so does the calling thread.
        let helpers = (1..<blocks.count).map { _ in
            BlockOperation { [self] in ThreadContext.current.whileRunning(self, in: core) { share.runRest { self.run($0) } } }
        }
        // An engine that was shut down refuses the helpers. The calling thread then runs all blocks.
        try? context.engine.helperQueue.tryAddOperations(helpers, waitUntilFinished: false)
        share.runRest(isOwner: true) { run($0) }
        _ = context.block(on: context.engine, parker: context.parker, deadline: nil, canStall: false) { share.isDone }
    }

    fileprivate func run(_ block: @Sendable () throws -> Void) {
        do { try block() } catch { fail(with: error) }
    }
}
