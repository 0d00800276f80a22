import CLua
import Testing

/// `#` of tables that lack values: Lua's answer depends on the array part.
@Suite struct ArrayPartTests {
    static let tables = [
        "{ 1, 2, 3, nil, 5 }", "(function(...) return { ... } end)(nil, 2)", "table.pack(nil, nil, 3, nil)", "table.pack(1, nil, 3, nil)",
        "table.pack(table.unpack({}, 1, 5000))", "table.pack(table.unpack({ [5000] = 1 }, 1, 5000))", "{ nil, nil, 3, x = 1 }",
        "{ 1, nil, 3, nil, [100] = 1 }",
        "(function() local t = {} for i = 1, 1000 do t[i] = i end for i = 500, 999 do t[i] = nil end return t end)()",
        // The border is in the hash part.
        "{ [1] = 1, [2] = 2, [4] = 4 }", "{ [1] = 1, [2] = 2, [4] = 4, [8] = 8, [1 << 40] = 1 }", "{ [2] = 2, [3] = 3 }",
        "(function() local t = { 1, nil, 3, 4, x = 1, y = 1, z = 1 } t[5], t[6] = 5, 6 return t end)()",
        "(function() local t = { 1, 2, 3, 4, 5, 6, 7, 8 } t[9], t[11], t.x, t[3] = 9, 11, true, nil return t end)()",
        // A value that is rebuilt on arrival.
        "{ nil, object, nil, object }", "{ nil, object, x = object, y = object, z = object }",
        "{ nil, object, [false] = 1, [true] = object, x = object, y = 2 }",
    ]

    /// Compares the table `t` with its copy `u`. Lua may give two answers to the first two questions.
    static let check = """
        local function isSame(t, u)
            local length = #t
            assert(#u == length and select('#', table.unpack(u)) == length)
            for k, v in next, t do assert(u[k] == v or getmetatable(v)) end
            for k, v in next, u do assert(t[k] ~= nil) end
        end
        """
    static let make = """
        local class = {}
        local function rebuild() return setmetatable({}, class) end
        class.__transfer = function() return rebuild end
        local object = rebuild()
        """

    @Test("A table that lacks values keeps its length", arguments: tables)
    func lengthIsKept(_ table: String) throws {
        let sent = """
            local t = \(table)
            local _, _ = #t, #t
            local deep = t
            for i = 1, 100 do deep = { deep } end
            return t, { t }, deep, function() return t end
            """
        let check = """
            \(Self.make)
            local t = \(table)
            local _, _ = #t, #t
            \(Self.check)
            local u, list, deep, f = ...
            for i = 1, 100 do deep = deep[1] end
            assert(list[1] == u and deep == u and f() == u)
            isSame(t, u)
            """
        try roundTrip(Self.make + sent, check: check)
        let alone = "\(Self.make) \(Self.check) local t = \(table) local _, _ = #t, #t isSame(t, ...)"
        try roundTrip("\(Self.make) local t = \(table) local _, _ = #t, #t return t", check: alone)
        let deep = "\(Self.make) local t = \(table) local _, _ = #t, #t for i = 1, 100 do t = { t } end return t"
        try roundTrip(deep, check: "local u = ... for i = 1, 100 do u = u[1] end local isSame = assert(load([[\(alone)]])) isSame(u)")
    }

    @Test("Random tables that lack values keep their lengths")
    func random() throws {
        let seed = UInt32.random(in: 0...UInt32.max)
        let make = """
            math.randomseed(\(seed))
            local random, tables = math.random, {}
            for round = 1, 3000 do
                local n, t, k = random(30) == 1 and random(2000) or random(0, 40), {}, random(4)
                for i = 1, n do t[i] = (k > 2 or random(3) > 1) and i or nil end
                if k == 1 then t = table.pack(table.unpack(t, 1, n)) elseif k == 2 then t = { table.unpack(t, 1, n) } end
                if k == 3 then for _ = 1, random(0, n) do t[random(n)] = nil end end
                for _ = 1, random(0, 5) do
                    local key = random(8) == 1 and random(60) or 'k' .. random(9)
                    t[key] = random(9) > 1 and random(100) or nil
                end
                local _, _ = #t, #t
                tables[round] = t
            end
            """
        let sender = State()
        try sender.run("\(make) return tables")
        let parcel = try sender.encode(1, as: CLUA_STORED)
        let receiver = State()
        try receiver.decode(parcel, in: CLUA_CURRENT_ENVIRONMENT)
        // Another state may place the keys of a table otherwise, so the lengths are compared with those of the sender.
        try sender.run("\(make) local lengths = {} for i, t in ipairs(tables) do lengths[i] = #t end return lengths")
        let lengths = try sender.encode(1, as: CLUA_STORED)
        try receiver.decode(lengths, in: CLUA_CURRENT_ENVIRONMENT)
        try receiver.run(
            """
            local tables, lengths = ...
            for i, t in ipairs(tables) do
                if #t ~= lengths[i] then error(('seed \(seed), table %d: #%d became %d'):format(i, lengths[i], #t)) end
            end
            """, arguments: 2)
    }

    @Test("A frozen table has the length of the table, and a thawed one, too", arguments: tables.prefix(9))
    func frozen(_ table: String) throws {
        let source = "local t = \(table) local _, _ = #t, #t return opscript.freeze(t)"
        let check = """
            \(Self.check)
            local t, f = \(table), ...
            local _, _ = #t, #t
            local count = 0
            for k, v in pairs(f) do assert(t[k] == v) count = count + 1 end
            for k, v in pairs(t) do assert(f[k] == v) count = count - 1 end
            assert(#f == #t and count == 0 and f[#f + 1] == nil)
            isSame(t, opscript.thaw(f))
            """
        try roundTrip(source, check: check)
        let parcel = try State().encode(source)
        let elsewhere = State()
        let contents = try parcel.bytesOfFrozen()
        try elsewhere.decode(try #require(parcel.receivedElsewhere(frozen: contents)), in: CLUA_CURRENT_ENVIRONMENT)
        try elsewhere.run(check, arguments: 1)
    }

    @Test("Tables with the same values and another length have other keys", arguments: ["", "opscript.freeze"])
    func keys(_ freeze: String) throws {
        func key(_ table: String) throws -> Key { try State.key(of: "local t = \(freeze)(\(table)) return function() return t end") }
        #expect(try key("{ 1, 2, nil, 4 }") == key("{ 1, 2, nil, 4 }"))
        #expect(try key("{ 1, 2, nil, 4 }") != key("{ 1, 2, [4] = 4 }"))
        #expect(try key("{ 1, 2, 4 }") == key("{ [3] = 4, [2] = 2, [1] = 1 }"))
    }

    @Test("A table with a pair that is rebuilt on arrival has a key, which depends on the pair")
    func keysOfRebuiltPairs() throws {
        func key(_ number: Int) throws -> Key {
            let object = "setmetatable({}, { __transfer = function() return table.pack, \(number) end })"
            return try State.key(of: "local t = { [false] = 1, a = \(object) } return function() return t end")
        }
        #expect(try key(1) == key(1) && key(1) != key(2))
    }

    @Test("Many nils in the hash part take no room")
    func sparse() throws {
        let parcel = try State().encode("local t = {} for i = 0, 40 do t[1 << i] = i end return t")
        #expect(parcel.bytes.count < 1000)
        let removed = try State().encode(
            "local t = {} for i = 0, 40 do t[1 << i] = i end t[(1 << 40) - 1] = 1 t[(1 << 40) - 1] = nil return t")
        #expect(removed.bytes.count < 1000)
    }
}
