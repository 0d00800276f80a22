import CLua
import OpEngine

/// Reading arguments, adding results, and waiting.
extension LuaCall {
    /// The number of arguments. The functions below take positions from 1 to this number; any other position is a nil.
    public var argumentCount: Int { unsafe Int(lua_gettop(lua) - progress.pointee.resultCount) }

    private var call: Call { unsafe Call(lua: lua, state: LuaState.of(lua)) }

    /// The stack index of an argument. Pushed values follow the arguments, so a position after the arguments must not reach them.
    @inline(__always)
    private func slot(_ index: Int) -> Int32 { isArgument(index) ? Int32(truncatingIfNeeded: index) : Int32.max }

    /// While there are no results, Lua itself finds no value after the arguments. A stack never has a million values.
    @inline(__always)
    private func isArgument(_ index: Int) -> Bool {
        unsafe UInt(bitPattern: index &- 1) < 1_000_000 && progress.pointee.resultCount == 0 || index > 0 && index <= argumentCount
    }

    @inline(__always)
    private func type(at index: Int) -> Int32 {
        let slot = slot(index)
        return slot == .max ? LUA_TNONE : unsafe lua_type(lua, slot)
    }

    @inline(never)
    private func expected(_ what: String, at index: Int) -> any Error {
        let found = slot(index) == .max ? "no value" : call.typeName(at: slot(index))
        return CallError.argument(Int32(clamping: index), "\(what) expected, got \(found)")
    }

    // MARK: arguments

    /// Whether an argument is nil or missing.
    public func isNil(at index: Int) -> Bool { type(at: index) <= LUA_TNIL }

    /// A boolean.
    public func boolean(at index: Int) throws -> Bool {
        guard type(at: index) == LUA_TBOOLEAN else { throw expected("boolean", at: index) }
        return unsafe lua_toboolean(lua, slot(index)) != 0
    }

    /// An integer, or a float with an integral value.
    public func integer(at index: Int) throws -> Int {
        let slot = Int32(truncatingIfNeeded: index)
        if isArgument(index), unsafe lua_isinteger(lua, slot) != 0 { return unsafe Int(lua_tointegerx(lua, slot, nil)) }
        return try integralFloat(at: index)
    }

    @inline(never)
    private func integralFloat(at index: Int) throws -> Int {
        guard type(at: index) == LUA_TNUMBER else { throw expected("number", at: index) }
        guard let value = call.integer(at: slot(index)) else {
            throw CallError.argument(Int32(clamping: index), "number has no integer representation")
        }
        return value
    }

    /// A number, as a float.
    public func number(at index: Int) throws -> Double {
        let slot = Int32(truncatingIfNeeded: index)
        guard isArgument(index), unsafe lua_type(lua, slot) == LUA_TNUMBER else { throw expected("number", at: index) }
        return unsafe lua_tonumberx(lua, slot, nil)
    }

    /// A copy of a string, which must be UTF-8.
    public func string(at index: Int) throws -> String {
        guard type(at: index) == LUA_TSTRING else { throw expected("string", at: index) }
        return try unsafe withBytes(at: index) { bytes throws in
            guard let text = unsafe String(validating: bytes, as: UTF8.self) else {
                throw CallError.argument(Int32(index), "UTF-8 text expected")
            }
            return text
        }
    }

    /// The bytes of a string, without a copy. They are valid during the call of `body`.
    public func withBytes<Result>(at index: Int, _ body: (UnsafeRawBufferPointer) throws -> Result) throws -> Result {
        guard type(at: index) == LUA_TSTRING else { throw expected("string", at: index) }
        var length = 0
        let start = unsafe clua_string(lua, slot(index), &length)
        return try unsafe body(UnsafeRawBufferPointer(start: start, count: length))
    }

    /// A copy of an argument, with all values in a table.
    public func value(at index: Int) throws -> LuaValue { slot(index) == .max ? .nil : try call.value(at: slot(index)) }

    /// An argument as an instance of a `Decodable` type.
    public func decode<Value: Decodable>(_ type: Value.Type = Value.self, at index: Int) throws -> Value {
        try reading(index) { try LuaDecoder().decode(type, from: value(at: index)) }
    }

    /// The object of the host, if it has this class.
    func object<Object: LuaObject>(at index: Int, as type: Object.Type) -> Object? {
        slot(index) == .max ? nil : call.hostObjectIfAny(at: slot(index)) as? Object
    }

    /// The name of an argument in messages.
    func found(at index: Int) -> String { type(at: index) == LUA_TNONE ? "no value" : Grammar.indefinite(call.typeName(at: slot(index))) }

    /// The number of elements of a table, as `#` counts them without metamethods. Copies nothing.
    public func elementCount(ofTableAt index: Int) throws -> Int {
        guard type(at: index) == LUA_TTABLE else { throw expected("table", at: index) }
        return unsafe Int(lua_rawlen(lua, slot(index)))
    }

    /// A copy of the element `number` of a table, counted from 1. Copies nothing else of the table, and calls no metamethods.
    public func element(_ number: Int, ofTableAt index: Int) throws -> LuaValue {
        guard type(at: index) == LUA_TTABLE else { throw expected("table", at: index) }
        guard unsafe lua_checkstack(lua, 1) != 0 else { throw CallError.message("stack overflow") }
        unsafe lua_rawgeti(lua, slot(index), lua_Integer(number))
        return try pop()
    }

    /// A copy of the field `name` of a table. Copies nothing else of the table, and calls no metamethods.
    public func field(_ name: String, ofTableAt index: Int) throws -> LuaValue {
        guard type(at: index) == LUA_TTABLE else { throw expected("table", at: index) }
        let table = slot(index)
        try pushText(name)
        unsafe lua_rawget(lua, table)
        return try pop()
    }

    /// A table, to be read in place. Copies nothing.
    public func table(at index: Int) throws -> LuaTable {
        let slot = slot(index)
        guard slot != .max, let table = LuaTable(at: slot, in: tables) else { throw expected("table", at: index) }
        return table
    }

    private var tables: LuaTable.Scope {
        // Safety: this property alone sets the field.
        if let tables = unsafe progress.pointee.tables {
            return unsafe unsafeDowncast(tables.takeUnretainedValue(), to: LuaTable.Scope.self)
        }
        let tables = LuaTable.Scope(call)
        unsafe progress.pointee.tables = .passRetained(tables)
        return tables
    }

    /// Copies the value on top, and removes it.
    private func pop() throws(CallError) -> LuaValue {
        let top = unsafe lua_gettop(lua)
        defer { unsafe lua_settop(lua, top - 1) }
        return try call.value(at: top)
    }

    /// Calls `read`. An error about a value that does not fit names the argument.
    func reading<Value>(_ index: Int, _ read: () throws -> Value) throws -> Value {
        do { return try read() } catch { throw refusal(of: index, error) }
    }

    /// The error for an argument that could not be read.
    @usableFromInline
    func refusal(of index: Int, _ error: any Error) -> any Error {
        switch error {
        case let mismatch as Mismatch: CallError.argument(Int32(clamping: index), mismatch.message)
        case let error as LuaError where error.mismatch != nil: CallError.argument(Int32(clamping: index), error.message)
        default: error
        }
    }

    /// Reads the argument after `index`, and advances `index`.
    @inlinable @inline(__always)
    func next<Value: LuaConvertible>(_ index: inout Int, _ type: Value.Type) throws -> Value {
        index += 1
        do { return try Value.read(from: self, at: index) } catch { throw refusal(of: index, error) }
    }

    // MARK: results

    /// Adds `nil` to the results.
    public func pushNil() throws {
        try reserve()
        unsafe lua_pushnil(lua)
    }

    /// Adds a boolean to the results.
    public func push(_ value: Bool) throws {
        try reserve()
        unsafe lua_pushboolean(lua, value ? 1 : 0)
    }

    /// Adds an integer to the results.
    public func push(_ value: Int) throws {
        try reserve()
        unsafe lua_pushinteger(lua, lua_Integer(value))
    }

    /// Adds a float to the results.
    public func push(_ value: Double) throws {
        try reserve()
        unsafe lua_pushnumber(lua, value)
    }

    /// Adds a string to the results.
    public func push(_ value: String) throws {
        try pushText(value)
        unsafe progress.pointee.resultCount += 1
    }

    private func pushText(_ value: String) throws {
        guard unsafe lua_checkstack(lua, 4) != 0 else { throw CallError.message("too many results") }
        var value = value
        let status = value.withUTF8 { utf8 in
            unsafe clua_push_bytes(lua, UnsafeRawPointer(utf8.baseAddress)?.assumingMemoryBound(to: CChar.self), utf8.count)
        }
        if status != LUA_OK { throw CallError.noMemory }
    }

    /// Adds a value to the results.
    public func push(_ value: LuaValue) throws {
        switch value {
        case .nil: try pushNil()
        case .boolean(let value): try push(value)
        case .integer(let value): try push(value)
        case .number(let value): try push(value)
        case .string(let value): try push(value)
        default:
            try call.push([value])
            unsafe progress.pointee.resultCount += 1
        }
    }

    /// Adds an instance of an `Encodable` type to the results.
    public func push(encoding value: some Encodable) throws { try push(LuaEncoder().encode(value)) }

    /// Makes room for one result, and counts it. Lua reserves 20 slots for each call of a function, so the first ones need no check.
    @inline(__always)
    private func reserve() throws {
        if unsafe progress.pointee.resultCount >= 16, unsafe lua_checkstack(lua, 1) == 0 { throw CallError.message("too many results") }
        unsafe progress.pointee.resultCount += 1
    }

    // MARK: waiting

    /// Runs `body` as a task, and waits for it on this thread, which delivers callbacks meanwhile.
    ///
    /// - Throws: the error of `body`; an error if the waiting operation was cancelled or stopped, which also cancels the task.
    @usableFromInline
    func waiting<Value: Sendable>(for body: @escaping @Sendable () async throws -> Value) throws -> Value {
        try call.state.wait(for: AsyncCall(body))
    }
}

extension LuaCall.Progress {
    /// Ends the use of the tables that the function has got.
    @inline(__always)
    func end() { if let tables = unsafe tables { (unsafe tables.takeRetainedValue() as? LuaTable.Scope)?.end() } }
}
