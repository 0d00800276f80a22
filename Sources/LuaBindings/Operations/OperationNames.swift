@_spi(Subclassing) import OpEngine

extension LuaOperation: ClassNaming {
    /// The name of the class in scripts.
    package var className: String {
        if let scriptClass { return scriptClass.name }
        return switch kind {
        case .blocks: "BlockOperation"
        case .invocation: "InvocationOperation"
        case .group: "GroupOperation"
        default: "Operation"
        }
    }
}

extension Operation {
    /// The name of the class in scripts.
    var scriptClassName: String {
        if let operation = self as? LuaOperation { return operation.className }
        return self is BlockOperation ? "BlockOperation" : self is GroupOperation ? "GroupOperation" : "Operation"
    }

    /// The operation in messages: its name, or its class if it has no name.
    var displayName: String { name.map { "'\($0.shown)'" } ?? "an unnamed \(scriptClassName)" }
}

extension OperationQueue {
    /// The queue's name, as messages show it.
    var displayName: String {
        let kind = self is MemberQueue ? "group" : "queue"
        return givenName.map { "\(kind) '\($0.shown)'" } ?? "an unnamed \(kind)"
    }
}

extension OperationNaming {
    /// The names of operations and queues in messages for scripts.
    static let script = OperationNaming(operation: { $0.displayName }, queue: { $0.displayName })
}
