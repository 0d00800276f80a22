/// An operation and everything that keeps it from running.
public struct OperationBlockage: Sendable, Hashable {
    /// The operation.
    public let operation: Operation
    /// The reasons. Empty if the operation has started and is not known to wait, or is about to start.
    public let blockers: [OperationBlocker]
}

extension OperationBlockage: CustomStringConvertible {
    /// Collects the reasons why `operation` is not running.
    package init(of operation: Operation) {
        self.operation = operation
        blockers = operation.findBlockers()
    }

    /// A sentence such as: `resize depends on load, which was never added to a queue, and is in queue q, which is suspended`.
    public var description: String { description(naming: .standard) }

    /// `description` with custom names.
    public func description(naming: OperationNaming) -> String { "\(naming.operation(operation)) \(reason(naming: naming))" }

    /// `description` without the operation's name at the start.
    public func reason(naming: OperationNaming = .standard) -> String {
        if blockers.isEmpty {
            return operation.isExecuting && operation.isAsynchronous
                ? "is executing, and nothing is left that could finish it" : "has started and waits for something that will not happen"
        }
        var dependencies: [String] = []
        var reasons: [String] = []
        for blocker in blockers {
            if case .dependency(let dependency) = blocker {
                dependencies.append(OperationBlocker.dependency(dependency, naming))
            } else {
                reasons.append(blocker.description(naming: naming))
            }
        }
        if !dependencies.isEmpty {
            let more = dependencies.count > 4 ? " and on \(dependencies.count - 4) more" : ""
            reasons.insert("depends on " + dependencies.prefix(4).joined(separator: " and on ") + more, at: 0)
        }
        return reasons.joined(separator: ", and ")
    }
}
