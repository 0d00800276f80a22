import CLua
import OpEngine

/// Host values in one array, as C reads them: the keys and values of a table follow the table's item.
@safe
struct FlatValues {
    private var items: [clua_item] = unsafe []
    private var text: [UInt8] = []
    /// For each string, the index of its item and the offset of its bytes in `text`.
    private var strings: [(item: Int, start: Int)] = []
    private var objects: [AnyObject] = []

    /// The number of values.
    let count: Int

    init(_ values: [LuaValue]) {
        count = values.count
        for value in values { append(value) }
    }

    /// Makes the values from one object.
    init(_ object: AnyObject, _ kind: ObjectKind) {
        count = 1
        unsafe items.append(item(object, kind))
    }

    private mutating func append(_ value: LuaValue) {
        var item = unsafe clua_item()
        switch value {
        case .nil, .other: unsafe item.type = LUA_TNIL
        case .boolean(let value):
            unsafe item.type = LUA_TBOOLEAN
            unsafe item.integer = value ? 1 : 0
        case .integer(let value):
            unsafe item.type = LUA_TNUMBER
            unsafe item.is_integer = true
            unsafe item.integer = lua_Integer(value)
        case .number(let value):
            unsafe item.type = LUA_TNUMBER
            unsafe item.number = value
        case .string(let value): return append(bytes: value.utf8)
        case .bytes(let value): return append(bytes: value)
        case .table(let fields):
            let fields = fields.filter { $0.key.isPossibleKey }
            unsafe item.type = LUA_TTABLE
            unsafe item.count = fields.count
            unsafe items.append(item)
            for (key, value) in fields {
                append(key)
                append(value)
            }
            return
        case .operation(let operation): unsafe item = self.item(operation, .operation)
        case .queue(let queue): unsafe item = self.item(queue, .queue)
        case .object(let reference): unsafe item = self.item(reference.object, reference.kind)
        }
        unsafe items.append(item)
    }

    private mutating func append(bytes: some Collection<UInt8>) {
        var item = unsafe clua_item()
        unsafe item.type = LUA_TSTRING
        unsafe item.count = bytes.count
        unsafe strings.append((items.count, text.count))
        text.append(contentsOf: bytes)
        unsafe items.append(item)
    }

    private mutating func item(_ object: AnyObject, _ kind: ObjectKind) -> clua_item {
        objects.append(object)
        var item = unsafe clua_item()
        unsafe item.type = LUA_TUSERDATA
        unsafe item.kind = kind.rawValue
        unsafe item.object = Unmanaged.passUnretained(object).toOpaque()
        return unsafe item
    }

    func withItems<Result>(_ body: (UnsafeBufferPointer<clua_item>) -> Result) -> Result {
        withExtendedLifetime(objects) {
            unsafe text.withUnsafeBytes { text in
                var items = unsafe items
                for (item, start) in strings {
                    unsafe items[item].bytes = text.baseAddress.map { unsafe ($0 + start).assumingMemoryBound(to: CChar.self) }
                }
                return unsafe items.withUnsafeBufferPointer(body)
            }
        }
    }
}

extension LuaValue {
    /// Lua allows neither nil nor NaN as a key.
    fileprivate var isPossibleKey: Bool {
        switch self {
        case .nil, .other: false
        case .number(let value): !value.isNaN
        default: true
        }
    }
}
