/// `LuaDecoder` and `LuaEncoder` keep a value as it is. Other coders, such as Foundation's for JSON, use the forms of their format: a sequence
/// is an array, any other table is keyed by strings and integers, and bytes are an array of integers.
extension LuaValue: Codable {
    /// Decodes nil, a boolean, a number, a string, an array or a dictionary. An empty array and an empty dictionary are the same table.
    public init(from decoder: any Decoder) throws {
        if let decoder = decoder as? ValueDecoder {
            self = decoder.value
            return
        }
        let container = try decoder.singleValueContainer()
        if container.decodeNil() {
            self = .nil
        } else if let value = try? container.decode(Bool.self) {
            self = .boolean(value)
        } else if let value = try? container.decode(Int.self) {
            self = .integer(value)
        } else if let value = try? container.decode(Double.self) {
            self = .number(value)
        } else if let value = try? container.decode(String.self) {
            self = .string(value)
        } else if let elements = try? container.decode([LuaValue].self) {
            self = .array(elements)
        } else {
            let fields = try container.decode([String: LuaValue].self)
            self = .table([LuaValue: LuaValue](uniqueKeysWithValues: fields.lazy.map { (.string($0.key), $0.value) }))
        }
    }

    /// Encodes the value, if the format can express it.
    ///
    /// - Throws: `EncodingError.invalidValue` for an operation, a queue, an object, a function or a userdata, and for a table with a key that
    ///   is neither a string nor an integer.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        switch self {
        case .nil: try container.encodeNil()
        case .boolean(let value): try container.encode(value)
        case .integer(let value): try container.encode(value)
        case .number(let value): try container.encode(value)
        case .string(let value): try container.encode(value)
        case .bytes(let bytes): try container.encode(bytes)
        case .table(let fields):
            if let elements = array, !elements.isEmpty { return try container.encode(elements) }
            var named: [String: LuaValue] = [:]
            for (key, value) in fields { named[try Self.name(of: key, encoder)] = value }
            try container.encode(named)
        case .operation, .queue, .object, .other: throw Self.invalid(self, "\(Grammar.described(self)) cannot be encoded", encoder)
        }
    }

    private static func name(of key: LuaValue, _ encoder: any Encoder) throws -> String {
        switch key {
        case .string(let name): return name
        case .integer(let number): return "\(number)"
        default: throw invalid(key, "the key \(key.abbreviated(to: 60)) is neither a string nor an integer", encoder)
        }
    }

    private static func invalid(_ value: LuaValue, _ reason: String, _ encoder: any Encoder) -> EncodingError {
        .invalidValue(value, EncodingError.Context(codingPath: encoder.codingPath, debugDescription: reason))
    }
}
