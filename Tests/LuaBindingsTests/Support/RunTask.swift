import TestSupport
import Testing

/// Runs each part of a task on a thread of its own, so that the task goes on even if tests block all threads of Swift's concurrency.
private final class ThreadPerJobExecutor: TaskExecutor {
    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        startThread { unsafe job.runSynchronously(on: self.asUnownedTaskExecutor()) }
    }
}

/// Runs `body` as a task, while this thread waits.
func runTask(_ body: @escaping @Sendable () async throws -> Void) {
    let isOver = Gate()
    Task(executorPreference: ThreadPerJobExecutor()) {
        do { try await body() } catch { Issue.record(error) }
        isOver.open()
    }
    isOver.wait()
}
