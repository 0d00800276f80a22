/// An operation whose work is an async closure, which runs as a task of its own and occupies no thread while it is suspended.
///
/// It is executing, and counts towards the maximum of its queue, until the closure has returned. Cancelling the operation cancels the
/// task. In the closure `Operation.current` is nil, because a task changes threads.
public final class TaskOperation<Value: Sendable>: AsyncOperation, @unchecked Sendable {
    // Safety: `@unchecked Sendable` because the stored properties are guarded by `work`.
    private let work: Guarded<Work>

    private enum Work {
        case notStarted(@Sendable () async throws -> Value)
        /// The task is being made.
        case starting
        case running(Task<Void, Never>)
        case returned(Value)
        case ended
    }

    /// An operation that runs `body`. What it throws is the operation's `error`; a `CancellationError` thrown after the operation was
    /// cancelled only says so.
    ///
    /// - Parameters:
    ///   - priority: that of the task; nil: what the quality of service of the operation corresponds to.
    ///   - body: the work; called once, in a task.
    public init(priority: TaskPriority? = nil, _ body: @escaping @Sendable () async throws -> Value) {
        self.priority = priority
        work = Guarded(.notStarted(body))
        super.init()
        // One that is cancelled never comes to `main`.
        whenFinished { [weak self] in self?.letGo() }
    }

    private let priority: TaskPriority?

    /// What the closure returned. Suspends until the operation has finished.
    ///
    /// Throws what `finished()` does: the closure's error, or `CancellationError` when the operation or this task was cancelled. An
    /// operation that was cancelled, and returned a value all the same, has that value.
    public var value: Value {
        get async throws {
            try await suspendUntilFinished()
            if let error { throw error }
            guard case .returned(let value) = work.withLock({ $0 }) else { throw CancellationError() }
            return value
        }
    }

    /// Starts the task.
    public override func main() {
        let body = work.withLock { work -> (@Sendable () async throws -> Value)? in
            guard case .notStarted(let body) = work else { return nil }
            work = .starting
            return body
        }
        guard let body else { return finish() }
        let task = Task(priority: priority ?? qualityOfService.taskPriority) { await self.run(body) }
        work.withLock { work in
            // It may have returned already.
            if case .starting = work { work = .running(task) }
        }
        // `cancel()` found no task before.
        if isCancelled { task.cancel() }
    }

    /// Cancels the task as well.
    public override func cancel() {
        super.cancel()
        if case .running(let task) = work.withLock({ $0 }) { task.cancel() }
    }

    private func run(_ body: @Sendable () async throws -> Value) async {
        do {
            let value = try await body()
            work.withLock { $0 = .returned(value) }
            finish()
        } catch is CancellationError where isCancelled {
            finish()
        } catch {
            finish(with: error)
        }
    }

    /// It has ended: the closure goes, the value stays.
    private func letGo() {
        let last = work.withLock { work in
            defer { if case .returned = work {} else { work = .ended } }
            return work
        }
        // Outside the lock: it may be the last reference to what the closure captures.
        withExtendedLifetime(last) {}
    }
}

extension QualityOfService {
    /// Nil for `default`: the priority of the task that adds the operation does not matter to it.
    fileprivate var taskPriority: TaskPriority? {
        switch self {
        case .userInteractive, .userInitiated: .userInitiated
        case .utility: .utility
        case .background: .background
        case .default: nil
        }
    }
}

extension OperationQueue {
    /// Adds an async closure as an operation, and returns it: its `value` is what the closure returns.
    ///
    /// A closure that does not await anything is a block operation, whatever it returns. Cancelling a task that waits for the value
    /// cancels the operation, and cancelling the operation cancels the closure's task.
    @discardableResult
    public func addOperation<Value: Sendable>(_ body: @escaping @Sendable () async throws -> Value) -> TaskOperation<Value> {
        let operation = TaskOperation(body)
        addOperation(operation)
        return operation
    }
}
