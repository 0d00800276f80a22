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

    @Test func finalizersRunOnceOnTheCompleteObject() throws {
        let parcel = try State().encode(
            """
            local t = setmetatable({ name = 'n' }, { __gc = function(self) finalized = (finalized or '') .. self.name .. self.later.name end })
            t.later = { name = 'later' }
            getmetatable(t).__gc = getmetatable(t).__gc
            return t
            """)
        let receiver = State()
        try receiver.decode(parcel, in: CLUA_CURRENT_ENVIRONMENT)
        try receiver.run("assert((...).name == 'n')", arguments: 1)
        #expect(try receiver.text("collectgarbage() collectgarbage() return finalized") == "nlater")
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
}
