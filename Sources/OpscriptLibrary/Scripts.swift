public import COpscript
import LuaBindings

/// The functions that run scripts.

/// `opscript_run`
@_cdecl("opscript_run")
public func run(
    _ runtime: OpaquePointer?, _ source: UnsafePointer<CChar>?, _ length: Int, _ name: UnsafePointer<CChar>?,
    _ arguments: OpaquePointer?, _ error: ErrorPlace?
) -> OpaquePointer? {
    entering(runtime, "opscript_run", error) { runtime in
        let source = try text(source, length, "source")
        return retained(ListObject(try runtime.run(source, name: try chunkName(name, "=script"), arguments: luaValues(arguments))))
    }
}

/// `opscript_run_file`
@_cdecl("opscript_run_file")
public func runFile(
    _ runtime: OpaquePointer?, _ path: UnsafePointer<CChar>?, _ arguments: OpaquePointer?, _ error: ErrorPlace?
) -> OpaquePointer? {
    entering(runtime, "opscript_run_file", error) { runtime in
        retained(ListObject(try runtime.run(file: try text(path, "path"), arguments: luaValues(arguments))))
    }
}

/// `opscript_evaluate`
@_cdecl("opscript_evaluate")
public func evaluate(
    _ runtime: OpaquePointer?, _ source: UnsafePointer<CChar>?, _ length: Int, _ name: UnsafePointer<CChar>?,
    _ arguments: OpaquePointer?, _ error: ErrorPlace?
) -> OpaquePointer? {
    entering(runtime, "opscript_evaluate", error) { runtime in
        let source = try text(source, length, "source")
        let name = try chunkName(name, "=expression")
        return retained(ValueObject(try runtime.evaluate(source, name: name, arguments: luaValues(arguments))))
    }
}

/// `opscript_call`
@_cdecl("opscript_call")
public func call(
    _ runtime: OpaquePointer?, _ function: UnsafePointer<CChar>?, _ arguments: OpaquePointer?, _ error: ErrorPlace?
) -> OpaquePointer? {
    entering(runtime, "opscript_call", error) { runtime in
        retained(ListObject(try runtime.call(try text(function, "function"), arguments: luaValues(arguments))))
    }
}

/// `opscript_get_global`
@_cdecl("opscript_get_global")
public func getGlobal(_ runtime: OpaquePointer?, _ name: UnsafePointer<CChar>?, _ error: ErrorPlace?) -> OpaquePointer? {
    entering(runtime, "opscript_get_global", error) { runtime in
        retained(ValueObject(try runtime.global(try text(name, "name"))))
    }
}

/// `opscript_set_global`
@_cdecl("opscript_set_global")
public func setGlobal(_ runtime: OpaquePointer?, _ name: UnsafePointer<CChar>?, _ value: OpaquePointer?, _ error: ErrorPlace?) -> Bool {
    entering(runtime, "opscript_set_global", error) { runtime in
        try runtime.setGlobal(try text(name, "name"), to: luaValue(value))
    }.isDone
}

/// `opscript_register`
@_cdecl("opscript_register")
public func register(
    _ runtime: OpaquePointer?, _ name: UnsafePointer<CChar>?, _ function: opscript_host_function?,
    _ userData: UnsafeMutableRawPointer?, _ destroy: opscript_destructor?, _ error: ErrorPlace?
) -> Bool {
    let data = UserData(userData, destroy)
    return entering(runtime, "opscript_register", error) { runtime in
        guard let function else { throw Misuse("function is NULL") }
        try runtime.register(try text(name, "name"), hostFunction(function, data))
    }.isDone
}

/// `opscript_function_new`
@_cdecl("opscript_function_new")
public func newFunction(
    _ runtime: OpaquePointer?, _ source: UnsafePointer<CChar>?, _ length: Int, _ name: UnsafePointer<CChar>?,
    _ arguments: OpaquePointer?, _ error: ErrorPlace?
) -> OpaquePointer? {
    entering(runtime, "opscript_function_new", error) { runtime in
        let source = try text(source, length, "source")
        let name = try chunkName(name, "=function")
        return retained(FunctionObject(try runtime.function(source, name: name, arguments: luaValues(arguments))))
    }
}

/// `opscript_function_free`
@_cdecl("opscript_function_free")
public func freeFunction(_ function: OpaquePointer?) { release(function, as: FunctionObject.self) }

/// The object behind `opscript_function`.
final class FunctionObject: Sendable {
    let function: LuaFunction

    init(_ function: LuaFunction) { self.function = function }
}

private func chunkName(_ name: UnsafePointer<CChar>?, _ fallback: String) throws -> String {
    name == nil ? fallback : try text(name, "name")
}
