import CLua
import OpEngine

/// The classes that scripts derive from `Operation`.
enum OperationSubclass {
    /// The methods that a class may override.
    private static let overridable = ["init", "main", "start", "cancel"]

    /// `Operation:subclass("Name")`.
    static func make(_ call: Call) throws(CallError) -> Answer {
        guard let parent = call.operationClass(at: 1) else {
            throw .message("call 'subclass' with ':' on a class, as in Operation:subclass(\"Download\")")
        }
        let isGroup: Bool
        switch parent {
        case .builtIn("Operation"): isGroup = false
        case .builtIn("GroupOperation"): isGroup = true
        case .builtIn(let name): throw .message("'\(name)' has no subclasses: derive from Operation or GroupOperation")
        case .script(let parent): isGroup = parent.isGroup
        }
        try call.requireKeeping("'subclass'")
        let name = try call.requiredString(at: 2)
        if name.isEmpty { throw .argument(2, "a class needs a name") }
        try call.state.makeRoom(for: .scriptClass, name.utf8.count)
        let made = ScriptClass(
            name: name, home: call.state.number, isGroup: isGroup, charge: call.state.core.ledger.charge(.scriptClass, name.utf8.count))
        call.state.core.keep(made)
        return .newClass(made)
    }

    /// Does the part of `Name.new(...)` before `init`. The class is at stack index 1. If `hasStart`, a queue runs the method `start`.
    static func new(hasStart: Int32, _ call: Call) throws(CallError) -> Answer {
        guard case .script(let scriptClass)? = call.operationClass(at: 1) else {
            throw .message("the metatable of this class has been taken away: nothing says any more which class it is")
        }
        if scriptClass.latest == nil, scriptClass.home == call.state.number {
            // Other states need the class if they receive the operation before it is in a queue.
            guard unsafe lua_checkstack(call.lua, 1) != 0 else { throw .message("stack overflow") }
            unsafe lua_pushvalue(call.lua, 1)
            scriptClass.latest = try? call.state.encode(count: 1, CLUA_STORED)
            unsafe lua_settop(call.lua, -2)
        }
        if scriptClass.isGroup {
            try call.state.takeQueue()
            return .object(LuaOperation.makeGroup(in: call.state, scriptClass: scriptClass), .operation)
        }
        try call.state.makeRoom(for: .operation)
        let kind = hasStart != 0 ? LuaOperation.Kind.asynchronousInstance : .instance
        return .object(LuaOperation(in: call.state, kind: kind, bodyCount: 1, scriptClass: scriptClass), .operation)
    }

    /// Checks `Name.key = value` or `function Name:key() … end`, for a key that the class does not have yet.
    static func checkField(_: Int32, _ call: Call) throws(CallError) -> Answer {
        guard let name = call.string(at: 2) else { return .nothing }
        if name.hasPrefix("__") { throw .message("'\(name)': a class of operations has no metamethods of its own") }
        if case .script(let scriptClass)? = call.operationClass(at: 1), scriptClass.isGroup, name == "main" || name == "start" {
            throw .message("'\(name)': nothing runs in a group but its members: add these in 'init', or from a member")
        }
        if overridable.contains(name) {
            guard call.isFunction(at: 3) || call.isMissing(at: 3) else {
                throw .message("'\(name)' of a class must be a function, got a \(call.typeName(at: 3))")
            }
        } else if OperationClass.Property.names.contains(name) {
            throw .message("'\(name)' is a property of every operation: assign it to each, in the class's 'init'")
        } else if OperationClass.Function.names.contains(name) {
            let remedy = name == "new" ? "define 'init', which it calls" : "only \(overridable.joined(separator: ", ")) can be overridden"
            throw .message("'\(name)' is a method of every operation: \(remedy)")
        } else if call.isFunction(at: 3), let meant = overridable.first(where: { isMisspelt(name, $0) }) {
            throw .message("nothing calls a method '\(name)' (did you mean '\(meant)'?)")
        }
        return .nothing
    }

    /// Whether `name` has the letters of `meant` in another order or in other case. Anything looser would reject sensible names such as
    /// `unit` or `starts`.
    private static func isMisspelt(_ name: String, _ meant: String) -> Bool {
        name.utf8.count == meant.utf8.count && name.lowercased().utf8.sorted() == meant.utf8.sorted()
    }

    /// `operation:isKindOf(class)`.
    static func isKind(_ operation: Operation, _ call: Call) throws(CallError) -> Answer {
        guard let identity = call.operationClass(at: 2) else { throw call.expected("class of operations", at: 2) }
        if (operation as? LuaOperation)?.scriptClass != nil {
            var isKind = false
            try call.asCallError { try unsafe call.state.attempt { lua, failure in unsafe clua_is_kind_of(lua, 1, 2, &isKind, &failure) } }
            // Every class of groups is derived from `Operation`, too.
            if case .builtIn("Operation") = identity { isKind = true }
            return .boolean(isKind)
        }
        guard case .builtIn(let name) = identity else { return .boolean(false) }
        return .boolean(name == "Operation" || name == operation.scriptClassName)
    }

    /// Cancels an operation by calling its class's `cancel`, if that is overridden.
    static func cancel(_ operation: Operation, _ state: LuaState) throws(Failure) {
        guard (operation as? LuaOperation)?.scriptClass != nil else { return operation.cancel() }
        var isOverridden = false
        let pointer = unsafe Unmanaged.passUnretained(operation).toOpaque()
        try unsafe state.attempt { lua, failure in
            unsafe clua_call_cancel(lua, pointer, ObjectKind.operation.rawValue, &isOverridden, &failure)
        }
        if !isOverridden { operation.cancel() }
    }
}
