import Testing

/// The pictures in the documents, which scripts draw.
@Suite("Pictures")
struct PictureTests {
    private func picture(_ name: String) throws -> Outcome {
        try Command.opscript("scripts/pictures/\(name).lua", "docs/performance.md").directory(Paths.package).run()
    }

    @Test("The chart matches the tables in docs/performance.md")
    func performance() throws {
        let outcome = try picture("performance")
        let file = Paths.read(Paths.package + "/docs/images/performance.svg") ?? []
        #expect(outcome.status == 0 && outcome.errors.isEmpty, "\(outcome)")
        #expect(outcome.output == file, "the tables have changed since the chart was drawn: scripts/picture performance")
    }

    @Test("The picture of a run shows each operation, and the thread or state in which it ran")
    func run() throws {
        let outcome = try picture("run")
        #expect(outcome.status == 0 && outcome.errors.isEmpty, "\(outcome)")
        #expect(outcome.text.hasPrefix("<svg ") && outcome.text.hasSuffix("</svg>\n"))
        let names = (1...4).flatMap { ["fetch \($0)", "parse \($0)"] } + ["merge", "report", "thread 1", "main state"]
        for name in names { #expect(outcome.text.contains(">\(name)</text>"), "nothing is called \(name)") }
    }
}
