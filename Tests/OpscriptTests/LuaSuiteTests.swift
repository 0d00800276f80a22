import Testing

/// Lua's own test suite, which is not part of this project.
@Suite("Lua's test suite") struct LuaSuiteTests {
    private static let directory = Paths.environment("OPSCRIPT_LUA_SUITE")

    @Test(
        "The files of the suite behave as with lua5.4, in the main state and inside an operation",
        .enabled(
            if: directory != nil,
            "NOT RUN: set OPSCRIPT_LUA_SUITE to the folder of the tests of the release that lua5.4 -v names (lua.org has them)"))
    func sameAsLua() throws {
        var command = Command(program: "\(Paths.package)/scripts/lua-suite", name: "lua-suite", arguments: [try #require(Self.directory)])
        command.environment = ["OPSCRIPT_COMMAND": Paths.opscript]
        command.timeout = 1200
        let outcome = try command.run()
        #expect(outcome.status == 0, "\(outcome)")
    }
}
