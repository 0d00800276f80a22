/// How an operation finished.
public enum OperationOutcome: Sendable, Hashable {
    /// The operation finished without recording an error and without being cancelled.
    case succeeded
    /// The operation recorded an error.
    case failed
    /// The operation was cancelled before it started or while it ran.
    case cancelled
}
