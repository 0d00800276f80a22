import CLua
import TestSupport
import Testing

/// Values that are sent by name.
@Suite struct ModuleTests {
    @Test func librariesAndTheirFunctionsAreTheReceivers() throws {
        try roundTrip(
            "local insert, upper, m = table.insert, string.upper, math; return function() return insert, upper, m, ('x').rep end",
            check: """
                local insert, upper, m, rep = (...)()
                assert(insert == table.insert and upper == string.upper and m == math and rep == string.rep)
                """)
    }

    @Test("Values of a fresh state travel by name, even if a script has replaced them before it sends anything")
    func whatAFreshStateHasTravelsByName() throws {
        try roundTrip(
            """
            local rep, log, file, lines = string.rep, math.log, io, debug.getinfo
            string.rep = function() return 'mine' end
            math.log, debug.getinfo, io, package.loaded.io = nil, print, nil, nil
            local mine = string.rep
            return function() return rep, log, file, lines, mine end
            """,
            check: """
                local rep, log, file, lines, mine = (...)()
                assert(rep == string.rep and log == math.log and file == io and lines == debug.getinfo)
                assert(mine ~= string.rep and mine() == 'mine')
                """)
    }

    @Test func standardFilesAreTheReceivers() throws {
        try roundTrip(
            "local out = io.stdout; return function() return out, io.stderr end",
            check: """
                local out, err = (...)()
                assert(out == io.stdout and err == io.stderr)
                """)
    }

    @Test func aModuleOfLuaAndItsFieldsAreRequired() throws {
        let modules = try ModuleDirectory(["geometry": "local g = { scale = 3 } function g.area(a) return a * g.scale end return g"])
        try roundTrip(
            "local geometry = require 'geometry'; local area = geometry.area; return function() return geometry, area end",
            check: """
                local geometry, area = (...)()
                assert(geometry == require 'geometry' and area == geometry.area and area(2) == 6)
                """, after: modules.prelude)
    }

    @Test func aModuleThatIsAFunctionIsRequired() throws {
        let modules = try ModuleDirectory([
            "twice": "local coroutine_of_mine = coroutine.create(print) return function(x) local _ = coroutine_of_mine return x * 2 end"
        ])
        try roundTrip(
            "local twice = require 'twice'; return function(x) return twice(x) end", check: "assert((...)(21) == 42)",
            after: modules.prelude)
    }

    @Test func aModuleThatCannotBeSentByValueIsRequired() throws {
        let modules = try ModuleDirectory(["handle": "return { file = io.tmpfile() }"])
        try roundTrip(
            "local handle = require 'handle'; return function() return handle end",
            check: "assert(io.type((...)().file) == 'file')", after: modules.prelude)
    }

    @Test func aGlobalThatHoldsAModuleIsRequired() throws {
        let modules = try ModuleDirectory(["answer": "return { value = 42, thread = coroutine.create(print) }"])
        try roundTrip(
            "answer = require 'answer'; return function() return answer.value end", check: "assert((...)() == 42)", after: modules.prelude)
    }

    @Test func anEntryOfPackageLoadedThatNoOtherStateFindsTravelsByValue() throws {
        try roundTrip(
            "package.loaded.mine = { v = 1 }; local mine = require 'mine'; return function() return mine.v end",
            check: """
                assert((...)() == 1 and package.loaded.mine == nil)
                """)
    }

    @Test func whatAScriptAddsToALibraryGoesByValue() throws {
        try roundTrip(
            "function string.shout(s) return s:upper() .. '!' end; local shout = string.shout; return function(s) return shout(s) end",
            check: """
                assert((...)('a') == 'A!' and string.shout == nil)
                """)
    }

    @Test func whatAScriptPutsInPlaceOfAFunctionOfALibraryGoesByValue() throws {
        try roundTrip(
            "local real = math.floor; math.floor = function(x) return real(x) + 0.5 end; local floor = math.floor; return function(x) return floor(x) end",
            check: """
                assert((...)(1.2) == 1.5 and math.floor(1.2) == 1)
                """)
    }

    @Test func aModuleMissingOnArrivalIsAnErrorThatNamesIt() throws {
        let modules = try ModuleDirectory(["missing_here": "return {}"])
        let sender = State(), receiver = State()
        try sender.run(modules.prelude)
        let parcel = try sender.encode("return require 'missing_here'")
        let error = #expect(throws: ScriptError.self) { try receiver.decode(parcel, in: CLUA_CURRENT_ENVIRONMENT) }
        #expect(error?.message.hasPrefix("module 'missing_here' not found:") == true)
        #expect(receiver.count == 0)
    }

    @Test func aFieldMissingOnArrivalIsAnErrorThatNamesIt() throws {
        let parcel = try State().encode("return math.floor")
        let receiver = State()
        try receiver.run("math.floor = nil")
        let error = #expect(throws: ScriptError.self) { try receiver.decode(parcel, in: CLUA_CURRENT_ENVIRONMENT) }
        #expect(error?.message == "module 'math' has no field 'floor' here; require the module that sets it in opscript.prelude")
    }
}
