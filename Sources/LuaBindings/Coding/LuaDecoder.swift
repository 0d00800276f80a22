/// Makes instances of `Decodable` types from Lua values.
///
/// | Swift | Lua |
/// |---|---|
/// | an integer type | an integer, or a float with an integral value, in the range of the type |
/// | `Double`, `Float` | a number |
/// | `String`, `Bool` | a string that is UTF-8, a boolean; nothing is converted |
/// | `[UInt8]` | a string, or a sequence of integers |
/// | an array | a table whose keys are 1 to n |
/// | a structure, a dictionary | a table |
/// | nil | nil, and a field that is missing |
/// | `LuaValue` | any value |
///
/// Fields that the type does not know are ignored. `Runtime.evaluate`, `Runtime.call`, functions of the host and `operation.value()` use
/// this decoder.
public struct LuaDecoder: Sendable {
    /// Values for `init(from:)`, which finds them in its decoder's `userInfo`.
    public var userInfo: [CodingUserInfoKey: any Sendable] = [:]

    /// Makes a decoder.
    public init() {}

    /// Decodes a value. O(n) in the values that the type reads.
    ///
    /// - Throws: an error of the kind `conversion`, whose path leads to the value that does not fit.
    public func decode<Value: Decodable>(_ type: Value.Type = Value.self, from value: LuaValue) throws(LuaError) -> Value {
        do { return try ValueDecoder(value: value, path: .root, userInfo: userInfo).decode(type) } catch let error as LuaError {
            throw error
        } catch { throw LuaError(Mismatch(error)) }
    }
}

extension Mismatch {
    /// The error that a type's own `init(from:)` or `encode(to:)` has thrown.
    init(_ error: any Error) {
        switch error {
        case let mismatch as Mismatch: self = mismatch
        case DecodingError.dataCorrupted(let context), DecodingError.typeMismatch(_, let context),
            DecodingError.valueNotFound(_, let context), DecodingError.keyNotFound(_, let context):
            self.init(path: context.codingPath.map { Component($0) }, reason: context.debugDescription)
        case EncodingError.invalidValue(_, let context):
            self.init(path: context.codingPath.map { Component($0) }, reason: context.debugDescription)
        default: self.init(reason: "\(error)")
        }
    }
}

/// The path from the outermost value to the one being decoded, innermost step first.
indirect enum CodingRoute {
    case root
    case key(any CodingKey, CodingRoute)
    case index(Int, CodingRoute)

    var codingPath: [any CodingKey] {
        switch self {
        case .root: []
        case .key(let key, let route): route.codingPath + [key]
        case .index(let index, let route): route.codingPath + [IndexKey(index)]
        }
    }

    var components: [Mismatch.Component] { codingPath.map { Mismatch.Component($0) } }
}

/// Decodes one value.
struct ValueDecoder: Decoder, SingleValueDecodingContainer {
    let value: LuaValue
    let path: CodingRoute
    let userInfoValues: [CodingUserInfoKey: any Sendable]

    init(value: LuaValue, path: CodingRoute, userInfo: [CodingUserInfoKey: any Sendable]) {
        (self.value, self.path, userInfoValues) = (value, path, userInfo)
    }

    var codingPath: [any CodingKey] { path.codingPath }
    var userInfo: [CodingUserInfoKey: Any] { userInfoValues }

    private func mismatch(_ expected: String) -> Mismatch { Mismatch(path: path.components, expected: expected, found: value) }

    func container<Key: CodingKey>(keyedBy type: Key.Type) throws -> KeyedDecodingContainer<Key> {
        guard case .table(let fields) = value else { throw mismatch("a table") }
        return KeyedDecodingContainer(FieldDecoder(fields: fields, path: path, userInfo: userInfoValues))
    }

    func unkeyedContainer() throws -> any UnkeyedDecodingContainer {
        guard case .table(let fields) = value else { throw mismatch("an array") }
        return ElementDecoder(fields: fields, path: path, userInfo: userInfoValues)
    }

    func singleValueContainer() -> any SingleValueDecodingContainer { self }

    func decodeNil() -> Bool { value.isNil }

    func decode(_ type: Bool.Type) throws -> Bool {
        guard case .boolean(let value) = value else { throw mismatch("a boolean") }
        return value
    }

    func decode(_ type: String.Type) throws -> String {
        guard case .string(let value) = value else { throw mismatch(value.bytes == nil ? "a string" : "UTF-8 text") }
        return value
    }

    func decode(_ type: Double.Type) throws -> Double {
        guard let value = value.number else { throw mismatch("a number") }
        return value
    }

    func decode(_ type: Float.Type) throws -> Float { Float(try decode(Double.self)) }

    func decode(_ type: Int.Type) throws -> Int {
        if case .integer(let value) = value { return value }
        return try integer()
    }

    func decode(_ type: Int8.Type) throws -> Int8 { try integer() }
    func decode(_ type: Int16.Type) throws -> Int16 { try integer() }
    func decode(_ type: Int32.Type) throws -> Int32 { try integer() }
    func decode(_ type: Int64.Type) throws -> Int64 { try integer() }
    func decode(_ type: UInt.Type) throws -> UInt { try integer() }
    func decode(_ type: UInt8.Type) throws -> UInt8 { try integer() }
    func decode(_ type: UInt16.Type) throws -> UInt16 { try integer() }
    func decode(_ type: UInt32.Type) throws -> UInt32 { try integer() }
    func decode(_ type: UInt64.Type) throws -> UInt64 { try integer() }

    private func integer<Value: FixedWidthInteger>() throws -> Value {
        switch value {
        case .integer(let value):
            if let exact = Value(exactly: value) { return exact }
            throw mismatch("an integer from \(Value.min) to \(Value.max)")
        case .number(let value):
            if let exact = Value(exactly: value) { return exact }
            throw mismatch("an integer")
        default: throw mismatch("a number")
        }
    }

    func decode<Value: Decodable>(_ type: Value.Type) throws -> Value {
        if type == LuaValue.self, let value = value as? Value { return value }
        if type == [UInt8].self, let bytes = value.bytes as? Value { return bytes }
        return try Value(from: self)
    }
}

/// Decodes the fields of a table.
private struct FieldDecoder<Key: CodingKey>: KeyedDecodingContainerProtocol {
    let fields: [LuaValue: LuaValue]
    let path: CodingRoute
    let userInfo: [CodingUserInfoKey: any Sendable]

    var codingPath: [any CodingKey] { path.codingPath }

    var allKeys: [Key] {
        fields.keys.compactMap { key in
            switch key {
            case .string(let name): Key(stringValue: name)
            case .integer(let number): Key(intValue: number)
            default: nil
            }
        }
    }

    private func value(for key: Key) -> LuaValue {
        if let value = fields[.string(key.stringValue)] { return value }
        return key.intValue.flatMap { fields[.integer($0)] } ?? .nil
    }

    private func decoder(for key: some CodingKey, _ value: LuaValue) -> ValueDecoder {
        ValueDecoder(value: value, path: .key(key, path), userInfo: userInfo)
    }

    private func decoder(for key: Key) -> ValueDecoder { decoder(for: key, value(for: key)) }

    func contains(_ key: Key) -> Bool { !value(for: key).isNil }
    func decodeNil(forKey key: Key) -> Bool { value(for: key).isNil }
    func decode(_ type: Bool.Type, forKey key: Key) throws -> Bool {
        if case .boolean(let value) = value(for: key) { return value }
        return try decoder(for: key).decode(type)
    }
    func decode(_ type: String.Type, forKey key: Key) throws -> String {
        if case .string(let value) = value(for: key) { return value }
        return try decoder(for: key).decode(type)
    }
    func decode(_ type: Double.Type, forKey key: Key) throws -> Double {
        if case .number(let value) = value(for: key) { return value }
        return try decoder(for: key).decode(type)
    }
    func decode(_ type: Int.Type, forKey key: Key) throws -> Int {
        if case .integer(let value) = value(for: key) { return value }
        return try decoder(for: key).decode(type)
    }
    func decode(_ type: Float.Type, forKey key: Key) throws -> Float { try decoder(for: key).decode(type) }
    func decode(_ type: Int8.Type, forKey key: Key) throws -> Int8 { try decoder(for: key).decode(type) }
    func decode(_ type: Int16.Type, forKey key: Key) throws -> Int16 { try decoder(for: key).decode(type) }
    func decode(_ type: Int32.Type, forKey key: Key) throws -> Int32 { try decoder(for: key).decode(type) }
    func decode(_ type: Int64.Type, forKey key: Key) throws -> Int64 { try decoder(for: key).decode(type) }
    func decode(_ type: UInt.Type, forKey key: Key) throws -> UInt { try decoder(for: key).decode(type) }
    func decode(_ type: UInt8.Type, forKey key: Key) throws -> UInt8 { try decoder(for: key).decode(type) }
    func decode(_ type: UInt16.Type, forKey key: Key) throws -> UInt16 { try decoder(for: key).decode(type) }
    func decode(_ type: UInt32.Type, forKey key: Key) throws -> UInt32 { try decoder(for: key).decode(type) }
    func decode(_ type: UInt64.Type, forKey key: Key) throws -> UInt64 { try decoder(for: key).decode(type) }
    func decode<Value: Decodable>(_ type: Value.Type, forKey key: Key) throws -> Value { try decoder(for: key).decode(type) }

    func nestedContainer<Nested: CodingKey>(keyedBy type: Nested.Type, forKey key: Key) throws -> KeyedDecodingContainer<Nested> {
        try decoder(for: key).container(keyedBy: type)
    }

    func nestedUnkeyedContainer(forKey key: Key) throws -> any UnkeyedDecodingContainer { try decoder(for: key).unkeyedContainer() }

    func superDecoder() -> any Decoder { decoder(for: SuperKey(), fields["super"] ?? .nil) }
    func superDecoder(forKey key: Key) -> any Decoder { decoder(for: key) }
}

/// The key of a superclass's own part.
struct SuperKey: CodingKey {
    init() {}
    init?(stringValue: String) { if stringValue != "super" { return nil } }
    init?(intValue: Int) { nil }

    var stringValue: String { "super" }
    var intValue: Int? { nil }
}

/// Decodes the elements of a sequence. A table that is no sequence lacks one of the elements 1 to n, where n is the number of its keys. Decoding
/// that element fails.
private struct ElementDecoder: UnkeyedDecodingContainer {
    let fields: [LuaValue: LuaValue]
    let path: CodingRoute
    let userInfo: [CodingUserInfoKey: any Sendable]
    private(set) var currentIndex = 0
    /// The next element; nil at the end.
    private var next: LuaValue?

    init(fields: [LuaValue: LuaValue], path: CodingRoute, userInfo: [CodingUserInfoKey: any Sendable]) {
        (self.fields, self.path, self.userInfo) = (fields, path, userInfo)
        next = fields[1]
    }

    var codingPath: [any CodingKey] { path.codingPath }
    var isAtEnd: Bool { currentIndex == fields.count }
    var count: Int? { fields.count }

    private mutating func advance() {
        currentIndex += 1
        next = fields[.integer(currentIndex + 1)]
    }

    /// Calls `body` with a decoder for the next element, and advances.
    private mutating func read<Result>(_ body: (ValueDecoder) throws -> Result) throws -> Result {
        guard let next else { throw noSequence }
        let result = try body(ValueDecoder(value: next, path: .index(currentIndex, path), userInfo: userInfo))
        advance()
        return result
    }

    private var noSequence: Mismatch {
        let key = fields.keys.first { key in key.integer.map { !(1...fields.count).contains($0) } ?? true }
        let found = key.map { "a table with the key \($0.abbreviated(to: 60))" } ?? "no further element"
        return Mismatch(path: path.components, reason: "expected an array, found \(found)")
    }

    /// An element of a sequence is never nil.
    func decodeNil() -> Bool { false }

    mutating func decode<Value: Decodable>(_ type: Value.Type) throws -> Value { try read { try $0.decode(type) } }

    mutating func decode(_ type: Double.Type) throws -> Double {
        guard case .number(let value)? = next else { return try read { try $0.decode(type) } }
        advance()
        return value
    }

    mutating func decode(_ type: String.Type) throws -> String { try read { try $0.decode(type) } }
    mutating func decode(_ type: Int.Type) throws -> Int { try read { try $0.decode(type) } }
    mutating func decode(_ type: Bool.Type) throws -> Bool { try read { try $0.decode(type) } }

    mutating func nestedContainer<Nested: CodingKey>(keyedBy type: Nested.Type) throws -> KeyedDecodingContainer<Nested> {
        try read { try $0.container(keyedBy: type) }
    }

    mutating func nestedUnkeyedContainer() throws -> any UnkeyedDecodingContainer { try read { try $0.unkeyedContainer() } }

    mutating func superDecoder() throws -> any Decoder { try read { $0 } }
}
