import Testing

/// The short form of `scripts/soak --lua`.
@Suite("Everything at once") struct SoakTests {
    @Test("All features of scripts work from several states at once, and memory does not grow")
    func everything() throws {
        let seed = Int.random(in: 0...Int(Int32.max))
        var command = Command.opscript("\(Paths.package)/Tests/Soak/everything.lua", "3", "\(seed)")
        command.environment = ["MALLOC_ARENA_MAX": "1"]
        command.timeout = 180
        let outcome = try command.run()
        #expect(outcome.status == 0 && outcome.text == "ok\n", "\(outcome)")
    }
}
