import Testing

@Suite("The guide to embedding")
struct EmbeddingGuideTests {
    private static let guide = String(decoding: Paths.read("\(Paths.package)/docs/embedding.md") ?? [], as: UTF8.self)
    private static let blocks = Markdown.blocks(in: guide)
    private static let files = ["main", "Timers", "ActorHost", "QueueHost", "GameLoop", "PollingLoop", "Cancelling", "Groups"]

    /// The lines that some file of the program has, without their indentation.
    private static func lines(_ text: String) -> [String] {
        text.split(separator: "\n").map { $0.trimmingPrefix(while: \.isWhitespace) }.map(String.init)
    }

    @Test("The code in the guide is in the program Tests/EmbeddingGuide, which compiles")
    func code() throws {
        let program = Self.files.map {
            Self.lines(String(decoding: Paths.read("\(Paths.package)/Tests/EmbeddingGuide/\($0).swift")!, as: UTF8.self))
        }
        let swift = Self.blocks.filter { $0.language == "swift" }
        #expect(swift.count >= 6)
        for block in swift {
            let lines = Self.lines(block.text)
            #expect(program.contains { $0.contains(lines) }, "docs/embedding.md:\(block.line)")
        }
    }

    @Test("The program prints what the guide shows")
    func output() throws {
        let shown = Self.blocks.filter { $0.language == "" }.map(\.text).joined()
        #expect(!shown.isEmpty)
        let outcome = try Command(program: Paths.products + "/EmbeddingGuide", name: "EmbeddingGuide").run()
        #expect(outcome == Outcome(status: 0, output: Array(shown.utf8), errors: []), "\(outcome)")
    }
}
