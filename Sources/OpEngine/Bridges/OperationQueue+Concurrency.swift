extension BeyondFoundation where Self: OperationQueue {
    /// Adds an async closure as an operation and returns the operation. Its `result` and its `value` are the closure's.
    ///
    /// A closure that does not await anything becomes a block operation, even if it returns a value. Cancelling a task that waits for the
    /// value cancels the operation, and cancelling the operation cancels the closure's task.
    @discardableResult
    public func addOperation<Value: Sendable>(_ body: @escaping @Sendable () async throws -> Value) -> ResultOperation<Value> {
        let operation = ResultOperation(body)
        addOperation(operation)
        return operation
    }

    /// Adds a closure that runs on the main actor as an operation, and returns the operation: `queue.addOperation { @MainActor in show() }`.
    ///
    /// The main actor needs its thread: a program whose main thread blocks in a wait runs no such closure.
    @discardableResult
    public func addOperation<Value: Sendable>(_ body: @escaping @MainActor @Sendable () throws -> Value) -> ResultOperation<Value> {
        addOperation { try await body() }
    }

    /// Suspends the task until the queue is empty, including operations that are added in the meantime. Blocks no thread.
    ///
    /// Throws `CancellationError` immediately if the task is cancelled, and no other error. The operations are not cancelled then, because
    /// other code may use the queue. Call `cancelAllOperations()` for that.
    ///
    /// Waits as long as the queue is suspended, or an operation in it cannot start. An operation of the queue must not wait like this: the
    /// engine cannot detect that nothing will end the wait of a task. `engine.stallReport()` gives the reasons.
    public func finished() async throws {
        let core = core
        let wait = TaskWait()
        let queueWait = OperationQueue.Wait(for: core) { wait.end()?.resume() }
        defer { queueWait.end() }
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                guard wait.begin(continuation) else { return continuation.resume(throwing: CancellationError()) }
                if queueWait.isOver { wait.end()?.resume() }
            }
        } onCancel: {
            wait.cancel()?.resume(throwing: CancellationError())
        }
    }
}
