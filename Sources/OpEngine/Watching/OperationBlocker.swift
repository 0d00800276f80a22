/// A reason why an operation is not running.
public enum OperationBlocker: Sendable, Hashable {
    /// The operation was never added to a queue, and was not started by hand.
    case notInQueue
    /// This dependency has not finished.
    case dependency(Operation)
    /// The operation depends on itself. Each operation of the cycle depends on the next, and the last is the same as the first.
    case cycle([Operation])
    /// A subclass's `isReady` is false, although no dependency is unfinished.
    case notReady
    /// The queue is suspended.
    case suspended(OperationQueue)
    /// The queue's maximum is 0.
    case maximumIsZero(OperationQueue)
    /// The queue's maximum is reached by these executing operations.
    case full(OperationQueue, executing: [Operation])
    /// The operation was added after this barrier, which has not finished.
    case barrier(Operation, in: OperationQueue)
    /// The operation is a barrier, and these operations were added before it and have not finished.
    case before([Operation], in: OperationQueue)
    /// One of the operation's `exclusiveKeys` is missing: `heldBy` has it. If `heldBy` is nil, the key is free, and operations that
    /// precede this one wait for it.
    case key(String, heldBy: Operation?)
    /// The operation needs more of a resource than is left. `executing` have the rest. Others that precede the operation may wait for it,
    /// too.
    case resource(String, amount: Int, available: Int, capacity: Int, executing: [Operation])
    /// The queue's rate limit allows the next start after this time.
    case rateLimit(OperationQueue, next: Duration)
    /// The operation has failed, and its next attempt begins after this time.
    case retry(attempt: Int, of: Int, next: Duration)
    /// The operation is executing, and its body waits: `to receive from channel 'lines'`, for example. Or the queue's executor waits, and
    /// cannot run the operation yet.
    case waiting(String)
    /// The operation is a member of this group, which has not started.
    case groupNotStarted(Operation)
    /// The operation is a group that executes, and these members have not finished.
    case members([Operation])
    /// None of the other reasons: no thread has taken the operation yet.
    case notTaken(OperationQueue)
}

extension OperationBlocker: CustomStringConvertible {
    /// The part of a sentence after the operation's name, such as: `is in queue q, which is suspended`.
    public var description: String { description(naming: .standard) }

    /// `description` with custom names.
    public func description(naming: OperationNaming) -> String {
        switch self {
        case .notInQueue: "was never added to a queue"
        case .dependency(let dependency): "depends on \(Self.dependency(dependency, naming))"
        case .cycle(let path): "depends on itself: " + path.map(naming.operation).joined(separator: " → ")
        case .notReady: "has isReady = false"
        case .suspended(let queue): "is in \(naming.queue(queue)), which is suspended"
        case .maximumIsZero(let queue): "is in \(naming.queue(queue)), whose maximum is 0"
        case .full(let queue, let executing):
            "is in \(naming.queue(queue)), whose maximum is reached by \(naming.list(executing))"
        case .barrier(let barrier, let queue): "is behind the barrier \(naming.operation(barrier)) in \(naming.queue(queue))"
        case .before(let others, let queue): "is a barrier behind \(naming.list(others)) in \(naming.queue(queue))"
        case .key(let key, let holder?): "needs the key '\(key)', which \(naming.operation(holder)) has"
        case .key(let key, nil): "waits for the key '\(key)' behind others"
        case .resource(let name, let amount, let available, let capacity, let executing):
            "needs \(amount) of the resource '\(name)', of which \(available) of \(capacity) are left"
                + (executing.isEmpty ? "" : "; \(naming.list(executing)) \(executing.count == 1 ? "has" : "have") the rest")
        case .rateLimit(let queue, let next):
            "is in \(naming.queue(queue)), whose rate limit allows the next start in \(Self.seconds(next))"
        case .retry(let attempt, let count, let next): "has failed, and attempt \(attempt) of \(count) begins in \(Self.seconds(next))"
        case .waiting(let purpose): "waits \(purpose)"
        case .groupNotStarted(let group): "is in the group \(naming.operation(group)), which has not started"
        case .members(let members): "waits for its members \(naming.list(members))"
        case .notTaken(let queue): "is in \(naming.queue(queue)), whose threads have not come to it"
        }
    }

    /// A time in seconds, rounded up to hundredths.
    private static func seconds(_ duration: Duration) -> String {
        let hundredths = Int((max(0, duration / .seconds(1)) * 100).rounded(.up))
        let (whole, rest) = (hundredths / 100, hundredths % 100)
        return "\(whole)" + (rest == 0 ? "" : rest % 10 == 0 ? ".\(rest / 10)" : rest < 10 ? ".0\(rest)" : ".\(rest)") + " s"
    }

    /// A dependency's name, followed by a note if it was never added to a queue.
    static func dependency(_ operation: Operation, _ naming: OperationNaming) -> String {
        let wasAdded = operation.loadState().has(Operation.State.claimed)
        return naming.operation(operation) + (wasAdded || operation.isExecuting ? "" : ", which was never added to a queue")
    }
}
