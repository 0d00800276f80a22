import CLua
import OpEngine

extension Call {
    /// The maximum nesting depth of a table that the host receives. The limit also refuses tables that contain themselves.
    private static var maximumDepth: Int { 100 }

    /// The values from stack index `first` to the top.
    func values(from first: Int32) throws(CallError) -> [LuaValue] {
        var values: [LuaValue] = []
        for index in stride(from: first, through: count, by: 1) { values.append(try value(at: index)) }
        return values
    }

    /// A copy of the value at a stack index.
    ///
    /// - Throws: an error if a table is nested too deeply.
    func value(at index: Int32, depth: Int = 0) throws(CallError) -> LuaValue {
        switch type(at: index) {
        case LUA_TNIL, LUA_TNONE: return .nil
        case LUA_TBOOLEAN: return .boolean(try boolean(at: index))
        case LUA_TNUMBER:
            if unsafe lua_isinteger(lua, index) != 0, let value = integer(at: index) { return .integer(value) }
            return .number(try number(at: index))
        case LUA_TSTRING: return string(bytesAt: index)
        case LUA_TTABLE:
            guard depth < Self.maximumDepth else {
                throw .message("a table for the host is nested more than \(Self.maximumDepth) deep, or contains itself")
            }
            try showStatus(at: index)
            return .table(try fields(of: index, depth: depth))
        default:
            if let operation = operationIfAny(at: index) {
                // The host may add the operation to a queue from any thread.
                if let lua = operation as? LuaOperation, lua.needsSealing(from: state) {
                    state.publishSettings()
                    lua.seal(in: state)
                }
                return .operation(operation)
            }
            if let queue = queueIfAny(at: index) { return .queue(queue) }
            if let object = hostObjectIfAny(at: index) as? any LuaObject { return .object(object) }
            if unsafe clua_is_frozen(lua, index) { return try thawedValue(at: index, depth: depth) }
            return .other(typeName(at: index))
        }
    }

    /// Gives the table at a stack index all its fields, if it is the result of a failed program.
    func showStatus(at index: Int32) throws(CallError) {
        guard unsafe lua_getmetatable(lua, index) != 0 else { return }
        unsafe lua_settop(lua, -2)
        do throws(Failure) {
            try unsafe state.attempt { lua, failure in unsafe clua_show_status_at(lua, index, &failure) }
        } catch { throw CallError(error) }
    }

    /// Copies of the fields that the table at a stack index has now.
    private func fields(of index: Int32, depth: Int) throws(CallError) -> [LuaValue: LuaValue] {
        var fields: [LuaValue: LuaValue] = [:]
        fields.reserveCapacity(min(unsafe Int(lua_rawlen(lua, index)), 1 << 10))
        // Copying a frozen table or an operation may run code of Lua, which might change this table: that needs a list of the fields. Most
        // tables are rows of plain values. These need none: a list of three fields costs 2,500 instructions, copying a row 17,000.
        var isPlain = true
        try forEachField(of: index) { key, value throws(CallError) in
            isPlain = isPlain && runsNoCode(at: key) && runsNoCode(at: value)
            if isPlain { fields[try self.value(at: key)] = try self.value(at: value) }
        }
        if isPlain { return fields }
        try forEachListedField(of: index) { key, value throws(CallError) in
            fields[try self.value(at: key, depth: depth + 1)] = try self.value(at: value, depth: depth + 1)
        }
        return fields
    }

    /// Whether copying the value at a stack index surely runs no code of Lua.
    private func runsNoCode(at index: Int32) -> Bool {
        let type = type(at: index)
        return type != LUA_TTABLE && type != LUA_TUSERDATA
    }

    /// A copy of the frozen table at a stack index.
    private func thawedValue(at index: Int32, depth: Int) throws(CallError) -> LuaValue {
        let base = count
        defer { unsafe lua_settop(lua, base) }
        do throws(Failure) {
            try unsafe state.attempt { lua, failure in unsafe clua_thaw(lua, index, &failure) }
        } catch { throw CallError(error) }
        return try value(at: base + 1, depth: depth)
    }

    private func string(bytesAt index: Int32) -> LuaValue {
        var count = 0
        guard let start = unsafe clua_string(lua, index, &count) else { return .nil }
        let bytes = unsafe UnsafeRawBufferPointer(start: start, count: count)
        if let text = unsafe String(validating: bytes, as: UTF8.self) { return .string(text) }
        return unsafe .bytes(Array(bytes))
    }

    /// Pushes values of the host.
    func push(_ values: [LuaValue]) throws(CallError) {
        let flat = FlatValues(values)
        do throws(Failure) {
            try unsafe state.attempt { lua, failure in
                unsafe flat.withItems { unsafe clua_push_items(lua, $0.baseAddress, values.count, &failure) }
            }
        } catch { throw CallError(error) }
    }
}
