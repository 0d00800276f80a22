import CLua
import Testing

/// The global tables that functions get on arrival.
@Suite struct EnvironmentTests {
    /// Decodes the results of `source` in a state that has run `prelude`, and runs `check` there.
    private func arrive(_ source: String, in environment: clua_environment, after prelude: String = "", check: String) throws {
        let parcel = try State().encode(source)
        let receiver = State()
        try receiver.run(prelude)
        try receiver.decode(parcel, in: environment)
        try receiver.run(check, arguments: receiver.count)
    }

    @Test(arguments: [0, 1])
    func globalsThatComeAlongDoNotOverwriteTheReceivers(_ fresh: Int) throws {
        let environment = fresh == 1 ? CLUA_FRESH_ENVIRONMENT : CLUA_CURRENT_ENVIRONMENT
        try arrive(
            "limit = 1; return function() limit = limit + 1; return limit end", in: environment, after: "limit = 100",
            check: """
                assert((...)() == 2 and (...)() == 3 and limit == 100)
                """)
    }

    @Test func newGlobalsOfAnOperationStayInside() throws {
        try arrive(
            "return function() made = 1; _G.other = 2; rawset(_G, 'third', 3); return made, other, third, _G == _ENV end",
            in: CLUA_FRESH_ENVIRONMENT,
            check: """
                local a, b, c, same = (...)()
                assert(a == 1 and b == 2 and c == 3 and same and made == nil and other == nil and third == nil)
                """)
    }

    @Test func newGlobalsOfResultsFallThrough() throws {
        try arrive(
            "limit = 5; return function() made = limit end", in: CLUA_CURRENT_ENVIRONMENT,
            check: "(...)(); assert(made == 5 and limit == nil)")
        try arrive("return function() made = 5 end", in: CLUA_CURRENT_ENVIRONMENT, check: "(...)(); assert(made == 5)")
    }

    @Test func functionsOfOneParcelShareTheEnvironment() throws {
        try arrive(
            "return function(v) x = v end, function() return x end", in: CLUA_FRESH_ENVIRONMENT,
            check: """
                local set, get = ...
                set(4)
                assert(get() == 4 and x == nil)
                """)
    }

    @Test func parcelsDoNotShareTheEnvironment() throws {
        let parcel = try State().encode("return function(v) x = v or x; return x end")
        let receiver = State()
        try receiver.decode(parcel, in: CLUA_FRESH_ENVIRONMENT)
        try receiver.decode(parcel, in: CLUA_FRESH_ENVIRONMENT)
        try receiver.run("local f, g = ...; assert(f(1) == 1 and g() == nil)", arguments: 2)
    }

    @Test func theReceiversOwnGlobalsAreReadThrough() throws {
        try arrive(
            "return function() return prepared end", in: CLUA_FRESH_ENVIRONMENT, after: "prepared = 'yes'",
            check: "assert((...)() == 'yes')")
    }

    @Test func theGlobalTableItselfIsTheEnvironment() throws {
        try arrive(
            "local g = _G; x = 1; return function() return g == _G, g.x end", in: CLUA_FRESH_ENVIRONMENT,
            check: """
                local same = (...)()
                assert(same)
                """)
    }

    @Test func aHiddenGlobalCanBeAssignedAndSentOn() throws {
        let first = State(), second = State(), third = State()
        try second.decode(try first.encode("os = nil; return function(v) os = v or os; return os end"), in: CLUA_FRESH_ENVIRONMENT)
        try second.run("local f = ...; assert(f() == nil); return f", arguments: 1)
        try third.decode(try second.encode(1, as: CLUA_STORED), in: CLUA_FRESH_ENVIRONMENT)
        try third.run("local f = ...; assert(f() == nil and os ~= nil and f(5) == 5 and f() == 5)", arguments: 1)
    }

    @Test func globalsOfAFunctionWithAnEnvironmentOfItsOwnAreFields() throws {
        try roundTrip(
            "local env = setmetatable({ x = 1 }, { __index = _G }); return load('x = x + 1; return x, print', 'c', 't', env)",
            check: """
                local x, p = (...)()
                assert(x == 2 and p == print)
                """)
    }
}
