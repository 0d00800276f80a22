import LuaBindings

/// The object behind `opscript_value`. It keeps the bytes of a string and the fields of a table that C has borrowed.
// Safety: the header says that one thread at a time uses a value. `nothing` never changes.
final class ValueObject: @unchecked Sendable {
    /// Nil, for fields and elements that do not exist.
    static let nothing = ValueObject(.nil)

    private(set) var value: LuaValue
    private var bytes: CText?
    private var descriptionText: CText?
    private var fields: [LuaValue: ValueObject] = [:]
    /// The index of the last element of a table, if it is known.
    private var lastIndex: Int?
    /// How many tables are nested here at most; more than there are if fields were replaced. Nil if that is unknown.
    private var knownDepth: Int?
    /// So deep that no thread's stack ends while a value is freed, compared or passed. The describer and Lua's compiler end there, too.
    private static let maximumDepth = 200

    init(_ value: LuaValue) { self.value = value }

    /// The bytes of a string.
    var string: CText? {
        if bytes == nil {
            switch value {
            case .string(let text): bytes = CText(text.utf8)
            case .bytes(let content): bytes = CText(content)
            default: break
            }
        }
        return bytes
    }

    private static let textOfNil = CText(shown: "nil")

    var description: CText {
        if case .nil = value { return Self.textOfNil }
        let text = CText(shown: value.description)
        descriptionText = text
        return text
    }

    /// The value of a table at `key`.
    func field(_ key: LuaValue) -> ValueObject {
        let key = key.asKey
        if let field = fields[key] { return field }
        let found = value[key]
        if found.isNil { return Self.nothing }
        let field = ValueObject(found)
        fields[key] = field
        return field
    }

    /// Assigns a field. Returns false if this is no table, `key` is no possible key, or the tables would be nested too deep.
    func set(_ key: ValueObject, to newValue: ValueObject) -> Bool {
        guard isTable, let possibleKey = key.value.asPossibleKey, key.fitsInTable, newValue.fitsInTable else { return false }
        lastIndex = nil
        knownDepth = max(depth, 1 + max(key.depth, newValue.depth))
        assign(possibleKey, newValue.value)
        return true
    }

    /// Assigns to the element after the last one. Returns false if this is no table, or the tables would be nested too deep.
    func append(_ added: ValueObject) -> Bool {
        guard isTable, added.fitsInTable else { return false }
        let element = added.value.storable
        knownDepth = max(depth, 1 + added.depth)
        if element.isNil { return true }
        let index = lastIndex ?? self.index(after: 0)
        assign(.integer(index + 1), element)
        lastIndex = self.index(after: index + 1)
        return true
    }

    /// The last of the indices that follow `index` without a gap.
    private func index(after index: Int) -> Int {
        var index = index
        while !value[.integer(index + 1)].isNil { index += 1 }
        return index
    }

    private func assign(_ key: LuaValue, _ newValue: LuaValue) {
        fields[key] = nil
        value[key] = newValue.storable
    }

    private var depth: Int {
        if let knownDepth { return knownDepth }
        let depth = value.depth
        knownDepth = depth
        return depth
    }

    private var fitsInTable: Bool {
        if depth < Self.maximumDepth { return true }
        knownDepth = nil
        return depth < Self.maximumDepth
    }

    private var isTable: Bool { if case .table = value { true } else { false } }

    /// The keys of a table: integers, strings, then the others.
    var keys: [LuaValue] {
        guard case .table(let fields) = value else { return [] }
        var (integers, strings, others): ([Int], [(bytes: [UInt8], key: LuaValue)], [(text: String, key: LuaValue)]) = ([], [], [])
        for key in fields.keys {
            if let integer = key.integer {
                integers.append(integer)
            } else if let bytes = key.bytes {
                strings.append((bytes, key))
            } else {
                others.append((key.description, key))
            }
        }
        strings.sort { $0.bytes.lexicographicallyPrecedes($1.bytes) }
        others.sort { $0.text < $1.text }
        return integers.sorted().map { .integer($0) } + strings.map(\.key) + others.map(\.key)
    }
}

extension LuaValue {
    /// The value as a key of a Lua table: a float with an integral value becomes an integer.
    fileprivate var asKey: LuaValue {
        if case .number(let number) = self, let integer = Int(exactly: number) { return .integer(integer) }
        return self
    }

    /// The value as a key; nil if it cannot be one.
    fileprivate var asPossibleKey: LuaValue? {
        switch self {
        case .nil, .other: nil
        case .number(let number) where number.isNaN: nil
        default: asKey
        }
    }

    /// How many tables are nested in the value.
    fileprivate var depth: Int {
        guard case .table(let fields) = self else { return 0 }
        return 1 + fields.reduce(0) { most, field in max(most, field.key.depth, field.value.depth) }
    }

    /// The value; nil for one that Lua stores as nil.
    fileprivate var storable: LuaValue { if case .other = self { .nil } else { self } }
}
