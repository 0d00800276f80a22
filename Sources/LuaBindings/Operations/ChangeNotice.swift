import OpEngine

/// A change as the observing function of a script receives it.
struct ChangeNotice: Sendable {
    let fields: [LuaValue: LuaValue]
    /// The values of an entry in an operation's storage, instead of those in `fields`.
    let old: Parcel?
    let new: Parcel?
    private let charge: Charge?

    init(keyPath: String, _ change: KeyValueObservedChange<any Sendable>, of object: AnyObject, countedIn ledger: Ledger?) {
        // For scripts, a queue without a name of its own has no name.
        let noName = keyPath == "name" ? (object as? OperationQueue)?.defaultName : nil
        old = change.oldValue as? Parcel
        new = change.newValue as? Parcel
        fields = [
            "keyPath": .string(keyPath), "isPrior": .boolean(change.isPrior), "old": Self.value(change.oldValue, not: noName),
            "new": Self.value(change.newValue, not: noName),
        ]
        charge = ledger.charge(.notice, Self.size(of: change))
    }

    /// The bytes that a notice keeps: an old text is the new one of the notice before, if there is a new one.
    private static func size(of change: KeyValueObservedChange<any Sendable>) -> Int {
        if change.newValue == nil { return size(of: change.oldValue) }
        return size(of: change.newValue) + size(of: change.oldValue as? [Operation])
    }

    /// The bytes of a copy of the value.
    private static func size(of value: (any Sendable)?) -> Int {
        if let operations = value as? [Operation] { return operations.count * MemoryLayout<LuaValue>.stride }
        return (value as? String)?.utf8.count ?? 0
    }

    /// The value of a property; nil for functions, which stay in their states.
    private static func value(_ value: (any Sendable)?, not noName: String?) -> LuaValue {
        switch value {
        case let flag as Bool: .boolean(flag)
        case let count as Int: .integer(count)
        case let text as String: text == noName ? .nil : .string(text)
        case let priority as Operation.QueuePriority: .string(priority.scriptName)
        case let operations as [Operation]: .array(operations.map { .operation($0) })
        default: .nil
        }
    }
}
