/// An operation whose work continues after `main` has returned, until `finish()` is called.
///
/// Override `main` to begin the work. Call `finish()` or `finish(with:)` from any thread when the work has ended.
open class AsyncOperation: Operation, @unchecked Sendable {
    // Safety: the class adds no stored properties to its superclass.

    /// Always true.
    open override var isAsynchronous: Bool { true }

    /// Calls `main` and returns, possibly before the work has ended. See `Operation.start`.
    open override func start() { startAsDocumented(endsWithMain: false) }

    /// Finishes the operation. Further calls are ignored.
    public func finish() { end() }

    /// Finishes the operation with an error. Further calls are ignored.
    ///
    /// - Parameter outcome: `.failed`, or `.cancelled` if the error only describes why the operation was cancelled.
    public func finish(with error: any Error, outcome: OperationOutcome = .failed) {
        fail(with: error, outcome: outcome)
        end()
    }
}
