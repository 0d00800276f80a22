import CLua
import Testing

@Suite struct UpvalueTests {
    /// Each function is sent twice. Once its code is known, a function with plain upvalues is written without an encoder.
    @Test(arguments: [
        ("local a, b, c, d, e = 1, 'x', nil, false, 0.5; return function() return a, b, c, d, e end", "1|x|nil|false|0.5"),
        ("local a = 1; local f = function() return a end; return f", "1"),
        (
            "local a, b, c, d, e, f, g, h, i = 1, 2, 3, 4, 5, 6, 7, 8, 9; return function() return a, b, c, d, e, f, g, h, i end",
            "1|2|3|4|5|6|7|8|9"
        ),
        ("local t, a = { 5 }, 1; return function() return a, t[1] end", "1|5"),
        ("local a, b = 1, 2; local f = function() a = a + 1; return a, b end; debug.upvaluejoin(f, 2, f, 1); return f", "2|2"),
        ("local s = ('x'):rep(20000); return function() return #s end", "20000"),
        ("return function() return tostring(1) end", "1"),
        ("answer = 42; return function() return answer end", "42"),
        ("return function(...) return select('#', ...) end", "0"),
    ])
    func aFunctionIsTheSameTheSecondTime(_ source: String, _ results: String) throws {
        let sender = State()
        try sender.run("function make() \(source) end kept = make()")
        let parcels = try (1...2).map { _ in try sender.encode("return make()") }
        for parcel in parcels {
            let receiver = State()
            try receiver.decode(parcel, in: CLUA_FRESH_ENVIRONMENT)
            try receiver.run(
                """
                local all = table.pack((...)())
                for i = 1, all.n do all[i] = tostring(all[i]) end
                assert(table.concat(all, '|') == '\(results)', table.concat(all, '|'))
                """, arguments: 1)
        }
    }

    @Test func upvaluesAreCopies() throws {
        let sender = State()
        let parcel = try sender.encode("count = 0; local n = 5; function probe() return n end; return function() n = n + 1; return n end")
        let receiver = State()
        for _ in 1...2 {
            try receiver.decode(parcel, in: CLUA_FRESH_ENVIRONMENT)
            try receiver.run("local f = ...; assert(f() == 6 and f() == 7)", arguments: 1)
        }
        #expect(try sender.text("return tostring(probe())") == "5")
    }

    @Test func anUpvalueOfTwoFunctionsStaysShared() throws {
        try roundTrip(
            "local n = 0; return function() n = n + 1; return n end, function(v) n = v end",
            check: """
                local get, set = ...
                assert(get() == 1); set(10); assert(get() == 11)
                """)
    }

    @Test func anUpvalueSharedWithANestedValueStaysShared() throws {
        try roundTrip(
            "local n = 0; local t = { add = function() n = n + 1 end }; return function() t.add(); return n end",
            check: """
                local f = ...
                assert(f() == 1 and f() == 2)
                """)
    }

    @Test func recursionAndMutualRecursionWork() throws {
        try roundTrip(
            """
            local function factorial(n) return n < 2 and 1 or n * factorial(n - 1) end
            local odd
            local function even(n) if n == 0 then return true end return odd(n - 1) end
            function odd(n) if n == 0 then return false end return even(n - 1) end
            return factorial, even, odd
            """,
            check: """
                local factorial, even, odd = ...
                assert(factorial(10) == 3628800 and even(100) and not odd(100) and odd(7))
                """)
    }

    @Test func methodsAndVarargsWork() throws {
        try roundTrip(
            """
            local account = { balance = 1 }
            function account:deposit(...) for _, v in ipairs { ... } do self.balance = self.balance + v end return self, select('#', ...) end
            return account
            """, check: "local account, n = (...):deposit(1, 2, 3); assert(account == ... and account.balance == 7 and n == 3)")
    }

    @Test func aFunctionThatIsItsOwnUpvalueByATableArrives() throws {
        try roundTrip("local t = {}; function t.f() return t end; return t.f", check: "assert((...)().f == ...)")
    }

    @Test(arguments: [0, 1, 2, 199, 200, 201, 254, 255])
    func everyNumberOfUpvaluesWorks(_ count: Int) throws {
        // A function has at most 200 locals, so they are spread over two levels.
        let outer = (0..<min(count, 150)).map { "local a\($0) = \($0)" }.joined(separator: " ")
        let inner = (min(count, 150)..<max(count, 150)).map { "local b\($0) = \($0)" }.joined(separator: " ")
        let names = (0..<count).map { $0 < 150 ? "a\($0)" : "b\($0)" }.joined(separator: ", ")
        try roundTrip(
            "\(outer) return (function() \(inner) return function() return { \(names) } end end)()",
            check: """
                local values = (...)()
                assert(#values == \(count))
                for i, value in ipairs(values) do assert(value == i - 1) end
                """)
    }

    @Test func upvaluesThatAreNilStayNilAndCanBeAssigned() throws {
        try roundTrip(
            "local x; return function(v) if v then x = v end return x end",
            check: """
                local f = ...
                assert(f() == nil and f(3) == 3 and f() == 3)
                """)
    }

    @Test func aLongChainOfClosuresArrives() throws {
        try roundTrip(
            """
            local function wrap(f) return function() return f end end
            local f = 'end'
            for i = 1, 100000 do f = wrap(f) end
            return f
            """,
            check: """
                local f, depth = ..., 0
                while type(f) == 'function' do f, depth = f(), depth + 1 end
                assert(depth == 100000 and f == 'end')
                """)
    }

    @Test func upvaluesSharedBetweenDeepFunctionsStayShared() throws {
        try roundTrip(
            """
            local n = 0
            local function add() n = n + 1 return n end
            local t = { add }
            for i = 1, 200 do t = { t, function() n = n + 1 return n end } end
            return t
            """,
            check: """
                local t, last = ..., 0
                while t[2] do last = last + 1; assert(t[2]() == last); t = t[1] end
                assert(t[1]() == 201)
                """)
    }
}
