import CLua
import Testing

/// Values whose metatable says how to rebuild them on arrival.
@Suite struct TransferTests {
    /// A class whose objects hold a coroutine, which cannot be sent.
    private static let counter = """
        Counter = {}
        Counter.__index = Counter
        function Counter.new(n) return setmetatable({ n = n, thread = coroutine.create(print) }, Counter) end
        Counter.__transfer = function(self) return Counter.new, self.n end

        """

    @Test func anObjectIsRebuilt() throws {
        try roundTrip(
            """
            local function rebuild(n) return { n = n, rebuilt = true } end
            return setmetatable({ n = 5, thread = coroutine.create(print) }, { __transfer = function(self) return rebuild, self.n end })
            """, check: "assert((...).n == 5 and (...).rebuilt and (...).thread == nil)")
    }

    @Test func aUserdataIsRebuilt() throws {
        try roundTrip(
            """
            debug.getmetatable(io.stdout).__transfer = function(f) return function(mode, text) return { mode, text } end, 'r', f:read 'a' end
            local f = io.tmpfile()
            f:write 'contents' f:seek 'set'
            return { f, f }
            """, check: "local t = ...; assert(t[1] == t[2] and t[1][2] == 'contents')")
    }

    @Test func anObjectThatIsSharedStaysShared() throws {
        try roundTrip(
            Self.counter + "local c = Counter.new(1); return c, { c, c = c, [c] = 'key' }, function() return c end",
            check: """
                local c, t, f = ...
                assert(c.n == 1 and t[1] == c and t.c == c and t[c] == 'key' and f() == c and type(c.thread) == 'thread')
                """)
    }

    @Test func theRebuildingFunctionSeesGlobalsThatCameAlong() throws {
        try roundTrip(
            Self.counter + """
                Counter.__transfer = function(self) return function(n) return Counter.new(n) end, self.n end
                first, list = Counter.new(1), { Counter.new(2) }
                list[2] = first
                return function() return first, list, Counter end
                """,
            check: """
                local first, list, Counter = (...)()
                assert(first.n == 1 and list[1].n == 2 and list[2] == first and getmetatable(first) == Counter)
                """)
    }

    @Test func theClassMayHoldTheObject() throws {
        try roundTrip(
            Self.counter + """
                Counter.zero = Counter.new(0)
                Counter.all = { Counter.zero }
                return function() return Counter.zero, Counter end
                """,
            check: """
                local zero, Counter = (...)()
                assert(zero.n == 0 and Counter.zero == zero and Counter.all[1] == zero and getmetatable(zero) == Counter)
                """)
    }

    @Test func theRebuildingFunctionMayBeUsedElsewhereFirst() throws {
        try roundTrip(
            Self.counter + """
                local function make(n) return Counter.new(n) end
                Counter.__transfer = function(self) return make, self.n end
                local c = make(4)
                return function() return make, c end
                """, check: "local make, c = (...)(); assert(c.n == 4 and make(5).n == 5)")
    }

    @Test func objectsInObjectsAreRebuiltFromTheInside() throws {
        try roundTrip(
            """
            local Node = {}
            local function rebuild(value, child) return { value = value, child = child, depth = child and child.depth + 1 or 0 } end
            Node.__transfer = function(self) return rebuild, self.value, self.child end
            local node
            for i = 1, 10000 do node = setmetatable({ value = i, child = node }, Node) end
            return node
            """,
            check: """
                local node = ...
                assert(node.depth == 9999 and node.value == 10000)
                for i = 10000, 1, -1 do assert(node.value == i); node = node.child end
                """)
    }

    @Test func argumentsAreCompleteWhateverTheirDepth() throws {
        try roundTrip(
            """
            local function rebuild(t)
                local depth = 0
                while t[1] do t, depth = t[1], depth + 1 end
                return { depth = depth }
            end
            local contents = {}
            for i = 1, 1000 do contents = { contents } end
            local object = setmetatable({}, { __transfer = function() return rebuild, contents end })
            for i = 1, 100 do object = { object } end
            return object
            """,
            check: """
                local object = ...
                for i = 1, 100 do object = object[1] end
                assert(object.depth == 1000)
                """)
    }

    @Test func siblingsThatNeedEachOtherAreRebuiltInOrder() throws {
        try roundTrip(
            """
            local M = {}
            local function rebuild(name, uses) return { name = name, names = uses and uses[1].name } end
            M.__transfer = function(self) return rebuild, self.name, self.uses end
            local a, b = setmetatable({ name = 'a' }, M), setmetatable({ name = 'b' }, M)
            b.uses = { a }
            return { b, a }, { a, b }
            """,
            check: """
                local t = ...
                assert(t[1].names == 'a' and t[2].name == 'a')
                """)
    }

    @Test func anObjectAmongItsOwnArgumentsIsThereAfterwards() throws {
        try roundTrip(
            """
            local object = setmetatable({}, { __transfer = function(self) return function(t) return { t = t } end, self.t end })
            object.t = { owner = object }
            return object
            """, check: "assert((...).t.owner == ...)")
    }

    @Test func theRebuiltValueMayBeOfAnyType() throws {
        try roundTrip(
            """
            local M = { __transfer = function() return function() return nil end end }
            local N = { __transfer = function() return function() return 7, 8 end end }
            return { setmetatable({}, M), setmetatable({}, N), last = setmetatable({}, N) }, setmetatable({}, M)
            """, check: "local t, none = ...; assert(t[1] == nil and t[2] == 7 and t.last == 7 and none == nil)")
    }

    @Test func libraryFunctionsRebuildAsWell() throws {
        try roundTrip(
            "return setmetatable({}, { __transfer = function() return string.rep, 'ab', 3 end })", check: "assert(... == 'ababab')")
    }

    @Test func anErrorInTransferIsTheError() throws {
        #expect(try refusal("return setmetatable({}, { __transfer = function() error('no luck', 0) end })") == "no luck")
    }

    @Test func transferMustReturnAFunction() throws {
        let message = "__transfer must return a function that rebuilds the value, and its arguments; it returned "
        #expect(try refusal("return setmetatable({}, { __transfer = function() end })") == message + "nothing")
        #expect(try refusal("return setmetatable({}, { __transfer = function() return 5 end })") == message + "number")
        #expect(try refusal("return setmetatable({}, { __transfer = true })")?.contains("attempt to call a boolean value") == true)
    }

    @Test func transferMayNotYield() throws {
        #expect(try refusal("return setmetatable({}, { __transfer = coroutine.yield })") == "attempt to yield from outside a coroutine")
    }

    @Test func whatTransferReturnsMustBeSendable() throws {
        let message = try refusal("return { x = setmetatable({}, { __transfer = function() return print, coroutine.create(print) end }) }")
        #expect(message == "cannot send the value.x.<__transfer value 2> (a coroutine); create it inside the body")
    }

    @Test func anErrorWhileRebuildingIsAnErrorOfTheReceiver() throws {
        let parcel = try State().encode(
            "return setmetatable({}, { __transfer = function() return function() error('cannot rebuild', 0) end end })")
        let receiver = State()
        let error = #expect(throws: ScriptError.self) { try receiver.decode(parcel, in: CLUA_CURRENT_ENVIRONMENT) }
        #expect(error?.message == "cannot rebuild")
    }
}
