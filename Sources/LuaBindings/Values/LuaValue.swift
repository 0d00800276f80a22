public import OpEngine

/// A Lua value in Swift: an argument or a result of the host's functions.
///
/// Tables are copied, at a cost of O(n) in all their elements. A function or a userdata has no counterpart here and becomes `.other` with
/// the name of its type. `description` is the value as Lua source.
///
/// ```swift
/// let job: LuaValue = ["name": "thumbnail", "sizes": [64, 128], "force": true]
/// print(job)                             // {force = true, name = "thumbnail", sizes = {64, 128}}
/// print(job["sizes"][2].integer!)        // 128
/// ```
public enum LuaValue: Sendable, Hashable {
    /// `nil`.
    case `nil`
    /// A boolean.
    case boolean(Bool)
    /// An integer.
    case integer(Int)
    /// A float.
    case number(Double)
    /// A string that is valid UTF-8.
    case string(String)
    /// A string that is not valid UTF-8.
    case bytes([UInt8])
    /// A table. A sequence has the keys 1, 2, 3 …
    case table([LuaValue: LuaValue])
    /// An operation.
    case operation(Operation)
    /// A queue.
    case queue(OperationQueue)
    /// An object of a class of the host.
    case object(LuaReference)
    /// Any other value, as the name of its type. Passed to Lua, it becomes nil.
    case other(String)

    /// A table with the keys 1, 2, 3 …; a nil among the elements leaves its place empty.
    public static func array(_ elements: some Sequence<LuaValue>) -> LuaValue {
        var fields: [LuaValue: LuaValue] = [:]
        fields.reserveCapacity(elements.underestimatedCount)
        for (index, element) in elements.enumerated() where !element.isNil { fields[.integer(index + 1)] = element }
        return .table(fields)
    }

    /// An object of a class of the host, by reference.
    public static func object(_ object: any LuaObject) -> LuaValue { .object(LuaReference(object)) }
}

/// The contents of a value, or nil if they are of another type.
extension LuaValue {
    /// Whether this is `nil`.
    public var isNil: Bool { if case .nil = self { true } else { false } }

    /// The value of a boolean.
    public var boolean: Bool? { if case .boolean(let value) = self { value } else { nil } }

    /// The value of an integer; nil for other values, including floats.
    public var integer: Int? { if case .integer(let value) = self { value } else { nil } }

    /// The value of a float or an integer, as a float.
    public var number: Double? {
        switch self {
        case .number(let value): value
        case .integer(let value): Double(value)
        default: nil
        }
    }

    /// The text of a UTF-8 string.
    public var text: String? { if case .string(let text) = self { text } else { nil } }

    /// The bytes of a string, whether or not it is UTF-8. O(n).
    public var bytes: [UInt8]? {
        switch self {
        case .string(let text): Array(text.utf8)
        case .bytes(let bytes): bytes
        default: nil
        }
    }

    /// The elements 1 to n of a table that has no other keys. O(n).
    public var array: [LuaValue]? {
        guard case .table(let fields) = self else { return nil }
        var elements: [LuaValue] = []
        elements.reserveCapacity(fields.count)
        while elements.count < fields.count {
            guard let element = fields[.integer(elements.count + 1)] else { return nil }
            elements.append(element)
        }
        return elements
    }

    /// The fields of a table whose keys are all UTF-8 strings. O(n).
    public var dictionary: [String: LuaValue]? {
        guard case .table(let fields) = self else { return nil }
        var named: [String: LuaValue] = [:]
        named.reserveCapacity(fields.count)
        for (key, value) in fields {
            guard case .string(let name) = key else { return nil }
            named[name] = value
        }
        return named
    }

    /// The operation.
    public var operation: Operation? { if case .operation(let operation) = self { operation } else { nil } }

    /// The queue.
    public var queue: OperationQueue? { if case .queue(let queue) = self { queue } else { nil } }

    /// The object of a class of the host.
    public var object: (any LuaObject)? { if case .object(let reference) = self { reference.object } else { nil } }

    /// The number of fields of a table; 0 for other values.
    public var count: Int { if case .table(let fields) = self { fields.count } else { 0 } }

    /// The value of a table at `key`; `.nil` if there is none or this value is no table. Assigning `.nil` removes the field. Assigning to a
    /// field of `.nil` makes it a table; assigning to a field of any other value traps.
    public subscript(key: LuaValue) -> LuaValue {
        get { if case .table(let fields) = self { fields[key] ?? .nil } else { .nil } }
        set {
            switch self {
            case .table(var fields):
                self = .nil  // so that the fields are not copied
                // Assigning `nil` could store it, because `nil` is also a LuaValue.
                if newValue.isNil { fields.removeValue(forKey: key) } else { fields[key] = newValue }
                self = .table(fields)
            case .nil: self = .table(newValue.isNil ? [:] : [key: newValue])
            default: preconditionFailure("opscript: a field of \(debugDescription), which is no table, cannot be assigned")
            }
        }
    }
}

extension LuaValue: ExpressibleByNilLiteral, ExpressibleByBooleanLiteral, ExpressibleByIntegerLiteral, ExpressibleByFloatLiteral {
    /// `nil`.
    public init(nilLiteral: ()) { self = .nil }
    /// A boolean.
    public init(booleanLiteral value: Bool) { self = .boolean(value) }
    /// An integer.
    public init(integerLiteral value: Int) { self = .integer(value) }
    /// A float.
    public init(floatLiteral value: Double) { self = .number(value) }
}

extension LuaValue: ExpressibleByStringInterpolation, ExpressibleByArrayLiteral, ExpressibleByDictionaryLiteral {
    /// A string.
    public init(stringLiteral value: String) { self = .string(value) }
    /// A table with the keys 1, 2, 3 …; a nil among the elements leaves its place empty.
    public init(arrayLiteral elements: LuaValue...) {
        self = .array(elements)
    }
    /// A table. Of several values for one key, the last counts; a nil leaves out the field.
    public init(dictionaryLiteral elements: (LuaValue, LuaValue)...) {
        self = .table([LuaValue: LuaValue](elements.lazy.filter { !$0.1.isNil }, uniquingKeysWith: { $1 }))
    }
}
