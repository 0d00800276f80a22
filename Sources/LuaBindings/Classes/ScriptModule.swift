import CIO
import CLua
import OpEngine

/// The module `opscript` as scripts see it: its classes and functions.
enum ScriptModule {
    enum Function: String, Member {
        case now, sleep, after, every, process, sh, fetch, prelude, captures, workerCount, waitForAny, resources, channel, select
    }

    private static let noSlot = UInt32.max  // CLUA_NO_SLOT

    /// Calls `body` with a host object if it is an operation that `state` has made. Such an operation stores the slot of its handle in `state`.
    @inline(__always)
    private static func withOperation<Result>(
        _ object: UnsafeRawPointer?, madeBy state: UnsafeRawPointer?, _ body: (LuaOperation) -> Result
    ) -> Result? {
        guard let object = unsafe object, let state = unsafe state else { return nil }
        return unsafe Unmanaged<AnyObject>.fromOpaque(object)._withUnsafeGuaranteedRef { object in
            guard type(of: object) == LuaOperation.self else { return nil }
            // Safety: the guard has checked the class.
            let operation = unsafe unsafeDowncast(object, to: LuaOperation.self)
            let isHome = unsafe Unmanaged<LuaState>.fromOpaque(state)._withUnsafeGuaranteedRef { operation.isHome($0) }
            return isHome ? body(operation) : nil
        }
    }

    /// The functions and descriptions that C reads when it makes a state. Made once and never freed.
    // Safety: immutable after initialization.
    nonisolated(unsafe) static let host: UnsafePointer<clua_host> = {
        unsafe clua_set_object_functions(
            clua_object_functions(
                retain: { pointer in
                    if let pointer = unsafe pointer { _ = unsafe Unmanaged<AnyObject>.fromOpaque(pointer).retain() }
                },
                release: { pointer in
                    if let pointer = unsafe pointer { unsafe Unmanaged<AnyObject>.fromOpaque(pointer).release() }
                },
                class_of: { pointer, kind in
                    guard kind == ObjectKind.operation.rawValue, let pointer = unsafe pointer else { return nil }
                    return unsafe Unmanaged<Operation>.fromOpaque(pointer)._withUnsafeGuaranteedRef { operation in
                        unsafe (operation as? LuaOperation)?.scriptClass.map { unsafe Unmanaged.passUnretained($0).toOpaque() }
                    }
                },
                slot_of: { pointer, state in
                    unsafe withOperation(pointer, madeBy: state) { $0.handleSlot } ?? noSlot
                },
                set_slot: { pointer, state, slot in
                    unsafe withOperation(pointer, madeBy: state) { $0.handleSlot = slot } != nil
                },
                make: { unsafe LuaState.makeDeferredOperation($0, hasCompletion: $1) }))
        let descriptions = unsafe [
            OperationClass.description, BlockOperationClass.description, InvocationOperationClass.description,
            GroupOperationClass.description,
            OperationQueueClass.description, ErrorClass.description, TimerClass.description, ProcessClass.description,
            ObservationClass.description, ChannelClass.description, StreamClass.description, ObjectClass.description,
        ]
        let classCount = unsafe descriptions.count
        let classes = UnsafeMutablePointer<clua_class>.allocate(capacity: classCount)
        unsafe classes.initialize(from: descriptions, count: classCount)
        let functions = unsafe Function.table
        let host = UnsafeMutablePointer<clua_host>.allocate(capacity: 1)
        unsafe host.initialize(
            to: clua_host(
                classes: UnsafePointer(classes), class_count: classCount, functions: functions.start, function_count: functions.count,
                call: { unsafe LuaState.answer($0, $1, $2, ScriptModule.call) },
                exit: { unsafe LuaState.answer($0, $1, $2, worksInForkedProcess: true, ScriptModule.exit) },
                sent: { lua, parcel in
                    guard let lua = unsafe lua, let parcel = unsafe parcel else { return }
                    unsafe LuaState.of(lua).seal(referencesOf: parcel)
                },
                deferral: LuaState.deferral, class_kind: ObjectKind.scriptClass.rawValue,
                new_operation: { unsafe LuaState.answer($0, $1, $2, OperationSubclass.new) },
                assign_class_field: { unsafe LuaState.answer($0, $1, $2, OperationSubclass.checkField) },
                class_contents: { _, pointer, reply in
                    guard let pointer = unsafe pointer, let reply = unsafe reply,
                        let parcel = unsafe object(pointer, as: ScriptClass.self).latest
                    else { return }
                    unsafe Answer.parcel(parcel).write(to: reply)
                },
                collected: { lua in
                    guard let lua = unsafe lua else { return false }
                    return unsafe LuaState.of(lua).releaseUnreferenced(lua)
                },
                registering: clua_registering(
                    call: { unsafe HostFunction.call($0, $1, $2) }, object_kind: ObjectKind.object.rawValue,
                    class_of: { lua, pointer in
                        guard let lua = unsafe lua, let pointer = unsafe pointer else { return nil }
                        let object = unsafe Unmanaged<AnyObject>.fromOpaque(pointer).takeUnretainedValue()
                        let known = unsafe LuaState.of(lua).core.objectClasses.find(for: object)
                        return unsafe known.map { unsafe UnsafeRawPointer(Unmanaged<AnyObject>.passUnretained($0).toOpaque()) }
                    }),
                write: { lua, stream, bytes, count in
                    guard let lua = unsafe lua else { return }
                    let written = unsafe UnsafeRawBufferPointer(start: bytes, count: count)
                    unsafe LuaState.of(lua).core.output.write(written, to: stream)
                }, script: ScriptedFunctions.description,
                streaming: clua_streaming(take: cio_stream_take, await: { unsafe LuaState.answer($0, $1, $2, StreamClass.resume) })))
        return unsafe UnsafePointer(host)
    }()

    /// `os.exit`. In the main state, and in a process that a body has forked, C ends the process at once. In a worker's state, the running code is
    /// stopped, and the thread of the main state ends the process in an orderly way.
    private static func exit(_ status: Int32, _ call: Call) throws(CallError) -> Answer {
        guard call.state.core.scriptsMayExit else {
            if call.state.core.servesCluster {
                throw .message(
                    "os.exit cannot end the script from a worker of a cluster: raise an error, or return what the script is to do")
            }
            throw .message("os.exit is not allowed here: the host of this script does not let it end the process")
        }
        if call.state.core.isMain(call.state) || call.state.isForked {
            unsafe call.state.core.adoption?.scriptExits = true
            if !call.state.isForked { call.state.core.scriptExits?(call.state.currentOperation) }
            return .nothing
        }
        call.state.core.requestExit(status)
        throw .stop(.interrupted)
    }

    /// `opscript.waitForAny(operations, [seconds], [outcome])`.
    private static func waitForAny(_ call: Call) throws(CallError) -> Answer {
        let operations = try call.operations(at: 1), timeout = try call.timeout(at: 2)
        if call.isMissing(at: 3) { return try .operation(call.waitForAny(operations, timeout: timeout)) }
        guard let outcome = call.string(at: 3).flatMap(Call.AwaitedOutcome.init) else {
            let known = Call.AwaitedOutcome.allCases.map { "\"\($0.rawValue)\"" }.joined(separator: ", ")
            throw .argument(3, "one of \(known) expected, got \(call.string(at: 3).map { "'\($0)'" } ?? call.typeName(at: 3))")
        }
        return try .operation(call.waitForAny(operations, timeout: timeout, outcome: outcome))
    }

    static func call(_ member: Int32, _ call: Call) throws(CallError) -> Answer {
        switch Function(number: member) {
        case .process where !call.state.core.sandbox.allowsProcesses, .sh where !call.state.core.sandbox.allowsProcesses:
            throw .message("programs are not available here: the host of this script does not allow them")
        case .now: return .number(MonotonicClock.seconds)
        case .sleep:
            _ = try call.state.wait(deadline: .after(call.seconds(at: 1))) { false }
            return .nothing
        case .after: return try TimerClass.start(call, repeats: false)
        case .every: return try TimerClass.start(call, repeats: true)
        case .process: return try ProcessClass.start(call)
        case .sh: return try ProcessClass.startShell(call)
        case .fetch where !call.state.core.sandbox.allowsNetwork:
            throw .message("opscript.fetch is not available here: the host of this script does not allow it")
        case .fetch: return try Fetching.fetch(call)
        case .prelude where !call.state.core.sandbox.allowsPreludes:
            throw .message("opscript.prelude is not available here: the host of this script does not allow it")
        case .prelude: return try call.addPrelude()
        case .captures: return try call.captures()
        case .workerCount: return .integer(call.state.core.engine.workerCount)
        case .waitForAny: return try waitForAny(call)
        case .resources: return try call.resources()
        case .channel: return try ChannelClass.make(call)
        case .select: return try ChannelClass.select(call)
        case nil: throw .message("opscript bug: no function \(member)")
        }
    }
}
