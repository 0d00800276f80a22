import CLua
import OpEngine
import OpPlatform
import Synchronization

/// A Lua state and the Swift data that belongs to it.
///
/// One thread at a time uses a state. The main state belongs to the thread that is inside the runtime (`Entrance`). Each other state
/// belongs to the worker that made it. Debug builds check this.
// Safety: `@unchecked Sendable` so that a callback can hold the state in which it will run. Only the state's thread uses the fields that
// are not atomic or locked; `checkThread` traps on any other thread in debug builds.
@safe
final class LuaState: @unchecked Sendable {
    // The fields that the state's thread changes with every call come first, next to the reference count, which that thread also changes.
    // The fields that other threads read come last, several cache lines further on.

    /// The operation whose body runs in this state now. The caller that runs the body keeps the operation alive.
    @safe @exclusivity(unchecked) private(set) unowned(unsafe) var currentOperation: Operation?
    /// The coroutine that made the last call to the host. The host's calls into Lua use it.
    @exclusivity(unchecked) private(set) var running: OpaquePointer
    /// The number of calls into Lua that have not returned.
    @safe @exclusivity(unchecked) private var attemptCount = 0
    var isRunning: Bool { attemptCount > 0 }
    /// The number of pins of handles. Each pin is for code outside of the state that may call a function in the handle.
    @safe @exclusivity(unchecked) private var pinCount = 0
    /// The number of completion blocks that this state has begun to run.
    @safe @exclusivity(unchecked) var ranCompletionCount = 0
    /// Whether Lua can no longer be used. Host objects that are released later may still try to use it.
    @safe @exclusivity(unchecked) private(set) var isLuaClosed = false
    /// Whether a script in this state has ever observed an operation or a queue.
    var hasObserved = false
    var isSealing = false
    /// The last read of a failed operation's missing result, for the report of the reader's own failure.
    var missingResult: MissingResult?
    /// The last error of a host function, until a failure of Lua shows whether that was the cause.
    var thrownByHost: (message: String, error: any Error)?
    var watchesCollections = false
    /// The innermost run that limits apply to.
    var currentRun: LimitedRun?
    /// The version of the runtime's shared data (`RuntimeCore.Shared`) that this state has taken over.
    @safe @exclusivity(unchecked) var appliedSharedVersion = 0
    /// The number of the host's registrations that this state has.
    var registrationCount = 0
    /// The functions to run, in this order, before any operation. Empty in the main state.
    @safe @exclusivity(unchecked) var preludes: [Prelude] = []
    @safe @exclusivity(unchecked) var ranPreludeCount = 0
    @safe @exclusivity(unchecked) var isRunningPrelude = false
    /// The origins of operations made here, indexed by kind.
    @safe @exclusivity(unchecked) private var origins = [LuaOperation.Origin?](repeating: nil, count: LuaOperation.Kind.allCases.count)

    /// The group of the code that runs here now. The caller that runs the code keeps the group alive.
    @safe @exclusivity(unchecked) private(set) var group: Unmanaged<Runtime.Group>?

    // Fields that seldom change.

    /// The sources that will call functions of this state.
    private var eventSources: [ObjectIdentifier: any EventSource] = [:]
    /// The observations that may still receive changes.
    private(set) var awaitedObservations: [ObjectIdentifier: Observation] = [:]
    /// The scripts' own field names on operations that were checked for misspellings. At most a few hundred.
    var acceptedNames: Set<String> = []
    /// The operations that were sent by reference and are not sealed yet.
    var unsealed: [LuaOperation] = []
    /// The operations that left by reference while they were in no queue. Their handles are pinned; nothing else in this state keeps them.
    @safe @exclusivity(unchecked) var sealed: Set<UnsafeMutableRawPointer> = unsafe []
    /// The call that runs now and can be stopped, if there is one. Nil while it waits. The caller keeps it alive.
    @safe @exclusivity(unchecked) unowned(unsafe) var stoppableCall: StoppableCall?
    /// The limit of the `drain` that runs now; nil for none.
    @safe @exclusivity(unchecked) var drainLimit: DrainLimit?
    /// See `currentPlace`.
    @safe @exclusivity(unchecked) var places = Places()
    let main: OpaquePointer

    /// The process in which bodies run instead of here; nil if they run here.
    let link: ProcessLink?

    // Fields that other threads read.

    /// The thread that uses the state now; 0 if none does.
    let thread = Atomic<UInt>(0)
    let core: RuntimeCore
    /// Receives callbacks for this state.
    let inbox: Inbox
    let due = DueOperations()
    /// Distinguishes the states of one runtime, including those that are closed.
    let number: Int
    /// Atomic, because operations may refer to the state after it was closed.
    private let closed = Atomic<Bool>(false)
    var isClosed: Bool { closed.load(ordering: .acquiring) }

    init?(core: RuntimeCore, inbox: Inbox) {
        self.core = core
        self.inbox = inbox
        number = core.nextStateNumber()
        let executable = number == RuntimeCore.mainStateNumber ? nil : core.workerExecutable
        link = executable.map { ProcessLink(executable: $0, core: core) }
        // Values that a stand-in decodes must not load native code.
        let restrictions = core.restrictions | (link != nil ? CLUA_NO_C_MODULES.rawValue : 0)
        // Safety: the state uses the object only when it runs a script, and the object is set below.
        guard let lua = unsafe clua_state_new(nil, core.host, restrictions) else {
            closed.store(true, ordering: .relaxed)
            return nil
        }
        unsafe main = lua
        unsafe running = lua
        unsafe clua_state_of(lua).pointee.object = Unmanaged.passUnretained(self).toOpaque()
        if link != nil { unsafe clua_stand_in(lua) }
        if core.workerExecutable != nil { unsafe clua_share_nothing(lua) }
        attachThread()
        if let limit = core.stateMemoryLimit { unsafe clua_limit_state(lua, limit) }
        obeyLimits()
        if number != RuntimeCore.mainStateNumber { unsafe clua_separate_globals(lua) }
        if core.prefersSpeedToMemory && number == RuntimeCore.mainStateNumber { unsafe clua_collect_seldom(lua) }
        unsafe clua_state_of(lua).pointee.redirects_output = core.output.redirect
        unsafe clua_state_of(lua).pointee.relays_commands = core.servesCluster
        if let seed = core.randomSeed { unsafe clua_seed_random(lua, seed, UInt64(number)) }
        if core.showsWarnings.load(ordering: .relaxed) { enableWarnings() }
        core.states.withLock { $0.append(self) }
    }

    /// Makes the state of `lua` this state, and pushes the module there. If that fails, pushes a message and returns nil.
    init?(core: RuntimeCore, inbox: Inbox, adopting lua: OpaquePointer, _ adoption: Adoption) {
        self.core = core
        self.inbox = inbox
        number = core.nextStateNumber()
        link = nil
        unsafe main = clua_main_thread(lua)
        unsafe running = main
        // C calls back only when scripts run.
        let object = unsafe Unmanaged.passUnretained(self).toOpaque()
        guard unsafe clua_state_adopt(lua, object, core.host, adoption.functions()) == LUA_OK else {
            // Memory has run out halfway, so some functions of the state may be ours by now.
            _ = unsafe Unmanaged.passRetained(self)
            closed.store(true, ordering: .relaxed)
            return nil
        }
        attachThread()
        core.states.withLock { $0.append(self) }
    }

    /// Runs the state's finalizers and frees the state. Callbacks that are posted later are dropped.
    func close() {
        guard beginClosing() else { return }
        link?.close()
        let record = unsafe clua_state_of(main)
        unsafe clua_lua_close(main)  // finalizers of scripts may call the host
        unsafe finishClosing(record)
    }

    /// Does the part of `close` that precedes closing the Lua state. When Lua is gone, `finishClosing` does the rest.
    func leaveToOthers() { if beginClosing() { unsafe clua_state_leave(main) } }

    /// Returns false if the state is closed already.
    private func beginClosing() -> Bool {
        checkThread()
        guard !closed.exchange(true, ordering: .acquiringAndReleasing) else { return false }
        pinCount = 0
        due.close()
        for source in eventSources.values { source.abandon() }
        eventSources = [:]
        awaitedObservations = [:]
        keepThread()
        core.states.withLock { states in states.removeAll { $0 === self } }
        return true
    }

    func luaIsGone() { isLuaClosed = true }

    /// Frees the data of the Lua state, which is gone.
    func finishClosing(_ record: UnsafeMutablePointer<clua_state>?) {
        luaIsGone()
        unsafe clua_state_free(record)
        // The origins retain this state.
        for index in origins.indices { origins[index] = nil }
    }

    /// Keeps the worker's thread alive while other code may call a function of this state.
    private func keepThread() { if !isOfHost { Worker.current?.keepsAlive = pinCount > 0 } }

    /// Counts a pin.
    @inline(__always)
    func hasPinned() {
        pinCount += 1
        if pinCount == 1 { keepThread() }
    }

    /// Counts the end of a pin.
    @inline(__always)
    func hasUnpinned() {
        pinCount -= 1
        assert(pinCount >= 0, "opscript bug: a handle was unpinned that was not pinned")
        if pinCount == 0 { keepThread() }
    }

    deinit { assert(isClosed, "opscript bug: a Lua state was dropped without being closed") }

    /// The state of a call from Lua.
    static func of(_ lua: OpaquePointer) -> LuaState { unsafe with(lua) { $0 } }

    /// Like `of`, but without retaining the state, for hot paths.
    @inline(__always)
    static func with<Result>(_ lua: OpaquePointer, _ body: (LuaState) -> Result) -> Result {
        // Safety: the object is set before the first script runs and outlives the state.
        unsafe Unmanaged<LuaState>.fromOpaque(clua_state_of(lua).pointee.object)._withUnsafeGuaranteedRef { state in
            state.checkThread()
            return body(state)
        }
    }

    /// The memory that the state holds now, in bytes.
    var usedBytes: Int { unsafe Int(clua_state_of(main).pointee.used_bytes) }

    // MARK: running

    /// Runs `body` for `lua`, the coroutine of this state that has called the host.
    @inline(__always)
    func whileRunning<Result>(_ lua: OpaquePointer, _ body: () -> Result) -> Result {
        announceFetched()
        let previous = unsafe running
        unsafe running = lua
        defer { unsafe running = previous }
        return body()
    }

    /// The queue of code that runs outside of any operation.
    var queueOutsideOperations: OperationQueue? { core.isMain(self) ? core.engine.mainQueue : nil }

    /// Calls `body` with the running coroutine and throws its failure.
    func attempt(_ body: (OpaquePointer, inout clua_failure) -> Int32) throws(Failure) {
        checkThread()
        guard !isLuaClosed else { throw Failure(message: "the Lua state is closed") }
        attemptCount += 1
        defer { attemptCount -= 1 }
        var failure = unsafe clua_failure()
        if unsafe body(running, &failure) != LUA_OK {
            var thrown = unsafe Failure(taking: &failure)
            explain(&thrown)
            throw thrown
        }
    }

    /// Adds facts about a failure of this state that C does not know.
    private func explain(_ failure: inout Failure) {
        if let thrown = exchange(&thrownByHost, with: nil) {
            // The error of an operation is raised again without a place.
            let isSame = thrown.error is OperationFailure ? failure.message == thrown.message : failure.message.hasSuffix(thrown.message)
            if isSame { failure.underlyingError = thrown.error }
        }
        failure.isInterrupt = failure.message.hasSuffix("interrupted!") && lastInterrupt != 0
    }

    /// Runs a body of `operation` here. Only the first result of a block counts, and no result of an asynchronous operation.
    ///
    /// - Parameter parcel: nil if the body is in the handle here.
    func runBody(
        of operation: LuaOperation, _ parcel: UnsafePointer<clua_parcel>?, _ arguments: [LuaValue], number: Int32
    ) throws(Failure) -> ReturnedValues {
        let limit = number > 0 ? 1 : operation.isAsynchronous ? 0 : LUA_MULTRET
        return try unsafe runCode(
            of: operation, operation.cBody(number: number), parcel, arguments.isEmpty ? nil : FlatValues(arguments), limit: limit)
    }

    /// Calls a function that decides about `operation`. Its argument is `failure`, or the operation if that is nil.
    func call(_ function: Parcel, for operation: LuaOperation, about failure: OperationFailure?) throws(Failure) -> [LuaValue] {
        var body = unsafe operation.cBody(number: 0)
        unsafe (body.is_invocation, body.method, body.omits_operation) = (false, nil, failure != nil)
        let arguments = failure.map { FlatValues($0, .error) }
        let returned = try unsafe runCode(of: operation, body, function.pointer, arguments, limit: LUA_MULTRET)
        withExtendedLifetime(function) {}
        return try values(of: returned.parcel)
    }

    /// Runs code of `operation` here, or in the worker process.
    @inline(__always)
    private func runCode(
        of operation: LuaOperation, _ body: clua_body, _ parcel: UnsafePointer<clua_parcel>?, _ arguments: FlatValues?, limit: Int32
    ) throws(Failure) -> ReturnedValues {
        try core.prepare(self)
        // The start of the process does not count towards the operation's time.
        if let link { try link.start(for: self) }
        var results = unsafe clua_parcel()
        // An operation that the call has started by hand has taken the request to stop the call.
        defer { if let stoppableCall, stoppableCall.isStopped { requestStop(of: stoppableCall) } }
        // This is first: from now on, a request to stop the operation finds its body running here.
        try suspended(by: operation) { () throws(Failure) in
            let memoryLimit = try operation.willRunBody()
            try runPreludes()
            currentOperation = operation
            let outer = unsafe switchGroup(to: operation.origin.group)
            defer { unsafe switchGroup(to: outer) }
            try limited(operation) { () throws(Failure) in
                if let link {
                    try unsafe link.run(operation, body, parcel, arguments, limit: limit, memoryLimit: memoryLimit, in: self, &results)
                } else if let arguments {
                    try unsafe attemptToEnd { lua, failure in
                        unsafe arguments.withItems { items in
                            var body = unsafe body
                            unsafe (body.arguments, body.argument_count) = (items.baseAddress, arguments.count)
                            return unsafe clua_run_body(lua, body, parcel, limit, memoryLimit, &results, &failure)
                        }
                    }
                } else {
                    try unsafe attemptToEnd { lua, failure in
                        unsafe clua_run_body(lua, body, parcel, limit, memoryLimit, &results, &failure)
                    }
                }
            }
        }
        return unsafe ReturnedValues(taking: &results)
    }

    /// Runs `body` as code of `operation`, or of no operation if that is nil. The code around it is suspended meanwhile.
    @inline(__always)
    func suspended<Result, Cause: Error>(
        by operation: LuaOperation?, _ body: () throws(Cause) -> Result
    ) throws(Cause) -> Result {
        // Unmanaged, because a strong reference would be retained.
        let previous = unsafe currentOperation.map { unsafe Unmanaged.passUnretained($0) }
        currentOperation = nil
        defer { currentOperation = unsafe previous?.takeUnretainedValue() }
        return try unsafe stoppable(as: operation.map { unsafe UnsafeRawPointer(Unmanaged.passUnretained($0).toOpaque()) }, body)
    }

    /// Runs `body` so that requests to stop `identity` reach it. A pending request to stop the code around it waits until `body` has returned.
    @inline(__always)
    func stoppable<Result, Cause: Error>(
        as identity: UnsafeRawPointer?, _ body: () throws(Cause) -> Result
    ) throws(Cause) -> Result {
        let lua = unsafe running
        var frame = unsafe clua_suspended_body()
        return try unsafe withUnsafeMutablePointer(to: &frame) { frame throws(Cause) in
            unsafe clua_begin_body(lua, identity, frame)
            defer { if unsafe clua_end_body(lua, frame) { core.engine.endReplacingWorker() } }
            return try body()
        }
    }

    /// The state that was attached last to the calling thread and still is; nil if no state is.
    static var ofThread: LuaState? { unsafe unmanagedOfThread?.takeUnretainedValue() }

    static var unmanagedOfThread: Unmanaged<LuaState>? {
        // Safety: a state is detached from its thread before it is freed.
        guard let object = unsafe clua_thread_object() else { return nil }
        return unsafe Unmanaged<LuaState>.fromOpaque(object)
    }

    /// Runs `job` on the state's thread. Drops the job if the state was closed. From any thread.
    func post(_ job: @escaping @Sendable () -> Void) { if !isClosed { inbox.post(job) } }

    /// Calls the callback in the handle of `object` with the object. Removes the callback from the handle unless `isKept` is true.
    ///
    /// - Parameters:
    ///   - group: the group of the callback.
    ///   - argument: another argument; nil for none.
    ///   - budget: the budget of the callback's run.
    func runCallback(
        of object: AnyObject, for group: Runtime.Group?, keeping isKept: Bool = false, argument: UnsafePointer<clua_item>? = nil,
        by budget: RunBudget?, named name: @autoclosure () -> String
    ) {
        // Lua cannot run the callback any more.
        if isLuaClosed { return }
        let callback = unsafe clua_callback(object: Unmanaged.passUnretained(object).toOpaque(), is_kept: isKept, argument: argument)
        do throws(Failure) {
            try within(group, by: budget) { () throws(Failure) in
                try unsafe attemptToEnd { lua, failure in unsafe clua_run_callback(lua, callback, &failure) }
            }
        } catch { report(error, in: name(), of: group) }
    }

    /// Reports that a callback has failed. A callback that stopped because of `os.exit`, or because its group was cancelled, has not failed. A
    /// callback that Ctrl-C stopped has not failed either, because Ctrl-C also ends the wait that called it.
    func report(_ failure: Failure, in name: String, of group: Runtime.Group?) {
        if failure.stop != nil, group?.isCancelled ?? false { return }
        if failure.stop != nil, core.requestedExitStatus != nil { return }
        if lastInterrupt != 0, failure.message.hasSuffix("interrupted!") { return }
        core.reportCallbackError("error in \(name): \(failure.report)")
    }

    /// Expects `source` to call the function in its handle. The handle stays pinned until `forget`.
    func expect(_ source: some EventSource, _ kind: ObjectKind) throws(Failure) {
        try pin(source, kind)
        eventSources[ObjectIdentifier(source)] = source
    }

    /// Undoes `expect`: `source` makes no more calls.
    func forget(_ source: some EventSource) {
        guard !isClosed else { return }
        if eventSources.removeValue(forKey: ObjectIdentifier(source)) != nil { unpin(source) }
    }

    /// Runs callbacks, and in the main state main-queue operations, until `predicate` holds, and then those that have arrived already. Ends
    /// early if the waiting operation is stopped or, if `endsWhenCancelled`, cancelled.
    ///
    /// - Parameter inPlace: whether the operation keeps its place among the running ones, because it waits for its program.
    /// - Parameter runsCallbacks: whether callbacks run, or wait.
    /// - Throws: an error if the waiting operation was stopped, if the script is to exit, or if Ctrl-C was pressed.
    func wait(
        deadline: ContinuousClock.Instant?, endsWhenCancelled: Bool = true, inPlace: Bool = false, runsCallbacks: Bool = true,
        until predicate: () -> Bool
    ) throws(CallError) -> Inbox.Outcome {
        let waiting = currentOperation as? LuaOperation
        let isMain = core.isMain(self)
        let catchesInterrupts = unsafe isMain && core.adoption != nil && beginWaitingOfInterpreter()
        defer { if catchesInterrupts { clua_release_interrupts() } }
        // Neither the call nor the limit concerns code that runs meanwhile.
        let (call, limit) = (stoppableCall, drainLimit)
        (stoppableCall, drainLimit) = (nil, nil)
        defer { (stoppableCall, drainLimit) = (call, limit) }
        let run = waiting == nil ? currentRun : nil
        // An interrupt that stopped a callback also ends the wait.
        let wasRaised = interruptWasRaised
        // Jobs that run meanwhile are not part of the waiting operation.
        let outcome = suspended(by: nil) {
            let outcome = inbox.run(
                inPlace: inPlace, runsJobs: runsCallbacks,
                until: {
                    if run?.stopReason != nil { return true }
                    if takeInterrupt(unless: wasRaised) || isMain && core.requestedExitStatus != nil || predicate() { return true }
                    if isMain, core.mainStateMustEnd.load(ordering: .acquiring) { return true }
                    if let call, call.isStopped { return true }
                    guard let waiting else { return false }
                    return waiting.isCancelled && endsWhenCancelled || waiting.stopReason != nil
                }, deadline: deadline)
            // The wait ends below, so the request must not stop a completion block. Reading the cause waits until the request was made.
            if isMain, core.requestedExitStatus != nil, core.exitCause != nil { unsafe clua_withdraw_request(running) }
            // Callbacks that have arrived are delivered even if `predicate` held at once.
            if runsCallbacks { _ = inbox.drain() }
            return outcome
        }
        if let reason = waiting?.stopReason ?? run?.stopReason { throw .stop(reason) }
        if let call, call.isStopped { throw .stop(.interrupted) }
        if isMain, let adoption = unsafe core.adoption { adoption.exitIfRequested() }
        if isMain, core.requestedExitStatus != nil || core.mainStateMustEnd.load(ordering: .acquiring) { throw .stop(.interrupted) }
        if takeInterrupt(unless: wasRaised) { throw Self.interrupted }
        return outcome
    }

    func isAwaiting(_ observation: Observation, _ isAwaiting: Bool) {
        awaitedObservations[ObjectIdentifier(observation)] = isAwaiting ? observation : nil
    }

    /// Whether operations that this state adds to `queue` run in this state, without copying their functions.
    @inline(__always)
    func runsHere(in queue: OperationQueue) -> Bool {
        // Safety: the state keeps the core alive. Unmanaged, because a strong reference would be retained.
        unsafe Unmanaged.passUnretained(core)._withUnsafeGuaranteedRef {
            isOfHost && $0.isMainQueue(queue)
        }
    }

    /// Makes code that runs here from now on belong to `group`. Returns the former group.
    @inline(__always)
    @discardableResult
    func switchGroup(to group: Unmanaged<Runtime.Group>?) -> Unmanaged<Runtime.Group>? {
        let outer = self.group
        if unsafe outer?.toOpaque() == group?.toOpaque() { return unsafe outer }
        unsafe self.group = group
        // The origins have the former group.
        for index in origins.indices { origins[index] = nil }
        return unsafe outer
    }

    /// The origin of operations that this state makes of the given kind and script class.
    func origin(of kind: LuaOperation.Kind, _ scriptClass: ScriptClass?) -> LuaOperation.Origin {
        if scriptClass == nil, let known = origins[kind.rawValue] { return known }
        let group = unsafe group?.takeUnretainedValue()
        let made = LuaOperation.Origin(core: core, home: self, kind: kind, scriptClass: scriptClass, group: group)
        if scriptClass != nil { return made }
        origins[kind.rawValue] = made
        return made
    }
}
