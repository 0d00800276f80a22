/// The names of operations and queues in a description.
public struct OperationNaming: Sendable {
    /// Returns the name of an operation.
    public var operation: @Sendable (Operation) -> String
    /// Returns the name of a queue.
    public var queue: @Sendable (OperationQueue) -> String

    /// Creates a naming from two closures.
    public init(operation: @escaping @Sendable (Operation) -> String, queue: @escaping @Sendable (OperationQueue) -> String) {
        self.operation = operation
        self.queue = queue
    }

    /// Uses `name`, or the class of an operation without a name.
    public static let standard = OperationNaming(operation: { $0.label }, queue: { $0.label })

    /// A list such as `a`, `a and b`, or `a, b, c and 7 more`.
    func list(_ operations: [Operation], _ conjunction: String = "and") -> String {
        let shown = operations.prefix(operations.count > 4 ? 3 : 4).map(operation)
        if operations.count > 4 { return shown.joined(separator: ", ") + " and \(operations.count - 3) more" }
        return shown.joined(separator: " \(conjunction) ")
    }
}
