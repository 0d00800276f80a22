import CLua

/// A table of a script, which a function of the host reads in place. Only the values that are read are copied; metamethods
/// are not called.
///
/// ```swift
/// try runtime.register("lastPrice") { (orders: LuaTable) in try orders[orders.count, "price"] }
/// ```
///
/// Use it for functions that need little of a large table. For a function that needs most of the table, a `Decodable` type or a `LuaValue` costs
/// less, because each read here looks for its value anew.
///
/// A `LuaTable` is valid while the call runs whose argument it is, and only on the thread of that call. Afterwards, reading throws an
/// error. Frozen tables are read in the same way.
@safe
public struct LuaTable {
    private let scope: Scope
    private let slot: Int32
    /// The address of the table at `slot`.
    private let identity: UnsafeRawPointer
    /// The path from that table to this one.
    private let path: [LuaValue]

    /// The call that the tables of a function belong to.
    final class Scope {
        /// The call; nil when it is over.
        private(set) var call: Call?

        init(_ call: Call) { self.call = call }

        func end() { call = nil }
    }

    /// The table at a stack index; nil for another value.
    init?(at slot: Int32, in scope: Scope) {
        guard let call = scope.call, call.isReadable(at: slot), let identity = unsafe lua_topointer(call.lua, slot) else { return nil }
        unsafe (self.scope, self.slot, self.identity, path) = (scope, slot, identity, [])
    }

    private init(_ root: LuaTable, _ path: [LuaValue]) {
        unsafe (scope, slot, identity, self.path) = (root.scope, root.slot, root.identity, path)
    }

    /// The number of elements, as `#` counts them.
    ///
    /// - Throws: an error of the kind `conversion` if the script has replaced the table by another value.
    public var count: Int {
        get throws {
            try readingTable { call, index in
                unsafe Int(call.isTable(at: index) ? lua_Integer(lua_rawlen(call.lua, index)) : clua_frozen_count(call.lua, index))
            }
        }
    }

    /// Copies of all keys, in no particular order. O(n).
    ///
    /// - Throws: an error of the kind `conversion` if the script has replaced the table by another value.
    public var keys: [LuaValue] {
        get throws {
            try readingTable { call, index in
                try unsafe call.state.attempt { lua, failure in unsafe clua_list_keys(lua, index, &failure) }
                return try call.array(at: call.count) { key, _ throws(CallError) in try call.value(at: key) }
            }
        }
    }

    /// A copy of the value at a key, or at the end of a path of keys: `orders[3, "price"]`. `.nil` if there is none.
    public subscript(path: any LuaConvertible...) -> LuaValue {
        get throws { try reading(path.map { try $0.toLua() }) { call, index in try call.value(at: index) } }
    }

    /// The value at a key or at the end of a path as an instance of a `Decodable` type.
    ///
    /// - Throws: an error of the kind `conversion` if the value does not fit.
    public func decode<Value: Decodable>(_ type: Value.Type = Value.self, at path: any LuaConvertible...) throws -> Value {
        let path = try path.map { try $0.toLua() }
        let value = try reading(path) { call, index in try call.value(at: index) }
        return try Self.explaining(path) { try LuaDecoder().decode(type, from: value) }
    }

    /// The table at a key or at the end of a path, without a copy.
    ///
    /// - Throws: an error of the kind `conversion` if there is no table.
    public func table(at path: any LuaConvertible...) throws -> LuaTable {
        let path = try path.map { try $0.toLua() }
        try Self.explaining(path) {
            try reading(path) { call, index in try call.checkReadable(at: index) }
        }
        return LuaTable(self, self.path + path)
    }

    /// Adds the path to an error about a value that does not fit.
    private static func explaining<Result>(_ path: [LuaValue], _ body: () throws -> Result) throws -> Result {
        do { return try body() } catch {
            guard let mismatch = error as? Mismatch ?? (error as? LuaError)?.mismatch else { throw error }
            throw LuaError(Mismatch(path: path.map { Mismatch.Component($0) } + mismatch.path, reason: mismatch.reason))
        }
    }

    /// Calls `read` with the stack index of this table, if a table is still there.
    private func readingTable<Result>(_ read: (Call, Int32) throws -> Result) throws -> Result {
        try reading([]) { call, index in
            try Self.explaining(path) { try call.checkReadable(at: index) }
            return try read(call, index)
        }
    }

    /// Calls `read` with the stack index of the value at the end of a path.
    private func reading<Result>(_ path: [LuaValue], _ read: (Call, Int32) throws -> Result) throws -> Result {
        // Inside another call, the stack index would mean a value of that call.
        guard let call = scope.call, unsafe call.state.running == call.lua, unsafe lua_topointer(call.lua, slot) == identity else {
            throw LuaError(
                message: "a LuaTable is read outside of the call whose argument it is: read what is needed before, or take a LuaValue")
        }
        guard unsafe lua_checkstack(call.lua, 4) != 0 else { throw CallError.message("stack overflow") }
        let base = call.count
        defer { unsafe lua_settop(call.lua, base) }
        unsafe lua_pushvalue(call.lua, slot)
        for key in self.path + path { try call.goDown(to: key) }
        return try read(call, base + 1)
    }
}

/// A `LuaTable` belongs to the thread of its call.
@available(*, unavailable) extension LuaTable: Sendable {}

extension LuaTable: LuaConvertible {
    /// Reads the argument in place.
    public static func read(from call: borrowing LuaCall, at index: Int) throws -> LuaTable { try call.table(at: index) }

    /// Throws an error: only a whole argument can be read in place.
    public static func fromLua(_ value: LuaValue) throws -> LuaTable {
        throw LuaError(message: "a LuaTable is a parameter itself, not a part of another one: take that as a LuaTable, and use table(at:)")
    }

    /// A copy of the table.
    public func toLua() throws -> LuaValue { try reading([]) { call, index in try call.value(at: index) } }
}

extension Call {
    /// Whether the value is a table, which may be frozen.
    fileprivate func isReadable(at index: Int32) -> Bool { unsafe isTable(at: index) || clua_is_frozen(lua, index) }

    fileprivate func checkReadable(at index: Int32) throws {
        guard isReadable(at: index) else { throw Mismatch(expected: "a table", found: try value(at: index)) }
    }

    /// Replaces the value on top by its field at `key`: nil if the field is missing, or the value is no table. Needs 3 free stack slots.
    fileprivate func goDown(to key: LuaValue) throws {
        let index = count
        switch key {
        case .integer(let number): unsafe lua_pushinteger(lua, lua_Integer(number))
        case .string(var text):
            let status = text.withUTF8 { utf8 in
                unsafe clua_push_bytes(lua, UnsafeRawPointer(utf8.baseAddress)?.assumingMemoryBound(to: CChar.self), utf8.count)
            }
            if status != LUA_OK { throw CallError.noMemory }
        default: try push([key])
        }
        if isTable(at: index) {
            try showStatus(at: index)
            unsafe lua_rawget(lua, index)
        } else if unsafe clua_is_frozen(lua, index) {
            try unsafe state.attempt { lua, failure in unsafe clua_frozen_field(lua, index, &failure) }
        } else {
            unsafe lua_pushnil(lua)
        }
        unsafe lua_copy(lua, count, index)
        unsafe lua_settop(lua, index)
    }
}
