import CLua
import Synchronization

/// Calls that pass values of the host to the main state, or from it. Each leaves the stack as it was, unless its comment says otherwise.
extension LuaState {
    /// Pops the function on top of the stack and calls it.
    func call(_ arguments: [LuaValue]) throws(Failure) -> [LuaValue] {
        try withCall { call throws(Failure) in
            let base = call.count - 1
            defer { unsafe lua_settop(call.lua, base) }
            try call.pushOrFail(arguments)
            try unsafe attempt { lua, failure in unsafe clua_call_script(lua, Int32(arguments.count), LUA_MULTRET, &failure) }
            return try call.valuesOrFail(from: base + 1)
        }
    }

    /// Pops the script on top of the stack, calls it and copies the function that it returns.
    func copyFunction(calledWith arguments: [LuaValue], name: String) throws(Failure) -> Parcel {
        try withCall { call throws(Failure) in
            let base = call.count - 1
            defer { unsafe lua_settop(call.lua, base) }
            try call.pushOrFail(arguments)
            try unsafe attempt { lua, failure in unsafe clua_call_script(lua, Int32(arguments.count), LUA_MULTRET, &failure) }
            guard call.count == base + 1, call.type(at: base + 1) == LUA_TFUNCTION else {
                let shown = name.hasPrefix("=") || name.hasPrefix("@") ? name.dropFirst() : "script"
                throw Failure(message: "'\(shown)' must return one function")
            }
            publishSettings()
            return try encode(count: 1, CLUA_BODY)
        }
    }

    /// Prints the values of an expression, or runs statements. The console decides which variables stay and how values look, unless `isPlain`.
    func runLine(_ source: String, name: String, isPlain: Bool) throws(Failure) {
        try load(expression: source, name: name)
        let lua = unsafe running, base = unsafe lua_gettop(lua) - 1
        defer { unsafe lua_settop(lua, base) }
        let usesConsole = !isPlain && core.hasConsole.load(ordering: .relaxed)
        if usesConsole {
            try unsafe Call(lua: lua, state: self).pushOrFail([.string(source)])
            try unsafe attempt { lua, failure in unsafe clua_call_console(lua, "bind", 2, &failure) }
        }
        try unsafe attempt { lua, failure in unsafe clua_call_script(lua, 0, LUA_MULTRET, &failure) }
        let count = unsafe lua_gettop(lua) - base
        if count == 0 { return }
        if usesConsole { try unsafe attempt { lua, failure in unsafe clua_call_console(lua, "format", count, &failure) } }
        let shown = unsafe lua_gettop(lua) - base
        do throws(Failure) {
            try unsafe attempt { lua, failure in unsafe clua_print(lua, shown, &failure) }
        } catch { throw error.with(message: "error calling 'print' (\(error.message))") }
    }

    /// Calls a function of the console.
    func callConsole(_ function: String, _ arguments: [LuaValue]) throws(Failure) -> [LuaValue] {
        try withCall { call throws(Failure) in
            let base = call.count
            defer { unsafe lua_settop(call.lua, base) }
            try call.pushOrFail(arguments)
            try unsafe attemptToEnd { lua, failure in unsafe clua_call_console(lua, function, Int32(arguments.count), &failure) }
            return try call.valuesOrFail(from: base + 1)
        }
    }

    /// Decodes a parcel for the host.
    func values(of parcel: Parcel) throws(Failure) -> [LuaValue] {
        defer { withExtendedLifetime(parcel) {} }
        return try unsafe values(of: parcel.pointer.pointee)
    }

    /// Decodes a parcel that the caller keeps.
    func values(of parcel: clua_parcel) throws(Failure) -> [LuaValue] {
        var parcel = unsafe parcel
        return try withCall { call throws(Failure) in
            let base = call.count
            defer { unsafe lua_settop(call.lua, base) }
            try unsafe decode(&parcel)
            return try call.valuesOrFail(from: base + 1)
        }
    }

    private func withCall<T>(_ body: (Call) throws(Failure) -> T) throws(Failure) -> T {
        try unsafe body(Call(lua: running, state: self))
    }
}

extension Call {
    fileprivate func pushOrFail(_ values: [LuaValue]) throws(Failure) {
        do throws(CallError) { try push(values) } catch { throw Failure(error) }
    }

    fileprivate func valuesOrFail(from first: Int32) throws(Failure) -> [LuaValue] {
        do throws(CallError) { return try values(from: first) } catch { throw Failure(error) }
    }
}
