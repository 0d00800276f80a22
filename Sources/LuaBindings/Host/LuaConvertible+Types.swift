public import OpEngine

extension LuaConvertible {
    /// Passes a copy of the argument to `fromLua`.
    public static func read(from call: borrowing LuaCall, at index: Int) throws -> Self { try fromLua(call.value(at: index)) }

    /// Adds the value that `toLua` returns.
    public func write(to call: borrowing LuaCall) throws { try call.push(toLua()) }
}

extension LuaConvertible where Self: Decodable {
    /// Decodes the value with a `LuaDecoder`.
    public static func fromLua(_ value: LuaValue) throws -> Self { try LuaDecoder().decode(Self.self, from: value) }
}

extension LuaConvertible where Self: Encodable {
    /// Encodes the instance with a `LuaEncoder`.
    public func toLua() throws -> LuaValue { try LuaEncoder().encode(self) }
}

extension LuaConvertible where Self: LuaObject {
    /// The object that the value refers to, if it has this class.
    public static func fromLua(_ value: LuaValue) throws -> Self {
        guard let object = value.object as? Self else {
            throw LuaError.mismatch(expected: Grammar.indefinite("\(Self.self)"), found: value)
        }
        return object
    }

    /// A reference to this object.
    public func toLua() -> LuaValue { .object(self) }
}

extension LuaValue: LuaConvertible {
    /// The value itself.
    public static func fromLua(_ value: LuaValue) -> LuaValue { value }

    /// The value itself.
    public func toLua() -> LuaValue { self }
}

extension Bool: LuaConvertible {
    /// Reads a boolean, and no other value.
    @inlinable public static func read(from call: borrowing LuaCall, at index: Int) throws -> Bool { try call.boolean(at: index) }

    /// Adds the boolean to the results of a call.
    @inlinable public func write(to call: borrowing LuaCall) throws { try call.push(self) }
}

extension Int: LuaConvertible {
    /// Reads an integer, or a float with an integral value.
    @inlinable public static func read(from call: borrowing LuaCall, at index: Int) throws -> Int { try call.integer(at: index) }

    /// Adds the integer to the results of a call.
    @inlinable public func write(to call: borrowing LuaCall) throws { try call.push(self) }
}

extension Double: LuaConvertible {
    /// Reads a number.
    @inlinable public static func read(from call: borrowing LuaCall, at index: Int) throws -> Double { try call.number(at: index) }

    /// Adds the float to the results of a call.
    @inlinable public func write(to call: borrowing LuaCall) throws { try call.push(self) }
}

extension String: LuaConvertible {
    /// Reads a string. Bytes that are not UTF-8 are an error.
    @inlinable public static func read(from call: borrowing LuaCall, at index: Int) throws -> String { try call.string(at: index) }

    /// Adds the string to the results of a call.
    @inlinable public func write(to call: borrowing LuaCall) throws { try call.push(self) }
}

extension Float: LuaConvertible {}
extension Int8: LuaConvertible {}
extension Int16: LuaConvertible {}
extension Int32: LuaConvertible {}
extension Int64: LuaConvertible {}
extension UInt: LuaConvertible {}
extension UInt8: LuaConvertible {}
extension UInt16: LuaConvertible {}
extension UInt32: LuaConvertible {}
extension UInt64: LuaConvertible {}

extension Optional: LuaConvertible where Wrapped: LuaConvertible {
    /// Nil for `nil`.
    public static func fromLua(_ value: LuaValue) throws -> Wrapped? { value.isNil ? .none : try Wrapped.fromLua(value) }

    /// `nil` for nil.
    public func toLua() throws -> LuaValue { try self?.toLua() ?? .nil }

    /// Nil for `nil`, and for an argument that is missing.
    @inlinable public static func read(from call: borrowing LuaCall, at index: Int) throws -> Wrapped? {
        call.isNil(at: index) ? .none : try Wrapped.read(from: call, at: index)
    }

    /// Adds the value or `nil` to the results of a call.
    @inlinable public func write(to call: borrowing LuaCall) throws {
        if let self { try self.write(to: call) } else { try call.pushNil() }
    }
}

extension Array: LuaConvertible where Element: LuaConvertible {
    /// The elements 1 to n of a table without other keys. `[UInt8]` also accepts a string.
    public static func fromLua(_ value: LuaValue) throws -> [Element] {
        if Element.self == UInt8.self, let bytes = value.bytes as? [Element] { return bytes }
        guard let elements = value.array else { throw LuaError.mismatch(expected: "an array", found: value) }
        return try elements.enumerated().map { index, element in
            try Mismatch.within(.index(index)) { try Element.fromLua(element) }
        }
    }

    /// A table with the keys 1, 2, 3 …; a string for `[UInt8]`.
    public func toLua() throws -> LuaValue {
        if Element.self == UInt8.self, let bytes = self as? [UInt8] { return LuaValue(bytes: bytes) }
        return .array(try map { try $0.toLua() })
    }
}

extension Dictionary: LuaConvertible where Key: LuaConvertible, Value: LuaConvertible {
    /// All fields of a table.
    public static func fromLua(_ value: LuaValue) throws -> [Key: Value] {
        guard case .table(let fields) = value else { throw LuaError.mismatch(expected: "a table", found: value) }
        var result: [Key: Value] = [:]
        result.reserveCapacity(fields.count)
        for (key, value) in fields {
            try Mismatch.within(Mismatch.Component(key)) { result[try Key.fromLua(key)] = try Value.fromLua(value) }
        }
        return result
    }

    /// A table with all entries.
    public func toLua() throws -> LuaValue {
        var fields: [LuaValue: LuaValue] = [:]
        fields.reserveCapacity(count)
        for (key, value) in self { fields[try key.toLua()] = try value.toLua() }
        return .table(fields)
    }
}

extension Operation: LuaConvertible {
    /// The operation, if it has this class.
    public static func fromLua(_ value: LuaValue) throws -> Self {
        guard let operation = value.operation as? Self else {
            throw LuaError.mismatch(expected: Grammar.indefinite("\(Self.self)"), found: value)
        }
        return operation
    }

    /// The operation, by reference.
    public func toLua() -> LuaValue { .operation(self) }
}

extension OperationQueue: LuaConvertible {
    /// The queue, if it has this class.
    public static func fromLua(_ value: LuaValue) throws -> Self {
        guard let queue = value.queue as? Self else {
            throw LuaError.mismatch(expected: Grammar.indefinite("\(Self.self)"), found: value)
        }
        return queue
    }

    /// The queue, by reference.
    public func toLua() -> LuaValue { .queue(self) }
}

extension LuaValue {
    /// A string: `.string` if the bytes are UTF-8, and `.bytes` otherwise.
    init(bytes: [UInt8]) { self = String(validating: bytes, as: UTF8.self).map { .string($0) } ?? .bytes(bytes) }
}
