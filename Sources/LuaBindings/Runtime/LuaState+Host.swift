import CLua
import Glibc
import OpEngine
import Synchronization

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

    /// Pops the script on top of the stack and calls it with the present elements of the global `arg`.
    func callWithGlobalArguments() throws(Failure) {
        let lua = unsafe running, base = unsafe lua_gettop(lua) - 1
        defer { unsafe lua_settop(lua, base) }
        do throws(Failure) {
            try unsafe attempt { lua, failure in unsafe clua_push_arguments(lua, &failure) }
        } catch { throw error.with(message: error.message) }
        let count = unsafe lua_gettop(lua) - base - 1
        try unsafe attempt { lua, failure in unsafe clua_call_script(lua, count, 0, &failure) }
    }

    /// Compiles an expression, or else a script, and pushes its main function.
    func load(expression source: String, name: String) throws(Failure) {
        do throws(Failure) { try load("return \(source)", name: name) } catch {
            guard error.isSyntaxError else { throw error }
            try load(source, name: name)
        }
    }

    /// Runs a script that returns a table of functions, and keeps the table for `callConsole`.
    func openConsole(_ source: String, name: String) throws(Failure) {
        try load(source, name: name)
        try unsafe attempt { lua, failure in unsafe clua_call_script(lua, 0, 1, &failure) }
        unsafe clua_keep_console(running)
        core.hasConsole.store(true, ordering: .relaxed)
    }

    func setArguments(_ arguments: [String], script: Int) throws(Failure) {
        try unsafe attempt { lua, failure in
            unsafe withCStrings(arguments) { unsafe clua_set_arguments(lua, $0, Int32(arguments.count), Int32(script), &failure) }
        }
    }

    func require(_ module: String, as global: String) throws(Failure) {
        try unsafe attempt { lua, failure in unsafe clua_require(lua, module, global, &failure) }
    }

    /// Runs the callbacks and main-queue operations that have arrived, within `limit` unless it is nil. They do not belong to the calling code.
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

    /// Publishes those settings of the main state that have changed.
    func publishSettings() {
        guard number == RuntimeCore.mainStateNumber else { return }
        let changed = unsafe clua_changed_settings(running)
        if changed == 0 { return }
        for setting in [CLUA_PATHS, CLUA_LOADERS] where changed & setting.rawValue != 0 {
            var contents = unsafe clua_parcel()
            // After a failure, such as one of memory, the next operation tries again. The workers keep what they have.
            do throws(Failure) {
                try unsafe attempt { lua, failure in unsafe clua_encode_settings(lua, setting, &contents, &failure) }
            } catch { continue }
            let parcel = unsafe Parcel(contents)
            if setting == CLUA_PATHS { core.publish(paths: parcel) } else { core.publish(loaders: parcel) }
        }
    }

    func apply(_ setting: Parcel) throws(Failure) {
        try unsafe attempt { lua, failure in unsafe clua_apply_settings(lua, setting.pointer, &failure) }
    }
}

/// Calls `body` with C strings that are valid during the call.
private func withCStrings<Result>(_ strings: [String], _ body: (UnsafePointer<UnsafePointer<CChar>?>) -> Result) -> Result {
    // For an array, Swift would make a type when the command starts, which takes 33,000 instructions.
    let copies = UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>.allocate(capacity: strings.count + 1)
    for (index, string) in strings.enumerated() { unsafe copies[index] = unsafe string.withCString { unsafe strdup($0) } }
    unsafe copies[strings.count] = nil
    defer {
        for index in strings.indices { unsafe free(copies[index]) }
        unsafe copies.deallocate()
    }
    return unsafe copies.withMemoryRebound(to: UnsafePointer<CChar>?.self, capacity: strings.count + 1) { unsafe body($0) }
}
