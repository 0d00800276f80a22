import Testing

/// The short form of `scripts/fuzz roundtrip`.
@Suite("Random values and functions") struct RoundTripTests {
    @Test("Random values and functions come back from a worker unchanged")
    func comeBack() throws {
        let seed = Int.random(in: 0...Int(Int32.max))
        let outcome = try Command.opscript("\(Paths.package)/Tests/Fuzz/roundtrip.lua", "\(seed)", "200").run()
        #expect(outcome.status == 0 && outcome.text == "200 rounds\n", "\(outcome)")
    }
}
