import CLua
@_spi(Locking) import OpEngine
import Synchronization

/// One Lua state and what belongs to it.
///
/// A state is used by one thread at a time: the main state by the thread that made the runtime, each other one by the worker
/// that made it. Debug builds check.
// Safety: `@unchecked Sendable` so that a callback can name the state in which it is to run; `checkThread` traps where another
// thread uses it.
@safe
final class LuaState: @unchecked Sendable {
    // What its thread changes with each call comes first, beside the count of references, which that thread changes, too; what other threads
    // read comes last, some lines of memory behind.

    /// The operation whose body runs in this state now. Kept alive by whoever runs it.
    @safe @exclusivity(unchecked) private(set) unowned(unsafe) var currentOperation: Operation?
    /// The coroutine that called the host last: what the host does next happens there.
    @exclusivity(unchecked) private(set) var running: OpaquePointer
    /// How many calls into Lua have not returned.
    @safe @exclusivity(unchecked) private var attemptCount = 0
    var isRunning: Bool { attemptCount > 0 }
    /// How many operations are in queues, or were started, whose completion blocks this state has set and not run yet.
    @safe @exclusivity(unchecked) private var awaitedCompletionCount = 0
    /// How many completion blocks it has begun to run.
    @safe @exclusivity(unchecked) var ranCompletionCount = 0
    /// Lua cannot be used any more. What is released then, objects of the host, may try to.
    @safe @exclusivity(unchecked) private(set) var hasGone = false
    /// Whether anything was ever observed here.
    var hasObserved = false
    private var isSealing = false
    private var watchesCollections = false
    /// How much of what the runtime shares with all states has been put into this one.
    @safe @exclusivity(unchecked) var appliedSharedVersion = 0
    var registeredFunctionCount = 0
    /// What has to run once before operations do, in this order; none in the main state.
    @safe @exclusivity(unchecked) var preludes: [Prelude] = []
    @safe @exclusivity(unchecked) var ranPreludeCount = 0
    @safe @exclusivity(unchecked) var isRunningPrelude = false
    /// Of the operations that are made here, by their kind.
    @safe @exclusivity(unchecked) private var origins = [LuaOperation.Origin?](repeating: nil, count: LuaOperation.Kind.allCases.count)

    // What seldom changes.

    /// What will call functions of this state.
    private var eventSources: [ObjectIdentifier: any EventSource] = [:] { didSet { keepThread() } }
    /// Observations that something may still come for.
    private(set) var awaitedObservations: [ObjectIdentifier: Observation] = [:] { didSet { keepThread() } }
    /// Names of scripts' own on operations that are not misspelt; at most some hundred.
    var acceptedNames: Set<String> = []
    /// Operations that were sent by reference and still have to be made to run elsewhere.
    private var unsealed: [LuaOperation] = []
    /// Operations that have left by reference and were in no queue then: their handles are pinned, and nothing else here holds them.
    @safe @exclusivity(unchecked) private var sealed: Set<UnsafeMutableRawPointer> = unsafe [] { didSet { keepThread() } }
    private let owner = ThreadIdentity.current
    private let main: OpaquePointer

    // What other threads read.

    let core: RuntimeCore
    /// Where callbacks for this state are put.
    let inbox: Inbox
    let due = DueOperations()
    /// Tells states of one runtime apart, also after one has gone.
    let number: Int
    /// Operations may name the state after it has gone.
    private let closed = Atomic<Bool>(false)
    var isClosed: Bool { closed.load(ordering: .acquiring) }

    init?(core: RuntimeCore, inbox: Inbox) {
        self.core = core
        self.inbox = inbox
        number = core.nextStateNumber()
        // Safety: the state does not use the object before it runs a script; the real one is set below.
        guard let lua = unsafe clua_state_new(nil, ScriptModule.host, core.ignoresEnvironment) else {
            closed.store(true, ordering: .relaxed)
            return nil
        }
        unsafe main = lua
        unsafe running = lua
        unsafe clua_state_of(lua).pointee.object = Unmanaged.passUnretained(self).toOpaque()
        unsafe clua_attach_thread(lua)
        if let limit = core.stateMemoryLimit { unsafe clua_limit_state(lua, limit) }
        if number != RuntimeCore.mainStateNumber { unsafe clua_separate_globals(lua) }
        if core.prefersSpeedToMemory && number == RuntimeCore.mainStateNumber { unsafe clua_collect_seldom(lua) }
        if core.showsWarnings.load(ordering: .relaxed) { enableWarnings() }
        core.states.withLock { $0.append(self) }
    }

    /// Runs the state's finalizers and frees it. Callbacks that come later are dropped.
    func close() {
        checkThread()
        guard !closed.exchange(true, ordering: .acquiringAndReleasing) else { return }
        awaitedCompletionCount = 0
        due.close()
        for source in eventSources.values { source.abandon() }
        eventSources = [:]
        awaitedObservations = [:]
        core.states.withLock { states in states.removeAll { $0 === self } }
        let record = unsafe clua_state_of(main)
        unsafe clua_lua_close(main)  // finalizers of scripts may call the host
        hasGone = true
        unsafe clua_state_free(record)
        // They keep this state.
        for index in origins.indices { origins[index] = nil }
    }

    /// The thread of a worker's state stays while there is something to call back.
    private func keepThread() {
        Worker.current?.keepsAlive =
            unsafe awaitedCompletionCount > 0 || !eventSources.isEmpty || !awaitedObservations.isEmpty || !sealed.isEmpty
    }

    deinit { assert(isClosed, "opscript bug: a Lua state was dropped without being closed") }

    /// The state that a call from Lua came from.
    static func of(_ lua: OpaquePointer) -> LuaState { unsafe with(lua) { $0 } }

    /// The same for a path where a reference of one's own would cost.
    @inline(__always)
    static func with<Result>(_ lua: OpaquePointer, _ body: (LuaState) -> Result) -> Result {
        // Safety: the object is set before the first script runs and outlives the state.
        unsafe Unmanaged<LuaState>.fromOpaque(clua_state_of(lua).pointee.object)._withUnsafeGuaranteedRef { state in
            state.checkThread()
            return body(state)
        }
    }

    /// Whether the calling thread is the state's.
    var isOnItsThread: Bool { owner == .current }

    /// The same, and it is open. One that is closed may seem to belong to a thread that came after its own.
    var isOpenHere: Bool { !isClosed && isOnItsThread }

    func checkThread() {
        assert(isOnItsThread, "opscript bug: a Lua state is used by a thread that does not own it")
    }

    /// Memory held by the state now, in bytes.
    var usedBytes: Int { unsafe Int(clua_state_of(main).pointee.used_bytes) }

    // MARK: running

    /// Answers a call from Lua: what `body` returns or throws is pushed or raised after this function has returned.
    static func answer(
        _ lua: OpaquePointer?, _ member: Int32, _ reply: UnsafeMutablePointer<clua_reply>?,
        _ body: (_ member: Int32, Call) throws(CallError) -> Answer
    ) {
        guard let lua = unsafe lua, let reply = unsafe reply else { return }
        unsafe with(lua) { state in
            unsafe state.whileRunning(lua) {
                do throws(CallError) { unsafe try body(member, Call(lua: lua, state: state)).write(to: reply) } catch {
                    unsafe error.write(to: reply)
                }
            }
        }
    }

    /// `lua`, a coroutine of this state, has called the host, which does `body`.
    @inline(__always)
    func whileRunning<Result>(_ lua: OpaquePointer, _ body: () -> Result) -> Result {
        // What it does may wait for those that are due: a job goes on with them.
        if due.hasFetched { announceDue() }
        let previous = unsafe running
        unsafe running = lua
        defer { unsafe running = previous }
        return body()
    }

    /// The queue that code outside of every operation belongs to.
    var queueOutsideOperations: OperationQueue? { core.isMain(self) ? core.engine.mainQueue : nil }

    /// Does `body` with the Lua thread that is running; turns its failure into an error.
    func attempt(_ body: (OpaquePointer, inout clua_failure) -> Int32) throws(Failure) {
        checkThread()
        guard !hasGone else { throw Failure(message: "the Lua state is closed") }
        attemptCount += 1
        defer { attemptCount -= 1 }
        var failure = unsafe clua_failure()
        if unsafe body(running, &failure) != LUA_OK { throw unsafe Failure(taking: &failure) }
    }

    /// Runs a body of `operation` here. Of a block only the first result counts, and none of an asynchronous operation.
    ///
    /// - Parameter parcel: nil: the body is in the handle here.
    func run(
        _ operation: LuaOperation, _ parcel: UnsafePointer<clua_parcel>?, _ arguments: [LuaValue], number: Int32
    ) throws(Failure) -> ReturnedValues {
        try core.prepare(self)
        var results = unsafe clua_parcel()
        // First of all: whoever asks it to stop from now on finds it here.
        try suspended(by: operation) { () throws(Failure) in
            let memoryLimit = try operation.begin()
            try runPreludes()
            currentOperation = operation
            let limit = number > 0 ? 1 : operation.isAsynchronous ? 0 : LUA_MULTRET
            let body = unsafe operation.cBody(number: number)
            if arguments.isEmpty {
                try unsafe attempt { lua, failure in
                    unsafe clua_run_body(lua, body, parcel, limit, memoryLimit, &results, &failure)
                }
            } else {
                try unsafe attempt { lua, failure in
                    unsafe FlatValues(arguments).withItems { items in
                        var body = unsafe body
                        unsafe (body.arguments, body.argument_count) = (items.baseAddress, arguments.count)
                        return unsafe clua_run_body(lua, body, parcel, limit, memoryLimit, &results, &failure)
                    }
                }
            }
        }
        return unsafe ReturnedValues(taking: &results)
    }

    /// Does `body` while `operation`, if it is not nil, is what runs here, and what ran before does not.
    @inline(__always)
    private func suspended<Result, Cause: Error>(
        by operation: LuaOperation?, _ body: () throws(Cause) -> Result
    ) throws(Cause) -> Result {
        let lua = unsafe running
        // Not a reference: that would be retained.
        let previous = unsafe currentOperation.map { unsafe Unmanaged.passUnretained($0) }
        currentOperation = nil
        var frame = unsafe clua_suspended_body()
        return try unsafe withUnsafeMutablePointer(to: &frame) { frame throws(Cause) in
            unsafe clua_begin_body(lua, operation.map { unsafe Unmanaged.passUnretained($0).toOpaque() }, frame)
            defer {
                if unsafe clua_end_body(lua, frame) { core.engine.endReplacingWorker() }
                currentOperation = unsafe previous?.takeUnretainedValue()
            }
            return try body()
        }
    }

    /// The state that the calling thread has used last; nil when it has none, or that was closed.
    static var ofThread: LuaState? { unsafe unmanagedOfThread?.takeUnretainedValue() }

    static var unmanagedOfThread: Unmanaged<LuaState>? {
        // Safety: a state is attached to its thread until it is closed.
        guard let object = unsafe clua_thread_object() else { return nil }
        return unsafe Unmanaged<LuaState>.fromOpaque(object)
    }

    /// Has `job` run on the state's thread; drops it where the state has been closed. From any thread.
    func post(_ job: @escaping @Sendable () -> Void) { if !isClosed { inbox.post(job) } }

    /// Calls the function in the handle of `object` that is there for what happens to it, and takes it out unless it is to be kept.
    /// It gets the object.
    func runCallback(of object: AnyObject, keeping isKept: Bool = false, named name: @autoclosure () -> String) {
        unsafe runCallback(of: object, keeping: isKept, argument: nil, named: name())
    }

    /// The same; it gets `argument` where there is one.
    func runCallback(
        of object: AnyObject, keeping isKept: Bool = false, argument: UnsafePointer<clua_item>?, named name: @autoclosure () -> String
    ) {
        let callback = unsafe clua_callback(object: Unmanaged.passUnretained(object).toOpaque(), is_kept: isKept, argument: argument)
        do throws(Failure) {
            try unsafe attempt { lua, failure in unsafe clua_run_callback(lua, callback, &failure) }
        } catch { report(error, in: name()) }
    }

    /// Says on stderr that a callback has failed. One that Ctrl-C has stopped has not: the wait that called it ends. Nor has one that
    /// has called `os.exit`.
    func report(_ failure: Failure, in name: String) {
        if failure.stop != nil, core.requestedExitStatus != nil { return }
        if lastInterrupt != 0, failure.message.hasSuffix("interrupted!") { return }
        core.reportCallbackError("error in \(name): \(failure.report)")
    }

    /// `source` will call the function in its handle, which stays, until `forget`.
    func expect(_ source: some EventSource, _ kind: ObjectKind) throws(Failure) {
        try pin(source, kind)
        eventSources[ObjectIdentifier(source)] = source
    }

    /// `source` calls no more.
    func forget(_ source: some EventSource) {
        guard !isClosed else { return }
        if eventSources.removeValue(forKey: ObjectIdentifier(source)) != nil { unpin(source) }
    }

    /// Runs callbacks, and main-queue operations in the main state, until `predicate` holds, and what is there then. Ends early when
    /// the operation that waits is cancelled, or, where it is not to end by that, stopped.
    ///
    /// - Throws: when that operation is stopped, or Ctrl-C was pressed.
    func wait(
        deadline: ContinuousClock.Instant?, endsWhenCancelled: Bool = true, until predicate: () -> Bool
    ) throws(CallError) -> Inbox.Outcome {
        let waiting = currentOperation as? LuaOperation
        let isMain = core.isMain(self)
        // Also what a callback was stopped by ends the wait.
        let wasRaised = interruptWasRaised
        // What runs meanwhile is not part of the operation that waits.
        let outcome = suspended(by: nil) {
            let outcome = inbox.run(
                until: {
                    if takeInterrupt(unless: wasRaised) || isMain && core.requestedExitStatus != nil || predicate() { return true }
                    guard let waiting, waiting.isCancelled else { return false }
                    return endsWhenCancelled || waiting.stopReason != nil
                }, deadline: deadline)
            // What has arrived is delivered even where there is nothing to wait for.
            _ = inbox.drain()
            return outcome
        }
        if let reason = waiting?.stopReason { throw .stop(reason) }
        if isMain, core.requestedExitStatus != nil { throw .stop(.interrupted) }
        if takeInterrupt(unless: wasRaised) { throw Self.interrupted }
        return outcome
    }

    func isAwaiting(_ observation: Observation, _ isAwaiting: Bool) {
        awaitedObservations[ObjectIdentifier(observation)] = isAwaiting ? observation : nil
    }

    func awaitCompletion() {
        awaitedCompletionCount += 1
        if awaitedCompletionCount == 1 { keepThread() }
    }

    func stopAwaitingCompletion() {
        guard !isClosed else { return }
        awaitedCompletionCount -= 1
        if awaitedCompletionCount == 0 { keepThread() }
    }

    /// Whether a body of `operation` runs here, or waits. From any thread; the caller keeps the state from being closed, here and below.
    func runs(_ operation: LuaOperation) -> Bool { unsafe clua_has_body(main, Unmanaged.passUnretained(operation).toOpaque()) }

    /// Stops `operation` if its body is running here now, and wakes it if it waits.
    func requestStop(of operation: LuaOperation, _ reason: StopReason) {
        unsafe clua_request_stop(main, Unmanaged.passUnretained(operation).toOpaque(), clua_stop_reason(rawValue: UInt32(reason.rawValue)))
        inbox.wake()
    }

    /// Whether `operation` was asked to stop and has not noticed: it is inside one call of a C function. Then its worker's work is done by
    /// another one, from the caller on, until it returns.
    func giveUp(_ operation: LuaOperation) -> Bool { unsafe clua_give_up_body(main, Unmanaged.passUnretained(operation).toOpaque()) }

    /// Stops whatever is running here.
    func requestEnd() {
        unsafe clua_request_end(main)
        inbox.wake()
    }

    /// Whether what this state adds to `queue` runs here, as it is.
    @inline(__always)
    func runsHere(in queue: OperationQueue) -> Bool {
        // Safety: the state keeps it. Not a reference: that would be retained.
        unsafe Unmanaged.passUnretained(core)._withUnsafeGuaranteedRef {
            number == RuntimeCore.mainStateNumber && $0.isMainQueue(queue)
        }
    }

    /// What an operation of this kind, and of a class of the script's if it is of one, begins with.
    func origin(of kind: LuaOperation.Kind, _ scriptClass: ScriptClass?) -> LuaOperation.Origin {
        if let scriptClass { return LuaOperation.Origin(core: core, home: self, kind: kind, scriptClass: scriptClass) }
        if let known = origins[kind.rawValue] { return known }
        let made = LuaOperation.Origin(core: core, home: self, kind: kind)
        origins[kind.rawValue] = made
        return made
    }

    // MARK: sending

    /// Encodes the top `count` values of the stack of the call in progress.
    func encode(count: Int32, _ role: clua_parcel_role) throws(Failure) -> Parcel {
        var contents = unsafe clua_parcel()
        try unsafe attempt { lua, failure in
            let status = unsafe clua_send(lua, count, role, &contents)
            if status != LUA_OK { unsafe clua_take_message(lua, status, &failure) }
            return status
        }
        return unsafe Parcel(contents)
    }

    /// Encodes a body that the handle of `operation` holds in this state.
    ///
    /// - Parameter handle: where that is on the stack of the call in progress; 0: it has to be looked for.
    func encodeBody(of operation: LuaOperation, number: Int32, handleAt handle: Int32) throws(Failure) -> Parcel {
        let parcel = try encodeOwningBody(of: operation, number: number, handleAt: handle)
        parcel.letGo(of: operation)
        if let scriptClass = operation.scriptClass {
            // The class may be asked for when the operation has gone.
            scriptClass.latest =
                parcel.refersToOwner ? try encodeOwningBody(of: operation, number: number, handleAt: handle) : parcel
        }
        return parcel
    }

    private func encodeOwningBody(of operation: LuaOperation, number: Int32, handleAt handle: Int32) throws(Failure) -> Parcel {
        var contents = unsafe clua_parcel()
        try unsafe attempt { lua, failure in
            var body = unsafe operation.cBody(number: number)
            unsafe body.handle = handle
            return unsafe clua_encode_body(lua, body, &contents, &failure)
        }
        return unsafe Parcel(contents)
    }

    /// What the value at a stack index says as an error.
    func failure(raising index: Int32) -> Failure {
        do throws(Failure) {
            try unsafe attempt { lua, failure in unsafe clua_raise_value(lua, index, &failure) }
            return Failure(message: "error")
        } catch { return error }
    }

    /// Operations that leave this state by reference before they are in a queue: their functions are copied now, since the
    /// state that adds them may not be this one.
    func seal(referencesOf parcel: UnsafePointer<clua_parcel>) {
        for index in 0..<(unsafe clua_parcel_reference_count(parcel)) {
            let reference = unsafe clua_parcel_reference(parcel, index).pointee
            guard unsafe reference.kind == ObjectKind.operation.rawValue, let pointer = unsafe reference.object,
                let operation = unsafe object(pointer, as: Operation.self) as? LuaOperation, operation.needsSealing(from: self)
            else { continue }
            unsealed.append(operation)
        }
        // A body may refer to further operations: a list, not a recursion, so that a chain may be of any length.
        guard !isSealing else { return }
        isSealing = true
        while let operation = unsealed.popLast() {
            if operation.needsSealing(from: self) { operation.seal(in: self) }
        }
        isSealing = false
    }

    /// Keeps the handle of `object`, and with it the functions it holds, until `unpin`.
    ///
    /// - Parameter handle: where it is on the stack of the call in progress; 0: it has to be looked for.
    func pin(_ object: AnyObject, _ kind: ObjectKind, handleAt handle: Int32 = 0) throws(Failure) {
        let pointer = unsafe Unmanaged.passUnretained(object).toOpaque()
        try unsafe attempt { lua, failure in unsafe clua_pin(lua, pointer, kind.rawValue, handle, &failure) }
    }

    func unpin(_ object: AnyObject) {
        checkThread()
        guard !isClosed else { return }
        unsafe clua_unpin(running, Unmanaged.passUnretained(object).toOpaque())
    }

    /// The pinned handle of `operation` is let go of when nobody else refers to that.
    func watch(_ operation: LuaOperation) throws(Failure) {
        unsafe sealed.insert(Unmanaged.passUnretained(operation).toOpaque())
        guard !watchesCollections else { return }
        try unsafe attempt { lua, failure in unsafe clua_watch_collections(lua, &failure) }
        watchesCollections = true
    }

    func isWatching(_ operation: LuaOperation) -> Bool { unsafe sealed.contains(Unmanaged.passUnretained(operation).toOpaque()) }

    /// It is no longer pinned because it has left.
    func unwatch(_ operation: LuaOperation) {
        if unsafe !sealed.isEmpty { unsafe sealed.remove(Unmanaged.passUnretained(operation).toOpaque()) }
    }

    /// A garbage collection has ended: lets go of operations that no queue, state, parcel or host can come to any more. Returns whether
    /// there are others.
    func releaseUnreferenced(_ lua: OpaquePointer) -> Bool {
        guard !isClosed else { return false }
        unsafe whileRunning(lua) {
            let pointers = unsafe sealed.map { unsafe $0 }
            for index in unsafe pointers.indices where unsafe isHeldByHandleOnly(pointers[index]) {
                unsafe object(pointers[index], as: LuaOperation.self).unseal(in: self)
            }
        }
        watchesCollections = unsafe !sealed.isEmpty
        return watchesCollections
    }

    /// Whether the reference of the handle here is the only one. Then no other thread has one, and can make one.
    private func isHeldByHandleOnly(_ pointer: UnsafeMutableRawPointer) -> Bool {
        // Safety: takes over the handle's reference, and gives it back.
        var operation = unsafe Unmanaged<LuaOperation>.fromOpaque(pointer).takeRetainedValue()
        let isOnly = isKnownUniquelyReferenced(&operation)
        _ = unsafe Unmanaged.passRetained(operation)
        return isOnly
    }
}
