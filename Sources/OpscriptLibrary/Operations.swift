public import COpscript
import LuaBindings
import OpEngine
import OpPlatform

/// An operation whose body is a function of the program.
// Safety: `body` and `data` do not change, and `results` is locked.
final class HostOperation: Operation, @unchecked Sendable {
    private let body: opscript_body
    private let data: UserData
    let results = Guarded<[LuaValue]>([])

    init(_ body: @escaping opscript_body, _ data: UserData) { (self.body, self.data) = (body, data) }

    override func main() {
        let list = ListObject()
        guard withExtendedLifetime(list, { body(data.pointer, borrowed(self), borrowed(list)) }) else {
            return fail(with: CallbackError(list))
        }
        results.withLock { $0 = list.luaValues }
    }
}

/// The operation at an address; nil for NULL.
private func operation(_ reference: OpaquePointer?) -> Operation? { object(reference) }

/// `opscript_operation_new`
@_cdecl("opscript_operation_new")
public func newOperation(_ function: OpaquePointer?, _ arguments: OpaquePointer?, _ error: ErrorPlace?) -> OpaquePointer? {
    reporting("opscript_operation_new", to: error) {
        let function: FunctionObject = try require(function, "function")
        return retained(LuaOperation(function.function, arguments: luaValues(arguments)))
    }
}

/// `opscript_operation_new_body`
@_cdecl("opscript_operation_new_body")
public func newOperation(
    _ body: opscript_body?, _ userData: UnsafeMutableRawPointer?, _ destroy: opscript_destructor?, _ error: ErrorPlace?
) -> OpaquePointer? {
    let data = UserData(userData, destroy)
    return reporting("opscript_operation_new_body", to: error) {
        guard let body else { throw Misuse("body is NULL") }
        return retained(HostOperation(body, data))
    }
}

/// `opscript_operation_copy`
@_cdecl("opscript_operation_copy")
public func copyOperation(_ reference: OpaquePointer?) -> OpaquePointer? { operation(reference).map { retained($0) } }

/// `opscript_operation_free`
@_cdecl("opscript_operation_free")
public func freeOperation(_ reference: OpaquePointer?) { release(reference, as: Operation.self) }

/// `opscript_operation_equal`
@_cdecl("opscript_operation_equal")
public func equalOperations(_ left: OpaquePointer?, _ right: OpaquePointer?) -> Bool { left == right }

/// `opscript_operation_set_name`
@_cdecl("opscript_operation_set_name")
public func setName(operation reference: OpaquePointer?, _ name: UnsafePointer<CChar>?) {
    operation(reference)?.name = name.map { String(cString: $0) }
}

/// `opscript_operation_get_name`
@_cdecl("opscript_operation_get_name")
public func getName(operation reference: OpaquePointer?) -> UnsafeMutablePointer<CChar>? { duplicate(operation(reference)?.name) }

/// `opscript_operation_add_dependency`
@_cdecl("opscript_operation_add_dependency")
public func addDependency(_ reference: OpaquePointer?, _ dependency: OpaquePointer?, _ error: ErrorPlace?) -> Bool {
    reporting("opscript_operation_add_dependency", to: error) {
        let operation: Operation = try require(reference, "operation")
        try operation.tryAddDependency(try require(dependency, "dependency"))
    }.isDone
}

/// `opscript_operation_set_completion`
@_cdecl("opscript_operation_set_completion")
public func setCompletion(
    _ reference: OpaquePointer?, _ completion: opscript_notice?, _ userData: UnsafeMutableRawPointer?,
    _ destroy: opscript_destructor?, _ error: ErrorPlace?
) -> Bool {
    let data = UserData(userData, destroy)
    return reporting("opscript_operation_set_completion", to: error) {
        let operation: Operation = try require(reference, "operation")
        try operation.trySetCompletionBlock(completion.map { notice($0, data) })
    }.isDone
}

/// `opscript_operation_cancel`
@_cdecl("opscript_operation_cancel")
public func cancel(_ reference: OpaquePointer?) { operation(reference)?.cancel() }

/// `opscript_operation_interrupt`
@_cdecl("opscript_operation_interrupt")
public func interrupt(_ reference: OpaquePointer?) {
    guard let operation = operation(reference) else { return }
    if let operation = operation as? LuaOperation { operation.interrupt() } else { operation.cancel() }
}

/// `opscript_operation_get_state`
@_cdecl("opscript_operation_get_state")
public func getState(_ reference: OpaquePointer?) -> opscript_operation_state {
    guard let operation = operation(reference) else { return OPSCRIPT_WAITING }
    return switch operation.outcome {
    case .succeeded: OPSCRIPT_SUCCEEDED
    case .failed: OPSCRIPT_FAILED
    case .cancelled: OPSCRIPT_WAS_CANCELLED
    case nil: operation.isExecuting ? OPSCRIPT_EXECUTING : OPSCRIPT_WAITING
    }
}

/// `opscript_operation_is_cancelled`
@_cdecl("opscript_operation_is_cancelled")
public func isCancelled(_ reference: OpaquePointer?) -> Bool { operation(reference)?.isCancelled ?? false }

/// `opscript_operation_get_error`
@_cdecl("opscript_operation_get_error")
public func getError(_ reference: OpaquePointer?) -> OpaquePointer? {
    guard let operation = operation(reference), operation.outcome != nil, let error = operation.error else { return nil }
    return retained(ErrorObject(error, in: "opscript_operation_get_error"))
}

/// `opscript_operation_wait`
@_cdecl("opscript_operation_wait")
public func wait(operation reference: OpaquePointer?, _ deadline: Double, _ error: ErrorPlace?) -> Bool {
    reporting("opscript_operation_wait", to: error) {
        let operation: Operation = try require(reference, "operation")
        guard try operation.tryWaitUntilFinished(until: try end(of: deadline)) else { throw Ended.timedOut }
    }.isDone
}

/// `opscript_results`
@_cdecl("opscript_results")
public func results(
    _ runtime: OpaquePointer?, _ reference: OpaquePointer?, _ deadline: Double, _ error: ErrorPlace?
) -> OpaquePointer? {
    entering(runtime, "opscript_results", error) { runtime in
        let operation: Operation = try require(reference, "operation")
        if let end = try end(of: deadline), try !operation.tryWaitUntilFinished(until: end) { throw Ended.timedOut }
        let values = try runtime.results(of: operation)
        if operation.outcome == .cancelled {
            throw operation.error ?? Ended.cancelled(operation.name.map { "operation '\($0)'" } ?? "the operation")
        }
        return retained(ListObject((operation as? HostOperation)?.results.withLock { $0 } ?? values))
    }
}
