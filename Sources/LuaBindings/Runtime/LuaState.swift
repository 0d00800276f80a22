import CLua
import OpEngine

/// One Lua state and what belongs to it.
///
/// A state is used by one thread at a time: the main state by the thread that made the runtime, each other one by the worker
/// that made it. Debug builds check.
// Safety: `@unchecked Sendable` so that a callback can name the state in which it is to run; `checkThread` traps where another
// thread uses it.
@safe
final class LuaState: @unchecked Sendable {
    let core: RuntimeCore
    /// Where callbacks for this state are put.
    let inbox: Inbox
    /// The operation whose body runs in this state now.
    private(set) var currentOperation: Operation?

    private let main: OpaquePointer
    /// Operations may name the state after it has gone.
    private var isClosed = false
    /// The coroutine that called the host last: what the host does next happens there.
    private(set) var running: OpaquePointer
    private let owner = ThreadIdentity.current
    /// Tells states of one runtime apart, also after one has gone.
    let number: Int
    /// Completion blocks set by this state and not yet run.
    var promisedCallbackCount = 0 {
        didSet { Worker.current?.keepsAlive = promisedCallbackCount > 0 }
    }
    /// How much of what the runtime shares with all states has been put into this one.
    var appliedSharedVersion = 0
    var registeredFunctionCount = 0
    /// Names of scripts' own on operations that are not misspelt; at most some hundred.
    var acceptedNames: Set<String> = []
    /// Operations that were sent by reference and still have to be made to run elsewhere.
    private var unsealed: [LuaOperation] = []
    private var isSealing = false

    init?(core: RuntimeCore, inbox: Inbox) {
        self.core = core
        self.inbox = inbox
        number = core.nextStateNumber()
        // Safety: the state does not use the object before it runs a script; the real one is set below.
        guard let lua = unsafe clua_state_new(nil, ScriptModule.host, core.ignoresEnvironment) else {
            isClosed = true
            return nil
        }
        unsafe main = lua
        unsafe running = lua
        unsafe clua_state_of(lua).pointee.object = Unmanaged.passUnretained(self).toOpaque()
    }

    /// Runs the state's finalizers and frees it. Callbacks that come later are dropped.
    func close() {
        checkThread()
        guard !isClosed else { return }
        isClosed = true
        unsafe clua_state_close(main)
    }

    deinit { assert(isClosed, "opscript bug: a Lua state was dropped without being closed") }

    /// The state that a call from Lua came from.
    static func of(_ lua: OpaquePointer) -> LuaState {
        // Safety: the object is set before the first script runs and outlives the state.
        let state = unsafe Unmanaged<LuaState>.fromOpaque(clua_state_of(lua).pointee.object).takeUnretainedValue()
        state.checkThread()
        return state
    }

    func checkThread() {
        assert(owner == .current, "opscript bug: a Lua state is used by a thread that does not own it")
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
        let state = unsafe of(lua)
        let previous = unsafe state.running
        unsafe state.running = lua
        defer { unsafe state.running = previous }
        do throws(CallError) { unsafe try body(member, Call(lua: lua, state: state)).write(to: reply) } catch {
            unsafe error.write(to: reply)
        }
    }

    /// The queue that code outside of every operation belongs to.
    var queueOutsideOperations: OperationQueue? { core.isMain(self) ? core.engine.mainQueue : nil }

    /// Does `body` with the Lua thread that is running; turns its failure into an error.
    func attempt(_ body: (OpaquePointer, inout clua_failure) -> Int32) throws(Failure) {
        checkThread()
        var failure = unsafe clua_failure()
        if unsafe body(running, &failure) != LUA_OK { throw unsafe Failure(taking: &failure) }
    }

    /// Runs the body of `operation` here, as its `main`.
    func run(_ operation: LuaOperation, body: LuaOperation.Body) throws(Failure) -> Parcel? {
        try core.prepare(self)
        let previous = currentOperation
        currentOperation = operation
        defer { currentOperation = previous }
        let parcel: Parcel?
        switch body {
        case .none: return nil
        case .handle: parcel = nil
        case .parcel(let sent): parcel = sent
        case .unsendable(let message): throw Failure(message: message)
        }
        var results = unsafe clua_parcel()
        let pointer = unsafe Unmanaged.passUnretained(operation).toOpaque()
        try unsafe attempt { lua, failure in
            unsafe clua_run_body(lua, parcel?.pointer, pointer, ObjectKind.operation.rawValue, &results, &failure)
        }
        return unsafe results.value_count > 0 ? Parcel(results) : nil
    }

    /// Calls the completion block that this state set on `operation`.
    func runCompletion(of operation: LuaOperation) {
        guard !isClosed else { return }
        let previous = currentOperation
        currentOperation = nil
        defer { currentOperation = previous }
        let pointer = unsafe Unmanaged.passUnretained(operation).toOpaque()
        do throws(Failure) {
            try unsafe attempt { lua, failure in unsafe clua_run_completion(lua, pointer, ObjectKind.operation.rawValue, &failure) }
        } catch {
            core.report("error in the completion block of \(operation.displayName): \(error.report)")
        }
    }

    /// Runs callbacks, and main-queue operations in the main state, until `predicate` holds, and what is there then.
    func wait(deadline: ContinuousClock.Instant?, until predicate: () -> Bool) throws(CallError) -> Inbox.Outcome {
        let previous = currentOperation
        currentOperation = nil
        defer { currentOperation = previous }
        let isMain = core.isMain(self)
        var wasInterrupted = false
        // What has arrived is delivered even where there is nothing to wait for.
        defer { _ = inbox.drain() }
        let outcome = inbox.run(
            until: {
                wasInterrupted = isMain && core.takeInterrupt()
                return wasInterrupted || predicate()
            }, deadline: deadline)
        if wasInterrupted { throw .message("interrupted!") }
        return outcome
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

    /// Encodes the body that the handle of `operation` holds in this state.
    func encodeBody(of operation: LuaOperation) throws(Failure) -> Parcel {
        var contents = unsafe clua_parcel()
        let pointer = unsafe Unmanaged.passUnretained(operation).toOpaque()
        try unsafe attempt { lua, failure in
            unsafe clua_encode_body(lua, pointer, ObjectKind.operation.rawValue, &contents, &failure)
        }
        let parcel = unsafe Parcel(contents)
        parcel.letGo(of: operation)
        return parcel
    }

    /// Operations that leave this state by reference before they are in a queue: their functions are copied now, since the
    /// state that adds them may not be this one.
    func seal(referencesOf parcel: UnsafePointer<clua_parcel>) {
        for index in 0..<(unsafe parcel.pointee.reference_count) {
            let reference = unsafe parcel.pointee.references[index]
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

    /// Keeps the handle of `operation`, and with it the functions it holds, until `unpin`.
    func pin(_ operation: LuaOperation) throws(Failure) {
        let pointer = unsafe Unmanaged.passUnretained(operation).toOpaque()
        try unsafe attempt { lua, failure in unsafe clua_pin(lua, pointer, ObjectKind.operation.rawValue, &failure) }
    }

    func unpin(_ operation: LuaOperation) {
        checkThread()
        guard !isClosed else { return }
        unsafe clua_unpin(running, Unmanaged.passUnretained(operation).toOpaque())
    }
}
