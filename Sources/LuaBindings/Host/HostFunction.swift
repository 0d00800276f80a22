import CLua
import OpEngine

/// A Swift function that scripts can call in every state. C keeps its address, and the runtime keeps the function until its states are
/// closed.
final class HostFunction: Sendable {
    let name: String
    let body: @Sendable (borrowing LuaCall) throws -> Void

    init(_ name: String, _ body: @escaping @Sendable (borrowing LuaCall) throws -> Void) { (self.name, self.body) = (name, body) }

    /// See `clua_registered_function`.
    static func call(_ lua: OpaquePointer?, _ function: UnsafeMutableRawPointer?, _ reply: UnsafeMutablePointer<clua_reply>?) -> Int32 {
        guard let lua = unsafe lua, let function = unsafe function, let reply = unsafe reply else { return 0 }
        return unsafe LuaState.with(lua) { state in
            unsafe state.whileRunning(lua) {
                unsafe Unmanaged<HostFunction>.fromOpaque(function)._withUnsafeGuaranteedRef { function in
                    var progress = LuaCall.Progress()
                    defer { progress.end() }
                    do {
                        try unsafe withUnsafeMutablePointer(to: &progress) { progress in
                            try unsafe function.body(LuaCall(lua: lua, progress: progress))
                        }
                        return progress.resultCount
                    } catch {
                        unsafe reply.initialize(to: clua_reply())
                        unsafe state.callError(for: error).write(to: reply)
                        return CLUA_REPLIED
                    }
                }
            }
        }
    }
}

extension HostFunction: Registration {
    func register(in lua: OpaquePointer, _ failure: inout clua_failure) -> Int32 {
        unsafe withDescription { unsafe clua_register(lua, $0, &failure) }
    }

    func register(inProcess process: OpaquePointer, _ failure: inout clua_failure) -> Int32 {
        unsafe withDescription { unsafe clua_process_register(process, $0, &failure) }
    }

    private func withDescription(_ body: (clua_named_function) -> Int32) -> Int32 {
        unsafe name.withCString { unsafe body(clua_named_function(name: $0, function: Unmanaged.passUnretained(self).toOpaque())) }
    }
}

/// Finds modules for `require`. See `Runtime.Configuration.moduleLoader`.
final class ModuleLoader: Registration {
    private let function: HostFunction

    /// - Parameter source: returns the text of a module, and its name in messages; nil if there is no such module.
    init(_ source: @escaping @Sendable (String) throws -> (text: [UInt8], chunkName: String)?) {
        function = HostFunction("require") { call in
            guard let (text, chunkName) = try source(try call.string(at: 1)) else { return }
            try call.push(LuaValue(bytes: text))
            try call.push(chunkName)
        }
    }

    var name: String { function.name }

    func register(in lua: OpaquePointer, _ failure: inout clua_failure) -> Int32 {
        unsafe clua_register_loader(lua, Unmanaged.passUnretained(function).toOpaque(), &failure)
    }

    func register(inProcess process: OpaquePointer, _ failure: inout clua_failure) -> Int32 {
        unsafe clua_process_register_loader(process, Unmanaged.passUnretained(function).toOpaque(), &failure)
    }
}

extension LuaState {
    /// The Lua error for an error of a host function.
    fileprivate func callError(for error: any Error) -> CallError {
        switch error {
        case let error as CallError: return error
        case let failure as Failure: return CallError(failure)
        case let mismatch as Mismatch: return .message(mismatch.message)
        case let error as LuaError:
            if case .memory = error.kind { return .noMemory }
            thrownByHost = (error.message, error)
            return .message(error.message)
        default:
            let message = "\(error)"
            thrownByHost = (message, error)
            return .message(message)
        }
    }
}
