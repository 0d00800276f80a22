/// An operation that calls a method of an object, with an argument or without, and keeps what it returns.
///
/// Foundation's class names the method by a selector; here it is the method itself:
///
///     InvocationOperation(target: counter, method: Counter.add, argument: 3)
///
/// The object is kept until the method has run, or the operation has ended without running it.
open class InvocationOperation<Result: Sendable>: Operation, @unchecked Sendable {
    // Safety: `@unchecked Sendable` because the stored properties are guarded by `lock`.
    private var invocation: (@Sendable () throws -> Result)?
    private var returned: Result?

    /// An operation that calls `method` of `target`. What the method throws becomes the operation's `error`.
    public init<Target: AnyObject & Sendable>(target: Target, method: @escaping @Sendable (Target) -> () throws -> Result) {
        super.init()
        invocation = { try method(target)() }
        releaseWhenFinished()
    }

    /// An operation that calls `method` of `target` with `argument`. What the method throws becomes the operation's `error`.
    public init<Target: AnyObject & Sendable, Argument: Sendable>(
        target: Target, method: @escaping @Sendable (Target) -> (Argument) throws -> Result, argument: Argument
    ) {
        super.init()
        invocation = { try method(target)(argument) }
        releaseWhenFinished()
    }

    /// What the method returned; nil until the operation has finished.
    ///
    /// Throws `OperationError.invocationOperationCancelled` when it was cancelled, before it started or while it ran; what the method
    /// threw, when it did; and `OperationError.invocationOperationVoidResult` for a method that returns nothing, as soon as it is asked.
    public var result: Result? {
        get throws {
            if Result.self == Void.self { throw OperationError.invocationOperationVoidResult(operation: label) }
            if isCancelled { throw OperationError.invocationOperationCancelled(operation: label) }
            guard isFinished else { return nil }
            if let error { throw error }
            return lock.withLock { returned }
        }
    }

    /// Calls the method on the calling thread.
    open override func main() {
        guard let invocation = takeInvocation() else { return }
        do {
            let result = try invocation()
            lock.withLock { returned = result }
        } catch { fail(with: error) }
    }

    private func takeInvocation() -> (@Sendable () throws -> Result)? {
        lock.withLock {
            defer { invocation = nil }
            return invocation
        }
    }

    /// One that is cancelled never comes to `main`.
    private func releaseWhenFinished() {
        whenFinished { [weak self] in
            // Outside the lock: it may be the last reference to the target.
            withExtendedLifetime(self?.takeInvocation()) {}
        }
    }
}
