import Synchronization

/// What `Operation` and `OperationQueue` have beyond Foundation's classes is in extensions of this protocol.
///
/// A subclass cannot declare a member of its class again, but it can one of a protocol's extension. So code that was written for Foundation
/// keeps its own properties and methods with names like `queue`, `error` or `outcome`, whatever is added here.
public protocol BeyondFoundation: AnyObject {}

extension Operation: BeyondFoundation {}
extension OperationQueue: BeyondFoundation {}

extension BeyondFoundation where Self: Operation {
    /// The operation whose body runs on the calling thread; nil when there is none.
    public static var current: Operation? { ThreadContext.currentOperation }

    /// The queue it is in: nil before it is added and after it has finished.
    public var queue: OperationQueue? { withQueueCore { $0.face } ?? nil }

    /// The error it failed with, or nil.
    public var error: (any Error)? { lock.withLock { rareExtras?.error } }

    /// How it ended; nil while it has not.
    public var outcome: Operation.Outcome? {
        let state = loadState()
        return state.has(Operation.State.finished) ? state.outcome : nil
    }

    /// Records the error that the operation ends with; the first one is kept. Does not finish it. Nothing happens after its end.
    ///
    /// - Parameter outcome: `.failed`, or `.cancelled` when the error only tells why it was cancelled.
    public func fail(with error: any Error, outcome: Operation.Outcome = .failed) {
        lock.withLock {
            guard !loadState().has(Operation.State.finished), rareExtras?.error == nil else { return }
            ensureRareExtras().error = error
            if outcome == .failed { transition { $0.set(Operation.State.failed) } }
        }
    }

    /// Calls `body` once, when `isFinished` is true; at once if it is. On the finishing thread, no lock held; it must be cheap.
    public func whenFinished(_ body: @escaping @Sendable () -> Void) { whenFinished(for: nil, body) }

    /// `whenFinished`. `owner` may call `forgetFinishHandlers(of:)` before the operation has finished.
    package func whenFinished(for owner: AnyObject?, _ body: @escaping @Sendable () -> Void) {
        withQueueCore { $0.beginsToBeWaitedFor() }
        let handler = Operation.FinishHandler(owner: owner.map { ObjectIdentifier($0) }, block: Block(body))
        lock.withLock { ensureRareExtras().finishHandlers.append(handler) }
        announceFinishHandler()
    }

    /// Handlers that were added for `owner` are not called any more, unless they are being called. O(n).
    package func forgetFinishHandlers(of owner: AnyObject) {
        let forgotten = lock.withLock { () -> [Operation.FinishHandler] in
            guard let rare = rareExtras else { return [] }
            let isForgotten = { (handler: Operation.FinishHandler) in handler.owner == ObjectIdentifier(owner) }
            defer { rare.finishHandlers.removeAll(where: isForgotten) }
            return rare.finishHandlers.filter(isForgotten)
        }
        // Outside of the lock: to let them go may run code.
        withExtendedLifetime(forgotten) {}
    }

    /// `completionBlock = block`, but throws `OperationError.completionBlockSetTooLate` when the operation has finished.
    public func trySetCompletionBlock(_ block: (@Sendable () -> Void)?) throws { try replaceCompletionBlock(with: block) }
}

extension BeyondFoundation where Self: OperationQueue {
    /// The engine whose threads run the operations.
    public var engine: Engine { ownEngine }

    /// The policy of operations that are added from now on and have none of their own.
    public var dependencyPolicy: Operation.DependencyPolicy {
        get { core.requiresSuccess.load(ordering: .relaxed) ? .succeeded : .finished }
        set { core.requiresSuccess.store(newValue == .succeeded, ordering: .relaxed) }
    }

    /// Adds a block as an operation with this `queuePriority`: what making a `BlockOperation` for that does, in one step. An error the block
    /// throws is the operation's.
    public func addOperation(queuePriority: Operation.QueuePriority, _ block: @escaping @Sendable () throws -> Void) {
        addBlock(block, queuePriority)
    }

    /// `maxConcurrentOperationCount = value`, but throws `OperationError.negativeMaximum`.
    public func trySetMaxConcurrentOperationCount(_ value: Int) throws {
        guard value >= -1 else { throw OperationError.negativeMaximum(queue: label, value: value) }
        if core.isMain { return }
        core.change(face: self) { state in
            let old = state.maximum == .max ? -1 : state.maximum
            state.observation?.mailbox.record(.maxConcurrentOperationCount, old: old, new: value)
            state.maximum = value == -1 ? .max : value
            core.hasExplicitMaximum.store(value != -1, ordering: .relaxed)
        }
    }
}
