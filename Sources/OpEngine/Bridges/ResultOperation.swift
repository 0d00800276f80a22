import OpPlatform

/// An operation with a typed result. Its work may be a closure, an async method, or anything that ends in a callback.
///
/// - A closure is passed to the initializer. A closure that awaits runs as a task. A closure that does not await runs on a thread of the
///   queue, as a block does.
/// - A subclass overrides `run`, which is called in a task.
/// - A subclass whose work ends in a callback overrides `main`, begins the work there, and calls `finish(returning:)` or `finish(with:)` from any
///   thread. An operation without any of these waits for such a call.
///
/// The operation executes and counts towards its queue's maximum until the work has ended, and occupies no thread while a task is suspended.
/// Cancelling the operation cancels its task. In a task, `Operation.current` is nil, because a task may change threads.
///
/// A dependent reads `result`, which has the type that the work returns:
///
///     let load = queue.addOperation { try await fetch(url) }
///     let parse = ResultOperation { try Document(try load.result) }
///     parse.addDependency(load)
///     queue.addOperation(parse)
open class ResultOperation<Value: Sendable>: Operation, @unchecked Sendable {
    // Safety: `@unchecked Sendable` because the superclass's `lock` guards the variable state.

    // No property has a type that depends on `Value`: Swift would look that type up for each operation that is made, finishes and is freed.

    /// A `Work`. Nil until the operation has something to keep: never, if an override of `main` calls `finish()`. Guarded by `lock`.
    @safe @exclusivity(unchecked) private var storedWork: AnyObject?
    /// Whether `finish(returning:)` has taken effect. Guarded by `lock`.
    @safe @exclusivity(unchecked) private var hasValue = false

    private final class Work {
        @safe @exclusivity(unchecked) var body: Body?
        @safe @exclusivity(unchecked) var priority: TaskPriority?
        @safe @exclusivity(unchecked) var task: Task<Void, Never>?
        /// Nil if `Value` is `Void`.
        @safe @exclusivity(unchecked) var value: Value?
    }

    private enum Body {
        case synchronous(@Sendable () throws -> Value)
        case asynchronous(@Sendable () async throws -> Value)
    }

    /// Calls `body` with the work, if there is any, while holding the lock.
    private func withWork<Result>(_ body: (Work?) -> Result) -> Result {
        // Safety: `ensureWork` alone sets the property.
        lock.withLock { body(storedWork.map { unsafe unsafeDowncast($0, to: Work.self) }) }
    }

    /// The work, which is made if necessary. The caller holds the lock.
    private func ensureWork() -> Work {
        // Safety: as above.
        if let storedWork { return unsafe unsafeDowncast(storedWork, to: Work.self) }
        let made = Work()
        storedWork = made
        return made
    }

    // The only designated initializer, so that the initializers of a subclass call it implicitly.

    /// Creates an operation for a subclass that overrides `run` or `main`, or for code that will call `finish(returning:)`.
    public override init() { super.init() }

    /// Creates an operation that runs `body` in a task. An error that `body` throws becomes the operation's `error`, except a
    /// `CancellationError` after the operation was cancelled.
    ///
    /// - Parameters:
    ///   - priority: the priority of the task. Nil to derive it from the operation's quality of service.
    ///   - body: the work. Called once for each attempt.
    public convenience init(priority: TaskPriority? = nil, _ body: @escaping @Sendable () async throws -> Value) {
        self.init()
        lock.withLock { (ensureWork().body, ensureWork().priority) = (.asynchronous(body), priority) }
        releaseBodyWhenFinished()
    }

    /// Creates an operation that runs `body` on a thread of its queue. Otherwise like the initializer for async closures.
    public convenience init(_ body: @escaping @Sendable () throws -> Value) {
        self.init()
        lock.withLock { ensureWork().body = .synchronous(body) }
        releaseBodyWhenFinished()
    }

    // MARK: Methods to override

    /// Performs the work in a task. The operation finishes with the value that this method returns, or with the error that it throws.
    ///
    /// The default implementation calls the closure that was passed to the initializer. Without one, it waits until the operation has
    /// finished.
    open func run() async throws -> Value {
        if case .asynchronous(let body) = withWork({ $0?.body }) { return try await body() }
        try await suspendUntilFinished()
        return try result
    }

    /// Begins the work: calls a closure that does not await, or else calls `run` in a task.
    open override func main() {
        switch withWork({ $0?.body }) {
        case .synchronous(let body): finish { try body() }
        case .asynchronous: startTask()
        // The class itself has nothing to run.
        case nil: if type(of: self) != ResultOperation<Value>.self { startTask() }
        }
    }

    /// Calls `main` and returns, possibly before the work has ended. See `Operation.start`.
    open override func start() { startAsDocumented(endsWithMain: false) }

    /// Always true.
    open override var isAsynchronous: Bool { true }

    /// Cancels the operation and its task.
    open override func cancel() {
        super.cancel()
        withWork { $0?.task }?.cancel()
    }

    // MARK: The result

    /// The value that the work returned, for code that runs after the operation has finished, such as a dependent. Does not wait.
    ///
    /// Throws the operation's `error`, `CancellationError` if it was cancelled and has no value, or `OperationError.resultNotAvailable` if
    /// it has not finished.
    public final var result: Value {
        get throws {
            guard isFinished else { throw OperationError.resultNotAvailable(operation: label) }
            if let error { throw error }
            let (hasReturned, kept) = withWork { work -> (Bool, Value?) in (hasValue, work?.value) }
            guard hasReturned, let value = kept ?? () as? Value else { throw CancellationError() }
            return value
        }
    }

    /// The same as `result`, but suspends until the operation has finished. Cancelling the waiting task cancels the operation, and throws
    /// `CancellationError` immediately.
    public final var value: Value {
        get async throws {
            try await suspendUntilFinished()
            return try result
        }
    }

    // MARK: Finishing

    /// Finishes the operation with a value. Only the first call of a finishing method has an effect. Safe to call from any thread.
    public final func finish(returning value: Value) {
        let replaced = lock.withLock { () -> Value? in
            if hasValue || isBetweenAttempts || loadState().has(State.finishing | State.finished) { return nil }
            hasValue = true
            return Value.self == Void.self ? nil : exchange(&ensureWork().value, with: value)
        }
        // The value of an earlier attempt is released outside of the lock.
        withExtendedLifetime(replaced) {}
        end()
    }

    override func forgetValue() { hasValue = false }

    /// Finishes the operation with an error. Only the first call of a finishing method has an effect. Safe to call from any thread.
    ///
    /// - Parameters:
    ///   - error: the error, which becomes the operation's `error`.
    ///   - outcome: `.failed`, or `.cancelled` if the error only describes why the operation was cancelled.
    public final func finish(with error: any Error, outcome: OperationOutcome = .failed) {
        // An error of an attempt that has ended.
        if lock.withLock({ isBetweenAttempts }) { return }
        fail(with: error, outcome: outcome)
        end()
    }

    private func startTask() {
        let task = Task(priority: withWork { $0?.priority } ?? qualityOfService.taskPriority) {
            let outcome: Result<Value, any Error>
            do { outcome = .success(try await self.run()) } catch { outcome = .failure(error) }
            self.finish { try outcome.get() }
        }
        lock.withLock { ensureWork().task = task }
        // A concurrent `cancel()` may have found no task.
        if isCancelled { task.cancel() }
    }

    /// Finishes with the value that `body` returns, or the error that it throws.
    private func finish(_ body: () throws -> Value) {
        do {
            finish(returning: try body())
        } catch is CancellationError where isCancelled {
            end()
        } catch {
            finish(with: error)
        }
    }

    /// Makes the operation release its closure when it finishes, also if it was cancelled before `main`.
    private func releaseBodyWhenFinished() {
        whenFinished { [weak self] in
            let released = self?.withWork { work -> (Body?, Task<Void, Never>?) in
                defer {
                    work?.body = nil
                    work?.task = nil
                }
                return (work?.body, work?.task)
            }
            // Released outside of the lock: this may be the last reference to objects that the closure captures.
            withExtendedLifetime(released) {}
        }
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
