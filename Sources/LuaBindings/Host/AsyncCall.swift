import OpEngine
import OpPlatform

/// Runs the parts of a task on the thread that waits for the task. So the task makes progress even if all threads of Swift's concurrency
/// are blocked, and the waiting thread may be one of them.
private final class WaitingThreadExecutor: TaskExecutor {
    private let inbox: Inbox

    init(_ inbox: Inbox) { self.inbox = inbox }

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        let isPosted = inbox.post { unsafe job.runSynchronously(on: self.asUnownedTaskExecutor()) }
        // If the thread has ended, no code waits for the task. The task is cancelled, and ends on any thread.
        if !isPosted { globalConcurrentExecutor.enqueue(ExecutorJob(job)) }
    }
}

/// A call of an `async` host function. The calling thread waits for the function, and runs it meanwhile.
final class AsyncCall<Value: Sendable>: Sendable {
    private let outcome = Guarded<Result<Value, any Error>?>(nil)
    private let body: @Sendable () async throws -> Value

    init(_ body: @escaping @Sendable () async throws -> Value) { self.body = body }

    var isOver: Bool { outcome.withLock { $0 != nil } }

    /// The value or the error of the function. Call this once, when the call is over.
    func result() throws -> Value? { try outcome.withLock { $0.take() }?.get() }

    /// Starts the function on the thread of `inbox`, and calls `ended` when it has ended.
    func start(on inbox: Inbox, _ ended: @escaping @Sendable () -> Void) -> Task<Void, Never> {
        Task(executorPreference: WaitingThreadExecutor(inbox)) {
            let result = await self.run()
            self.outcome.withLock { $0 = result }
            ended()
        }
    }

    private func run() async -> Result<Value, any Error> {
        do { return .success(try await body()) } catch { return .failure(error) }
    }
}

extension LuaState {
    /// Waits until `call` is over. Cancels its task if the wait ends early: because the waiting operation was cancelled or stopped, or because
    /// of a signal.
    func wait<Value>(for call: AsyncCall<Value>) throws -> Value {
        let (engine, inbox) = (core.engine, self.inbox)
        // The task can end any wait, so no wait is reported as one that can never end.
        engine.hold()
        let task = call.start(on: inbox) {
            inbox.wake()
            engine.release()
        }
        do throws(CallError) { _ = try wait(deadline: nil) { call.isOver } } catch {
            task.cancel()
            throw error
        }
        if let value = try call.result() { return value }
        task.cancel()
        throw CancellationError()
    }
}
