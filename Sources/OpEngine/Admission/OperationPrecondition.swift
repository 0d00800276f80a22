import Glibc

/// A condition that must hold for an operation to start. See `addCondition(_:)`.
public struct OperationPrecondition: Sendable {
    /// Whether a condition holds.
    public enum Answer: Sendable {
        /// The condition holds.
        case holds
        /// The condition does not hold, for this reason.
        case failed(reason: String)
        /// The condition ended with an error. The operation fails with that error, and does not run.
        case error(any Error)
    }

    /// The name, for messages.
    public let name: String
    let evaluate: @Sendable (Operation) -> Answer

    /// Creates a condition.
    ///
    /// - Parameters:
    ///   - name: the name, for messages.
    ///   - evaluate: asked once, on the thread that would start the operation, with no lock held.
    public init(name: String, _ evaluate: @escaping @Sendable (Operation) -> Answer) {
        self.name = name
        self.evaluate = evaluate
    }

    /// No dependency has failed.
    public static let noFailedDependencies = OperationPrecondition(name: "noFailedDependencies") { operation in
        dependency(of: operation, with: .failed, "failed")
    }

    /// No dependency was cancelled.
    public static let noCancelledDependencies = OperationPrecondition(name: "noCancelledDependencies") { operation in
        dependency(of: operation, with: .cancelled, "was cancelled")
    }

    /// A file exists, or anything else with this path.
    public static func fileExists(_ path: String) -> OperationPrecondition {
        OperationPrecondition(name: "fileExists") { _ in
            unsafe access(path, F_OK) == 0 ? .holds : .failed(reason: "'\(path)': \(unsafe String(cString: strerror(errno)))")
        }
    }

    private static func dependency(of operation: Operation, with outcome: OperationOutcome, _ verb: String) -> Answer {
        let culprit = operation.dependencies.first { $0.outcome == outcome }
        return culprit.map { .failed(reason: "\($0.label) \(verb)") } ?? .holds
    }
}
