import CLua
import OpEngine

/// Making a runtime whose states have the module `opscript`.
extension Runtime {
    /// Makes a runtime and its main state, on any thread. A worker makes its own state when it runs its first Lua function.
    ///
    /// - Throws: an error if memory has run out, if a fresh state exceeds `stateMemoryLimit`, if there is no executable for
    ///   `isolation`, or if this process was started as a worker process.
    public convenience init(_ configuration: Configuration = Configuration()) throws(LuaError) {
        try unsafe self.init(configuration, host: ScriptModule.host) { core in LuaState(core: core, inbox: core.engine.mainInbox) }
        if let limit = configuration.stateMemoryLimit, let main, main.usedBytes > limit {
            close()
            throw LuaError(message: "a stateMemoryLimit of \(limit) bytes is too little: a fresh Lua state holds more")
        }
        do throws(LuaError) { try apply(configuration) } catch {
            close()
            throw error
        }
    }

    /// Applies the settings that take effect in Lua.
    private func apply(_ configuration: Configuration) throws(LuaError) {
        if let observer = configuration.observer { engine.addObserver(observer) }
        if let paths = configuration.modulePaths { try setPackageField("path", to: paths) }
        if let paths = configuration.cModulePaths { try setPackageField("cpath", to: paths) }
        if let loader = configuration.moduleLoader {
            try add(ModuleLoader { name in try loader(name).map { (text: Array($0.utf8), chunkName: "@\(name)") } })
        }
        if let prelude = configuration.prelude { try addPrelude(prelude) }
    }

    private func setPackageField(_ name: String, to paths: [String]) throws(LuaError) {
        try run("local name, value = ...; package[name] = value", arguments: [.string(name), .string(paths.joined(separator: ";"))])
    }

    /// Makes the Lua state of an interpreter the main state of a new runtime, and pushes the module `opscript` there. The calling thread is
    /// inside from then on: it must be the only thread that uses the state.
    ///
    /// When the interpreter closes the state, Lua calls `ending` while the state still works. `ending` must call `stop` at last. The runtime
    /// calls `exiting` when an operation has called `os.exit`.
    ///
    /// - Returns: nil, with a message pushed, if the state cannot be adopted.
    @discardableResult
    package static func adopt(
        _ lua: OpaquePointer, ending: @escaping (Runtime) -> Void, exiting: @escaping (Runtime, Int32) -> Never
    ) -> Runtime? {
        guard unsafe clua_prepare_adoption(lua) == LUA_OK else { return nil }
        let adoption = Adoption(ending: ending, exiting: exiting)
        guard let runtime = unsafe try? Runtime(adopting: lua, adoption) else { return nil }
        adoption.runtime = runtime
        runtime.engine.entrance.enter("require(\"opscript\")")
        return runtime
    }

    private convenience init(adopting lua: OpaquePointer, _ adoption: Adoption) throws(LuaError) {
        var configuration = Configuration()
        configuration.scriptsMayExit = true
        try unsafe self.init(configuration, host: ScriptModule.host) { core in
            unsafe core.adoption = adoption
            return unsafe LuaState(core: core, inbox: core.engine.mainInbox, adopting: lua, adoption)
        }
    }
}
