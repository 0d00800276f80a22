import CLua
public import OpEngine
import Synchronization

/// Runs Lua scripts whose operations use all processors.
///
/// A runtime belongs to the thread that makes it: that thread owns the main state, runs scripts, and delivers callbacks and
/// main-queue operations while it waits. Workers have states of their own.
///
/// ```swift
/// let runtime = try Runtime()
/// let operation = try runtime.run("return opscript.OperationQueue.new():addOperation(function() return 6 * 7 end)")[0].operation!
/// print(try runtime.results(of: operation))  // [.integer(42)]
/// runtime.close()
/// ```
///
/// - Concurrency: every method must be called on the thread that made the runtime; debug builds check. Operations and queues may
///   be used on every thread.
public final class Runtime {
    /// How a runtime is made.
    public struct Configuration: Sendable {
        /// How many operations run at once; nil: the processors that this process may use.
        public var workerCount: Int?
        /// How long a worker's thread without work sleeps before it ends, and its Lua state goes. One that still has something to call
        /// back stays.
        public var idleTime = Duration.seconds(10)
        /// Whether `LUA_PATH` and its kin have no effect.
        public var ignoresEnvironment = false
        /// Whether other threads of the host may add or finish operations. When false, a wait that nothing in the runtime can end is
        /// an error; when true it lasts until someone ends it.
        public var hostMayAddOperations = false
        /// Bytes that one Lua state may hold, the main one or a worker's; nil for no limit. An operation that needs more fails with the
        /// kind `memory`; what else runs goes on. In the main state it is Lua's error `not enough memory`.
        public var stateMemoryLimit: Int?

        /// Whether scripts may end the process with `os.exit`. When false, that is an error in the script. When true, it ends the process
        /// at once in the main state; on a worker it stops the main state's script and cancels all operations, and
        /// `requestedExitStatus` says how the host is to end. A host that has not ended after 5 seconds is ended.
        public var scriptsMayExit = false

        /// Whether the process may hold some more memory than it needs, to be quicker: from the first operation or program of a script on,
        /// the process's allocator is set for that. Of glibc's, each arena keeps up to 32 MiB that was freed, instead of giving it back at
        /// once. Of jemalloc, where the application is linked with it, the first thread's arena grows by huge pages of 2 MiB. Another
        /// allocator is left as it is. The main state, as long as what it uses grows, is collected when that has trebled, not
        /// doubled. For applications whose process is the script's, as the command's is.
        public var prefersSpeedToMemory = false

        /// The defaults.
        public init() {}
    }

    /// What was left when everything had run.
    public struct Ending: Sendable {
        /// Failures that no script and no host has read, oldest first.
        public let unreadFailures: [OperationFailure]
        /// Sentences about the operations that can never run.
        public let stuckOperations: [String]
        /// How many callbacks have raised an error; each was reported on stderr at once.
        public let callbackErrorCount: Int
        /// Whether a signal ended the waiting.
        public let wasInterrupted: Bool
    }

    /// The threads.
    public let engine: Engine
    private let core: RuntimeCore
    private var main: LuaState?

    /// Makes the main state. Workers make theirs when they run their first Lua function.
    ///
    /// - Throws: when memory ran out.
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

    /// Cancels everything, timers too, stops the workers and closes all states. A body that does not look at `isCancelled` is waited for,
    /// at most for `deadline`.
    ///
    /// Traps when a script of the main state runs, and has come here by a function of the host's, or waits: close it when that has returned.
    ///
    /// - Returns: what messages call the operations that would not end.
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
        // What has come meanwhile, or comes later, would keep its operation.
        _ = engine.mainInbox.drain()
        engine.mainInbox.close()
        return left
    }

    func state() throws(LuaError) -> LuaState {
        guard let main, !main.hasGone else { throw LuaError(message: "the runtime is closed") }
        main.checkThread()
        return main
    }

    // MARK: scripts

    /// Makes `function` a global function of every state. A value it throws is raised as an error in the script.
    ///
    /// It is called on the thread of the state that calls it, so several calls may run at once.
    public func register(_ name: String, _ function: @escaping @Sendable ([LuaValue]) throws -> [LuaValue]) throws(LuaError) {
        core.register(HostFunction(name: name, body: function))
        let state = try state()
        try asLuaError { () throws(Failure) in try core.prepare(state) }
    }

    /// Runs a script in the main state.
    ///
    /// - Parameters:
    ///   - source: the script's text.
    ///   - name: what errors call it: `@` and a file name, or `=` and any text.
    ///   - arguments: what `...` is in the script.
    /// - Returns: what the script returns.
    @discardableResult
    public func run(_ source: String, name: String = "=script", arguments: [LuaValue] = []) throws(LuaError) -> [LuaValue] {
        let state = try state()
        return try asLuaError { () throws(Failure) in
            try state.load(source, name: name)
            return try state.call(arguments)
        }
    }

    /// Runs a file in the main state; standard input when `file` is nil.
    @discardableResult
    public func run(file: String?, arguments: [LuaValue] = []) throws(LuaError) -> [LuaValue] {
        let state = try state()
        return try asLuaError { () throws(Failure) in
            try state.load(file: file)
            return try state.call(arguments)
        }
    }

    /// Runs a file, or standard input, as a command runs its script: with what is in the global `arg` when it has been loaded as arguments.
    public func run(script file: String?) throws(LuaError) {
        let state = try state()
        try asLuaError { () throws(Failure) in
            try state.load(file: file)
            try state.callWithGlobalArguments()
        }
    }

    /// Runs a line of an interactive session: prints the values of an expression, or runs statements.
    ///
    /// - Throws: an error whose `isIncomplete` is true when the text could go on.
    public func evaluate(_ source: String, name: String = "=stdin") throws(LuaError) {
        let state = try state()
        try asLuaError { () throws(Failure) in try state.evaluate(source, name: name) }
    }

    /// Makes the global `arg`: `arguments[script]` is at index 0, what is before it at negative ones.
    public func setArguments(_ arguments: [String], script: Int) throws(LuaError) {
        let state = try state()
        try asLuaError { () throws(Failure) in try state.setArguments(arguments, script: script) }
    }

    /// Calls `require(module)` and assigns the result to the global `global`.
    public func require(_ module: String, as global: String) throws(LuaError) {
        let state = try state()
        try asLuaError { () throws(Failure) in try state.require(module, as: global) }
    }

    /// The value of a global of the main state.
    public func global(_ name: String) throws(LuaError) -> LuaValue {
        try run("return (...) and _G[...]", name: "=global", arguments: [.string(name)]).first ?? .nil
    }

    /// Assigns a global of the main state; operations that read it take it along.
    public func setGlobal(_ name: String, to value: LuaValue) throws(LuaError) {
        try run("local name, value = ...; _G[name] = value", name: "=setGlobal", arguments: [.string(name), value])
    }

    // MARK: operations

    /// Waits until an operation has finished, delivering callbacks and running main-queue operations meanwhile.
    ///
    /// - Returns: what its body returned; nothing for an operation that was cancelled before it started.
    /// - Throws: its `OperationFailure`; a `LuaError` when nothing can end the wait any more, or Ctrl-C ended it.
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

    /// Runs what is left: operations, callbacks, main-queue operations, until nothing can happen any more.
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

    /// What an operation on a worker has called `os.exit` with. Nil: none has.
    public var requestedExitStatus: Int32? { core.requestedExitStatus }

    /// Failures that no script and no host has read, oldest first; they are not given again.
    public func takeUnreadFailures() -> [OperationFailure] { core.takeUnreadFailures() }

    /// From now on the first SIGINT of the process raises the error `interrupted!` in what the main state does, or ends its wait;
    /// another one ends the process. Once scripts have made an operation or started a program the same is true of SIGTERM. Call
    /// it again to be ready for the next. One runtime of a process at a time.
    public func catchInterrupts() throws(LuaError) { try state().catchInterrupts() }

    /// Puts both signals back to what they were.
    public func releaseInterrupts() { clua_release_interrupts() }

    /// The signal that came since `catchInterrupts`, if one did. Nil when the runtime has been closed; on its thread.
    public var lastInterrupt: Int32? {
        guard let signal = try? state().lastInterrupt, signal != 0 else { return nil }
        return signal
    }

    /// Warnings of scripts go to stderr from now on, as after `warn("@on")`: those of the main state, and of workers that have run no
    /// script yet.
    public func enableWarnings() throws(LuaError) {
        core.showsWarnings.store(true, ordering: .relaxed)
        try state().enableWarnings()
    }

    /// The release of Lua and its copyright, as `lua -v` shows them.
    public static var luaCopyright: String { unsafe String(cString: clua_copyright()) }

    /// Delivers the callbacks and runs the main-queue operations that are there now, without waiting.
    public func drain() throws(LuaError) { _ = try state().inbox.drain() }

    /// How many operations have been added to queues and have not finished.
    public var unfinishedOperationCount: Int { engine.unfinishedOperationCount }

    /// Cancels every operation.
    public func cancelAllOperations() { engine.cancelAllOperations() }

    /// Cancels every operation, and stops the bodies that do not look. See `LuaOperation.interrupt`.
    public func interruptAllOperations() {
        engine.cancelAllOperations()
        for case let operation as LuaOperation in engine.unfinishedOperations() + core.operationsStartedByHand { operation.interrupt() }
    }

    func asLuaError<T>(_ body: () throws(Failure) -> T) throws(LuaError) -> T {
        do throws(Failure) { return try body() } catch { throw LuaError(error) }
    }
}
