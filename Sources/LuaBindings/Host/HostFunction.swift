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
                            try unsafe function.body(LuaCall(lua: lua, state: state, progress: progress))
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

/// The registrations that the runtime applies to each of its states, in this order.
enum Registration {
    case function(HostFunction)
    case hostClass(HostClass)
    /// Finds modules. See `Runtime.Configuration.moduleLoader`.
    case loader(HostFunction)
}

extension LuaState {
    func register(_ registrations: ArraySlice<Registration>) throws(Failure) {
        for registration in registrations {
            switch registration {
            case .function(let function):
                try unsafe attempt { lua, failure in
                    unsafe function.name.withCString { name in
                        let pointer = unsafe Unmanaged.passUnretained(function).toOpaque()
                        return unsafe clua_register(lua, clua_named_function(name: name, function: pointer), &failure)
                    }
                }
            case .hostClass(let hostClass):
                try unsafe attempt { lua, failure in
                    unsafe hostClass.withDescription { unsafe clua_register_class(lua, $0, &failure) }
                }
            case .loader(let loader):
                try unsafe attempt { lua, failure in
                    unsafe clua_register_loader(lua, Unmanaged.passUnretained(loader).toOpaque(), &failure)
                }
            }
        }
    }

    /// The Lua error that an error of a host function becomes.
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
