import CLua
@_spi(Locking) import OpEngine
import Synchronization

/// What all states of a runtime share. Operations hold it, so it may outlive the runtime; it does not own the engine's threads.
///
// Safety: `mainState` is set once, before the first script runs, and cleared on the main thread; all else is locked or atomic.
final class RuntimeCore: @unchecked Sendable {
    let engine: Engine
    let ignoresEnvironment: Bool
    let scriptsMayExit: Bool
    let prefersSpeedToMemory: Bool
    /// Bytes that each state may hold.
    let stateMemoryLimit: Int?
    /// Timers and child processes.
    let io = IOThread()
    private let mainThread = ThreadIdentity.current
    private(set) unowned(unsafe) var mainState: LuaState!

    private let shared = Guarded(Shared())
    /// Changes with `shared`, under its lock.
    private let sharedVersion = Atomic<Int>(0)
    private let failures = Guarded(Failures())
    private let stateCount = Atomic<Int>(0)
    /// Those that have not been closed. None is while this is locked.
    let states = Guarded<[LuaState]>([])
    /// Operations whose parcels keep operations.
    private let keepers = Guarded(Keepers())
    private let classes = Guarded<[ScriptClass]>([])
    private let closing = Atomic<Bool>(false)
    private let hasWork = Atomic<Bool>(false)
    /// Whether states that are made from now on show warnings.
    let showsWarnings = Atomic<Bool>(false)
    /// Asynchronous operations that scripts have started and that have not ended: in no queue, which would keep them.
    private let startedByHand = Guarded<Set<LuaOperation>>([])

    /// What each state takes over before it runs a body.
    private struct Shared {
        /// `package.path` and `package.cpath` of the main state, and `arg`.
        var paths: Parcel?
        var functions: [HostFunction] = []
        var preludes: [Prelude] = []
    }

    private struct Keepers {
        var all: [WeakOperation] = []
        /// At this count those that have gone are dropped.
        var limit = 64
    }

    /// Failures that perhaps nobody has read.
    private struct Failures {
        var all: [OperationFailure] = []
        /// At this count those that were read are dropped.
        var limit = 64
    }

    init(engine: Engine, _ configuration: Runtime.Configuration) {
        self.engine = engine
        ignoresEnvironment = configuration.ignoresEnvironment
        scriptsMayExit = configuration.scriptsMayExit
        prefersSpeedToMemory = configuration.prefersSpeedToMemory
        stateMemoryLimit = configuration.stateMemoryLimit
    }

    // MARK: states

    func nextStateNumber() -> Int { stateCount.wrappingAdd(1, ordering: .relaxed).newValue }

    func adopt(mainState: LuaState) { unsafe self.mainState = mainState }

    /// Whether the runtime is being closed: what nobody will finish has to end.
    var isClosing: Bool { closing.load(ordering: .acquiring) }

    /// From here on nothing waits to be finished.
    func beginClosing() {
        closing.store(true, ordering: .releasing)
        for operation in operationsStartedByHand { operation.cancel() }
    }

    /// Keeps an operation that is executing until it has finished.
    func keepStartedByHand(_ operation: LuaOperation) {
        startedByHand.withLock { _ = $0.insert(operation) }
        operation.whenFinished { [unowned operation] in
            let ended = operation.core.startedByHand.withLock { $0.remove(operation) }
            withExtendedLifetime(ended) {}
        }
        if isClosing { operation.cancel() }
    }

    /// `operation` has a parcel that keeps operations. Should these keep it, too, nothing but the end of the runtime opens the circle.
    func note(keeper operation: LuaOperation) {
        keepers.withLock { keepers in
            if keepers.all.count >= keepers.limit {
                keepers.all.removeAll { $0.operation == nil }
                keepers.limit = 2 * keepers.all.count + 64
            }
            keepers.all.append(WeakOperation(operation))
        }
    }

    /// Keeps a class for as long as the runtime.
    func keep(_ scriptClass: ScriptClass) { classes.withLock { $0.append(scriptClass) } }

    var operationsStartedByHand: Set<LuaOperation> { startedByHand.withLock { $0 } }

    /// The main state goes.
    func close() {
        unsafe mainState?.close()
        unsafe mainState = nil
        // Classes may refer to each other, and to operations of theirs.
        for keeper in keepers.withLock({ exchange(&$0.all, with: []) }) { (keeper.operation as? LuaOperation)?.dropParcels() }
        for scriptClass in classes.withLock({ exchange(&$0, with: []) }) { scriptClass.latest = nil }
        // Functions of the host may refer to the runtime.
        let functions = shared.withLock { exchange(&$0.functions, with: []) }
        withExtendedLifetime(functions) {}
    }

    /// Whether a body of `operation` runs in a state now, or waits there.
    func runs(_ operation: LuaOperation) -> Bool { states.withLock { states in states.contains { $0.runs(operation) } } }

    static var mainStateNumber: Int { 1 }

    func isMainQueue(_ queue: OperationQueue) -> Bool { queue.isMain && queue.engine === engine }

    func isMain(_ state: LuaState) -> Bool { unsafe state === mainState }

    var isMainThread: Bool { mainThread == .current }

    /// The state that belongs to this thread; nil on a thread that is neither a worker nor the main thread.
    func stateOfCurrentThread() -> LuaState? {
        if let state = existingStateOfCurrentThread { return state }
        if let worker = Worker.current, worker.engine === engine {
            if let owner = WorkerState.of(worker) { return owner.state }
            guard let state = LuaState(core: self, inbox: worker.inbox) else { return nil }
            worker.context = WorkerState(state)
            return state
        }
        return nil
    }

    /// The same; nil also on a worker that has none yet.
    var existingStateOfCurrentThread: LuaState? {
        if let state = LuaState.ofThread, state.core === self { return state }
        if mainThread == .current { return unsafe mainState }
        // The host has made another runtime on this worker.
        guard let worker = Worker.current, worker.engine === engine else { return nil }
        return WorkerState.of(worker)?.state
    }

    /// Memory ran out in the state of this worker: what runs here next gets a fresh one, unless something has still to be called in this
    /// one, or it runs something now, a callback for one.
    func renew(_ state: LuaState) {
        guard let worker = Worker.current, !worker.keepsAlive, !state.isRunning,
            WorkerState.of(worker)?.state === state
        else { return }
        worker.context = nil
    }

    /// Brings a state up to date with what the main state has published and the host has registered.
    func prepare(_ state: LuaState) throws(Failure) {
        guard sharedVersion.load(ordering: .acquiring) != state.appliedSharedVersion else { return }
        let (version, paths, functions, preludes) = shared.withLock {
            (sharedVersion.load(ordering: .relaxed), $0.paths, $0.functions, $0.preludes)
        }
        try state.register(functions.dropFirst(state.registeredFunctionCount), from: state.registeredFunctionCount)
        state.registeredFunctionCount = functions.count
        if let paths, !isMain(state) { try state.apply(paths: paths) }
        if !isMain(state) { state.preludes = preludes }
        state.appliedSharedVersion = version
    }

    func publish(paths: Parcel) {
        shared.withLock {
            $0.paths = paths
            sharedVersion.wrappingAdd(1, ordering: .releasing)
        }
    }

    func add(_ prelude: Prelude) {
        shared.withLock {
            $0.preludes.append(prelude)
            sharedVersion.wrappingAdd(1, ordering: .releasing)
        }
    }

    func register(_ function: HostFunction) {
        shared.withLock {
            $0.functions.append(function)
            sharedVersion.wrappingAdd(1, ordering: .releasing)
        }
    }

    /// Nil when the runtime was closed.
    func hostFunction(_ index: Int) -> HostFunction? {
        shared.withLock { $0.functions.indices.contains(index) ? $0.functions[index] : nil }
    }

    // MARK: reports

    /// Says on stderr what nobody else will hear of, in one piece.
    func report(_ text: String) { StandardError.write("opscript: \(text)\n") }

    /// Callbacks that have raised an error.
    let callbackErrorCount = Atomic<Int>(0)

    func reportCallbackError(_ text: String) {
        callbackErrorCount.wrappingAdd(1, ordering: .relaxed)
        report(text)
    }

    func record(_ failure: OperationFailure) {
        failures.withLock { failures in
            if failures.all.count >= failures.limit {
                failures.all.removeAll(where: \.isRead)
                failures.limit = 2 * failures.all.count + 64
            }
            failures.all.append(failure)
        }
    }

    /// Failures whose error nobody has read, oldest first.
    func takeUnreadFailures() -> [OperationFailure] {
        failures.withLock { failures in
            defer { failures = Failures() }
            return failures.all.filter { !$0.isRead }
        }
    }

    // MARK: exit

    private static let noExitRequest = Int64.max
    private let exitRequest = Atomic<Int64>(noExitRequest)

    /// What `os.exit` was called with on a worker, the first time.
    var requestedExitStatus: Int32? {
        let status = exitRequest.load(ordering: .acquiring)
        return status == Self.noExitRequest ? nil : Int32(status)
    }

    /// From a worker: the main state's script stops, and its waits end.
    func requestExit(_ status: Int32) {
        let expected = Self.noExitRequest
        guard exitRequest.compareExchange(expected: expected, desired: Int64(status), ordering: .acquiringAndReleasing).exchanged else {
            return
        }
        // The main state may be inside of something that does not return.
        clua_exit_later(status, 5)
        engine.cancelAllOperations()
        // Safety: workers have ended before the main state goes.
        unsafe mainState?.requestEnd()
    }

    // MARK: interruption

    /// There is something now that is to end in order when the process is asked to end: an operation or a program.
    func expectWork() {
        guard !hasWork.load(ordering: .relaxed), !hasWork.exchange(true, ordering: .relaxed) else { return }
        clua_catch_terminate()
        if prefersSpeedToMemory { clua_prefer_speed_to_memory() }
    }

    /// Without anything that is to end in order, SIGTERM does what it does to every process.
    func catchTerminate() { if hasWork.load(ordering: .relaxed) { clua_catch_terminate() } }
}

/// What a worker owns: it goes with the worker's thread, on that thread, and closes the state.
private final class WorkerState {
    let state: LuaState

    /// What `worker` has. Looking at the class itself costs less than a cast.
    static func of(_ worker: Worker) -> WorkerState? {
        guard let context = worker.context, type(of: context) == WorkerState.self else { return nil }
        // Safety: its class was looked at.
        return unsafe unsafeDowncast(context, to: WorkerState.self)
    }

    init(_ state: LuaState) { self.state = state }

    deinit { state.close() }
}
