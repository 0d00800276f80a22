import CLua
import Testing

/// The transport of the code of functions.
@Suite struct CodeTests {
    @Test func errorsSayFileAndLine() throws {
        try roundTrip(
            """
            return load("\\n\\nlocal x = ...\\nreturn function() return x.y.z end", "@pipeline.lua")({})
            """,
            check: """
                local ok, message = pcall(...)
                assert(not ok and message == "pipeline.lua:4: attempt to index a nil value (field 'y')", message)
                """)
    }

    @Test func debugInformationArrives() throws {
        try roundTrip(
            "local function f(first, second)\n  return first\nend\nreturn f",
            check: """
                local about = debug.getinfo(..., 'SlLu')
                assert(about.short_src == 'test' and about.linedefined == 1 and about.lastlinedefined == 3 and about.nparams == 2)
                assert(debug.getlocal(..., 2) == 'second')
                """)
    }

    @Test func strippedFunctionsArrive() throws {
        try roundTrip("local n = 4; return load(string.dump(function() return 5 end, true))", check: "assert((...)() == 5)")
    }

    @Test func integerAndFloatConstantsStayApart() throws {
        try roundTrip(
            "return function() return 1, 1.0, -0.0, math.maxinteger, 'a\\0b' end",
            check: """
                local i, f, z, m, s = (...)()
                assert(math.type(i) == 'integer' and math.type(f) == 'float' and 1 / z == -math.huge and m == math.maxinteger and s == 'a\\0b')
                """)
    }

    @Test func attributesOfLocalsWork() throws {
        try roundTrip(
            """
            local log = {}
            return function()
                local limit <const> = 3
                do local guard <close> = setmetatable({}, { __close = function() log[1] = limit end }) end
                return log[1]
            end
            """, check: "assert((...)() == 3)")
    }

    @Test func gotoAndLoopsAndIntegerDivisionWork() throws {
        try roundTrip(
            """
            return function(n)
                local sum = 0
                for i = n, 1, -1 do if i % 2 == 0 then goto continue end sum = sum + i // 1 ~ 0 ::continue:: end
                while sum > 100 do sum = sum - 100 end
                repeat sum = sum + 1 until sum > 10
                return sum
            end
            """, check: "assert((...)(9) == 26)")
    }

    @Test func codeIsInMemoryOnceHoweverOftenItArrives() throws {
        let fields = (1...5000).map { "'constant number \($0) of a function'" }.joined(separator: ",")
        let parcel = try State().encode("return function() return { \(fields) } end")
        let receiver = State()
        let before = try receiver.usedBytes()
        try receiver.decode(parcel, in: CLUA_FRESH_ENVIRONMENT)
        let once = try receiver.usedBytes() - before
        for _ in 1...20 { try receiver.decode(parcel, in: CLUA_FRESH_ENVIRONMENT) }
        #expect(try receiver.usedBytes() - before < once + once / 2)
        #expect(once > 200_000)
    }

    @Test func functionsWhereOthersWereBeforeHaveTheirOwnCode() throws {
        let sender = State(), receiver = State()
        for number in 1...200 {
            try sender.run("f = load('return function() return \(number) end')()")
            for _ in 1...3 {
                try receiver.decode(try sender.encode("return f"), in: CLUA_FRESH_ENVIRONMENT)
                try receiver.run("assert((...)() == \(number))", arguments: 1)
            }
            try sender.run("f = nil; collectgarbage()")
        }
    }

    @Test func copiesOfOneFunctionDoNotShareUpvalues() throws {
        let parcel = try State().encode("local n = 0; return function() n = n + 1; return n end")
        let receiver = State()
        for _ in 1...3 { try receiver.decode(parcel, in: CLUA_FRESH_ENVIRONMENT) }
        try receiver.run("local a, b, c = ...; assert(a() == 1 and a() == 2 and b() == 1 and c() == 1)", arguments: 3)
    }

    @Test func aFunctionThatArrivedCanBeSentOn() throws {
        let first = State(), second = State(), third = State()
        let parcel = try first.encode("limit = 3; local n = 0; return function() n = n + limit; return n end")
        try second.decode(parcel, in: CLUA_FRESH_ENVIRONMENT)
        try second.run("local f = ...; f(); return f", arguments: 1)
        let onwards = try second.encode(1, as: CLUA_STORED)
        try third.decode(onwards, in: CLUA_CURRENT_ENVIRONMENT)
        try third.run("assert((...)() == 6 and limit == nil)", arguments: 1)
    }

    @Test func aParcelOutlivesItsSender() throws {
        let parcel = try State().encode("local t = { 1 }; return function() return t[1] end")
        for _ in 1...2 {
            let receiver = State()
            try receiver.decode(parcel, in: CLUA_FRESH_ENVIRONMENT)
            try receiver.run("assert((...)() == 1)", arguments: 1)
        }
    }
}
