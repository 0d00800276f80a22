/// An operation that runs one or more blocks concurrently and has finished when all of them have.
///
/// The blocks do not count towards the queue's maximum. All of them run, also when one throws; the first error wins.
open class BlockOperation: Operation, @unchecked Sendable {
    // Safety: `@unchecked Sendable` because the blocks are guarded by `lock`.
    /// The others are among the extras.
    @safe @exclusivity(unchecked) fileprivate var first: (@Sendable () throws -> Void)?

    /// An operation without blocks.
    public override init() { super.init() }

    /// An operation that runs `block`.
    public init(block: @escaping @Sendable () throws -> Void) {
        first = block
        super.init()
    }

    /// Adds a block. Traps when the operation is executing or finished.
    open func addExecutionBlock(_ block: @escaping @Sendable () throws -> Void) {
        do { try tryAddExecutionBlock(block) } catch { trap(error) }
    }

    /// The blocks, in order of addition; called from here, an error they throw is dropped. Empty when they have run.
    open var executionBlocks: [@Sendable () -> Void] {
        let all = lock.withLock { (first.map { [$0] } ?? []) + (rareExtras?.otherBlocks ?? []) }
        return all.map { block in { try? block() } }
    }

    /// Runs the blocks, the first on the calling thread, and returns when all have ended.
    open override func main() { runBlocks() }

    /// Runs the blocks. True when nothing but the queue keeps anything of the operation any more: no dependencies, nothing extra.
    @discardableResult
    final func runBlocks() -> Bool {
        // Not `withLock`: a closure that it returned would be allocated anew.
        lock.lock()
        let first = self.first.take()
        if !loadState().has(State.hasOtherBlocks) {
            let isBare = extras == nil && dependencyList.isEmpty
            prefetchExtras()
            lock.unlock()
            if let first { run(first) }
            return isBare
        }
        var others: [@Sendable () throws -> Void] = []
        if let rare = rareExtras { swap(&others, &rare.otherBlocks) }
        lock.unlock()
        if others.isEmpty {
            if let first { run(first) }
        } else {
            runConcurrently((first.map { [$0] } ?? []) + others)
        }
        return false
    }
}

extension BeyondFoundation where Self: BlockOperation {
    /// `addExecutionBlock`, but throws `OperationError.executionBlockAddedTooLate`.
    public func tryAddExecutionBlock(_ block: @escaping @Sendable () throws -> Void) throws {
        if isExecuting || isFinished { throw OperationError.executionBlockAddedTooLate(operation: label) }
        lock.withLock {
            if first == nil { return first = block }
            ensureRareExtras().otherBlocks.append(block)
            transition { $0.set(Operation.State.hasOtherBlocks) }
        }
    }
}

extension Operation {
    /// Runs `blocks` as parts of this operation, on this thread and on whichever workers are free, and returns when all have ended. The
    /// first error that one throws is the operation's.
    package func runConcurrently(_ blocks: [@Sendable () throws -> Void]) {
        let context = ThreadContext.current
        let core = context.currentCore
        let share = BlockShare(blocks: blocks, parker: context.parker)
        // Everyone who comes takes the next block, this thread included.
        let helpers = (1..<blocks.count).map { _ in
            Operation.helper { [self] in ThreadContext.current.whileRunning(self, in: core) { share.runRest { self.run($0) } } }
        }
        // An engine that was shut down takes none: then this thread runs all.
        try? context.engine.helperQueue.tryAddOperations(helpers, waitUntilFinished: false)
        share.runRest { run($0) }
        _ = context.block(on: context.engine, parker: context.parker, deadline: nil, canStall: false) { share.isDone }
    }

    /// Runs a block as a part of this operation.
    fileprivate func run(_ block: @Sendable () throws -> Void) {
        do { try block() } catch { fail(with: error) }
    }

    /// A block operation of the engine's own.
    static func helper(_ body: @escaping @Sendable () -> Void) -> Operation { BlockOperation(block: body) }
}
