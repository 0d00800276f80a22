import CLua
import Glibc
import OpEngine

/// The host's use of the main state. Each function leaves the stack as it was, unless its comment says otherwise.
extension LuaState {
    /// Compiles a script and pushes its main function.
    func load(_ source: String, name: String) throws(Failure) {
        var source = source
        try unsafe attempt { lua, failure in
            source.withUTF8 { utf8 in
                unsafe clua_load_string(
                    lua, UnsafeRawPointer(utf8.baseAddress)?.assumingMemoryBound(to: CChar.self), utf8.count, name, &failure)
            }
        }
    }

    /// Compiles a file, or standard input if `file` is nil, and pushes its main function.
    func load(file: String?) throws(Failure) {
        try unsafe attempt { lua, failure in
            if let file { unsafe clua_load_file(lua, file, &failure) } else { unsafe clua_load_file(lua, nil, &failure) }
        }
    }

    /// Compiles a file, or standard input if `file` is nil, and discards the result.
    func check(file: String?) throws(Failure) {
        try load(file: file)
        unsafe lua_settop(running, -2)
    }

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

    /// Pops the script on top of the stack and calls it with the present elements of the global `arg`.
    func callWithGlobalArguments() throws(Failure) {
        try withCall { call throws(Failure) in
            let base = call.count - 1
            defer { unsafe lua_settop(call.lua, base) }
            do throws(Failure) {
                try unsafe attempt { lua, failure in unsafe clua_push_arguments(lua, &failure) }
            } catch { throw error.with(message: error.message) }
            let count = Int32(call.count - base - 1)
            try unsafe attempt { lua, failure in unsafe clua_call_script(lua, count, 0, &failure) }
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
            publishPaths()
            return try encode(count: 1, CLUA_BODY)
        }
    }

    /// Compiles an expression, or else a script, and pushes its main function.
    func load(expression source: String, name: String) throws(Failure) {
        do throws(Failure) { try load("return \(source)", name: name) } catch {
            guard error.isSyntaxError else { throw error }
            try load(source, name: name)
        }
    }

    /// Prints the values of an expression, or runs statements.
    func runLine(_ source: String, name: String) throws(Failure) {
        try load(expression: source, name: name)
        try withCall { call throws(Failure) in
            let base = call.count - 1
            defer { unsafe lua_settop(call.lua, base) }
            try unsafe attempt { lua, failure in unsafe clua_call_script(lua, 0, LUA_MULTRET, &failure) }
            if call.count == base { return }
            if hasConsole { try unsafe attempt { lua, failure in unsafe clua_call_console(lua, "format", call.count - base, &failure) } }
            let count = call.count - base
            do throws(Failure) {
                try unsafe attempt { lua, failure in unsafe clua_print(lua, count, &failure) }
            } catch { throw error.with(message: "error calling 'print' (\(error.message))") }
        }
    }

    /// Runs a script that returns a table of functions, and keeps the table for `callConsole`.
    func openConsole(_ source: String, name: String) throws(Failure) {
        try load(source, name: name)
        try unsafe attempt { lua, failure in unsafe clua_call_script(lua, 0, 1, &failure) }
        unsafe clua_keep_console(running)
        hasConsole = true
    }

    /// Calls a function of the console.
    func callConsole(_ function: String, _ arguments: [LuaValue]) throws(Failure) -> [LuaValue] {
        try withCall { call throws(Failure) in
            let base = call.count
            defer { unsafe lua_settop(call.lua, base) }
            try call.pushOrFail(arguments)
            try unsafe attempt { lua, failure in unsafe clua_call_console(lua, function, Int32(arguments.count), &failure) }
            return try call.valuesOrFail(from: base + 1)
        }
    }

    func setArguments(_ arguments: [String], script: Int) throws(Failure) {
        try unsafe attempt { lua, failure in
            unsafe withCStrings(arguments) { unsafe clua_set_arguments(lua, $0, Int32(arguments.count), Int32(script), &failure) }
        }
    }

    func require(_ module: String, as global: String) throws(Failure) {
        try unsafe attempt { lua, failure in unsafe clua_require(lua, module, global, &failure) }
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

    /// Runs callbacks and main-queue operations that have arrived, up to the limit if there is one. They are not part of the code that
    /// calls this.
    func drain(_ limit: DrainLimit?) {
        let (call, outer) = (stoppableCall, drainLimit)
        (stoppableCall, drainLimit) = (nil, limit)
        defer { (stoppableCall, drainLimit) = (call, outer) }
        suspended(by: nil) {
            _ = inbox.drain {
                if let call, call.isStopped { return false }
                return drainLimit?.allowsMore() ?? true
            }
        }
    }

    /// Waits until `operation` has finished.
    func wait(for operation: Operation) throws(Failure) {
        if operation.isFinished { return }
        let inbox = inbox
        operation.whenFinished { inbox.wake() }
        let outcome: Inbox.Outcome
        do throws(CallError) { outcome = try wait(deadline: nil, until: { operation.isFinished }) } catch { throw Failure(error) }
        if outcome == .stalled { throw Failure(message: Stall.message(for: [operation])) }
    }

    func enableWarnings() { unsafe clua_enable_warnings(running) }

    // MARK: what workers inherit

    /// Publishes the main state's `package.path`, `package.cpath` and `arg`, if they have changed.
    func publishPaths() {
        guard number == RuntimeCore.mainStateNumber, unsafe clua_paths_changed(running) else { return }
        var contents = unsafe clua_parcel()
        // A failure here means that memory has run out. The script's next step reports that.
        try? unsafe attempt { lua, failure in unsafe clua_encode_paths(lua, &contents, &failure) }
        core.publish(paths: unsafe Parcel(contents))
    }

    func apply(paths: Parcel) throws(Failure) {
        try unsafe attempt { lua, failure in unsafe clua_apply_paths(lua, paths.pointer, &failure) }
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

extension Failure {
    /// Makes the failure of a call that the host has made, not Lua.
    init(_ error: CallError) {
        switch error {
        case .message(let text), .argument(_, let text): self.init(message: text)
        case .noMemory:
            self.init(message: "not enough memory")
            isMemoryError = true
        case .stop: self.init(message: "error")
        }
    }
}

/// Calls `body` with C strings that are valid during the call.
private func withCStrings<Result>(_ strings: [String], _ body: (UnsafePointer<UnsafePointer<CChar>?>) -> Result) -> Result {
    // Not an array: Swift would make its type when the command starts, which takes 33,000 instructions.
    let copies = UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>.allocate(capacity: strings.count + 1)
    for (index, string) in strings.enumerated() { unsafe copies[index] = unsafe string.withCString { unsafe strdup($0) } }
    unsafe copies[strings.count] = nil
    defer {
        for index in strings.indices { unsafe free(copies[index]) }
        unsafe copies.deallocate()
    }
    return unsafe copies.withMemoryRebound(to: UnsafePointer<CChar>?.self, capacity: strings.count + 1) { unsafe body($0) }
}
