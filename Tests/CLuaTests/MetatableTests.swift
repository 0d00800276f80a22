import CLua
import TestSupport
import Testing

@Suite struct MetatableTests {
    @Test func metatablesArriveByValueAndStayShared() throws {
        try roundTrip(
            """
            local Point = {}
            Point.__index = Point
            function Point:sum() return self.x + self.y end
            Point.__add = function(a, b) return setmetatable({ x = a.x + b.x, y = a.y + b.y }, Point) end
            return setmetatable({ x = 1, y = 2 }, Point), setmetatable({ x = 3, y = 4 }, Point)
            """,
            check: """
                local a, b = ...
                assert(a:sum() == 3 and (a + b):sum() == 10 and getmetatable(a) == getmetatable(b))
                """)
    }

    @Test func chainsOfIndexWork() throws {
        try roundTrip(
            """
            local Base = {}; Base.__index = Base
            function Base.name() return 'base' end
            local Middle = setmetatable({}, Base); Middle.__index = Middle
            local Leaf = setmetatable({}, Middle); Leaf.__index = Leaf
            return setmetatable({}, Leaf)
            """, check: "assert((...).name() == 'base')")
    }

    @Test func metatablesOfModulesGoByName() throws {
        let modules = try ModuleDirectory([
            "stack": "local S = { thread = coroutine.create(print) } S.__index = S function S.new() return setmetatable({}, S) end return S"
        ])
        try roundTrip("return require 'stack'.new()", check: "assert(getmetatable(...) == require 'stack')", after: modules.prelude)
    }

    @Test func newIndexIsNotCalledWhileATableArrives() throws {
        try roundTrip(
            "return setmetatable({}, { __newindex = function() error 'called' end, __index = function() error 'called' end })",
            check: """
                assert(not pcall(function(t) t.x = 1 end, ...))
                """)
        try roundTrip(
            "local t = setmetatable({ 1, 2, a = 3 }, { __newindex = function() error 'called' end }); return t",
            check: """
                assert((...)[2] == 2 and (...).a == 3)
                """)
    }

    @Test func weakTablesStayWeak() throws {
        try roundTrip(
            "return setmetatable({ { 1 } }, { __mode = 'v' })",
            check: """
                collectgarbage() collectgarbage()
                assert((...)[1] == nil and getmetatable(...).__mode == 'v')
                """)
    }

    @Test("An object with a finalizer cannot be copied, unless its metatable has a __transfer")
    func finalizers() throws {
        let refused =
            "(a table with __gc); a copy's finalizer would release what the table still uses: create it inside the body, or give its "
            + "metatable a __transfer"
        for (source, way) in [
            ("return setmetatable({}, { __gc = print })", "the value"), ("return { x = setmetatable({}, { __gc = true }) }", "the value.x"),
            ("local t = {} for i = 1, 100 do t = { t } end return setmetatable({ t }, { __gc = print })", "the value"),
            (
                "local t = setmetatable({}, { __gc = print }) for i = 1, 100 do t = { t } end return t",
                "the value…" + String(repeating: "[1]", count: 20)
            ),
            ("return setmetatable({}, { __index = setmetatable({}, { __gc = print }) })", "the value.<metatable>.__index"),
        ] { #expect(try refusal(source) == "cannot send \(way) \(refused)") }
        #expect(
            try refusal("lock = setmetatable({}, { __gc = print }) return function() return lock end", as: CLUA_BODY)
                == "cannot send global 'lock' (a table with __gc) of function <test:1>\(refused.dropFirst("(a table with __gc)".count))")
        // The metatable itself is a plain table, and what is rebuilt decides for itself.
        try roundTrip(
            """
            local class = {}
            class.__gc = function(self) finalized = self.name end
            local function open(name) return setmetatable({ name = name }, class) end
            class.__transfer = function(self) return open, self.name end
            return class, open 'a'
            """,
            check: """
                local class, object = ...
                assert(type(class.__gc) == 'function' and object.name == 'a' and getmetatable(object).__gc)
                """)
    }

    @Test func aProtectedMetatableArrives() throws {
        try roundTrip(
            "return setmetatable({}, { __metatable = 'locked', __index = { x = 1 } })",
            check: """
                assert(getmetatable(...) == 'locked' and (...).x == 1)
                """)
    }

    @Test func aTableThatIsItsOwnMetatableArrives() throws {
        try roundTrip(
            "local t = {}; t.__index = function() return 9 end; return setmetatable(t, t)",
            check: """
                assert(debug.getmetatable(...) == ... and (...).missing == 9)
                """)
    }

    @Test func deepTablesKeepTheirMetatables() throws {
        try roundTrip(
            """
            local M = { __index = function() return 'm' end }
            local t = setmetatable({}, M)
            for i = 1, 500 do t = setmetatable({ t }, M) end
            return t
            """,
            check: """
                local t, depth = ..., 0
                while rawget(t, 1) do assert(t.x == 'm'); t, depth = t[1], depth + 1 end
                assert(depth == 500 and t.x == 'm')
                """)
    }

    @Test func aClassOfAParcelThatFailsIsUsedByNoOther() throws {
        let sender = State(), receiver = State()
        let parcel = try sender.encode(
            """
            local Point = { 'text', sum = function(p) return p.x + 1 end }
            Point.__index = Point
            return setmetatable({ x = 1 }, Point)
            """)
        let wrong = parcel.bytes.replacing([UInt8]("text".utf8), with: [UInt8]("t".utf8))
        #expect(receiver.decode(parcel, bytes: wrong, in: CLUA_CURRENT_ENVIRONMENT) != LUA_OK)
        receiver.count = 0
        try receiver.decode(parcel, in: CLUA_CURRENT_ENVIRONMENT)
        try receiver.run("local p = ... assert(getmetatable(p)[1] == 'text' and p:sum() == 2)", arguments: 1)
    }
}
