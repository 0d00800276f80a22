/// An operation whose work goes on after `main` has returned, until someone calls `finish()`.
///
/// Override `main`: begin the work there, and call `finish()` or `finish(with:)` when it has ended, on any thread.
open class AsyncOperation: Operation, @unchecked Sendable {
    // Safety: adds nothing to its superclass.

    /// True.
    open override var isAsynchronous: Bool { true }

    /// Calls `main` and returns, perhaps before the work has ended. See `Operation.start`.
    open override func start() { startAsDocumented(endsWithMain: false) }

    /// Ends the operation. Later calls are ignored.
    public func finish() { end() }

    /// Ends the operation with an error. Later calls are ignored.
    ///
    /// - Parameter outcome: `.failed`, or `.cancelled` when the error only tells why it was cancelled.
    public func finish(with error: any Error, outcome: Outcome = .failed) {
        fail(with: error, outcome: outcome)
        end()
    }
}
