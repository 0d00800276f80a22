import Synchronization

extension BeyondFoundation where Self: Operation {
    /// Suspends the task until the operation has finished. No thread is blocked.
    ///
    /// Throws the operation's `error`, or `CancellationError` when it was cancelled without one. Cancelling the task cancels the operation
    /// and throws `CancellationError` at once, although the operation may go on until it has seen that it is cancelled.
    public func finished() async throws {
        try await suspendUntilFinished()
        if let error { throw error }
        if isCancelled { throw CancellationError() }
    }
}

extension Operation {
    /// Throws only `CancellationError`, when the task is cancelled.
    func suspendUntilFinished() async throws {
        let wait = TaskWait()
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                guard wait.begin(continuation) else { return continuation.resume(throwing: CancellationError()) }
                whenFinished { wait.end()?.resume() }
                // One that says so itself in no queue never tells.
                if isFinished { wait.end()?.resume() }
            }
        } onCancel: {
            cancel()
            wait.cancel()?.resume(throwing: CancellationError())
        }
    }
}

/// One wait of a task: ends once, by what it waits for or by being cancelled.
private final class TaskWait: Sendable {
    private enum Phase {
        case notBegun
        case waiting(CheckedContinuation<Void, any Error>)
        case ended
    }

    private let phase = Guarded(Phase.notBegun)

    /// False: it was cancelled before.
    func begin(_ continuation: CheckedContinuation<Void, any Error>) -> Bool {
        phase.withLock { phase in
            guard case .notBegun = phase else { return false }
            phase = .waiting(continuation)
            return true
        }
    }

    /// What is to be resumed by the caller, if it is the first.
    func end() -> CheckedContinuation<Void, any Error>? {
        phase.withLock { phase in
            guard case .waiting(let continuation) = phase else { return nil }
            phase = .ended
            return continuation
        }
    }

    /// `end`, also for a wait that has not begun.
    func cancel() -> CheckedContinuation<Void, any Error>? {
        phase.withLock { phase in
            defer { phase = .ended }
            guard case .waiting(let continuation) = phase else { return nil }
            return continuation
        }
    }
}
