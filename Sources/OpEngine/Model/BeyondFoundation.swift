import OpPlatform

/// A protocol whose extensions hold all API of `Operation` and `OperationQueue` that Foundation does not have.
///
/// A subclass cannot redeclare a member of its superclass, but it can declare a member with the same name as one in a protocol extension.
/// Code written for Foundation therefore keeps its own members with names like `queue`, `error` or `outcome`.
///
/// The properties are disfavored overloads. Otherwise an expression of an optional type, such as a side of `===`, would mean `queue` of this
/// protocol, which is optional, and not a subclass's own `queue`, which is not.
public protocol BeyondFoundation: AnyObject {}

extension Operation: BeyondFoundation {}
extension OperationQueue: BeyondFoundation {}

extension BeyondFoundation where Self: Operation {
    /// The operation whose body is running on the calling thread, if any.
    @_disfavoredOverload
    public static var current: Operation? { ThreadContext.currentOperation }

    /// The queue that the operation is in. Nil before the operation is added and after it has finished.
    @_disfavoredOverload
    public var queue: OperationQueue? { withQueueCore { $0.queue } ?? nil }

    /// The error that the operation failed with, if any.
    @_disfavoredOverload
    public var error: (any Error)? { lock.withLock { rareExtras?.error } }

    /// How the operation finished. Nil until then.
    @_disfavoredOverload
    public var outcome: OperationOutcome? {
        let state = loadState()
        return state.has(Operation.State.finished) ? state.outcome : nil
    }

    /// Records the error that the operation finishes with. Keeps only the first error, and does not finish the operation. Has no effect on
    /// a finished operation.
    ///
    /// - Parameter outcome: `.failed`, or `.cancelled` if the error only describes why the operation was cancelled.
    public func fail(with error: any Error, outcome: OperationOutcome = .failed) {
        let isRecorded = lock.withLock {
            guard rareExtras?.error == nil, transition({ $0.fail(isFailure: outcome == .failed) }) else { return false }
            ensureRareExtras().error = error
            return loadState().has(Operation.State.recorded)
        }
        if isRecorded { record(error) }
    }

    /// Calls `body` once when the operation has finished, or immediately if it already has. `body` runs on the finishing thread with no
    /// lock held, and must be cheap.
    public func whenFinished(_ body: @escaping @Sendable () -> Void) { whenFinished(for: nil, body) }

    /// Like `whenFinished`. `owner` may call `forgetFinishHandlers(of:)` before the operation has finished.
    package func whenFinished(for owner: AnyObject?, _ body: @escaping @Sendable () -> Void) {
        let handler = Operation.FinishHandler(owner: owner.map { ObjectIdentifier($0) }, block: Block(body))
        lock.withLock { ensureRareExtras().finishHandlers.append(handler) }
        announceFinishHandler()
    }

    /// Removes the handlers that were added for `owner`. A call in progress continues. O(n).
    package func forgetFinishHandlers(of owner: AnyObject) {
        let forgotten = lock.withLock { () -> [Operation.FinishHandler] in
            guard let rare = rareExtras else { return [] }
            let isForgotten = { (handler: Operation.FinishHandler) in handler.owner == ObjectIdentifier(owner) }
            defer { rare.finishHandlers.removeAll(where: isForgotten) }
            return rare.finishHandlers.filter(isForgotten)
        }
        // Release outside the lock: this may run foreign code.
        withExtendedLifetime(forgotten) {}
    }

    /// Sets `completionBlock`, but throws `OperationError.completionBlockSetTooLate` if the operation has finished.
    public func trySetCompletionBlock(_ block: (@Sendable () -> Void)?) throws { try replaceCompletionBlock(with: block) }
}
