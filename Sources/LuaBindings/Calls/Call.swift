import CLua
import OpEngine

/// A call from Lua that Swift answers. Reads the arguments with functions that cannot raise.
@safe
struct Call {
    let lua: OpaquePointer
    let state: LuaState

    /// The number of arguments.
    var count: Int32 { unsafe lua_gettop(lua) }

    func type(at index: Int32) -> Int32 { unsafe lua_type(lua, index) }

    /// Whether the value is nil or absent.
    func isMissing(at index: Int32) -> Bool { type(at: index) <= LUA_TNIL }

    func isFunction(at index: Int32) -> Bool { type(at: index) == LUA_TFUNCTION }

    func isTable(at index: Int32) -> Bool { type(at: index) == LUA_TTABLE }

    /// The name of the value's type, as error messages show it.
    func typeName(at index: Int32) -> String {
        if let handle = unsafe clua_to_handle(lua, index), unsafe handle.pointee.object != nil,
            let kind = unsafe ObjectKind(rawValue: Int32(handle.pointee.kind))
        {
            return hostObjectIfAny(at: index).map { state.core.objectClasses.name(of: $0) } ?? kind.className
        }
        let type = type(at: index)
        return type == LUA_TNONE ? "no value" : unsafe String(cString: lua_typename(lua, type))
    }

    func expected(_ what: String, at index: Int32) -> CallError {
        .argument(index, "\(what) expected, got \(typeName(at: index))")
    }

    func string(at index: Int32) -> String? {
        var count = 0
        guard let bytes = unsafe clua_string(lua, index, &count) else { return nil }
        return unsafe String(decoding: UnsafeRawBufferPointer(start: bytes, count: count), as: UTF8.self)
    }

    func requiredString(at index: Int32) throws(CallError) -> String {
        guard let text = string(at: index) else { throw expected("string", at: index) }
        return text
    }

    func optionalString(at index: Int32) throws(CallError) -> String? {
        isMissing(at: index) ? nil : try requiredString(at: index)
    }

    func boolean(at index: Int32) throws(CallError) -> Bool {
        guard type(at: index) == LUA_TBOOLEAN else { throw expected("boolean", at: index) }
        return unsafe lua_toboolean(lua, index) != 0
    }

    /// An integer, or a float with an integral value; nil for any other value.
    func integer(at index: Int32) -> Int? {
        guard type(at: index) == LUA_TNUMBER else { return nil }
        var isInteger: Int32 = 0
        let value = unsafe lua_tointegerx(lua, index, &isInteger)
        return isInteger != 0 ? Int(value) : nil
    }

    func requiredInteger(at index: Int32) throws(CallError) -> Int {
        guard let value = integer(at: index) else { throw expected("integer", at: index) }
        return value
    }

    func number(at index: Int32) throws(CallError) -> Double {
        guard type(at: index) == LUA_TNUMBER else { throw expected("number", at: index) }
        return unsafe lua_tonumberx(lua, index, nil)
    }

    /// A non-negative time in seconds.
    func seconds(at index: Int32) throws(CallError) -> Double {
        let value = try number(at: index)
        guard value >= 0 else { throw .argument(index, "seconds must be 0 or more, got \(value)") }
        return value
    }

    // MARK: objects

    @inline(__always)
    private func unmanaged<T: AnyObject>(at index: Int32, _ kind: ObjectKind, as type: T.Type) -> Unmanaged<T>? {
        guard let handle = unsafe clua_to_handle(lua, index), unsafe handle.pointee.kind == kind.rawValue,
            let pointer = unsafe handle.pointee.object
        else { return nil }
        return unsafe Unmanaged.fromOpaque(pointer)
    }

    @inline(__always)
    private func object<T: AnyObject>(at index: Int32, _ kind: ObjectKind, as type: T.Type) -> T? {
        unsafe unmanaged(at: index, kind, as: type)?.takeUnretainedValue()
    }

    func operationIfAny(at index: Int32) -> Operation? { object(at: index, .operation, as: Operation.self) }

    /// The operation at `index`, if there is one. The handle keeps the operation alive during the call.
    @inline(__always)
    func unmanagedOperation(at index: Int32) -> Unmanaged<Operation>? { unsafe unmanaged(at: index, .operation, as: Operation.self) }

    func operation(at index: Int32) throws(CallError) -> Operation {
        guard let operation = operationIfAny(at: index) else { throw expected("Operation", at: index) }
        return operation
    }

    func queueIfAny(at index: Int32) -> OperationQueue? { object(at: index, .queue, as: OperationQueue.self) }

    func error(at index: Int32) throws(CallError) -> OperationFailure {
        guard let failure = object(at: index, .error, as: OperationFailure.self) else { throw expected("error object", at: index) }
        return failure
    }

    func timerIfAny(at index: Int32) -> ScriptTimer? { object(at: index, .timer, as: ScriptTimer.self) }

    func processIfAny(at index: Int32) -> ScriptProcess? { object(at: index, .process, as: ScriptProcess.self) }

    func streamIfAny(at index: Int32) -> ProgramStream? { object(at: index, .stream, as: ProgramStream.self) }

    func channelIfAny(at index: Int32) -> Channel? { object(at: index, .channel, as: Channel.self) }

    /// The object of the host, or the channel, at `index`, if there is one.
    func hostObjectIfAny(at index: Int32) -> AnyObject? {
        if let channel = channelIfAny(at: index) { return channel }
        guard let handle = unsafe clua_to_handle(lua, index), unsafe Int32(handle.pointee.kind) == ObjectKind.object.rawValue,
            let pointer = unsafe handle.pointee.object
        else { return nil }
        return unsafe Unmanaged<AnyObject>.fromOpaque(pointer).takeUnretainedValue()
    }

    func observationIfAny(at index: Int32) -> Observation? { object(at: index, .observation, as: Observation.self) }

    func observation(callingFor method: String) throws(CallError) -> Observation {
        guard let observation = observationIfAny(at: 1) else { throw notAMethodCall(method, on: "observation") }
        return observation
    }

    /// The receiver of a method call.
    func operation(callingFor method: String) throws(CallError) -> Operation {
        guard let operation = operationIfAny(at: 1) else { throw notAMethodCall(method, on: "operation") }
        return operation
    }

    /// The receiver of a method call. The handle keeps the queue alive during the call.
    @inline(__always)
    func queue(callingFor method: @autoclosure () -> String) throws(CallError) -> Unmanaged<OperationQueue> {
        guard let queue = unsafe unmanaged(at: 1, .queue, as: OperationQueue.self) else { throw notAMethodCall(method(), on: "queue") }
        return unsafe queue
    }

    func timer(callingFor method: String) throws(CallError) -> ScriptTimer {
        guard let timer = timerIfAny(at: 1) else { throw notAMethodCall(method, on: "timer") }
        return timer
    }

    /// The receiver of a method call. The handle keeps the channel alive during the call.
    @inline(__always)
    func channel(callingFor method: @autoclosure () -> String) throws(CallError) -> Unmanaged<Channel> {
        guard let channel = unsafe unmanaged(at: 1, .channel, as: Channel.self) else { throw notAMethodCall(method(), on: "channel") }
        return unsafe channel
    }

    func process(callingFor method: String) throws(CallError) -> ScriptProcess {
        guard let process = processIfAny(at: 1) else { throw notAMethodCall(method, on: "process") }
        return process
    }

    func stream(callingFor method: String) throws(CallError) -> ProgramStream {
        guard let stream = streamIfAny(at: 1) else { throw notAMethodCall(method, on: "stream") }
        return stream
    }

    private func notAMethodCall(_ method: String, on receiver: String) -> CallError {
        .message("call '\(method)' with ':', as in \(receiver):\(method)(...); what came before it is a \(typeName(at: 1))")
    }

    /// The class of operations at `index`; nil for any other value.
    func operationClass(at index: Int32) -> ClassIdentity? {
        let identity = unsafe clua_identify_class(lua, index)
        if let pointer = unsafe identity.object { return .script(unsafe LuaBindings.object(pointer, as: ScriptClass.self)) }
        return unsafe identity.built_in.map { unsafe .builtIn(String(cString: $0)) }
    }

    // MARK: tables

    /// Calls `body` for each key and value of the table at `index`, with their stack indices.
    ///
    /// `body` must run no code of Lua, which might change the table. So `body` must allocate nothing in Lua, because that may run finalizers.
    func forEachField(of index: Int32, _ body: (_ key: Int32, _ value: Int32) throws(CallError) -> Void) throws(CallError) {
        guard unsafe lua_checkstack(lua, 4) != 0 else { throw .message("stack overflow") }
        let base = count
        unsafe lua_pushnil(lua)
        while unsafe clua_next(lua, index) != 0 {
            do throws(CallError) { try body(base + 1, base + 2) } catch {
                unsafe lua_settop(lua, base)
                throw error
            }
            unsafe lua_settop(lua, base + 1)
        }
        unsafe lua_settop(lua, base)
    }

    /// Calls `body` for each key and value that the table at `index` has now, with their stack indices. `body` may run code of Lua.
    func forEachListedField(of index: Int32, _ body: (_ key: Int32, _ value: Int32) throws(CallError) -> Void) throws(CallError) {
        let base = count
        defer { unsafe lua_settop(lua, base) }
        do throws(Failure) {
            try unsafe state.attempt { lua, failure in unsafe clua_list_fields(lua, index, &failure) }
        } catch { throw CallError(error) }
        guard unsafe lua_checkstack(lua, 4) != 0 else { throw .message("stack overflow") }
        let list = base + 1
        for position in stride(from: 1, to: unsafe lua_Integer(lua_rawlen(lua, list)), by: 2) {
            unsafe lua_rawgeti(lua, list, position)
            unsafe lua_rawgeti(lua, list, position + 1)
            try body(list + 1, list + 2)
            unsafe lua_settop(lua, list)
        }
    }

    /// The elements 1 to n of the table at `index`. `element` reads each of them at `position`, the top of the stack.
    func array<T>(at index: Int32, _ element: (_ position: Int32, _ number: Int) throws(CallError) -> T) throws(CallError) -> [T] {
        guard isTable(at: index) else { throw expected("table", at: index) }
        guard unsafe lua_checkstack(lua, 2) != 0 else { throw .message("stack overflow") }
        let length = unsafe Int(lua_rawlen(lua, index))
        let base = count
        defer { unsafe lua_settop(lua, base) }
        var result: [T] = []
        // Lua's `#` may be larger than any table: `{ [1] = 1, [2] = 2, [4] = 4, … }`.
        result.reserveCapacity(min(length, 1 << 10))
        for number in 0..<length {
            unsafe lua_rawgeti(lua, index, lua_Integer(number + 1))
            result.append(try element(base + 1, number + 1))
            unsafe lua_settop(lua, base)
        }
        return result
    }

    func operations(at index: Int32) throws(CallError) -> [Operation] {
        try array(at: index) { position, number throws(CallError) in
            guard let operation = operationIfAny(at: position) else {
                throw .argument(index, "Operation expected at [\(number)], got \(typeName(at: position))")
            }
            return operation
        }
    }

    /// Copies the options in the table at stack index `table` to stack slots of their own. Returns the slots of the given options.
    ///
    /// - Parameter besidesElements: whether the table may also have array elements.
    /// - Throws: an error that names the first unknown key and the nearest known one.
    func options<Key: OptionKey>(
        _ type: Key.Type, at table: Int32 = 1, besidesElements: Bool = false
    ) throws(CallError) -> GivenOptions<Key> {
        let elementCount = unsafe besidesElements ? Int(lua_rawlen(lua, table)) : 0
        let names = Key.names, keys = names.keys
        guard unsafe lua_checkstack(lua, Int32(keys.count) + 4) != 0 else { throw .message("stack overflow") }
        let base = count
        unsafe lua_settop(lua, base + Int32(keys.count))
        var options = GivenOptions<Key>()
        try forEachField(of: table) { key, value throws(CallError) in
            if besidesElements, let number = integer(at: key) {
                if (1...max(1, elementCount)).contains(number) { return }
                throw .argument(table, "element [\(number)] comes after one that is missing")
            }
            var count = 0
            guard let bytes = unsafe clua_string(lua, key, &count) else {
                throw .argument(table, "options have names, got a \(typeName(at: key)) as a key")
            }
            let name = unsafe UnsafeRawBufferPointer(start: bytes, count: count)
            guard let position = unsafe names.position(of: name) else {
                let name = unsafe String(decoding: name, as: UTF8.self)
                throw .argument(table, "unknown option '\(name)'\(Spelling.suggestion(for: name, among: keys.map(\.rawValue)))")
            }
            let slot = base + 1 + Int32(position)
            unsafe lua_copy(lua, value, slot)
            options.add(keys[position], at: slot)
        }
        return options
    }
}

extension LuaState {
    /// Answers a call from Lua. C pushes or raises the reply after this function has returned.
    static func answer(
        _ lua: OpaquePointer?, _ member: Int32, _ reply: UnsafeMutablePointer<clua_reply>?, worksInForkedProcess: Bool = false,
        _ body: (_ member: Int32, Call) throws(CallError) -> Answer
    ) {
        guard let lua = unsafe lua, let reply = unsafe reply else { return }
        unsafe with(lua) { state in
            if state.isForked, !worksInForkedProcess { return unsafe refusalInForkedProcess.write(to: reply) }
            unsafe state.whileRunning(lua) {
                do throws(CallError) { unsafe try body(member, Call(lua: lua, state: state)).write(to: reply) } catch {
                    unsafe error.write(to: reply)
                }
            }
        }
    }
}

extension ObjectKind {
    fileprivate var className: String {
        switch self {
        case .operation: "Operation"
        case .queue: "OperationQueue"
        case .error: "error object"
        case .scriptClass: "class"
        case .timer: "Timer"
        case .process: "Process"
        case .object: "object"
        case .observation: "observation"
        case .channel: "Channel"
        case .stream: "Stream"
        }
    }
}
