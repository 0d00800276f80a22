import CLua
import Glibc
public import OpEngine
import Synchronization

/// Runs Lua scripts whose operations use all processors.
///
/// The main state, which runs the scripts, belongs to no thread. A call *enters* it, is the only call inside, and leaves. Work that waits for
/// the main state, such as callbacks and operations of the main queue, runs while a call inside waits, or in `drain`. Each worker has a Lua
/// state of its own. After `close`, every throwing method throws an error.
///
/// ```swift
/// let runtime = try Runtime()
/// let operation = try runtime.run("return opscript.OperationQueue.new():addOperation(function() return 6 * 7 end)")[0].operation!
/// print(try runtime.results(of: operation))  // [.integer(42)]
/// runtime.close()
/// ```
///
/// - Concurrency: use a runtime in one actor, in one serial queue, or on threads that take turns. A call that enters while another thread
///   is inside ends the process with a message. A thread that is inside may call again, as a host function does. Async methods wait for
///   their turn. All throwing methods, `enter` and `lastInterrupt` enter. Every thread may use the others, and operations and queues, at
///   any time. The runtime's own operations cannot enter it.
public final class Runtime: Sendable {
    /// The settings of a runtime.
    public struct Configuration: Sendable {
        /// The maximum number of operations that run at once; nil for the number of processors that this process may use.
        public var workerCount: Int?
        /// The time that a worker's thread sleeps without work before it ends and closes its Lua state. A worker whose state still expects
        /// a callback does not end.
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

        /// Seconds that a program has to end after a signal, before the next signal is sent: after SIGTERM SIGKILL, and SIGINT before both if Ctrl-C
        /// ends the run. A script can set another time for a program.
        public var programGrace = 2.0

        /// The libraries that scripts may use.
        public var sandbox = Sandbox()
        /// The most that scripts may use.
        public var limits = Limits()
        /// The store of finished work, for operations with `memoize`, `inputs` or `outputs`; nil for none: such operations are then errors.
        /// Scripts cannot choose it.
        public var store: Store?
        /// The cluster that queues may use; nil for none. See `Cluster.isDefault` and `ClusterExecutor`.
        public var cluster: Cluster?
        /// Whether scripts may name the server of another cluster. The key and the credentials are those of `cluster`.
        public var scriptsMayChooseClusters = false
        /// The place where the bodies of operations run. The main state always runs in this process.
        public var isolation = Isolation.threads

        /// Whether scripts may end the process with `os.exit`. If false, `os.exit` raises an error in the script.
        ///
        /// If true, a call in the main state ends the process at once. A call on a worker stops the main state's script and cancels all
        /// operations; `requestedExitStatus` is then the status with which the host should end. A host that has not ended after 5 seconds
        /// is ended.
        public var scriptsMayExit = false
        /// Whether the operations are those of a cluster: the script runs in another process.
        var servesCluster = false

        /// Shares places with GNU make; nil for none. A jobserver belongs to one runtime.
        package var jobserver: Jobserver?

        /// Whether the process may use more memory than necessary in order to be faster. For applications that exist to run one script,
        /// like the command.
        ///
        /// The first operation or program of a script changes the settings of the process's allocator. With glibc, each arena keeps up to
        /// 32 MiB of freed memory instead of returning it at once. With jemalloc, if the application is linked with it, the first thread's
        /// arena grows by huge pages of 2 MiB. Other allocators stay unchanged. While the main state's memory grows, its garbage collector
        /// waits until the memory has trebled, not doubled.
        public var prefersSpeedToMemory = false

        /// Receives the bytes that scripts write to stdout, with `print`, `io.write` and `io.stdout`; nil for the process's stdout. Each
        /// call has the bytes of one call of the script. The thread of the writing state calls this function, so several calls may run at
        /// once. Programs that scripts start keep the process's stdout.
        public var output: (@Sendable ([UInt8]) -> Void)?
        /// Takes the text for stderr: the scripts' own, warnings, and the runtime's reports of callbacks that failed. Otherwise
        /// like `output`.
        public var errorOutput: (@Sendable ([UInt8]) -> Void)?

        /// The templates by which `require` finds modules, such as `/usr/share/app/?.lua`, in place of those of the environment and of Lua;
        /// nil to keep those.
        public var modulePaths: [String]?
        /// The same for modules in C; `[]` for none.
        public var cModulePaths: [String]?
        /// Returns the source of a module, or nil if there is no such module. `require` asks it before it looks for files, once for each
        /// module in each state, on that state's thread; several calls may run at once. Its error is the error of `require`.
        ///
        /// The function must return the same source each time, because functions of a module are sent to other states by name.
        public var moduleLoader: (@Sendable (_ module: String) throws -> String?)?
        /// A script that runs in each state before anything else, such as one that defines globals. See `Runtime.addPrelude`.
        public var prelude: String?
        /// The seed of `math.random` in each state, for runs that can be repeated; nil for a random one. Each state has a sequence of its
        /// own. Other differences between two runs: with several workers, which of them runs an operation; the order in which `pairs`
        /// visits a table.
        public var randomSeed: UInt64?
        /// Is told about each operation that is added, starts or finishes, from the beginning. See `OperationObserver`.
        public var observer: (any OperationObserver)?

        /// Makes the default configuration.
        public init() {}
    }

    /// The work that was left when everything had run. See `Runtime.finish`.
    public struct Ending: Sendable {
        /// The failures that no script and no host has read, oldest first.
        public let unreadFailures: [OperationFailure]
        /// One sentence for each operation that can never run or finish.
        public let stuckOperations: [String]
        /// One sentence for each program of scripts that has failed, if no code has read its status or has set `onExit`.
        public let failedPrograms: [String]
        /// The number of callbacks that raised an error. Each error was reported on stderr when it occurred.
        public let callbackErrorCount: Int
        /// Whether the wait ended early: because of a signal, a request to exit, `close`, or the cancellation of its task or group.
        public let wasInterrupted: Bool
    }

    /// The engine, with the threads that run the operations.
    public let engine: Engine
    let core: RuntimeCore
    /// Nil when the runtime has been closed.
    // Safety: changes only on the thread that is inside.
    @safe private(set) nonisolated(unsafe) var main: LuaState?
    private let isClosing = Atomic<Bool>(false)

    /// Makes the engine and the main state.
    ///
    /// - Parameters:
    ///   - host: the module `opscript`.
    ///   - makeState: makes the state; nil if memory has run out.
    init(
        _ configuration: Configuration, host: UnsafePointer<clua_host>, makeState: (RuntimeCore) -> LuaState?
    ) throws(LuaError) {
        try WorkerProcess.refuseToBeHost()
        let workerExecutable = try configuration.isolation.resolve()
        engine = Engine(
            workerCount: configuration.workerCount, hostMayAddOperations: configuration.hostMayAddOperations,
            idleTime: configuration.idleTime)
        core = unsafe RuntimeCore(engine: engine, host: host, configuration, workerExecutable: workerExecutable)
        guard let state = makeState(core) else { throw LuaError(message: "not enough memory for a Lua state") }
        core.adopt(mainState: state)
        main = state
        core.awaitedCalls.open(for: state)
        engine.entrance.open(for: state)
    }

    // Without a main state, the initializer has failed, or the runtime was closed.
    deinit { if main != nil { close() } }

    /// Cancels all operations and timers, stops the workers and closes all states. Stops the calls that tasks await; those tasks catch an error.
    /// Waits at most for `deadline` in all. First waits for the thread that is inside, and stops its script after half of that time. Then waits
    /// for bodies that do not check `isCancelled`, stops these after half of the time that is left, and callbacks that still run after three
    /// quarters of it.
    ///
    /// From any thread that is not inside, except the threads of the runtime's own operations: otherwise the process ends with a message.
    /// Further calls do nothing, also while the first one is under way.
    ///
    /// - Returns: the names of the operations that did not end, as messages show them. If a thread is still inside after `deadline`, the
    ///   runtime is not closed, and the result names the call; another `close` tries again.
    @discardableResult
    public func close(deadline: Duration = .seconds(60)) -> [String] {
        if engine.entrance.isInside {
            fatalError("opscript: a call closes the Runtime that it is inside: close it when the call has returned")
        }
        if Worker.current?.engine === engine { fatalError("opscript: an operation closes the Runtime that runs it: the host must do that") }
        guard beginClosing() else { return [] }
        let end = ContinuousClock.now + deadline
        let hasEntered = enterToClose(half: end - deadline / 2, until: end)
        // A request that no code has noticed would stop the next code: another call, or callbacks that this call delivers.
        core.withdrawEndOfMainState()
        guard hasEntered else {
            if let main { core.awaitedCalls.open(for: main) }
            isClosing.store(false, ordering: .releasing)
            return ["a call of \(engine.entrance.nameOfCall)"]
        }
        defer { engine.entrance.leave() }
        let left = stopWorkers(until: end)
        forgetMainState()
        return left
    }

    /// Returns false if the runtime is closed already.
    func beginClosing() -> Bool {
        guard !isClosing.exchange(true, ordering: .acquiringAndReleasing) else { return false }
        core.awaitedCalls.close()
        return true
    }

    /// Cancels everything and stops the workers. Returns the names of the operations that did not end.
    func stopWorkers(until end: ContinuousClock.Instant) -> [String] {
        if main?.lastInterrupt == SIGINT { core.io.interrupt() }
        core.io.end()
        core.beginClosing()
        let duration = ContinuousClock.now.duration(to: end)
        // Callbacks belong to no operation that could be stopped. A runtime without callbacks does not start the I/O thread just to end it.
        if core.mayHaveCallbacks { core.io.after(0.75 * (duration / .seconds(1))) { [core] in core.endCallbacks() } }
        let left = engine.shutdown(deadline: duration) { ($0 as? LuaOperation)?.interrupt() }.map(\.displayName)
        // The callbacks of programs, if the script has set any, are among those that are drained.
        core.io.awaitPrograms()
        _ = engine.mainInbox.drain()
        // `io` stops last, because until then it stops a drained callback after its time limit.
        core.io.stop()
        core.withdrawEndOfMainState()
        return left
    }

    /// Closes the main state, unless another program has done so, and everything that refers to it.
    func forgetMainState() {
        core.close()
        main = nil
        engine.entrance.vacate()
        // Jobs that have arrived meanwhile, or arrive later, would keep their operations alive.
        _ = engine.mainInbox.drain()
        engine.mainInbox.close()
        engine.mainInbox.closeAnnouncements()
    }

    /// Whether the runtime is closed, or is being closed. From any thread.
    public var isClosed: Bool { isClosing.load(ordering: .acquiring) }

    /// Enters when no other thread is inside. Stops the script that is inside if that takes longer than to `half`.
    private func enterToClose(half: ContinuousClock.Instant, until end: ContinuousClock.Instant) -> Bool {
        if engine.entrance.enterWhenFree("close(deadline:)", until: half) { return true }
        repeat {
            // Each request stops the innermost call, and Lua may overlook one.
            core.requestEndOfMainState()
            if engine.entrance.enterWhenFree("close(deadline:)", until: min(end, .now + .milliseconds(50))) { return true }
        } while ContinuousClock.now < end
        return false
    }

    // MARK: entering

    /// Whether the calling thread is inside.
    public var isInside: Bool { engine.entrance.isInside }

    /// Enters the runtime for several calls, between which no other thread can enter.
    ///
    /// ```swift
    /// try runtime.enter {
    ///     try runtime.setGlobal("limit", to: 3)
    ///     try runtime.run(file: "limited.lua")
    /// }
    /// ```
    ///
    /// Ends the process with a message if another thread is inside. The calls in `body` only count how often the thread has entered. Each
    /// of them by itself would attach the thread to the Lua state and detach it. In an async function, where `run` means the async method,
    /// `body` can call the method that blocks.
    ///
    /// - Parameter body: makes the calls.
    /// - Returns: what `body` returns.
    public func enter<Result, Cause: Error>(_ body: () throws(Cause) -> Result) throws(Cause) -> Result {
        engine.entrance.enter("enter(_:)")
        defer { engine.entrance.leave() }
        return try body()
    }

    /// Like `enter`, but returns nil if another thread is inside, instead of ending the process. An operation of the runtime must not call
    /// it.
    ///
    /// - Parameters:
    ///   - name: the name of the call in messages, while it is inside.
    ///   - body: makes the calls.
    /// - Returns: what `body` returns; nil if another thread is inside.
    /// - Throws: what `body` throws.
    public func tryEnter<Result, Cause: Error>(
        _ name: StaticString = "tryEnter(_:_:)", _ body: () throws(Cause) -> Result
    ) throws(Cause) -> Result? {
        guard engine.entrance.tryEnter(name) else { return nil }
        defer { engine.entrance.leave() }
        return try body()
    }

    /// Enters the main state, calls `body` with it, and leaves.
    ///
    /// - Parameter name: the method that enters, as messages name it.
    func inside<Result>(
        _ name: StaticString = #function, _ body: (LuaState) throws(Failure) -> Result
    ) throws(LuaError) -> Result {
        engine.entrance.enter(name)
        defer { engine.entrance.leave() }
        guard let main, !main.isLuaClosed else { throw LuaError.closed }
        do throws(Failure) { return try body(main) } catch {
            let values = try? error.value.flatMap { value throws(Failure) in try main.values(of: value) }
            throw LuaError(error, value: values?.first)
        }
    }

    /// Enters the main state and calls `body`, which may run code of scripts, within the limits for a run.
    ///
    /// - Parameter name: the method that enters, as messages name it.
    func insideRun<Result>(
        _ name: StaticString = #function, _ body: (LuaState) throws(Failure) -> Result
    ) throws(LuaError) -> Result {
        try inside(name) { state throws(Failure) in
            try state.limited(by: state.budget) { () throws(Failure) in try body(state) }
        }
    }

    // MARK: scripts

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
        try insideRun { state throws(Failure) in
            try state.load(source, name: name)
            return try state.call(arguments)
        }
    }

    /// Runs a file in the main state, or standard input if `file` is nil.
    @discardableResult
    public func run(file: String?, arguments: [LuaValue] = []) throws(LuaError) -> [LuaValue] {
        try insideRun { state throws(Failure) in
            try state.load(file: file)
            return try state.call(arguments)
        }
    }

    /// Runs a file, or standard input if `file` is nil, like the `lua` command: the arguments are the elements that the global `arg` has
    /// when the script has been loaded.
    public func run(script file: String?) throws(LuaError) {
        try insideRun { state throws(Failure) in
            try state.load(file: file)
            try state.callWithGlobalArguments()
        }
    }

    /// Runs a line of an interactive session: prints the values of an expression, or runs statements.
    ///
    /// - Throws: an error whose `isIncomplete` is true if more text could complete the line.
    public func runLine(_ source: String, name: String = "=stdin") throws(LuaError) {
        try runLine(source, name: name, isPlain: false)
    }

    /// The same, but `isPlain` prints values as `print` does, although a console is open.
    package func runLine(_ source: String, name: String = "=stdin", isPlain: Bool) throws(LuaError) {
        try insideRun { state throws(Failure) in try state.runLine(source, name: name, isPlain: isPlain) }
    }

    /// Sets the global `arg`: `arguments[script]` gets the index 0, and the elements before it get negative indices.
    public func setArguments(_ arguments: [String], script: Int) throws(LuaError) {
        try inside { state throws(Failure) in try state.setArguments(arguments, script: script) }
    }

    /// Calls `require(module)` and assigns the result to the global named `global`.
    public func require(_ module: String, as global: String) throws(LuaError) {
        try insideRun { state throws(Failure) in try state.require(module, as: global) }
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
        try enter {
            try inside { state throws(Failure) in try state.wait(for: operation) }
            if operation.outcome == .failed, let failure = (operation as? LuaOperation)?.failure ?? operation.error { throw failure }
            guard let results = (operation as? LuaOperation)?.results else { return [] }
            return try inside { state throws(Failure) in
                var values: [LuaValue] = []
                for parcel in results { values += try state.values(of: parcel) }
                return values
            }
        }
    }

    /// Runs the remaining operations, callbacks and main-queue operations until nothing can happen any more, or until the wait ends early. See
    /// `Ending.wasInterrupted`. Closes the pipes of programs that still run then, because no script will read or write them, and waits for the
    /// programs.
    public func finish() throws(LuaError) -> Ending {
        try inside { state in
            var wasInterrupted = false
            do throws(CallError) {
                repeat { _ = try state.wait(deadline: nil, until: { false }) } while core.leavePrograms()
            } catch { wasInterrupted = true }
            // A group that was never added is not awaited, and neither are its members.
            let inQueues = wasInterrupted ? [] : engine.unfinishedOperations().filter { !$0.isInGroupInNoQueue }
            let stuck = wasInterrupted ? [] : inQueues + core.operationsStartedByHand
            return Ending(
                unreadFailures: core.takeUnreadFailures(),
                stuckOperations: stuck.map {
                    "\($0.displayName) can never \($0.isExecuting ? "finish" : "run"): it \(Stall.reason(for: $0))"
                },
                failedPrograms: core.takeFailedPrograms(),
                callbackErrorCount: core.callbackErrorCount.load(ordering: .relaxed),
                wasInterrupted: wasInterrupted)
        }
    }

    /// The status that an operation on a worker has passed to `os.exit`, or the host to `requestExit` or `requestExitAtFirstFailure`; nil if
    /// nothing has ended the run.
    public var requestedExitStatus: Int32? { core.requestedExitStatus }

    /// The failures that no script and no host has read, oldest first. Each is returned only once.
    public func takeUnreadFailures() -> [OperationFailure] { core.takeUnreadFailures() }

    /// A sentence for each failed program whose status no code has read; see `Ending.failedPrograms`. Each is returned only once.
    public func takeFailedPrograms() -> [String] { core.takeFailedPrograms() }

    /// Makes the next SIGINT of the process raise the error `interrupted!` in the code of the main state, or end its wait. Another SIGINT
    /// ends the process. The same holds for SIGTERM as soon as scripts have made an operation or started a program, and then for SIGHUP if
    /// it would end the process. SIGQUIT ends the process at once. A signal that ends the process kills the programs first.
    ///
    /// Call this again to be ready for the next signal. Only one runtime of a process at a time may catch signals.
    public func catchInterrupts() throws(LuaError) { try inside { $0.catchInterrupts() } }

    /// Restores the previous handling of these signals.
    public func releaseInterrupts() { clua_release_interrupts() }

    /// The signal that has arrived since `catchInterrupts`; nil if none has, or if the runtime is closed.
    public var lastInterrupt: Int32? {
        let signal = try? inside { state in state.lastInterrupt }
        return signal == 0 ? nil : signal
    }

    /// Sends scripts' warnings to stderr, as after `warn("@on")`. Applies to the main state, and to workers' states that are made later.
    public func enableWarnings() throws(LuaError) {
        core.showsWarnings.store(true, ordering: .relaxed)
        try inside { $0.enableWarnings() }
    }

    /// The release of Lua and its copyright notice, as `lua -v` shows them.
    public static var luaCopyright: String { unsafe String(cString: clua_copyright()) }

    /// The number of operations that have been added to queues and have not finished.
    public var unfinishedOperationCount: Int { engine.unfinishedOperationCount }

    /// The number of operations so far that ask no store.
    package var plainOperationCount: Int {
        monitor.counts().added - (core.store?.plannedCount.load(ordering: .relaxed) ?? 0)
    }

    /// The number of operations that were cancelled so far because a dependency did not succeed.
    package var droppedOperationCount: Int { engine.droppedCount }

    /// Cancels the operations in all queues of this runtime, except barriers. O(n).
    public func cancelAllOperations() { engine.cancelAllOperations() }

    /// Cancels every operation and stops the bodies that do not check `isCancelled`. See `LuaOperation.interrupt`.
    public func interruptAllOperations() {
        for operation in unfinishedLuaOperations where operation.memberQueue == nil { operation.recordStop(.interrupted) }
        engine.cancelAllOperations()
        for operation in unfinishedLuaOperations { operation.interrupt() }
    }

    private var unfinishedLuaOperations: [LuaOperation] {
        (engine.unfinishedOperations() + core.operationsStartedByHand).compactMap { $0 as? LuaOperation }
    }
}
