import CLua

/// A function that runs once in each worker's state, before the next operation there.
struct Prelude: Sendable {
    let body: Parcel
    /// The name of the prelude in messages.
    let label: String
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
        publishSettings()
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
