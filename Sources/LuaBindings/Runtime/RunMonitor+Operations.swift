public import OpEngine

/// The operations and queues of a run, for people who look at it. Safe from any thread.
extension RunMonitor {
    /// The operations that have not finished, those in queues first.
    public func unfinishedOperations() -> [Operation] { core.engine.unfinishedOperations() + core.operationsStartedByHand }

    /// The operations that have not finished, one line each: name, class and state, and the reason why a waiting one does not run.
    ///
    /// - Parameter limit: the maximum number of lines; one more tells the number of the others.
    public func describeOperations(limit: Int) -> [String] {
        let all = unfinishedOperations()
        var lines = all.prefix(limit).map { operation in
            "\(operation.displayName): \(operation.stateName)\(reasonNotRunning(operation).map { "; it \($0)" } ?? "")"
        }
        if all.count > limit { lines.append("and \(all.count - limit) more") }
        return lines
    }

    /// The reason why an operation does not run, as a sentence without its subject; nil if it runs or has finished.
    public func reasonNotRunning(_ operation: Operation) -> String? {
        operation.isExecuting ? nil : operation.whyNotRunning?.reason(naming: .script)
    }

    /// The queues that have operations, the longest busy first.
    public func busyQueues() -> [OperationQueue] { core.engine.busyQueues() }

    /// The queues that have operations, one line each.
    public func describeQueues() -> [String] {
        busyQueues().map { queue in
            let operations = queue.operations
            let executing = operations.count { $0.isExecuting }
            let maximum = queue.maxConcurrentOperationCount
            return "\(queue.displayName): \(operations.count) operation\(operations.count == 1 ? "" : "s"), \(executing) executing"
                + (maximum >= 0 ? ", at most \(maximum) at once" : "") + (queue.isSuspended ? ", suspended" : "")
        }
    }
}
