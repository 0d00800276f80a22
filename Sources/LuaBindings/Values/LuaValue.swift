public import OpEngine

/// A Lua value in Swift: an argument or a result of the host's functions.
///
/// Tables are copied, at a cost of O(n) in all their elements. A function or a userdata has no counterpart here and becomes `.other` with
/// the name of its type.
public indirect enum LuaValue: Sendable, Hashable {
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
    /// Any other value, as the name of its type. Passed to Lua, it becomes nil.
    case other(String)

    /// A table with the keys 1, 2, 3 …
    public static func array(_ elements: some Sequence<LuaValue>) -> LuaValue {
        .table([LuaValue: LuaValue](uniqueKeysWithValues: elements.enumerated().map { (.integer($0.offset + 1), $0.element) }))
    }

    /// The text of a UTF-8 string; nil for other values.
    public var text: String? { if case .string(let text) = self { text } else { nil } }

    /// The value of an integer; nil for other values.
    public var integer: Int? { if case .integer(let value) = self { value } else { nil } }

    /// The operation; nil for other values.
    public var operation: Operation? { if case .operation(let operation) = self { operation } else { nil } }

    /// The value of a table at `key`; `.nil` if there is none or this value is no table.
    public subscript(key: LuaValue) -> LuaValue { if case .table(let fields) = self { fields[key] ?? .nil } else { .nil } }
}

extension LuaValue: ExpressibleByIntegerLiteral, ExpressibleByStringLiteral, ExpressibleByBooleanLiteral, ExpressibleByFloatLiteral {
    /// An integer.
    public init(integerLiteral value: Int) { self = .integer(value) }
    /// A string.
    public init(stringLiteral value: String) { self = .string(value) }
    /// A boolean.
    public init(booleanLiteral value: Bool) { self = .boolean(value) }
    /// A float.
    public init(floatLiteral value: Double) { self = .number(value) }
}
