@_spi(Locking) import OpEngine

/// A call of an `async` host function. The calling thread waits for it.
final class AsyncCall<Value: Sendable>: Sendable {
    private let outcome = Guarded<Result<Value, any Error>?>(nil)
    private let body: @Sendable () async throws -> Value

    init(_ body: @escaping @Sendable () async throws -> Value) { self.body = body }

    var isOver: Bool { outcome.withLock { $0 != nil } }

    /// What the function has returned or thrown. Once, when the call is over.
    func result() throws -> Value? { try outcome.withLock { $0.take() }?.get() }

    /// Starts the function, and calls `ended` when it has ended.
    func start(_ ended: @escaping @Sendable () -> Void) -> Task<Void, Never> {
        Task {
            let result = await run()
            outcome.withLock { $0 = result }
            ended()
        }
    }

    private func run() async -> Result<Value, any Error> {
        do { return .success(try await body()) } catch { return .failure(error) }
    }
}

extension LuaState {
    /// Waits until `call` is over. Cancels it if the wait ends early: because the waiting operation was cancelled or stopped, or because of a
    /// signal.
    func wait<Value>(for call: AsyncCall<Value>) throws -> Value {
        let (engine, inbox) = (core.engine, self.inbox)
        // What the task does can end any wait, so none is reported as one that can never end.
        engine.hold()
        let task = call.start {
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
