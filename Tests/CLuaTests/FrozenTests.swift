import CLua
import CTestSupport
import TestSupport
import Testing

/// Frozen values: how states read them, and their memory.
@Suite struct FrozenTests {
    /// Freezes the result of `source` in one state. Runs `check` with it in that state, in two others, and in a state of another machine.
    private func share(_ source: String, _ check: String, travelsFar: Bool = true) throws {
        let sender = State()
        try sender.run("return opscript.freeze((function() \(source) end)())")
        unsafe lua_pushvalue(sender.lua, -1)
        let parcel = try sender.encode(1, as: CLUA_STORED)
        try sender.run(check, arguments: 1)
        for environment in [CLUA_FRESH_ENVIRONMENT, CLUA_CURRENT_ENVIRONMENT] {
            let receiver = State()
            try receiver.decode(parcel, in: environment)
            try receiver.run(check, arguments: 1)
        }
        guard travelsFar else { return }
        let elsewhere = State()
        try elsewhere.decode(try #require(parcel.receivedElsewhere(frozen: try parcel.bytesOfFrozen())), in: CLUA_CURRENT_ENVIRONMENT)
        try elsewhere.run(check, arguments: 1)
    }

    @Test("A refusal names the value that means nothing on another machine")
    func refusalsElsewhere() throws {
        let state = State()
        try state.run("long, inner = ('x'):rep(100000), opscript.freeze { 1 }")
        let globals = "a function in it whose globals are objects, frozen values or long strings"
        for (source, message) in [
            ("f = function() return long end", globals), ("f = function() return inner end", globals),
            ("{ [math.floor] = 1 }", "a function or a module as a key"),
        ] {
            let parcel = try state.encode("return opscript.freeze { \(source) }")
            #expect(throws: FrozenRefusal(message: message), performing: parcel.bytesOfFrozen)
        }
    }

    @Test func aFrozenTableIsReadLikeATable() throws {
        try share(
            "return { 1, 2.5, 'three', true, false, x = 'y', [-7] = 'minus', [1.5] = 'float', [true] = 'yes', nested = { { 9 } }, [2^53] = 'big' }",
            """
            local f = ...
            assert(type(f) == 'userdata' and opscript.isFrozen(f) and #f == 5)
            assert(f[1] == 1 and math.type(f[1]) == 'integer' and f[2] == 2.5 and f[3] == 'three' and f[4] == true and f[5] == false)
            assert(f[6] == nil and f[0] == nil and f.missing == nil and f[1.0] == 1 and f[{}] == nil and f[print] == nil)
            assert(f.x == 'y' and f[-7] == 'minus' and f[1.5] == 'float' and f[true] == 'yes' and f[false] == nil and f[2^53] == 'big')
            assert(f.nested[1][1] == 9 and f.nested == f.nested and f.nested[1] ~= f.nested)
            assert(tostring(f):find '^frozen table: 0x' and not getmetatable(f))
            local count, sum = 0, 0
            for k, v in pairs(f) do count = count + 1; assert(f[k] == v) end
            for i, v in ipairs(f.nested[1]) do sum = sum + i * v end
            assert(count == 11 and sum == 9)
            assert(table.concat(opscript.freeze { 'a', 'b' }, ',') == 'a,b' and select('#', table.unpack(f)) == 5)
            local t = opscript.thaw(f)
            assert(type(t) == 'table' and t.nested[1][1] == 9 and #t == 5)
            t.x, t.nested[1][1] = 'changed', 10
            assert(f.x == 'y' and f.nested[1][1] == 9)
            """)
    }

    @Test func writingIsAnErrorThatSaysSo() throws {
        try share(
            "return { x = 1 }",
            """
            local f = ...
            local function message(g) return select(2, pcall(g)) end
            assert(message(function() f.x = 2 end):find "field 'x' of a frozen table cannot be assigned; opscript.thaw returns a copy")
            assert(message(function() f[1] = 2 end):find 'a frozen table cannot be changed; opscript.thaw returns a copy that can')
            assert(not pcall(rawset, f, 'x', 2) and not pcall(table.insert, f, 1) and not pcall(setmetatable, f, {}))
            assert(f.x == 1)
            """)
    }

    @Test func whatCannotChangeIsFrozenAlready() throws {
        let state = State()
        try state.run(
            """
            local f = opscript.freeze {}
            for _, value in ipairs { 1, 1.5, 'text', true, f } do assert(rawequal(opscript.freeze(value), value)) end
            assert(opscript.freeze(nil) == nil and opscript.thaw(5) == 5 and opscript.thaw(nil) == nil)
            assert(not opscript.isFrozen {} and not opscript.isFrozen 'text' and #f == 0 and next(opscript.thaw(f)) == nil)
            for k in pairs(f) do error 'not empty' end
            """)
    }

    @Test("Cycles and shared tables keep their shape, and tables of other frozen values stay what they are")
    func shapes() throws {
        try share(
            """
            local inner = opscript.freeze { 'inner' }
            local shared = { 's' }
            local t = { shared = shared, again = shared, inner = inner, [inner] = 'as key' }
            t.self, t[shared] = t, 'table as key'
            return t
            """,
            """
            local f = ...
            assert(f.self == f and f.self.self.shared == f.again and f.shared[1] == 's' and f.inner[1] == 'inner')
            assert(f[f.inner] == 'as key' and f[f.shared] == 'table as key')
            local t = opscript.thaw(f)
            assert(t.self == t and t.shared == t.again and t[t.shared] == 'table as key' and t[t.inner] == 'as key')
            """)
    }

    @Test("Functions without state, and values that travel by name, can be frozen")
    func functions() throws {
        try share(
            "return { f = function(x) return math.abs(x) + 1 end, format = string.format, [print] = 'print', math = math }",
            """
            local f = ...
            assert(f.f(-4) == 5 and f.format == string.format and f[print] == 'print' and f.math == math and f[error] == nil)
            assert(opscript.thaw(f)[print] == 'print')
            """, travelsFar: false)
        try share(
            "return { f = function(x) return math.abs(x) + 1 end, format = string.format, math = math }",
            "local f = ... assert(f.f(-4) == 5 and f.format == string.format and f.math == math)")
    }

    @Test(arguments: [
        ("{ a = { 1, coroutine.create(print) } }", "cannot freeze argument 1.a[2] (a coroutine); create it where it is used"),
        (
            "(function() local n = 0 return { f = function() n = n + 1 end } end)()",
            "cannot freeze argument 1.f (a function with the upvalue 'n'); pass it what it needs, or put it in a module"
        ),
        (
            "{ [function() end] = 1 }",
            "cannot freeze argument 1 key (a function); use a string as the key"
        ),
        ("{ ['a b'] = io.tmpfile() }", "cannot freeze argument 1[\"a b\"] (a userdata); make it where it is used"),
        ("{ { setmetatable({}, {}) } }", "cannot freeze argument 1[1][1] (a table with a metatable); freeze a table without one"),
        ("setmetatable({}, {})", "cannot freeze argument 1 (a table with a metatable); freeze a table without one"),
        ("{ g = _G }", "cannot freeze argument 1.g (a global table); freeze a table with what you need"),
        ("print", "bad argument #1 to 'freeze' (table or plain value expected, got function)"),
        ("io.stdout", "bad argument #1 to 'freeze' (table or plain value expected, got FILE*)"),
    ])
    func refusals(_ value: String, _ message: String) throws {
        let found = try State().text("local value = \(value); return select(2, pcall(function() opscript.freeze(value) end))")
        #expect(found == "test:1: " + message || found == message)
    }

    @Test("Nesting a million deep, a million elements and a long string need no deep stack")
    func large() throws {
        let depth = TestLength.size(1_000_000)
        try share(
            "local t = {} for i = 1, \(depth) do t = { t } end return t",
            """
            local f, depth = ..., 0
            while f[1] do f, depth = f[1], depth + 1 end
            assert(depth == \(depth))
            """)
        try share(
            "local t, text = {}, ('x'):rep(1000000) for i = 1, \(depth) do t[i] = i end t.text, t[text] = text, 1 return t",
            "local f = ... assert(#f == \(depth) and f[#f] == \(depth) and f.text == ('x'):rep(1000000) and f[f.text] == 1)")
    }

    @Test("A large table that is read often, by few keys and by many in turn, has the same values")
    func readOften() throws {
        try share(
            "local t = { first = 1, inner = { 'x' } } for i = 1, 3000 do t[i], t['key' .. i] = -i, 'value ' .. i end return t",
            """
            local f = ...
            for _ = 1, 3 do
                for _ = 1, 200 do
                    assert(f.first == 1 and f[7] == -7 and f.key9 == 'value 9' and f.missing == nil and f.inner[1] == 'x' and f[7.0] == -7)
                end
                for i = 1, 3000 do assert(f['key' .. i] == 'value ' .. i and f[i] == -i and f[-i] == nil) end
                collectgarbage()
            end
            assert(#f == 3000 and f.inner == f.inner and not pcall(function() f.first = 2 end))
            """)
    }

    @Test("The values that a state keeps of a large table for fast reading are few")
    func readOftenInLittleMemory() throws {
        let state = State()
        try state.run("local t = {} for i = 1, 20000 do t['key' .. i] = i end f = opscript.freeze(t)")
        let before = try state.usedBytes()
        try state.run("for _ = 1, 10 do for i = 1, 20000 do assert(f['key' .. i] == i) end end")
        #expect(try state.usedBytes() < before + 100_000)
    }

    @Test("A frozen value is sent in a few bytes, also in tables, upvalues and results")
    func sending() throws {
        let sender = State()
        try sender.run("big = {} for i = 1, 10000 do big[i] = { i, 'row ' .. i } end big = opscript.freeze(big)")
        let parcel = try sender.encode("local big = big return big, { big, key = big }, function() return #big + big[7][1] end")
        #expect(parcel.bytes.count < 150)
        let receiver = State()
        let before = try receiver.usedBytes()
        try receiver.decode(parcel, in: CLUA_FRESH_ENVIRONMENT)
        #expect(try receiver.usedBytes() < before + 10_000)
        try receiver.run(
            "local a, t, f = ... assert(a == t[1] and a == t.key and f() == 10007 and a[10000][2] == 'row 10000')", arguments: 3)
    }

    // MARK: memory

    @Test("Frozen values outlive the state that froze them")
    func outlives() throws {
        let parcel = try State().encode("return opscript.freeze { text = ('y'):rep(50000), list = { 1, 2 } }")
        let receiver = State()
        try receiver.decode(parcel, in: CLUA_CURRENT_ENVIRONMENT)
        try receiver.run("local f = ... assert(#f.text == 50000 and f.list[2] == 2)", arguments: 1)
    }

    @Test("The state that has frozen a value is charged for it while it has views of it")
    func charged() throws {
        let state = State()
        // The first freezing makes the index of what travels by name.
        try state.run("function make() local t = {} for i = 1, 10000 do t[i] = i end return t end opscript.freeze { {} }")
        let before = try state.usedBytes()
        try state.run("kept = opscript.freeze { make() }; inner = kept[1]")
        #expect(try state.usedBytes() > before + 160_000)
        try state.run("kept = nil")
        #expect(try state.usedBytes() > before + 160_000)
        try state.run("inner = nil")
        #expect(try state.usedBytes() < before + 10_000)
    }

    @Test("Freezing counts against the limit of the state, and garbage is collected before it fails")
    func limited() throws {
        let state = State()
        try state.run("function make(n) local t = {} for i = 1, n do t[i] = i end return t end")
        state.limitBytes = try state.usedBytes() + 4_000_000
        try state.run("for i = 1, 200 do opscript.freeze(make(20000)) end")
        let message = try state.text(
            "kept = {} return select(2, pcall(function() for i = 1, 100 do kept[i] = opscript.freeze(make(20000)) end end))")
        #expect(message == "not enough memory")
        try state.run("kept = nil for i = 1, 200 do opscript.freeze(make(20000)) end")
        state.limitBytes = 0
    }

    @Test("A chain of any length of frozen values is released")
    func chain() throws {
        let length = TestLength.size(300_000)
        let state = State()
        let before = try state.usedBytes()
        try state.run("local f = opscript.freeze {} for i = 1, \(length) do f = opscript.freeze { f } end chain = f")
        try state.run("chain = nil")
        #expect(try state.usedBytes() < before + 100_000)
    }

    @Test("Objects of the host in a frozen value are released with it", .disabled(if: has_thread_sanitizer(), "one thread only"))
    func objects() async throws {
        await #expect(processExitsWith: .success) {
            do {
                let state = ObjectHost.state()
                try state.run(
                    """
                    local a, b = opscript.object(1), opscript.object(2)
                    local f = opscript.freeze { a, [b] = 'b', nested = opscript.freeze { a } }
                    assert(f[1] == a and f[b] == 'b' and f.nested[1] == a and f[opscript.object(3)] == nil)
                    local t = opscript.thaw(f)
                    assert(t[1] == a and t[b] == 'b')
                    """)
                _ = try state.usedBytes()
                precondition(ObjectHost.references == 0)
                try state.run("kept = opscript.freeze { opscript.object(4) }")
            }
            precondition(ObjectHost.references == 0)
        }
    }

    @Test("Taking metatables away, or giving them to others, harms nothing")
    func hostile() throws {
        let state = State()
        try state.run(
            """
            local f = opscript.freeze { x = { 1 } }
            local metatable = debug.getmetatable(f)
            local file = io.tmpfile()
            for name, g in pairs(metatable) do
                if type(g) == 'function' then
                    for _, wrong in ipairs { file, {}, 5, 'text', print, coroutine.create(print) } do assert(not pcall(g, wrong, 'x')) end
                    assert(not pcall(g))
                end
            end
            local other = debug.setmetatable(io.tmpfile(), metatable)
            assert(not pcall(function() return other.x end))
            debug.setmetatable(f, nil)
            assert(not pcall(function() return f.x end) and opscript.isFrozen(f) and opscript.thaw(f).x[1] == 1)
            debug.setmetatable(f, metatable)
            assert(f.x[1] == 1)
            debug.setuservalue(f, f, 1)
            debug.setmetatable(f, { __gc = function() end })
            -- The weak table of views is in the registry.
            for k, v in pairs(debug.getregistry()) do
                if type(v) == 'table' then for name in pairs(v) do if type(name) == 'userdata' and v[name] == f then v[name] = file end end end
            end
            f, other = nil, nil
            collectgarbage() collectgarbage()
            """)
        let parcel = try state.encode("local f = opscript.freeze { 1 } debug.setmetatable(f, nil) return f")
        try State().decode(parcel, in: CLUA_CURRENT_ENVIRONMENT)
    }

    @Test("A parcel that refers to a frozen value it does not have is an error")
    func malformed() throws {
        let parcel = try State().encode("return opscript.freeze { 1 }")
        let receiver = State()
        receiver.decodeWithWrongBytes(parcel)
        #expect(receiver.decode(parcel, bytes: [0, parcel.bytes[1], 1, parcel.bytes[3]], in: CLUA_FRESH_ENVIRONMENT) == LUA_ERRRUN)
        #expect(receiver.decode(parcel, bytes: parcel.bytes, in: CLUA_FRESH_ENVIRONMENT) == LUA_OK)
    }

    @Test("Each allocation of freezing, reading and thawing in turn fails", .disabled(if: has_thread_sanitizer(), "one thread only"))
    func failingAllocations() throws {
        let state = State()
        try state.run(
            """
            value = { 1, 'two', ('x'):rep(20000), { y = {}, z = string.format, f = function() return 1 end }, [{}] = { 'deep', { 'deeper' } } }
            function step()
                local f = opscript.freeze(value)
                assert(f[4].y and f[4].z and f[4].f() == 1)
                for k, v in pairs(f) do assert(f[k] == v) end
                local t = opscript.thaw(f)
                assert(#t == 4)
                return opscript.freeze { f, f[4] }
            end
            step()
            """)
        let before = try state.usedBytes()
        var failures = 0
        for number in stride(from: 0, to: 10_000, by: TestLength.stride) {
            let allocation = unsafe fail_allocation(state.lua, number)
            _ = try? state.run("return pcall(step)")
            state.count = 0
            if unsafe !stop_failing(allocation) { break }
            failures += 1
        }
        #expect(failures > 10)
        #expect(abs(try state.usedBytes() - before) < 20_000)
    }

    // MARK: random values

    /// Makes random tables, freezes them, and compares each with its view. `pairsOf` has the view of each table.
    private static let comparison = """
        local seed, size = ...
        math.randomseed(seed)
        local tables = {}
        local function plain()
            local kind = math.random(7)
            if kind == 1 then return math.random(-3, 12) end
            if kind == 2 then return math.random() * 100 end
            if kind == 3 then return ('k'):rep(math.random(0, 60)) .. math.random(9) end
            if kind == 4 then return math.random(2) == 1 end
            if kind == 5 then return math.random(1 << 60) end
            if kind == 6 then return string.char(math.random(0, 255), math.random(0, 255)) end
            return tables[math.random(#tables)]
        end
        for i = 1, size do tables[i] = {} end
        for _, t in ipairs(tables) do
            for i = 1, math.random(0, 6) do t[i] = plain() end
            for i = 1, math.random(0, 12) do t[plain()] = plain() end
        end
        local root = { table.unpack(tables) }
        local frozen = opscript.freeze(root)
        local pairsOf = {}
        local function same(a, b)
            if type(a) ~= 'table' then return a == b and math.type(a) == math.type(b) end
            if not opscript.isFrozen(b) then return false end
            if pairsOf[a] then return pairsOf[a] == b end
            pairsOf[a] = b
            return true
        end
        local function compare(original, view)
            local todo, done = { original }, { [original] = true }
            pairsOf[original] = view
            while #todo > 0 do
                local a = table.remove(todo)
                local b = pairsOf[a]
                local count = 0
                for k, v in pairs(a) do
                    count = count + 1
                    if type(k) ~= 'table' then
                        assert(same(v, b[k]), tostring(k))
                    elseif pairsOf[k] then
                        assert(same(v, b[pairsOf[k]]))
                    end
                    for _, t in ipairs { k, v } do
                        if type(t) == 'table' and pairsOf[t] and not done[t] then done[t] = true; todo[#todo + 1] = t end
                    end
                end
                for k, v in pairs(b) do
                    count = count - 1
                    assert(b[k] == v)
                end
                assert(count == 0)
                assert(a[#b] ~= nil or #b == 0)
                assert(a[#b + 1] == nil)
            end
        end
        compare(root, frozen)
        pairsOf = {}
        local isFrozen = opscript.isFrozen
        local thawed = opscript.thaw(frozen)
        assert(#thawed == #root and opscript.freeze(thawed) ~= frozen)
        return frozen
        """

    @Test func frozenValuesEqualTheOrdinaryOnes() throws {
        let seed = UInt32.random(in: 0...UInt32.max)
        for number in 0..<UInt32(TestLength.size(200)) {
            let state = State()
            do {
                unsafe lua_pushinteger(state.lua, lua_Integer(seed &+ number))
                unsafe lua_pushinteger(state.lua, lua_Integer(1 + number % 30))
                try state.run(Self.comparison, arguments: 2)
                let parcel = try state.encode(1, as: CLUA_STORED)
                let receiver = State()
                try receiver.decode(parcel, in: CLUA_CURRENT_ENVIRONMENT)
                try receiver.run("for i, t in ipairs(...) do for k, v in pairs(t) do assert(t[k] == v) end end", arguments: 1)
            } catch { Issue.record("seed \(seed &+ number), \(1 + number % 30) tables: \(error)") }
        }
    }
}
