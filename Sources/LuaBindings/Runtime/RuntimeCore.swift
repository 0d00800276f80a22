import CIO
import CLua
import OpEngine
import OpPlatform
import Synchronization

/// The data that all states of a runtime share. Operations retain it, so it may outlive the runtime. The core does not own the engine's
/// threads.
// Safety: `mainState` is set once, before the first script runs, and cleared by `close`, inside the main state. All other fields are constant,
// locked or atomic.
@safe
final class RuntimeCore: @unchecked Sendable {
    let engine: Engine
    /// The functions and classes of the module `opscript`, for each state.
    // Safety: immutable, and never freed.
    let host: UnsafePointer<clua_host>
    let ignoresEnvironment: Bool
    let scriptsMayExit: Bool
    /// See `Runtime.Configuration.servesCluster`.
    let servesCluster: Bool
    let prefersSpeedToMemory: Bool
    /// The maximum number of bytes that each state may hold.
    let stateMemoryLimit: Int?
    /// The memory limit of operations that set none; 0 for no limit.
    let operationMemoryLimit: Int
    /// Seconds from one signal to the next when a program is ended, unless the script sets them.
    let programGrace: Double
    /// The destinations of output.
    let output: OutputSinks
    /// The bytes that the states may still write; nil for no limit.
    let outputLimit: OpaquePointer?
    let randomSeed: UInt64?
    let sandbox: Runtime.Sandbox
    /// The executable of worker processes; nil if bodies run in threads.
    let workerExecutable: Runtime.Isolation.Executable?
    let usage: Usage
    /// The memory that the host keeps for scripts; nil if nothing limits it.
    let ledger: Ledger?
    /// The store of finished work; nil for none.
    let store: WorkStore?
    /// Timers and child processes.
    let io = IOThread()
    /// Nil if programs share no places with GNU make.
    let jobserver: Jobserver?
    /// The programs that run.
    let programs: ProgramPlaces
    let channels = WeakList()
    /// The programs with pipes that hold the engine only while code waits for them.
    let programsWithPipes = WeakList()
    let clusters: ClusterConnections
    /// The calls into the main state that tasks await.
    let awaitedCalls = AwaitedCalls()
    private(set) unowned(unsafe) var mainState: LuaState!
    /// Nil unless another program has made the main state. Set once, like `mainState`.
    unowned(unsafe) var adoption: Adoption?
    /// Called when the script calls `os.exit` in the main state. Set once, on the thread inside.
    var scriptExits: ((Operation?) -> Void)?

    private let shared = Guarded(Shared())
    /// The version of `shared`. Changes under its lock.
    private let sharedVersion = Atomic<Int>(0)
    private let failures = Guarded(UnreadList<OperationFailure>())
    private let failedPrograms = Guarded(UnreadList<FailedProgram>(most: 1000))
    private let stateCount = Atomic<Int>(0)
    /// The open states. No state is closed while this is locked.
    let states = Guarded<[LuaState]>([])
    /// Operations whose parcels keep operations alive.
    private let keepers = WeakList()
    private let classes = Guarded<[ScriptClass]>([])
    let objectClasses = ObjectClasses()
    private let closing = Atomic<Bool>(false)
    private let hasWork = Atomic<Bool>(false)
    /// Whether new states show warnings.
    let showsWarnings = Atomic<Bool>(false)
    /// Asynchronous operations that scripts have started and that have not ended. No queue keeps these operations alive.
    private let startedByHand = Guarded<Set<LuaOperation>>([])

    /// The settings that each state must have before it runs a body.
    struct Shared {
        /// Its version; see `sharedVersion`.
        var version = 0
        /// The main state's `package.path`, `package.cpath` and `arg`.
        var paths: Parcel?
        /// The main state's `package.preload` and `package.searchers`; nil until the script changes them.
        var loaders: Parcel?
        /// In the order in which a state applies them.
        var settings: [Parcel] { [paths, loaders].compactMap { $0 } }
        var registrations: [any Registration] = []
        var preludes: [Prelude] = []
    }

    init(
        engine: Engine, host: UnsafePointer<clua_host>, _ configuration: Runtime.Configuration,
        workerExecutable: Runtime.Isolation.Executable? = nil
    ) {
        self.engine = engine
        unsafe self.host = host
        self.workerExecutable = workerExecutable
        ignoresEnvironment = configuration.ignoresEnvironment
        scriptsMayExit = configuration.scriptsMayExit
        servesCluster = configuration.servesCluster
        prefersSpeedToMemory = configuration.prefersSpeedToMemory
        stateMemoryLimit = configuration.stateMemoryLimit
        programGrace = configuration.programGrace
        output = OutputSinks(output: configuration.output, errorOutput: configuration.errorOutput)
        unsafe outputLimit = configuration.limits.outputBytes.map { unsafe RunBudget.allowance(of: $0) }
        randomSeed = configuration.randomSeed
        sandbox = configuration.sandbox
        usage = Usage(configuration.limits, stateMemoryLimit: configuration.stateMemoryLimit)
        ledger = configuration.limits.memory.map { Ledger(limit: $0) }
        let output = output
        store = configuration.store.map { settings in
            WorkStore(settings, moduleLoader: configuration.moduleLoader) { output.report("opscript: \($0)\n") }
        }
        clusters = ClusterConnections(configuration)
        operationMemoryLimit = configuration.limits.operationMemory ?? configuration.operationMemoryLimit ?? 0
        jobserver = configuration.jobserver
        programs = ProgramPlaces(engine, jobserver, output: output)
        jobserver?.begin(for: engine)
        engine.describePlaces { [weak programs] in programs?.purposeOfWait }
        engine.describeWaits { [channels, weak programs] operation in
            if let purpose = programs?.purposeOfWait(of: operation) { return purpose }
            let purposes = channels.all.compactMap { ($0 as? any WaitedObject)?.purposeOfWait(of: operation) }
            if !purposes.isEmpty { return purposes.joined(separator: " or ") }
            return (operation as? LuaOperation)?.ticket?.purposeOfWait
        }
    }

    deinit { unsafe clua_allowance_free(outputLimit) }

    // MARK: states

    /// The `clua_restriction` bits of new states.
    var restrictions: UInt32 { sandbox.restrictions | (ignoresEnvironment ? CLUA_NO_ENVIRONMENT.rawValue : 0) }

    func nextStateNumber() -> Int { stateCount.wrappingAdd(1, ordering: .relaxed).newValue }

    func adopt(mainState: LuaState) { unsafe self.mainState = mainState }

    /// Whether the runtime is closing. Asynchronous operations must end then.
    var isClosing: Bool { closing.load(ordering: .acquiring) }

    /// Marks the runtime as closing and cancels the operations that were started by hand.
    func beginClosing() {
        closing.store(true, ordering: .releasing)
        for operation in operationsStartedByHand { operation.cancel() }
    }

    /// Keeps an executing operation alive until it has finished.
    func keepStartedByHand(_ operation: LuaOperation) {
        startedByHand.withLock { _ = $0.insert(operation) }
        operation.whenFinished { [unowned operation] in
            let ended = operation.core.startedByHand.withLock { $0.remove(operation) }
            withExtendedLifetime(ended) {}
        }
        if isClosing { operation.cancel() }
    }

    /// Records that `operation` has a parcel that keeps operations alive. If those keep `operation` alive in turn, the cycle lasts until one of
    /// them runs, is cancelled or gets another value, or until `close`.
    func addKeeper(_ operation: LuaOperation) { keepers.add(operation) }

    /// The class with this identity, which another machine has sent. Makes one, unless it was sent before or belongs to this runtime.
    func scriptClass(_ identity: UInt64, name: String, isGroup: Bool) -> ScriptClass {
        classes.withLock { classes in
            if let known = classes.first(where: { $0.identity == identity }) { return known }
            let made = ScriptClass(name: name, home: 0, isGroup: isGroup, identity: identity)
            classes.append(made)
            return made
        }
    }

    /// Keeps a class alive as long as the runtime.
    func keep(_ scriptClass: ScriptClass) { classes.withLock { $0.append(scriptClass) } }

    var operationsStartedByHand: Set<LuaOperation> { startedByHand.withLock { $0 } }

    /// Closes the main state and breaks reference cycles.
    func close() {
        unsafe mainState?.close()
        unsafe mainState = nil
        for case let channel as any WaitedObject in channels.all { channel.abandon() }
        // Classes may refer to each other and to their operations.
        for case let keeper as LuaOperation in keepers.all { keeper.dropParcels() }
        for scriptClass in classes.withLock({ exchange(&$0, with: []) }) { scriptClass.latest = nil }
        // Host functions and operations that preludes capture may refer to the runtime, so release them outside of the lock.
        let (registrations, preludes, settings) = shared.withLock { shared in
            (
                exchange(&shared.registrations, with: []), exchange(&shared.preludes, with: []),
                [exchange(&shared.paths, with: nil), exchange(&shared.loaders, with: nil)]
            )
        }
        withExtendedLifetime((registrations, preludes, settings, objectClasses.removeAll())) {}
        store?.close()
        clusters.close()
    }

    /// Whether a body of `operation` runs or waits in a state now.
    func runs(_ operation: LuaOperation) -> Bool { states.withLock { states in states.contains { $0.runs(operation) } } }

    static var mainStateNumber: Int { 1 }

    func isMainQueue(_ queue: OperationQueue) -> Bool { queue.isMain && queue.engine === engine }

    func isMain(_ state: LuaState) -> Bool { unsafe state === mainState }

    /// Whether the calling thread is inside the main state.
    var isInMainState: Bool { engine.isMainThread }

    /// The state of the calling thread. Makes one for a worker that has none. Nil on a thread that is neither a worker nor inside the main
    /// state, and if memory has run out.
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

    /// Calls `body` inside the main state, for an operation that the host has started itself. Does nothing and returns false if another
    /// thread is inside, if the runtime is closed, or on a worker.
    func enterMainState(_ body: () -> Void) -> Bool {
        if let worker = Worker.current, worker.engine === engine { return false }
        guard engine.entrance.tryEnter("Operation.start()") else { return false }
        defer { engine.entrance.leave() }
        guard unsafe mainState != nil else { return false }
        body()
        return true
    }

    /// Like `stateOfCurrentThread`, but makes no state.
    var existingStateOfCurrentThread: LuaState? {
        if let state = LuaState.ofThread, state.core === self { return state }
        if isInMainState { return unsafe mainState }
        // The host may have made another runtime on this worker, so `ofThread` may belong to that runtime.
        guard let worker = Worker.current, worker.engine === engine else { return nil }
        return WorkerState.of(worker)?.state
    }

    /// Discards the state of this worker, because memory has run out in it. The worker makes a fresh state when it next needs one. Does
    /// nothing if `state` still expects a callback, or runs code now, such as a callback.
    func discard(_ state: LuaState) {
        guard let worker = Worker.current, !worker.keepsAlive, !state.isRunning,
            WorkerState.of(worker)?.state === state
        else { return }
        worker.context = nil
    }

    /// Gives a state the settings that the main state has published, and the host's registrations. Costs one atomic load if nothing has
    /// changed.
    func prepare(_ state: LuaState) throws(Failure) {
        guard sharedVersion.load(ordering: .acquiring) != state.appliedSharedVersion else { return }
        let published = published
        for registration in published.registrations.dropFirst(state.registrationCount) {
            try unsafe state.attempt { lua, failure in unsafe registration.register(in: lua, &failure) }
        }
        state.registrationCount = published.registrations.count
        if !isMain(state) {
            // Code that a body starts has the settings of the body.
            if state.isRunning { return }
            for setting in published.settings { try state.apply(setting) }
            state.preludes = published.preludes
        }
        state.appliedSharedVersion = published.version
    }

    /// The settings that each state must have, and their version.
    var published: Shared { shared.withLock { $0 } }
    var publishedVersion: Int { sharedVersion.load(ordering: .acquiring) }

    private func publish(_ change: (inout Shared) -> Void) {
        shared.withLock {
            change(&$0)
            $0.version += 1
            sharedVersion.store($0.version, ordering: .releasing)
        }
    }

    func publish(paths: Parcel) { publish { $0.paths = paths } }
    func publish(loaders: Parcel) { publish { $0.loaders = loaders } }

    func add(_ prelude: Prelude) { publish { $0.preludes.append(prelude) } }

    func register(_ registration: any Registration) {
        objectClasses.add(registration)
        publish { $0.registrations.append(registration) }
    }

    // MARK: reports

    /// Writes a message to stderr or to the host's sink, in one piece, unless scripts have used up their output.
    func report(_ text: String) {
        if unsafe clua_allowance_spend(outputLimit, text.utf8.count) { output.report("opscript: \(text)\n") }
    }

    /// The number of callbacks that have raised an error.
    let callbackErrorCount = Atomic<Int>(0)

    func reportCallbackError(_ text: String) {
        callbackErrorCount.wrappingAdd(1, ordering: .relaxed)
        report(text)
    }

    /// Whether the main state has a console.
    let hasConsole = Atomic<Bool>(false)
    /// The number of operations that have failed.
    let failedOperationCount = Atomic<Int>(0)

    func record(_ failure: OperationFailure) {
        failedOperationCount.wrappingAdd(1, ordering: .relaxed)
        failures.withLock { $0.append(failure) }
        // A prompt that waits for a key shows it.
        if hasConsole.load(ordering: .relaxed) { engine.mainInbox.post {} }
        let status = exitStatusAtFailure.load(ordering: .relaxed)
        if status >= 0, !isClosing { requestExit(status, because: .failure(failure)) }
    }

    func record(_ program: FailedProgram) { failedPrograms.withLock { $0.append(program) } }

    /// The unread failures, oldest first. Removes all failures.
    func takeUnreadFailures() -> [OperationFailure] { failures.withLock { $0.take() } }

    /// A sentence for each program that has failed and whose result no code has looked at, oldest first. Removes them.
    func takeFailedPrograms() -> [String] { failedPrograms.withLock { $0.take() }.map(\.sentence) }

    // MARK: exit

    private static let noExitRequest = Int64.max
    private let exitRequest = Atomic<Int64>(noExitRequest)
    private let cause = Guarded<Runtime.ExitCause?>(nil)
    /// The status with which the first failure of an operation ends the run; -1 if failures do not.
    let exitStatusAtFailure = Atomic<Int32>(-1)

    /// The reason why the run ends early; nil if it does not.
    var exitCause: Runtime.ExitCause? { cause.withLock { $0 } }

    /// The status of the first `requestExit`: of an `os.exit` on a worker, a deadline or a failure. Nil if there was none.
    var requestedExitStatus: Int32? {
        let status = exitRequest.load(ordering: .acquiring)
        return status == Self.noExitRequest ? nil : Int32(status)
    }

    /// Stops the main state's script and ends its waits. Only the first request counts. From any thread, while the main state is open.
    func requestExit(_ status: Int32, because reason: Runtime.ExitCause = .script) {
        let isFirst = cause.withLock { cause in
            if cause != nil { return false }
            cause = reason
            exitRequest.store(Int64(status), ordering: .releasing)
            // This precedes the cancellation of operations: the request must not stop their completion blocks. See `LuaState.wait`.
            // Safety: the workers and the thread of the timers end before the main state is closed.
            unsafe mainState?.requestEnd()
            return true
        }
        guard isFirst else { return }
        // The main state may be inside a call that does not return.
        clua_exit_later(status, UInt32(5 + min(2 * programGrace, 1e6)))
        engine.cancelAllOperations()
        // A host that waits in its own loop must notice.
        engine.mainInbox.post {}
    }

    /// Whether the runtime closes and the thread inside the main state must leave.
    let mainStateMustEnd = Atomic<Bool>(false)

    /// Stops the code that the main state runs, or its wait, unless Lua has freed it.
    func requestEndOfMainState() {
        if unsafe mainState.isLuaClosed { return }
        mainStateMustEnd.store(true, ordering: .releasing)
        unsafe mainState.requestEnd()
    }

    /// Whether callbacks may run or arrive: a worker, an operation, a timer or a program exists.
    var mayHaveCallbacks: Bool {
        engine.threadCount > 0 || engine.unfinishedOperationCount > 0 || io.isRunning
            || states.withLock { states in states.contains { unsafe $0 !== mainState } }
    }

    /// Stops all code that runs in the states, again and again until the runtime has stopped `io`.
    ///
    /// - Parameter requests: the number of earlier requests.
    func endCallbacks(requests: Int = 0) {
        requestEndOfMainState()
        // A process that computes for a second longer has not noticed.
        let isUrgent = Double(requests) * LuaOperation.repetition > 1
        states.withLock { states in
            for state in states where unsafe state !== mainState {
                state.requestEnd()
                state.link?.requestStopOfCallback(.interrupted, isUrgent: isUrgent)
            }
        }
        io.after(LuaOperation.repetition) { self.endCallbacks(requests: requests + 1) }
    }

    /// Withdraws a request that no code has noticed.
    func withdrawEndOfMainState() {
        if unsafe mainState.isLuaClosed { return }
        mainStateMustEnd.store(false, ordering: .releasing)
        unsafe mainState.withdrawRequest()
    }

    // MARK: interruption

    /// Notes that an operation or a program exists, so that SIGTERM must end the process in an orderly way.
    func expectWork() {
        guard !hasWork.load(ordering: .relaxed), !hasWork.exchange(true, ordering: .relaxed) else { return }
        clua_kill_programs_at_death(cio_kill_programs)
        clua_catch_terminate()
        if prefersSpeedToMemory { clua_prefer_speed_to_memory() }
    }

    /// Catches SIGTERM if an operation or a program has existed. Otherwise SIGTERM keeps its default effect.
    func catchTerminate() { if hasWork.load(ordering: .relaxed) { clua_catch_terminate() } }
}

/// The context of a worker. The worker's thread releases it at its end, which closes the state.
private final class WorkerState {
    let state: LuaState

    /// The `WorkerState` of `worker`, if it has one. Comparing the class costs less than a cast.
    static func of(_ worker: Worker) -> WorkerState? {
        guard let context = worker.context, type(of: context) == WorkerState.self else { return nil }
        // Safety: the guard has checked the class.
        return unsafe unsafeDowncast(context, to: WorkerState.self)
    }

    init(_ state: LuaState) { self.state = state }

    deinit { state.close() }
}
