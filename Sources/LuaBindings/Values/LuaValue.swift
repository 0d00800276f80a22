public import OpEngine

/// A Lua value in Swift: what a host's functions get and return.
///
/// Tables are copied. What has no counterpart here, a function or a userdata, becomes `.other` with the name of its type.
public indirect enum LuaValue: Sendable, Hashable {
    /// `nil`.
    case `nil`
    /// A boolean.
    case boolean(Bool)
    /// A number that is an integer.
    case integer(Int)
    /// A number that is a float.
    case number(Double)
    /// A string that is UTF-8.
    case string(String)
    /// A string that is not UTF-8.
    case bytes([UInt8])
    /// A table; a sequence has the keys 1, 2, 3 …
    case table([LuaValue: LuaValue])
    /// An operation.
    case operation(Operation)
    /// A queue.
    case queue(OperationQueue)
    /// Anything else: the name of its type.
    case other(String)

    /// A table with the keys 1, 2, 3 …
    public static func array(_ elements: some Sequence<LuaValue>) -> LuaValue {
        .table([LuaValue: LuaValue](uniqueKeysWithValues: elements.enumerated().map { (.integer($0.offset + 1), $0.element) }))
    }

    /// The text of a string.
    public var text: String? { if case .string(let text) = self { text } else { nil } }

    /// The value of a number, when it is an integer.
    public var integer: Int? { if case .integer(let value) = self { value } else { nil } }

    /// The operation.
    public var operation: Operation? { if case .operation(let operation) = self { operation } else { nil } }

    /// What a table holds at `key`; `nil` where it is no table.
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
