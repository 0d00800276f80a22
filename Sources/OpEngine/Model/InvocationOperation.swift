import OpPlatform

/// An operation that calls a method of an object, with or without an argument, and keeps the result.
///
/// Foundation's class takes a selector. This class takes the method itself:
///
///     InvocationOperation(target: counter, method: Counter.add, argument: 3)
///
/// The operation retains the object until the method has run, or until the operation finishes without running it.
open class InvocationOperation<Result: Sendable>: Operation, @unchecked Sendable {
    // Safety: `@unchecked Sendable` because the stored properties are guarded by `lock`.
    private var invocation: (@Sendable () throws -> Result)?
    private var returned: Result?

    /// Creates an operation that calls `method` of `target`. An error that the method throws becomes the operation's `error`.
    public init<Target: AnyObject & Sendable>(target: Target, method: @escaping @Sendable (Target) -> () throws -> Result) {
        super.init()
        invocation = { try method(target)() }
        releaseWhenFinished()
    }

    /// Creates an operation that calls `method` of `target` with `argument`. An error that the method throws becomes the operation's
    /// `error`.
    public init<Target: AnyObject & Sendable, Argument: Sendable>(
        target: Target, method: @escaping @Sendable (Target) -> (Argument) throws -> Result, argument: Argument
    ) {
        super.init()
        invocation = { try method(target)(argument) }
        releaseWhenFinished()
    }

    /// The method's return value. Nil until the operation has finished.
    ///
    /// Throws `OperationError.invocationOperationCancelled` if the operation was cancelled before it started or while it ran. Throws the
    /// method's error if it threw one. Throws `OperationError.invocationOperationVoidResult`, even before the operation has finished, if
    /// the method returns nothing.
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
        // Another attempt needs the invocation again.
        guard let invocation = retryPolicy == nil ? takeInvocation() : lock.withLock({ self.invocation }) else { return }
        do {
            let result = try invocation()
            // The value of an earlier attempt is released outside of the lock.
            withExtendedLifetime(lock.withLock { exchange(&returned, with: result) }) {}
        } catch { fail(with: error) }
    }

    private func takeInvocation() -> (@Sendable () throws -> Result)? {
        lock.withLock {
            defer { invocation = nil }
            return invocation
        }
    }

    /// Releases the target of an operation that finishes without running `main`, because it was cancelled.
    private func releaseWhenFinished() {
        whenFinished { [weak self] in
            // Release outside the lock: this may be the last reference to the target.
            withExtendedLifetime(self?.takeInvocation()) {}
        }
    }
}
