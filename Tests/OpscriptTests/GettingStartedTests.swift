import Testing

/// A session in the README or in docs/getting-started.md, at the prompt of a shell or of opscript.
struct Transcript: CustomTestStringConvertible {
    private static let all = ["README.md", "docs/getting-started.md"].flatMap { page in
        Markdown.blocks(in: String(decoding: Paths.read("\(Paths.package)/\(page)") ?? [], as: UTF8.self)).map {
            Transcript(page: page, block: $0)
        }
    }

    let page: String
    let block: Markdown.Block
    var testDescription: String { "\(page):\(block.line)" }

    static func all(_ language: String) -> [Transcript] { all.filter { $0.block.language == language } }

    /// The scripts of the pages. The first line of each names it.
    static var scripts: [String: String] {
        var scripts: [String: String] = [:]
        for block in all("lua").map(\.block) {
            guard let first = block.text.split(separator: "\n").first, first.hasPrefix("-- ") else { continue }
            scripts[String(first.dropFirst(3))] = block.text
        }
        return scripts
    }

    /// The lines that are typed after `prompt`.
    func typed(after prompt: String) -> [String] {
        block.text.split(separator: "\n").filter { $0.hasPrefix(prompt) }.map { String($0.dropFirst(prompt.count)) }
    }
}

@Suite("Getting started")
struct GettingStartedTests {
    @Test("The pages have scripts, commands and sessions, and each script is run by a command")
    func found() {
        let commands = Transcript.all("console").flatMap { $0.typed(after: "$ ") }
        #expect(!Transcript.scripts.isEmpty && !Transcript.all("prompt").isEmpty)
        for name in Transcript.scripts.keys { #expect(commands.contains { $0.contains(name) }, "nothing runs \(name)") }
    }

    @Test("Commands print the output that the pages show", arguments: Transcript.all("console"))
    func console(transcript: Transcript) throws {
        let directory = try ScratchDirectory()
        for (name, text) in Transcript.scripts { try directory.write(text, to: name) }
        try directory.write("#!/bin/bash\nexec -a opscript \"$OPSCRIPT\" \"$@\"\n", to: "bin/opscript")
        var found = ""
        for line in transcript.typed(after: "$ ") {
            let command = Command.shell("chmod +x bin/opscript; PATH=$PWD/bin:$PATH; { eval \"$1\"; } 2>&1", line)
            found += "$ \(line)\n" + (try command.directory(directory.path).run().text)
        }
        #expect(found == transcript.block.text, "\(found)")
    }

    @Test("The opscript prompt prints the output that the pages show", arguments: Transcript.all("prompt"))
    func prompt(transcript: Transcript) throws {
        let input = transcript.typed(after: "> ").map { $0 + "\n" }.joined()
        let outcome = try Command.opscript("-i").input(input).run()
        // The output starts with the version, and ends with a last prompt.
        let found = outcome.text.split(separator: "\n", maxSplits: 1).last.map(String.init) ?? ""
        #expect(found == transcript.block.text + "> \n" && outcome.errors.isEmpty, "\(outcome)")
    }
}
