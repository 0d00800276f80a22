import CLua
import Testing

/// Tables of a few plain values, which are sent without the encoder.
@Suite struct FlatTableTests {
    static let flatTables = [
        "{}", "{ id = 1, name = 'row 1', score = 0.5 }", "{ 1, 2, 'three', false, 4.5 }", "{ 1, [3] = 3, x = true }",
        "{ [1] = 'i', [-1] = 'n', [0] = 'z', [1.5] = 'f', [true] = 't', [false] = 'o', [''] = 'e', [math.huge] = 'h', [math.mininteger] = 'm' }",
        "{ [2] = 'b', [3] = 'c', x = 0 / 0, y = -0.0 }", "{ x = 'same', y = 'same', same = 'x' }",
        "{ [('key'):rep(50)] = ('text'):rep(4000), ['a\\0b'] = '\\255' }",
        "(function() local t = {} for i = 1, 64 do t[i] = i end return t end)()",
    ]

    static let otherTables = [
        "{ 1, {} }", "{ [{}] = 1 }", "{ 1, nil, 3, x = true }", "{ x = print }", "{ f = function() end }",
        "setmetatable({ 1 }, { __index = { x = 2 } })",
        "string", "_G", "{ text = ('long'):rep(5000) }", "{ [('long'):rep(5000)] = 1 }",
        "(function() local t = {} for i = 1, 65 do t[i] = i end return t end)()",
        "(function() local t = { 1 } t.self = t return t end)()",
    ]

    /// A state that has looked at its modules, as the encoder does. A flat table is sent without the encoder.
    private func state() throws -> State {
        let state = State()
        _ = try state.encode("return {}")
        return state
    }

    private func isFlat(_ parcel: Parcel) -> Bool { unsafe parcel.pointer.pointee.is_flat }

    /// Two values are sent by the encoder. Their parcel has the flags, the bytes of each value, and the end.
    @Test("The bytes of a flat table are those that the encoder writes", arguments: flatTables)
    func bytes(_ table: String) throws {
        let state = try state()
        let alone = try state.encode("value = \(table) return value")
        let beside = try state.encode("return value, nil")
        let null = try state.encode("return nil").bytes
        #expect(isFlat(alone))
        #expect(!isFlat(beside))
        #expect(beside.bytes == alone.bytes.dropLast() + null.dropFirst())
    }

    @Test("Every table arrives, flat or not, and nothing else is on the stack", arguments: flatTables + otherTables)
    func arrives(_ table: String) throws {
        let check = """
            local expected, found = \(table), ...
            local function isSame(a, b) return a == b or a ~= a and b ~= b or type(a) == type(b) and type(a) ~= 'number' and type(a) ~= 'string' end
            assert(select('#', ...) == 1)
            for k, v in next, expected do
                if type(k) ~= 'table' then assert(isSame(found[k], v) and math.type(found[k]) == math.type(v)) end
            end
            local count = 0
            for k in next, found do count = count + 1 end
            for k in next, expected do count = count - 1 end
            assert(count == 0 or expected == _G)
            """
        try roundTrip("return \(table)", check: check)
        let receiver = State()
        try receiver.decode(try state().encode("return \(table)"), in: CLUA_CURRENT_ENVIRONMENT)
        try receiver.run(check, arguments: receiver.count)
    }

    @Test("A table with anything but a few plain values is not flat", arguments: otherTables)
    func isNotFlat(_ table: String) throws {
        let state = try state()
        let parcel = try state.encode("return \(table)")
        #expect(!isFlat(parcel) && state.count == 0)
    }

    @Test("Any wrong byte of a flat table is an error or another table", arguments: flatTables.prefix(5))
    func wrongBytes(_ table: String) throws {
        let state = try state()
        let parcel = try state.encode("return \(table)")
        state.decodeWithWrongBytes(parcel)
        for count in 0..<parcel.bytes.count {
            #expect(state.decode(parcel, bytes: Array(parcel.bytes.prefix(count)), in: CLUA_CURRENT_ENVIRONMENT) != LUA_OK)
            state.count = 0
        }
    }

    @Test("A flat table for which the memory is too small is an error")
    func memory() throws {
        let parcel = try state().encode("return { text = ('x'):rep(10000) }")
        let state = State()
        state.limitBytes = try state.usedBytes() + 5000
        let error = #expect(throws: ScriptError.self) { try state.decode(parcel, in: CLUA_CURRENT_ENVIRONMENT) }
        #expect(error?.status == LUA_ERRMEM)
        state.limitBytes = 0
        try state.decode(parcel, in: CLUA_CURRENT_ENVIRONMENT)
    }
}
