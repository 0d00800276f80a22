import CLua
import OpEngine

/// `opscript.BlockOperation`: an operation of several functions that run concurrently. `OperationClass` has its methods and properties.
enum BlockOperationClass {
    enum Function: String, Member {
        case new
    }

    static var description: clua_class {
        unsafe subclass(StaticName.blockOperation, Function.table) { unsafe LuaState.answer($0, $1, $2, BlockOperationClass.new) }
    }

    /// Describes a class whose instances C also treats as operations.
    static func subclass(
        _ name: UnsafePointer<CChar>, _ functions: (start: UnsafePointer<clua_member>, count: Int), call: clua_function
    ) -> clua_class {
        var description = unsafe clua_class()
        unsafe description.name = name
        unsafe description.base = StaticName.operation
        unsafe description.functions = functions.start
        unsafe description.function_count = functions.count
        unsafe description.call = call
        return unsafe description
    }

    /// `BlockOperation.new(block, ...)`, `BlockOperation.new()`.
    private static func new(_: Int32, _ call: Call) throws(CallError) -> Answer {
        let isEmpty = call.count == 0
        guard isEmpty || call.isFunction(at: 1) else { throw call.expected("function", at: 1) }
        try call.state.makeRoom(for: .operation)
        let operation = LuaOperation(in: call.state, kind: .blocks, bodyCount: isEmpty ? 0 : 1)
        return .newOperation(operation, bodyAt: isEmpty ? 0 : 1, number: 1)
    }

    /// Adds the function at stack index 2, with the arguments after it, as another block.
    static func addBlock(to operation: LuaOperation, _ call: Call) throws(CallError) -> Answer {
        try call.asCallError {
            if operation.keepsBlocksInHandle(of: call.state) { return .addBody(at: 2, number: try operation.addBlock(nil)) }
            _ = try operation.addBlock(call.state.encodeBody(count: call.count - 1))
            return .nothing
        }
    }
}

/// `opscript.InvocationOperation`: an operation that calls a method of an object.
enum InvocationOperationClass {
    enum Function: String, Member {
        case new
    }

    static var description: clua_class {
        unsafe BlockOperationClass.subclass(StaticName.invocationOperation, Function.table) {
            unsafe LuaState.answer($0, $1, $2, InvocationOperationClass.new)
        }
    }

    /// `InvocationOperation.new(object, "method", ...)`.
    private static func new(_: Int32, _ call: Call) throws(CallError) -> Answer {
        if call.isMissing(at: 1) { throw call.expected("object", at: 1) }
        let method = try call.requiredString(at: 2)
        var hasMethod = false
        try call.asCallError { try unsafe call.state.attempt { lua, failure in unsafe clua_has_method(lua, 1, &hasMethod, &failure) } }
        guard hasMethod else { throw .argument(2, "the \(call.typeName(at: 1)) has no method '\(method)'") }
        try call.state.makeRoom(for: .operation)
        return .newOperation(LuaOperation(in: call.state, kind: .invocation, bodyCount: 1), bodyAt: 1)
    }

    /// Throws an error if the operation can have no result any more, where Foundation raises an exception.
    static func checkResult(of operation: LuaOperation) throws(CallError) {
        if operation.isCancelled { throw .message("\(operation.displayName) has no result: it was cancelled; look at isCancelled first") }
        if operation.isFinished, operation.error == nil, operation.isVoid {
            throw .message("\(operation.displayName) has no result: its method returned nothing")
        }
    }
}
