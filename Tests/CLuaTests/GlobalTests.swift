import CLua
import Testing

/// Which globals travel with a function.
@Suite struct GlobalTests {
    @Test func globalsThatAFunctionReadsComeAlong() throws {
        try roundTrip("greeting, unused = 'hello', io.stdout; return function() return greeting end", check: "assert((...)() == 'hello')")
    }

    @Test func globalFunctionsThatCallGlobalFunctionsComeAlong() throws {
        try roundTrip(
            """
            function a(n) return b(n) + 1 end
            function b(n) return c.d(n) + 10 end
            c = { d = function(n) return e and n * 100 end }
            e = true
            return function(n) return a(n) end
            """, check: "assert((...)(5) == 511)")
    }

    @Test func globalsReadByNestedFunctionsComeAlong() throws {
        try roundTrip(
            "deep = 7; return function() return (function() return (function() return deep end)() end)() end", check: "assert((...)() == 7)"
        )
    }

    @Test func moreConstantsThanAnInstructionHoldsStillBringTheirGlobals() throws {
        let names = (1...400).map { "global\($0)" }
        let assignments = names.enumerated().map { "\($1) = \($0 + 1)" }.joined(separator: " ")
        try roundTrip(
            "\(assignments) return function() return { \(names.joined(separator: ", ")) } end",
            check: """
                for i, value in ipairs((...)()) do assert(i == value) end
                assert(#(...)() == 400)
                """)
    }

    @Test func aGlobalWithALongNameComesAlong() throws {
        let name = String(repeating: "n", count: 60)
        try roundTrip("\(name) = 5; return function() return \(name) end", check: "assert((...)() == 5)")
    }

    @Test func methodsOfGlobalsComeAlong() throws {
        try roundTrip(
            "object = { v = 3 }; function object:get() return self.v end; return function() return object:get() end",
            check: "assert((...)() == 3)")
    }

    @Test func anOverriddenFunctionComesAlong() throws {
        try roundTrip(
            "local log = {}; print = function(x) log[#log + 1] = x end; return function() print 'a'; print 'b'; return log end",
            check: """
                local log = (...)()
                assert(#log == 2 and log[2] == 'b')
                """)
    }

    @Test func aRemovedFunctionIsRemovedOnArrival() throws {
        try roundTrip("print = nil; return function() return print end", check: "assert((...)() == nil and print ~= nil)")
    }

    @Test func aLocalNamedEnvIsTheEnvironment() throws {
        try roundTrip(
            "local _ENV = { x = 4 }; return function() x = x + 1; return x end", check: "local f = ...; assert(f() == 5 and f() == 6)")
    }

    @Test func assigningAGlobalDoesNotSendIt() throws {
        try roundTrip("target = coroutine.create(print); return function() target = 1 end", check: "(...)()")
    }

    @Test func libraryFunctionsAreTheReceivers() throws {
        try roundTrip(
            "return function() return print, string.format, math end",
            check: """
                local p, f, m = (...)()
                assert(p == print and f == string.format and m == math)
                """)
    }

    @Test func aGlobalSharedByTwoFunctionsIsShared() throws {
        try roundTrip(
            "list = {}; return function() list[#list + 1] = 1 end, function() return #list end",
            check: """
                local add, count = ...
                add() add()
                assert(count() == 2)
                """)
    }

    @Test func aGlobalThatIsAlsoAnUpvalueIsOneTable() throws {
        try roundTrip("state = {}; local same = state; return function() return state == same end", check: "assert((...)())")
    }
}
