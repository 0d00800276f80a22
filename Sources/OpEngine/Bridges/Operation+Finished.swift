import OpPlatform

extension BeyondFoundation where Self: Operation {
    /// Suspends the task until the operation has finished. Blocks no thread.
    ///
    /// Throws the operation's `error`, or `CancellationError` if the operation was cancelled without one. Cancelling the task cancels the
    /// operation and throws `CancellationError` immediately, although the operation may continue until it notices the cancellation.
    public func finished() async throws {
        try await suspendUntilFinished()
        if let error { throw error }
        if isCancelled { throw CancellationError() }
    }
}

extension Operation {
    /// Suspends the task until the operation has finished. Throws `CancellationError` if the task is cancelled, and no other error.
    func suspendUntilFinished() async throws {
        let wait = TaskWait()
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                guard wait.begin(continuation) else { return continuation.resume(throwing: CancellationError()) }
                whenFinished { wait.end()?.resume() }
                // A subclass in no queue may override `isFinished`. For the engine, such an operation may never finish.
                if isFinished { wait.end()?.resume() }
            }
        } onCancel: {
            cancel()
            wait.cancel()?.resume(throwing: CancellationError())
        }
    }
}

/// One wait of a task. Ends once, either normally or by cancellation.
final class TaskWait: Sendable {
    private enum Phase {
        case notBegun
        case waiting(CheckedContinuation<Void, any Error>)
        case ended
    }

    private let phase = Guarded(Phase.notBegun)

    /// Stores the continuation. Returns false if the wait was already cancelled.
    func begin(_ continuation: CheckedContinuation<Void, any Error>) -> Bool {
        phase.withLock { phase in
            guard case .notBegun = phase else { return false }
            phase = .waiting(continuation)
            return true
        }
    }

    /// Ends the wait. Returns the continuation, which the caller must resume, to the first caller only.
    func end() -> CheckedContinuation<Void, any Error>? {
        phase.withLock { phase in
            guard case .waiting(let continuation) = phase else { return nil }
            phase = .ended
            return continuation
        }
    }

    /// Like `end`, but also prevents a wait that has not begun.
    func cancel() -> CheckedContinuation<Void, any Error>? {
        phase.withLock { phase in
            defer { phase = .ended }
            guard case .waiting(let continuation) = phase else { return nil }
            return continuation
        }
    }
}
