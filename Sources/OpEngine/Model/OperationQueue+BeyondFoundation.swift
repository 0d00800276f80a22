import Synchronization

extension BeyondFoundation where Self: OperationQueue {
    /// The engine whose threads run the queue's operations.
    @_disfavoredOverload
    public var engine: Engine { ownEngine }

    /// The default policy of operations that have none of their own. A change applies to operations that are added later.
    @_disfavoredOverload
    public var dependencyPolicy: OperationDependencyPolicy {
        get { core.has(.requiresSuccess) ? .succeeded : .finished }
        set { core.set(.requiresSuccess, newValue == .succeeded) }
    }

    /// Adds a block that may throw as an operation. An error that the block throws becomes the operation's `error`.
    ///
    /// Only blocks that can throw are passed to this method. A subclass overrides Foundation's method for other blocks.
    public func addOperation(_ block: @escaping @Sendable () throws -> Void) { addBlock(block, .normal) }

    /// Like `addBarrierBlock` for a block that may throw. An error that it throws becomes the operation's `error`.
    public func addBarrierBlock(_ barrier: @escaping @Sendable () throws -> Void) { addBarrier(barrier) }

    /// Adds a block as an operation with the given `queuePriority`. Equivalent to adding a `BlockOperation` with that priority, but
    /// cheaper. An error that the block throws becomes the operation's `error`.
    public func addOperation(queuePriority: Operation.QueuePriority, _ block: @escaping @Sendable () throws -> Void) {
        addBlock(block, queuePriority)
    }

    /// Sets `maxConcurrentOperationCount`, but throws `OperationError.negativeMaximum` instead of trapping.
    public func trySetMaxConcurrentOperationCount(_ value: Int) throws {
        guard value >= -1 else { throw OperationError.negativeMaximum(queue: label, value: value) }
        if core.isMain { return }
        core.change(queue: self) { state in
            let old = state.maximum == .max ? -1 : state.maximum
            state.observation?.mailbox.record(.maxConcurrentOperationCount, old: old, new: value)
            state.maximum = value == -1 ? .max : value
            core.hasExplicitMaximum.store(value != -1, ordering: .relaxed)
        }
    }
}
