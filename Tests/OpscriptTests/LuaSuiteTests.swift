import Testing

/// Lua's own test suite, which is not part of this project, and comparisons with lua5.4.
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

    @Test("Our versions of library functions return and raise what lua5.4's do", arguments: [1, 2])
    func libraries(seed: Int) throws {
        let directory = try ScratchDirectory()
        let outcome = try Command.shell(
            """
            export SEED=\(seed)
            lua5.4 "$1/libraries.lua" > "$2/lua"
            "$OPSCRIPT" "$1/libraries.lua" > "$2/main"
            "$OPSCRIPT" "$1/operation.lua" "$1/libraries.lua" > "$2/operation"
            diff -a "$2/lua" "$2/main" | head -n 5
            diff -a "$2/lua" "$2/operation" | head -n 5
            grep -ac true "$2/lua"
            """, "\(Paths.package)/Tests/LuaSuite", directory.path
        ).run()
        #expect(outcome.status == 0 && outcome.errors.isEmpty && Int(outcome.lines.first ?? "") ?? 0 > 10_000, "\(outcome)")
    }
}
