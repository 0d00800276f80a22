import CLua
import Testing

@Suite struct TableTests {
    @Test func emptyTablesAndNestedOnesArrive() throws {
        try roundTrip(
            "return {}, { {}, { a = { b = { 'c' } } } }",
            check: """
                local empty, nested = ...
                assert(next(empty) == nil and getmetatable(empty) == nil)
                assert(#nested == 2 and next(nested[1]) == nil and nested[2].a.b[1] == 'c')
                """)
    }

    @Test func keysAreOfEveryType() throws {
        try roundTrip(
            "return { [1] = 'i', [-1] = 'n', [0] = 'z', [1.5] = 'f', [true] = 't', [false] = 'o', [''] = 'e', x = 'x', [math.huge] = 'h' }",
            check: """
                local t, count = ..., 0
                for _ in pairs(t) do count = count + 1 end
                assert(count == 9 and t[1] == 'i' and t[-1] == 'n' and t[0] == 'z' and t[1.5] == 'f' and t[true] == 't')
                assert(t[false] == 'o' and t[''] == 'e' and t.x == 'x' and t[math.huge] == 'h')
                """)
    }

    @Test func tablesAndFunctionsAreKeys() throws {
        try roundTrip(
            "local key = { 7 }; local function f() return 8 end; return { [key] = 'table', [f] = 'function' }, key, f",
            check: """
                local t, key, f = ...
                assert(t[key] == 'table' and t[f] == 'function' and key[1] == 7 and f() == 8)
                """)
    }

    @Test func sharedTablesStayShared() throws {
        try roundTrip(
            "local a = {}; return { a, a, x = { a } }, a",
            check: """
                local t, a = ...
                assert(t[1] == a and t[2] == a and t.x[1] == a)
                """)
    }

    @Test func cyclesStayCycles() throws {
        try roundTrip(
            "local a, b = {}, {}; a.b, b.a, a.self, a[a] = b, a, a, b; return a",
            check: """
                local a = ...
                assert(a.b.a == a and a.self == a and a[a] == a.b)
                """)
    }

    @Test func holesStayHoles() throws {
        try roundTrip(
            "return { 1, nil, 3, nil, 5, [100] = 100 }",
            check: """
                local t, count = ..., 0
                for _ in pairs(t) do count = count + 1 end
                assert(count == 4 and t[1] == 1 and t[2] == nil and t[3] == 3 and t[5] == 5 and t[100] == 100)
                """)
    }

    @Test func wideTablesArrive() throws {
        try roundTrip(
            "local t = {} for i = 1, 100000 do t[i] = i; t['k' .. i] = -i end return t",
            check: """
                local t = ...
                assert(#t == 100000)
                for i = 1, 100000 do assert(t[i] == i and t['k' .. i] == -i) end
                """)
    }

    @Test func keysThatRepeatArriveEachTime() throws {
        try roundTrip(
            "local t = {} for i = 1, 1000 do t[i] = { id = i, name = 'n' .. i % 3, [('k'):rep(50)] = i } end return t",
            check: """
                for i, record in ipairs(...) do assert(record.id == i and record.name == 'n' .. i % 3 and record[('k'):rep(50)] == i) end
                """)
    }

    @Test func sharedSubtablesAtEveryDepthStayShared() throws {
        try roundTrip(
            """
            local shared, t = { 'shared' }, {}
            for i = 1, 300 do t = { shared, t } end
            return t
            """,
            check: """
                local t = ...
                local shared = t[1]
                assert(shared[1] == 'shared')
                for i = 1, 300 do assert(t[1] == shared); t = t[2] end
                """)
    }

    @Test func aMillionLevelsArrive() throws {
        try roundTrip(
            "local t = {} for i = 1, 1000000 do t = { t } end return t",
            check: """
                local t, depth = ..., 0
                while t[1] do t, depth = t[1], depth + 1 end
                assert(depth == 1000000)
                """)
    }

    @Test func theSameParcelGivesDistinctTables() throws {
        let parcel = try State().encode("return {}")
        let receiver = State()
        try receiver.decode(parcel, in: CLUA_CURRENT_ENVIRONMENT)
        try receiver.decode(parcel, in: CLUA_CURRENT_ENVIRONMENT)
        try receiver.run("local a, b = ...; a.x = 1; assert(a ~= b and b.x == nil)", arguments: 2)
    }
}
