/// An operation that runs an async closure as a task. Occupies no thread while the closure is suspended.
///
/// The operation executes and counts towards its queue's maximum until the closure has returned. Cancelling the operation cancels the task.
/// In the closure, `Operation.current` is nil, because a task may change threads.
public final class TaskOperation<Value: Sendable>: AsyncOperation, @unchecked Sendable {
    // Safety: `@unchecked Sendable` because the lock of `work` guards the only variable state.
    private let work: Guarded<Work>

    private enum Work {
        case notStarted(@Sendable () async throws -> Value)
        /// The task is being created.
        case starting
        case running(Task<Void, Never>)
        case returned(Value)
        case ended
    }

    /// Creates an operation that runs `body`. An error that `body` throws becomes the operation's `error`, except a `CancellationError`
    /// after the operation was cancelled.
    ///
    /// - Parameters:
    ///   - priority: the priority of the task. Nil to derive it from the operation's quality of service.
    ///   - body: the work. Called once, in a task.
    public init(priority: TaskPriority? = nil, _ body: @escaping @Sendable () async throws -> Value) {
        self.priority = priority
        work = Guarded(.notStarted(body))
        super.init()
        // A cancelled operation may never reach `main`, which would release the closure.
        whenFinished { [weak self] in self?.releaseBody() }
    }

    private let priority: TaskPriority?

    /// The closure's return value. Suspends until the operation has finished.
    ///
    /// Throws the same errors as `finished()`: the closure's error, or `CancellationError` if the operation or the waiting task was
    /// cancelled. If the operation was cancelled but the closure returned a value, returns that value.
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
            // The task may have finished already.
            if case .starting = work { work = .running(task) }
        }
        // A concurrent `cancel()` may have found no task.
        if isCancelled { task.cancel() }
    }

    /// Cancels the operation and its task.
    public override func cancel() {
        super.cancel()
        if case .running(let task) = work.withLock({ $0 }) { task.cancel() }
    }

    private func run(_ body: @escaping @Sendable () async throws -> Value) async {
        do {
            let value = try await body()
            work.withLock { $0 = .returned(value) }
            finish()
        } catch is CancellationError where isCancelled {
            finish()
        } catch {
            // Another attempt needs the closure again.
            if retryPolicy != nil { work.withLock { $0 = .notStarted(body) } }
            finish(with: error)
        }
    }

    /// Releases the closure and keeps the value, after the operation has finished.
    private func releaseBody() {
        let last = work.withLock { work in
            defer { if case .returned = work {} else { work = .ended } }
            return work
        }
        // Release outside the lock: this may be the last reference to what the closure captures.
        withExtendedLifetime(last) {}
    }
}

extension QualityOfService {
    /// Nil for `default`, so that the task has the default priority instead of the priority of the task that adds the operation.
    fileprivate var taskPriority: TaskPriority? {
        switch self {
        case .userInteractive, .userInitiated: .userInitiated
        case .utility: .utility
        case .background: .background
        case .default: nil
        }
    }
}

extension BeyondFoundation where Self: OperationQueue {
    /// Adds an async closure as an operation and returns the operation. Its `value` is the closure's return value.
    ///
    /// A closure that does not await anything becomes a block operation, whatever it returns. Cancelling a task that waits for the value
    /// cancels the operation, and cancelling the operation cancels the closure's task.
    @discardableResult
    public func addOperation<Value: Sendable>(_ body: @escaping @Sendable () async throws -> Value) -> TaskOperation<Value> {
        let operation = TaskOperation(body)
        addOperation(operation)
        return operation
    }
}
