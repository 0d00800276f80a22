import CLua

/// A function that runs once in each worker's state, before the next operation there.
struct Prelude: Sendable {
    let body: Parcel
    /// The name of the prelude in messages.
    let label: String
}

extension Call {
    /// `opscript.prelude(f)`.
    func addPrelude() throws(CallError) -> Answer {
        try requireKeeping("opscript.prelude")
        guard isFunction(at: 1) else { throw expected("function", at: 1) }
        let label = functionLabel(at: 1)
        unsafe lua_settop(lua, 1)
        state.publishPaths()
        do throws(Failure) { state.core.add(Prelude(body: try state.encode(count: 1, CLUA_BODY), label: label)) } catch {
            throw CallError(error)
        }
        return .nothing
    }

    /// The name in messages of the function at a stack index: where it is defined.
    func functionLabel(at index: Int32) -> String {
        unsafe withUnsafeTemporaryAllocation(of: CChar.self, capacity: 128) { buffer in
            unsafe clua_function_label(lua, index, buffer.baseAddress, buffer.count)
            return unsafe buffer.baseAddress.map { unsafe String(cString: $0) } ?? ""
        }
    }

    /// `opscript.captures(f)`.
    func captures() throws(CallError) -> Answer {
        guard isFunction(at: 1) else { throw expected("function", at: 1) }
        do throws(Failure) {
            try unsafe state.attempt { lua, failure in unsafe clua_captures(lua, 1, &failure) }
        } catch { throw CallError(error) }
        return .values(1)
    }
}

extension Runtime {
    /// Runs a script in the main state now, and in each worker's state before its next operation. Its assignments to globals then belong to
    /// every state, and are not sent with functions. Host functions that the script uses must be registered before.
    ///
    /// - Throws: the error that the script raises in the main state. An error in a worker's state is the error of the operation there.
    public func addPrelude(_ source: String, name: String = "=prelude") throws(LuaError) {
        try inside { state throws(Failure) in try state.addPrelude(source, name: name) }
    }
}

extension LuaState {
    /// Runs a script here, in the main state, and makes it a prelude of the others.
    fileprivate func addPrelude(_ source: String, name: String) throws(Failure) {
        let base = unsafe lua_gettop(running)
        defer { unsafe lua_settop(running, base) }
        try load(source, name: name)
        let body = try encode(count: 1, CLUA_BODY)
        try unsafe attempt { lua, failure in unsafe clua_run_prelude(lua, body.pointer, &failure) }
        publishPaths()
        core.add(Prelude(body: body, label: "<\(name.hasPrefix("=") || name.hasPrefix("@") ? String(name.dropFirst()) : "script")>"))
    }

    /// Runs the preludes that this state has not yet run, before an operation runs here. A prelude that fails runs again before the next
    /// operation.
    func runPreludes() throws(Failure) {
        // A prelude may start an operation, which must not run the preludes again.
        guard ranPreludeCount < preludes.count, !isRunningPrelude else { return }
        isRunningPrelude = true
        defer { isRunningPrelude = false }
        while ranPreludeCount < preludes.count {
            let prelude = preludes[ranPreludeCount]
            do throws(Failure) {
                try unsafe attempt { lua, failure in unsafe clua_run_prelude(lua, prelude.body.pointer, &failure) }
            } catch {
                var failure = error
                failure.message = "the prelude \(prelude.label) failed: \(error.message)"
                throw failure
            }
            ranPreludeCount += 1
        }
    }
}
