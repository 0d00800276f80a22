import CLua

/// A table that C pushes: fields with names. The bytes of strings must outlive the table.
@safe
struct ItemTable {
    private var items: [clua_item]

    init() {
        unsafe items = [clua_item()]
        unsafe items[0].type = LUA_TTABLE
    }

    @unsafe
    mutating func append(_ key: StaticString, _ value: clua_item) {
        unsafe items.append(clua_item(bytes: key.utf8Start, count: key.utf8CodeUnitCount))
        unsafe items.append(value)
        unsafe items[0].count += 1
    }

    func give(to body: (UnsafePointer<clua_item>) -> Void) {
        unsafe items.withUnsafeBufferPointer { items in
            if let start = items.baseAddress { unsafe body(start) }
        }
    }
}

extension clua_item {
    init(_ value: Int) {
        unsafe self.init()
        unsafe type = LUA_TNUMBER
        unsafe is_integer = true
        unsafe integer = lua_Integer(value)
    }

    init(_ value: Bool) {
        unsafe self.init()
        unsafe type = LUA_TBOOLEAN
        unsafe integer = value ? 1 : 0
    }

    init(bytes: UnsafePointer<UInt8>?, count: Int) {
        unsafe self.init()
        unsafe type = LUA_TSTRING
        unsafe self.bytes = UnsafeRawPointer(bytes)?.assumingMemoryBound(to: CChar.self)
        unsafe self.count = count
    }
}
