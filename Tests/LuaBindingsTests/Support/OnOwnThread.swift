import TestSupport

/// Runs `body` on a thread of its own, which owns the runtimes that it makes. The threads of the concurrency pool, on which tests run, stay
/// free for the tasks that `body` waits for.
func onOwnThread(_ body: @escaping @Sendable () throws -> Void) async throws {
    try await withCheckedThrowingContinuation { continuation in
        startThread { continuation.resume(with: Result(catching: body)) }
    }
}
