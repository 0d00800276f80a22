public import OpEngine

/// The calls for tasks: they suspend the task, and block no thread of its actor.
///
/// A thread of the runtime makes the calls that tasks await, one after the other, in the order of their arrival. The thread enters the main
/// state when no other thread is inside, and delivers callbacks while it waits. Host functions that a script calls meanwhile run on that
/// thread, not in the actor of the task. A call that is awaited costs two switches between threads, and the start of a thread if no other
/// call waits or runs.
///
/// Cancelling the task stops the script, even if it does not check for that, ends its wait, and throws `CancellationError`. A script inside
/// a long call of a C function stops when that call returns.
extension Runtime {
    /// Calls `body` inside the runtime: several calls as one, or a method that has no async twin.
    ///
    /// - Parameter body: makes the calls, on a thread of the runtime. Its argument is the runtime.
    /// - Returns: what `body` returns, even if the task is cancelled meanwhile.
    /// - Throws: what `body` throws; `CancellationError` if the task is cancelled before that; a `LuaError` if the runtime is closed.
    public func perform<Result: Sendable>(_ body: @escaping @Sendable (Runtime) throws -> Result) async throws -> Result {
        try await perform(as: "perform(_:)", body)
    }

    /// Calls `body` inside the runtime, for a group: like `enter(in:_:)`, but suspends the task.
    ///
    /// - Parameters:
    ///   - group: the group to which the call and everything that it starts belong.
    ///   - body: makes the calls, on a thread of the runtime. Its argument is the runtime.
    /// - Returns: what `body` returns.
    /// - Throws: what `body` throws; `CancellationError` if the group or the task is cancelled; a `LuaError` if the runtime is closed.
    @discardableResult
    public func perform<Result: Sendable>(
        in group: Group, _ body: @escaping @Sendable (Runtime) throws -> Result
    ) async throws -> Result {
        try await perform(as: "perform(in:_:)") { runtime in try runtime.enter(in: group) { try body(runtime) } }
    }

    /// Runs a script in the main state. Like the method that blocks, but suspends the task.
    ///
    /// - Parameters:
    ///   - source: the text of the script.
    ///   - name: the script's name in error messages: `@` and a file name, or `=` and any text.
    ///   - arguments: the values of `...` in the script.
    /// - Returns: what the script returns. Tables are copied.
    /// - Throws: what the script raises, `CancellationError`, or an error if the runtime is closed.
    @discardableResult
    public func run(_ source: String, name: String = "=script", arguments: [LuaValue] = []) async throws -> [LuaValue] {
        try await perform(as: "run(_:name:arguments:)") { try $0.run(source, name: name, arguments: arguments) }
    }

    /// Runs a file in the main state, or standard input if `file` is nil. Like the method that blocks, but suspends the task.
    ///
    /// - Parameters:
    ///   - file: the path of the file.
    ///   - arguments: the values of `...` in the script.
    /// - Returns: what the script returns. Tables are copied.
    /// - Throws: what the script raises, `CancellationError`, or an error if the runtime is closed.
    @discardableResult
    public func run(file: String?, arguments: [LuaValue] = []) async throws -> [LuaValue] {
        try await perform(as: "run(file:arguments:)") { try $0.run(file: file, arguments: arguments) }
    }

    /// Evaluates an expression, or runs a script that returns a value. Like the method that blocks, but suspends the task.
    ///
    /// - Parameters:
    ///   - source: an expression, or statements that return a value.
    ///   - type: the type of the value. See `LuaDecoder` for what fits.
    ///   - name: the source's name in error messages.
    ///   - arguments: the values of `...` in the source.
    /// - Returns: the first value.
    /// - Throws: what the source raises; an error of the kind `conversion` if the value does not fit; `CancellationError`.
    public func evaluate<Value: Decodable & Sendable>(
        _ source: String, as type: Value.Type = Value.self, name: String = "=expression", arguments: [LuaValue] = []
    ) async throws -> Value {
        try await perform(as: "evaluate(_:as:name:arguments:)") { try $0.evaluate(source, as: type, name: name, arguments: arguments) }
    }

    /// Like the above, for a value of any type.
    public func evaluate(_ source: String, name: String = "=expression", arguments: [LuaValue] = []) async throws -> LuaValue {
        try await perform(as: "evaluate(_:name:arguments:)") { try $0.evaluate(source, name: name, arguments: arguments) }
    }

    /// Waits until an operation has finished, and delivers callbacks and runs main-queue operations meanwhile. Like the method that blocks,
    /// but suspends the task. Cancelling the task ends the wait, not the operation.
    ///
    /// - Parameter operation: an operation of this runtime, or one that its operations wait for.
    /// - Returns: what the body returned; empty for an operation that was cancelled before it started.
    /// - Throws: the operation's `OperationFailure`; a `LuaError` if nothing can end the wait any more; `CancellationError`.
    public func results(of operation: Operation) async throws -> [LuaValue] {
        try await perform(as: "results(of:)") { try $0.results(of: operation) }
    }

    /// Runs what remains until nothing can happen any more. Like the method that blocks, but suspends the task. Cancelling the task ends the
    /// wait, and sets `Ending.wasInterrupted` instead of throwing an error.
    public func finish() async throws -> Ending { try await perform(as: "finish()") { try $0.finish() } }

    private func perform<Result: Sendable>(
        as name: StaticString, _ body: @escaping @Sendable (Runtime) throws -> Result
    ) async throws -> Result {
        try await core.perform(as: name) { _ in try body(self) }
    }
}

extension RuntimeCore {
    /// Calls `body` inside the main state, on a thread of the runtime, while the task is suspended.
    func perform<Result: Sendable>(as name: StaticString, _ body: @escaping @Sendable (LuaState) throws -> Result) async throws -> Result {
        let call = StoppableCall(name)
        return try await withTaskCancellationHandler {
            try await perform(call, body)
        } onCancel: {
            awaitedCalls.cancel(call)
        }
    }

    /// Like the above, but cancelling the task changes nothing.
    func perform<Result: Sendable>(_ call: StoppableCall, _ body: @escaping @Sendable (LuaState) throws -> Result) async throws -> Result {
        try await withCheckedThrowingContinuation { continuation in
            awaitedCalls.add(
                call, make: { main in continuation.resume(with: self.make(call, in: main, body)) },
                refuse: { continuation.resume(throwing: $0) })
        }
    }

    /// Makes a call on this thread, when no other thread is inside.
    private func make<Value>(_ call: StoppableCall, in main: LuaState, _ body: (LuaState) throws -> Value) -> Result<Value, any Error> {
        _ = engine.entrance.enterWhenFree(call.name)
        defer {
            engine.entrance.leave()
            // A `drain` that found the call inside has left the work to it.
            engine.mainInbox.endDraining()
        }
        guard awaitedCalls.begin(call) else { return .failure(LuaError.closed) }
        defer { awaitedCalls.end() }
        do {
            return .success(
                try main.run(call) {
                    if call.isStopped { throw CancellationError() }
                    return try body(main)
                })
        } catch {
            return .failure(call.isStopped ? call.stopError : error)
        }
    }
}
