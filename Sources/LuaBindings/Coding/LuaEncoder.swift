/// Makes Lua values from instances of `Encodable` types, by the table of `LuaDecoder`: a structure or a dictionary becomes a table with its
/// non-nil fields, an array becomes a sequence, and `[UInt8]` becomes a string.
public struct LuaEncoder: Sendable {
    /// Values for `encode(to:)`, which finds them in its encoder's `userInfo`.
    public var userInfo: [CodingUserInfoKey: any Sendable] = [:]

    /// Makes an encoder.
    public init() {}

    /// Encodes a value. O(n) in the values that it contains.
    ///
    /// - Throws: an error of the kind `conversion`, for example for an integer that is too large for Lua.
    public func encode(_ value: some Encodable) throws(LuaError) -> LuaValue {
        do { return try Self.encode(value, path: .root, userInfo) } catch let error as LuaError { throw error } catch {
            throw LuaError(Mismatch(error))
        }
    }

    fileprivate static func encode<Value: Encodable>(
        _ value: Value, path: CodingRoute, _ userInfo: [CodingUserInfoKey: any Sendable]
    ) throws -> LuaValue {
        // The types are compared, because an empty array of any type can be cast to an array of bytes.
        if Value.self == LuaValue.self, let value = value as? LuaValue { return value }
        if Value.self == [UInt8].self, let bytes = value as? [UInt8] { return LuaValue(bytes: bytes) }
        let encoder = ValueEncoder(path: path, userInfo, keysAreStrings: Value.self is any StringKeyed.Type)
        try value.encode(to: encoder)
        return encoder.slot.value
    }
}

/// A dictionary whose keys are strings, even if they look like numbers.
private protocol StringKeyed {}
extension Dictionary: StringKeyed where Key == String {}

/// The place of a value while it is encoded.
private final class Slot {
    private var scalar = LuaValue.nil
    private var fields: [LuaValue: LuaValue]?
    /// Containers inside this one, which may still change.
    private var inner: [(key: LuaValue, slot: Slot)] = []
    private(set) var count = 0

    func set(_ value: LuaValue) { scalar = value }

    func becomeTable() { if fields == nil { fields = [:] } }

    func set(_ value: LuaValue, at key: LuaValue) {
        fields?[key] = value.isNil ? nil : value
        count += 1
    }

    func slot(at key: LuaValue) -> Slot {
        let slot = Slot()
        inner.append((key, slot))
        count += 1
        return slot
    }

    var value: LuaValue {
        guard var fields else { return scalar }
        for (key, slot) in inner { fields[key] = slot.value }
        return .table(fields)
    }
}

private struct ValueEncoder: Encoder, SingleValueEncodingContainer {
    let slot: Slot
    let path: CodingRoute
    let userInfoValues: [CodingUserInfoKey: any Sendable]
    let keysAreStrings: Bool

    init(path: CodingRoute, _ userInfo: [CodingUserInfoKey: any Sendable], slot: Slot = Slot(), keysAreStrings: Bool = false) {
        (self.slot, self.path, userInfoValues, self.keysAreStrings) = (slot, path, userInfo, keysAreStrings)
    }

    var codingPath: [any CodingKey] { path.codingPath }
    var userInfo: [CodingUserInfoKey: Any] { userInfoValues }

    func container<Key: CodingKey>(keyedBy type: Key.Type) -> KeyedEncodingContainer<Key> {
        slot.becomeTable()
        return KeyedEncodingContainer(FieldEncoder(slot: slot, path: path, userInfo: userInfoValues, keysAreStrings: keysAreStrings))
    }

    func unkeyedContainer() -> any UnkeyedEncodingContainer {
        slot.becomeTable()
        return ElementEncoder(slot: slot, path: path, userInfo: userInfoValues)
    }

    func singleValueContainer() -> any SingleValueEncodingContainer { self }

    func encodeNil() { slot.set(.nil) }
    func encode(_ value: Bool) { slot.set(.boolean(value)) }
    func encode(_ value: String) { slot.set(.string(value)) }
    func encode(_ value: Double) { slot.set(.number(value)) }
    func encode(_ value: Float) { slot.set(.number(Double(value))) }
    func encode(_ value: Int) { slot.set(.integer(value)) }
    func encode(_ value: Int8) { slot.set(.integer(Int(value))) }
    func encode(_ value: Int16) { slot.set(.integer(Int(value))) }
    func encode(_ value: Int32) { slot.set(.integer(Int(value))) }
    func encode(_ value: Int64) { slot.set(.integer(Int(value))) }
    func encode(_ value: UInt8) { slot.set(.integer(Int(value))) }
    func encode(_ value: UInt16) { slot.set(.integer(Int(value))) }
    func encode(_ value: UInt32) { slot.set(.integer(Int(value))) }
    func encode(_ value: UInt) throws { try encode(UInt64(value)) }

    func encode(_ value: UInt64) throws {
        guard let integer = Int(exactly: value) else {
            throw Mismatch(path: path.components, reason: "\(value) is more than the largest Lua integer, \(Int.max)")
        }
        slot.set(.integer(integer))
    }

    func encode<Value: Encodable>(_ value: Value) throws { slot.set(try LuaEncoder.encode(value, path: path, userInfoValues)) }
}

private struct FieldEncoder<Key: CodingKey>: KeyedEncodingContainerProtocol {
    let slot: Slot
    let path: CodingRoute
    let userInfo: [CodingUserInfoKey: any Sendable]
    let keysAreStrings: Bool

    var codingPath: [any CodingKey] { path.codingPath }

    private func luaKey(_ key: some CodingKey) -> LuaValue {
        if !keysAreStrings, let number = key.intValue { return .integer(number) }
        return .string(key.stringValue)
    }

    func encodeNil(forKey key: Key) {}
    func encode(_ value: Bool, forKey key: Key) { slot.set(.boolean(value), at: luaKey(key)) }
    func encode(_ value: String, forKey key: Key) { slot.set(.string(value), at: luaKey(key)) }
    func encode(_ value: Double, forKey key: Key) { slot.set(.number(value), at: luaKey(key)) }
    func encode(_ value: Int, forKey key: Key) { slot.set(.integer(value), at: luaKey(key)) }

    func encode<Value: Encodable>(_ value: Value, forKey key: Key) throws {
        slot.set(try LuaEncoder.encode(value, path: .key(key, path), userInfo), at: luaKey(key))
    }

    private func encoder(for key: some CodingKey) -> ValueEncoder {
        ValueEncoder(path: .key(key, path), userInfo, slot: slot.slot(at: luaKey(key)))
    }

    func nestedContainer<Nested: CodingKey>(keyedBy type: Nested.Type, forKey key: Key) -> KeyedEncodingContainer<Nested> {
        encoder(for: key).container(keyedBy: type)
    }

    func nestedUnkeyedContainer(forKey key: Key) -> any UnkeyedEncodingContainer { encoder(for: key).unkeyedContainer() }
    func superEncoder() -> any Encoder { encoder(for: SuperKey()) }
    func superEncoder(forKey key: Key) -> any Encoder { encoder(for: key) }
}

private struct ElementEncoder: UnkeyedEncodingContainer {
    let slot: Slot
    let path: CodingRoute
    let userInfo: [CodingUserInfoKey: any Sendable]

    var codingPath: [any CodingKey] { path.codingPath }
    var count: Int { slot.count }

    private func append(_ value: LuaValue) { slot.set(value, at: .integer(slot.count + 1)) }

    func encodeNil() { append(.nil) }
    func encode(_ value: Bool) { append(.boolean(value)) }
    func encode(_ value: String) { append(.string(value)) }
    func encode(_ value: Double) { append(.number(value)) }
    func encode(_ value: Int) { append(.integer(value)) }
    func encode<Value: Encodable>(_ value: Value) throws {
        append(try LuaEncoder.encode(value, path: .index(slot.count, path), userInfo))
    }

    private func encoder() -> ValueEncoder {
        ValueEncoder(path: .index(slot.count, path), userInfo, slot: slot.slot(at: .integer(slot.count + 1)))
    }

    func nestedContainer<Nested: CodingKey>(keyedBy type: Nested.Type) -> KeyedEncodingContainer<Nested> {
        encoder().container(keyedBy: type)
    }

    func nestedUnkeyedContainer() -> any UnkeyedEncodingContainer { encoder().unkeyedContainer() }
    func superEncoder() -> any Encoder { encoder() }
}
