extension Operation {
    /// One thing that keeps an operation from running.
    public enum Blocker: Sendable, Hashable {
        /// It was never added to a queue, and nobody has started it.
        case notInQueue
        /// This dependency has not finished.
        case dependency(Operation)
        /// It depends on itself: the first operation and the last are the same, each depends on the next.
        case cycle([Operation])
        /// Its subclass says that it is not ready, although it waits for no dependency.
        case notReady
        /// Its queue is suspended.
        case suspended(OperationQueue)
        /// The maximum of its queue is 0.
        case maximumIsZero(OperationQueue)
        /// As many operations of its queue are executing as the maximum allows: these.
        case full(OperationQueue, executing: [Operation])
        /// It was added after this barrier, which has not finished.
        case barrier(Operation, in: OperationQueue)
        /// It is a barrier, and these were added before it and have not finished.
        case before([Operation], in: OperationQueue)
        /// Nothing else: no thread of its queue has come to it yet.
        case notTaken(OperationQueue)
    }

    /// How a description calls operations and queues.
    public struct Naming: Sendable {
        /// How to call an operation.
        public var operation: @Sendable (Operation) -> String
        /// How to call a queue.
        public var queue: @Sendable (OperationQueue) -> String

        /// Names of the caller's.
        public init(operation: @escaping @Sendable (Operation) -> String, queue: @escaping @Sendable (OperationQueue) -> String) {
            self.operation = operation
            self.queue = queue
        }

        /// The engine's: the name, or the class of an operation without one.
        public static let standard = Naming(operation: { $0.label }, queue: { $0.label })

        /// `a`, `a and b`, or `a, b, c and 7 more`.
        func list(_ operations: [Operation], _ conjunction: String = "and") -> String {
            let shown = operations.prefix(operations.count > 4 ? 3 : 4).map(operation)
            if operations.count > 4 { return shown.joined(separator: ", ") + " and \(operations.count - 3) more" }
            return shown.joined(separator: " \(conjunction) ")
        }
    }
}

extension Operation.Blocker: CustomStringConvertible {
    /// The rest of a sentence that starts with the operation's name: `is in queue q, which is suspended`.
    public var description: String { description(naming: .standard) }

    /// `description` with other names.
    public func description(naming: Operation.Naming) -> String {
        switch self {
        case .notInQueue: "was never added to a queue"
        case .dependency(let dependency): "depends on \(Self.dependency(dependency, naming))"
        case .cycle(let path): "depends on itself: " + path.map(naming.operation).joined(separator: " → ")
        case .notReady: "has isReady = false"
        case .suspended(let queue): "is in \(naming.queue(queue)), which is suspended"
        case .maximumIsZero(let queue): "is in \(naming.queue(queue)), whose maximum is 0"
        case .full(let queue, let executing):
            "is in \(naming.queue(queue)), whose maximum of \(executing.count) is taken by \(naming.list(executing))"
        case .barrier(let barrier, let queue): "is behind the barrier \(naming.operation(barrier)) in \(naming.queue(queue))"
        case .before(let others, let queue): "is a barrier behind \(naming.list(others)) in \(naming.queue(queue))"
        case .notTaken(let queue): "is in \(naming.queue(queue)), whose threads have not come to it"
        }
    }

    /// A dependency and what is special about it.
    static func dependency(_ operation: Operation, _ naming: Operation.Naming) -> String {
        let wasAdded = operation.loadState().has(Operation.State.claimed)
        return naming.operation(operation) + (wasAdded || operation.isExecuting ? "" : ", which was never added to a queue")
    }
}
