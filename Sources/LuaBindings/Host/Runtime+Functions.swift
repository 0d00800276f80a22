import OpEngine

/// Functions of the host. A registered function is a global of every state.
///
/// The thread of the calling state calls the function, so several calls may run at once. An error that a function throws becomes a Lua
/// error at the call, with the position of the caller. If no script handles the error, it reaches the host as a `LuaError` or an
/// `OperationFailure` with Lua's traceback. Its `underlyingError` is the error of the function.
extension Runtime {
    /// Makes `function` a global function of every state. The function gets all arguments, and may return any number of results.
    ///
    /// - Throws: an error if the runtime is closed or memory has run out.
    public func register(_ name: String, _ function: @escaping @Sendable ([LuaValue]) throws -> [LuaValue]) throws(LuaError) {
        try registerDirect(name) { call in
            var arguments: [LuaValue] = []
            arguments.reserveCapacity(call.argumentCount)
            for index in 0..<call.argumentCount { arguments.append(try call.value(at: index + 1)) }
            for result in try function(arguments) { try call.push(result) }
        }
    }

    /// Makes `function` a global function of every state. A call costs the least: the function reads its arguments itself.
    ///
    /// - Throws: an error if the runtime is closed or memory has run out.
    public func registerDirect(_ name: String, _ function: @escaping @Sendable (borrowing LuaCall) throws -> Void) throws(LuaError) {
        try add(HostFunction(name, function))
    }

    /// Makes a function with typed parameters a global function of every state.
    ///
    /// ```swift
    /// try runtime.register("price") { (name: String, count: Int) in 3 * count }
    /// ```
    ///
    /// If an argument does not fit, the error names the argument, as for Lua's own functions. A missing argument is nil, which fits an optional.
    /// Further arguments are ignored.
    ///
    /// - Throws: an error if the runtime is closed or memory has run out.
    @_disfavoredOverload
    @inlinable
    public func register<each Parameter: LuaConvertible, Result: LuaConvertible>(
        _ name: String, _ function: @escaping @Sendable (repeat each Parameter) throws -> Result
    ) throws(LuaError) {
        try registerDirect(name) { call in
            var index = 0
            try function(repeat call.next(&index, (each Parameter).self)).write(to: call)
        }
    }

    /// Makes a function with typed parameters and no result a global function of every state.
    @_disfavoredOverload
    @inlinable
    public func register<each Parameter: LuaConvertible>(
        _ name: String, _ function: @escaping @Sendable (repeat each Parameter) throws -> Void
    ) throws(LuaError) {
        try registerDirect(name) { call in
            var index = 0
            try function(repeat call.next(&index, (each Parameter).self))
        }
    }

    /// Makes an asynchronous function a global function of every state. Scripts call it like any other: the call returns when the function
    /// has returned.
    ///
    /// Meanwhile the call occupies the calling body's worker, which delivers callbacks, and another thread takes over the worker's other work.
    /// In the main state, the call occupies the main state's thread, as a wait of the script does; a function that needs that thread never
    /// returns. If the operation is cancelled, interrupted or out of time, the function's task is cancelled and the call ends at once
    /// with an error, whether or not the function notices.
    @_disfavoredOverload
    public func register<each Parameter: LuaConvertible & Sendable, Result: LuaConvertible & Sendable>(
        _ name: String, _ function: @escaping @Sendable (repeat each Parameter) async throws -> Result
    ) throws(LuaError) {
        try registerDirect(name) { call in
            var index = 0
            let arguments = (repeat try call.next(&index, (each Parameter).self))
            try call.waiting { try await function(repeat each arguments) }.write(to: call)
        }
    }

    /// Makes an asynchronous function without a result a global function of every state.
    @_disfavoredOverload
    public func register<each Parameter: LuaConvertible & Sendable>(
        _ name: String, _ function: @escaping @Sendable (repeat each Parameter) async throws -> Void
    ) throws(LuaError) {
        try registerDirect(name) { call in
            var index = 0
            let arguments = (repeat try call.next(&index, (each Parameter).self))
            try call.waiting { try await function(repeat each arguments) }
        }
    }

    /// Makes a class of the host known in every state. Objects that scripts got before have no members.
    ///
    /// - Throws: an error if the runtime is closed or memory has run out.
    public func register<Object>(_ objectClass: LuaClass<Object>) throws(LuaError) {
        try add(HostClass(objectClass.name, of: Object.self, objectClass.members))
    }

    func add(_ registration: any Registration) throws(LuaError) {
        try inside { state throws(Failure) in
            core.register(registration)
            try core.prepare(state)
        }
    }
}
