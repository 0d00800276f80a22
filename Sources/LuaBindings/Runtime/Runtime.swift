import CLua
public import OpEngine
import Synchronization

/// Runs Lua scripts whose operations use all processors.
///
/// The thread that makes a runtime owns its main state. That thread runs scripts, and it delivers callbacks and main-queue operations while
/// it waits. Each worker has a Lua state of its own. After `close`, every throwing method throws an error.
///
/// ```swift
/// let runtime = try Runtime()
/// let operation = try runtime.run("return opscript.OperationQueue.new():addOperation(function() return 6 * 7 end)")[0].operation!
/// print(try runtime.results(of: operation))  // [.integer(42)]
/// runtime.close()
/// ```
///
/// - Concurrency: call every method on the thread that made the runtime; debug builds check this. Operations and queues may be used from
///   every thread.
public final class Runtime {
    /// The settings of a runtime.
    public struct Configuration: Sendable {
        /// The maximum number of operations that run at once; nil for the number of processors that this process may use.
        public var workerCount: Int?
        /// How long a worker's thread sleeps without work before it ends and closes its Lua state. A worker whose state still expects a
        /// callback does not end.
        public var idleTime = Duration.seconds(10)
        /// Whether `LUA_PATH` and the related environment variables are ignored.
        public var ignoresEnvironment = false
        /// Whether other threads of the host may add or finish operations. If false, a wait that nothing in the runtime can end is an
        /// error; if true, it lasts until another thread ends it.
        public var hostMayAddOperations = false
        /// The maximum number of bytes that one Lua state may hold, the main one or a worker's; nil for no limit. An operation that needs
        /// more fails with the kind `memory`, and the others go on. In the main state Lua raises `not enough memory`.
        public var stateMemoryLimit: Int?
        /// The `memoryLimit` in bytes of operations that do not set one; nil for no limit.
        public var operationMemoryLimit: Int?

        /// What scripts may use.
        public var sandbox = Sandbox()
        /// How much scripts may use.
        public var limits = Limits()

        /// Whether scripts may end the process with `os.exit`. If false, `os.exit` raises an error in the script.
        ///
        /// If true, a call in the main state ends the process at once. A call on a worker stops the main state's script and cancels all
        /// operations; `requestedExitStatus` is then the status with which the host should end. A host that has not ended after 5 seconds
        /// is ended.
        public var scriptsMayExit = false

        /// Whether the process may use more memory than necessary in order to be faster. For applications that exist to run one script,
        /// like the command.
        ///
        /// The first operation or program of a script changes the settings of the process's allocator. With glibc, each arena keeps up to
        /// 32 MiB of freed memory instead of returning it at once. With jemalloc, if the application is linked with it, the first thread's
        /// arena grows by huge pages of 2 MiB. Other allocators stay unchanged. While the main state's memory grows, its garbage collector
        /// waits until the memory has trebled, not doubled.
        public var prefersSpeedToMemory = false

        /// Makes the default configuration.
        public init() {}
    }

    /// What was left when everything had run. See `Runtime.finish`.
    public struct Ending: Sendable {
        /// The failures that no script and no host has read, oldest first.
        public let unreadFailures: [OperationFailure]
        /// One sentence for each operation that can never run or finish.
        public let stuckOperations: [String]
        /// The number of callbacks that raised an error. Each error was reported on stderr when it occurred.
        public let callbackErrorCount: Int
        /// Whether a signal ended the wait.
        public let wasInterrupted: Bool
    }

    /// The engine, with the threads that run the operations.
    public let engine: Engine
    let core: RuntimeCore
    private var main: LuaState?

    /// Makes a runtime and its main state. A worker makes its own state when it runs its first Lua function.
    ///
    /// - Throws: an error if memory has run out, or if a fresh state exceeds `stateMemoryLimit`.
    public init(_ configuration: Configuration = Configuration()) throws(LuaError) {
        engine = Engine(
            workerCount: configuration.workerCount, hostMayAddOperations: configuration.hostMayAddOperations,
            idleTime: configuration.idleTime)
        core = RuntimeCore(engine: engine, configuration)
        guard let state = LuaState(core: core, inbox: engine.mainInbox) else {
            throw LuaError(message: "not enough memory for a Lua state")
        }
        core.adopt(mainState: state)
        main = state
        if let limit = configuration.stateMemoryLimit, state.usedBytes > limit {
            close()
            throw LuaError(message: "a stateMemoryLimit of \(limit) bytes is too little: a fresh Lua state holds more")
        }
    }

    deinit { close() }

    /// Cancels all operations and timers, stops the workers and closes all states. Waits for bodies that do not check `isCancelled`, but at
    /// most for `deadline`.
    ///
    /// Traps if a script of the main state is running or waiting, that is, if a host function that the script has called closes the
    /// runtime. Close the runtime after the script has returned. Further calls do nothing.
    ///
    /// - Returns: the names of the operations that did not end, as messages show them.
    @discardableResult
    public func close(deadline: Duration = .seconds(60)) -> [String] {
        guard let main else { return [] }
        if main.isRunning { fatalError("opscript: a script is closing its own Runtime: close it when the script has returned") }
        core.io.end()
        core.beginClosing()
        let left = engine.shutdown(deadline: deadline).map(\.displayName)
        core.io.stop()
        _ = engine.mainInbox.drain()
        core.close()
        self.main = nil
        // Jobs that have arrived meanwhile, or arrive later, would keep their operations alive.
        _ = engine.mainInbox.drain()
        engine.mainInbox.close()
        return left
    }

    func state() throws(LuaError) -> LuaState {
        guard let main, !main.isLuaClosed else { throw LuaError(message: "the runtime is closed") }
        main.checkThread()
        return main
    }

    // MARK: scripts

    /// Makes `function` a global function of every state. If it throws a value, that value's text is raised as an error in the script.
    ///
    /// The calling state's thread calls the function, so several calls may run at once.
    ///
    /// - Throws: an error if the runtime is closed or memory has run out.
    public func register(_ name: String, _ function: @escaping @Sendable ([LuaValue]) throws -> [LuaValue]) throws(LuaError) {
        let state = try state()
        core.register(HostFunction(name: name, body: function))
        try asLuaError { () throws(Failure) in try core.prepare(state) }
    }

    /// Runs a script in the main state.
    ///
    /// - Parameters:
    ///   - source: the text of the script.
    ///   - name: the script's name in error messages: `@` and a file name, or `=` and any text.
    ///   - arguments: the values of `...` in the script.
    /// - Returns: what the script returns. Tables are copied.
    /// - Throws: what the script raises, or an error if the runtime is closed.
    @discardableResult
    public func run(_ source: String, name: String = "=script", arguments: [LuaValue] = []) throws(LuaError) -> [LuaValue] {
        let state = try state()
        return try asLuaError { () throws(Failure) in
            try state.load(source, name: name)
            return try state.call(arguments)
        }
    }

    /// Runs a file in the main state, or standard input if `file` is nil.
    @discardableResult
    public func run(file: String?, arguments: [LuaValue] = []) throws(LuaError) -> [LuaValue] {
        let state = try state()
        return try asLuaError { () throws(Failure) in
            try state.load(file: file)
            return try state.call(arguments)
        }
    }

    /// Runs a file, or standard input if `file` is nil, like the `lua` command: the arguments are the elements that the global `arg` has
    /// when the script has been loaded.
    public func run(script file: String?) throws(LuaError) {
        let state = try state()
        try asLuaError { () throws(Failure) in
            try state.load(file: file)
            try state.callWithGlobalArguments()
        }
    }

    /// Runs a line of an interactive session: prints the values of an expression, or runs statements.
    ///
    /// - Throws: an error whose `isIncomplete` is true if more text could complete the line.
    public func evaluate(_ source: String, name: String = "=stdin") throws(LuaError) {
        let state = try state()
        try asLuaError { () throws(Failure) in try state.evaluate(source, name: name) }
    }

    /// Sets the global `arg`: `arguments[script]` gets the index 0, and the elements before it get negative indices.
    public func setArguments(_ arguments: [String], script: Int) throws(LuaError) {
        let state = try state()
        try asLuaError { () throws(Failure) in try state.setArguments(arguments, script: script) }
    }

    /// Calls `require(module)` and assigns the result to the global named `global`.
    public func require(_ module: String, as global: String) throws(LuaError) {
        let state = try state()
        try asLuaError { () throws(Failure) in try state.require(module, as: global) }
    }

    /// The value of a global of the main state, with tables copied.
    public func global(_ name: String) throws(LuaError) -> LuaValue {
        try run("return (...) and _G[...]", name: "=global", arguments: [.string(name)]).first ?? .nil
    }

    /// Assigns a global of the main state. Operations that read the global take a copy of its value along.
    public func setGlobal(_ name: String, to value: LuaValue) throws(LuaError) {
        try run("local name, value = ...; _G[name] = value", name: "=setGlobal", arguments: [.string(name), value])
    }

    // MARK: operations

    /// Waits until an operation has finished. Delivers callbacks and runs main-queue operations meanwhile.
    ///
    /// - Returns: what the body returned; empty for an operation that was cancelled before it started.
    /// - Throws: the operation's `OperationFailure`; a `LuaError` if nothing can end the wait any more, or if Ctrl-C ended it.
    public func results(of operation: Operation) throws -> [LuaValue] {
        let state = try state()
        if !operation.isFinished {
            let inbox = state.inbox
            operation.whenFinished { inbox.wake() }
            let outcome = try asLuaError { () throws(Failure) in
                do throws(CallError) { return try state.wait(deadline: nil, until: { operation.isFinished }) } catch {
                    throw Failure(error)
                }
            }
            if outcome == .stalled { throw LuaError(message: Stall.message(for: [operation])) }
        }
        if operation.outcome == .failed, let failure = (operation as? LuaOperation)?.failure ?? operation.error { throw failure }
        guard let results = (operation as? LuaOperation)?.results else { return [] }
        return try asLuaError { () throws(Failure) in
            var values: [LuaValue] = []
            for parcel in results { values += try state.values(of: parcel) }
            return values
        }
    }

    /// Runs the remaining operations, callbacks and main-queue operations until nothing can happen any more, or until a signal ends the
    /// wait.
    public func finish() throws(LuaError) -> Ending {
        let state = try state()
        var wasInterrupted = false
        do throws(CallError) { _ = try state.wait(deadline: nil, until: { false }) } catch { wasInterrupted = true }
        let stuck = wasInterrupted ? [] : engine.unfinishedOperations() + core.operationsStartedByHand
        return Ending(
            unreadFailures: core.takeUnreadFailures(),
            stuckOperations: stuck.map {
                "\($0.displayName) can never \($0.isExecuting ? "finish" : "run"): it \(Stall.reason(for: $0))"
            },
            callbackErrorCount: core.callbackErrorCount.load(ordering: .relaxed),
            wasInterrupted: wasInterrupted)
    }

    /// The status that an operation on a worker has passed to `os.exit`, or that `requestExit` was given; nil if nobody has asked for an end.
    public var requestedExitStatus: Int32? { core.requestedExitStatus }

    /// The failures that no script and no host has read, oldest first. Each is returned only once.
    public func takeUnreadFailures() -> [OperationFailure] { core.takeUnreadFailures() }

    /// Makes the next SIGINT of the process raise the error `interrupted!` in what the main state does, or end its wait. Another SIGINT
    /// ends the process. The same holds for SIGTERM as soon as scripts have made an operation or started a program.
    ///
    /// Call this again to be ready for the next signal. Only one runtime of a process at a time may catch signals.
    public func catchInterrupts() throws(LuaError) { try state().catchInterrupts() }

    /// Restores the previous handling of both signals.
    public func releaseInterrupts() { clua_release_interrupts() }

    /// The signal that has come since `catchInterrupts`; nil if none has, or if the runtime is closed. Only on the runtime's thread.
    public var lastInterrupt: Int32? {
        guard let signal = try? state().lastInterrupt, signal != 0 else { return nil }
        return signal
    }

    /// Makes scripts' warnings go to stderr, as after `warn("@on")`. Applies to the main state and to workers that have not yet run a
    /// script.
    public func enableWarnings() throws(LuaError) {
        core.showsWarnings.store(true, ordering: .relaxed)
        try state().enableWarnings()
    }

    /// The release of Lua and its copyright notice, as `lua -v` shows them.
    public static var luaCopyright: String { unsafe String(cString: clua_copyright()) }

    /// Delivers the callbacks and runs the main-queue operations that are there now. Does not wait for more.
    public func drain() throws(LuaError) { _ = try state().inbox.drain() }

    /// The number of operations that have been added to queues and have not finished.
    public var unfinishedOperationCount: Int { engine.unfinishedOperationCount }

    /// Cancels the operations in all queues of this runtime, except barriers. O(n).
    public func cancelAllOperations() { engine.cancelAllOperations() }

    /// Cancels every operation and stops the bodies that do not check `isCancelled`. See `LuaOperation.interrupt`.
    public func interruptAllOperations() {
        engine.cancelAllOperations()
        for case let operation as LuaOperation in engine.unfinishedOperations() + core.operationsStartedByHand { operation.interrupt() }
    }

    func asLuaError<T>(_ body: () throws(Failure) -> T) throws(LuaError) -> T {
        do throws(Failure) { return try body() } catch { throw LuaError(error) }
    }
}
