import LuaBindings
import OpEngine

/// Enters a runtime, and calls `body`.
///
/// - Parameter function: the function in C, for messages.
func entering<Result>(
    _ runtime: OpaquePointer?, _ function: StaticString, _ place: ErrorPlace?, _ body: (Runtime) throws -> Result
) -> Result? {
    reporting("\(function)", to: place) {
        let runtime: Runtime = try require(runtime, "runtime")
        if runtime.isClosed { throw Misuse("the runtime is closed") }
        if isWorker(of: runtime) {
            throw Misuse("an operation calls the runtime that runs it: add an operation to the main queue instead, which may call it")
        }
        guard let result = try runtime.tryEnter(function, { try body(runtime) }) else {
            throw Misuse("another thread is inside the runtime: one thread at a time may be, so guard it with a lock")
        }
        return result
    }
}

private func isWorker(of runtime: Runtime) -> Bool { Worker.current?.engine === runtime.engine }

/// `opscript_runtime_new`
@_cdecl("opscript_runtime_new")
public func newRuntime(_ configuration: OpaquePointer?, _ error: ErrorPlace?) -> OpaquePointer? {
    reporting("opscript_runtime_new", to: error) {
        guard let configuration = object(configuration, as: ConfigurationObject.self) else { return retained(try Runtime()) }
        return retained(try Runtime(configuration.complete()))
    }
}

/// `opscript_runtime_close`
@_cdecl("opscript_runtime_close")
public func close(_ runtime: OpaquePointer?, _ deadline: Double, _ error: ErrorPlace?) -> OpaquePointer? {
    reporting("opscript_runtime_close", to: error) {
        let runtime: Runtime = try require(runtime, "runtime")
        let deadline = try duration(deadline, "the deadline") ?? longest
        if runtime.isInside { throw Misuse("a call closes the runtime that it is inside: close it when the call has returned") }
        if isWorker(of: runtime) { throw Misuse("an operation closes the runtime that runs it: the program must do that") }
        return retained(ListObject(runtime.close(deadline: deadline).map { .string($0) }))
    }
}

/// `opscript_runtime_free`
@_cdecl("opscript_runtime_free")
public func freeRuntime(_ reference: OpaquePointer?) -> Bool {
    guard let runtime = object(reference, as: Runtime.self) else { return true }
    if !runtime.isClosed {
        if runtime.isInside || isWorker(of: runtime) { return false }
        runtime.close()
    }
    guard runtime.isClosed else { return false }
    release(reference, as: Runtime.self)
    return true
}
