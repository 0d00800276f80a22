import Testing

@Suite("Examples")
struct ExampleTests {
    private static let wordcount = Paths.package + "/examples/wordcount.lua"

    /// Counts words without `wordcount.lua`: finds the files with `find`, and prints the counts in the format of `wordcount.lua --all`.
    private static let pipeline = #"""
        export LC_ALL=C
        for argument in "$@"; do
            case $argument in [/.]*) ;; *) argument=./$argument ;; esac
            find -H "$argument" -xtype f -exec sh -c 'for file do cat -- "$file"; echo; done' sh {} +
        done | tr -cs 'A-Za-z' '\n' | tr A-Z a-z | sed '/^$/d' > words.tmp
        echo "$(wc -l < words.tmp) total"
        sort words.tmp | uniq -c | sed 's/^ *//' | sort -k1,1nr -k2,2
        """#

    private func count(_ arguments: String..., directory: ScratchDirectory) throws -> Outcome {
        var command = Command.opscript(Self.wordcount).directory(directory.path)
        command.arguments += arguments
        return try command.run()
    }

    private func expectAgreement(_ names: [String], directory: ScratchDirectory, files: Int) throws {
        var pipeline = Command.shell(Self.pipeline).directory(directory.path)
        pipeline.arguments += names.isEmpty ? ["/usr/share/common-licenses"] : names
        let expected = try pipeline.run()
        try #require(expected.status == 0 && expected.lines.count > 1, "\(expected)")

        var command = Command.opscript(Self.wordcount, "--all").directory(directory.path)
        command.arguments += names
        let found = try command.run()
        #expect(found.lines == expected.lines)
        #expect(found.errorText == "\(files) file\(files == 1 ? "" : "s")\n")
        #expect(found.status == 0)
    }

    @Test("wordcount agrees exactly with a shell pipeline on Debian's licences")
    func licences() throws {
        let directory = try ScratchDirectory()
        let files = try Command.shell("find -H /usr/share/common-licenses -xtype f | wc -l").run()
        try expectAgreement([], directory: directory, files: try #require(Int(files.lines[0])))
    }

    @Test("wordcount agrees with a shell pipeline on files and directories with any names and any bytes")
    func names() throws {
        let directory = try ScratchDirectory()
        try directory.write("One two  two\nTHREE three-three, don't 4ever", to: "a b/it's \"here\"/new\nline")
        try directory.write("naïve café ÄÖÜ ſ K İ ı", to: "a b/ünïcode")
        try directory.write("", to: "a b/empty")
        try directory.write("x\0y\0\nz", to: "(")
        try directory.write("no newline", to: "-dash/!file")
        _ = try Command.shell(#"cd "$1" && ln -s "../(" "a b/link" && cd "a b" && ln -s nowhere broken && ln -s .. up"#, directory.path)
            .run()
        try expectAgreement(["a b", "(", "./-dash"], directory: directory, files: 6)

        let all = try count("--all", "a b", "(", "--", "-dash", directory: directory)
        #expect(all.lines.first == "21 total" && all.status == 0, "\(all)")
    }

    @Test("wordcount prints the total and the twenty most frequent words, ties in alphabetical order")
    func top() throws {
        let directory = try ScratchDirectory()
        let words = (0..<26).map { String(Character(Unicode.Scalar(UInt8(ascii: "a") + $0))) }
        try directory.write((words.reversed() + ["m", "m", "B"]).joined(separator: " "), to: "letters")
        let outcome = try count("letters", directory: directory)
        let others = words.prefix(20).filter { $0 != "m" && $0 != "b" }.map { "1 \($0)" }
        #expect(outcome.lines == ["29 total", "3 m", "2 b"] + others.prefix(18))
        #expect(outcome.errorText == "1 file\n")
    }

    @Test("wordcount names the files it cannot read, counts the others, and gives status 1")
    func unreadable() throws {
        let directory = try ScratchDirectory()
        try directory.write("word", to: "file")
        // The second file can be opened but not read.
        let outcome = try count("missing", "/proc/self/mem", "file", "", directory: directory)
        #expect(outcome.text == "1 total\n1 word\n" && outcome.status == 1, "\(outcome)")
        let errors = outcome.errorText.split(separator: "\n").map(String.init)
        #expect(
            errors.sorted() == [
                "1 file", "wordcount: /proc/self/mem: Input/output error", "wordcount: : No such file or directory",
                "wordcount: missing: No such file or directory",
            ], "\(outcome)")
    }

    @Test("wordcount refuses an option it does not have")
    func option() throws {
        let outcome = try count("--most", directory: try ScratchDirectory())
        #expect(outcome.status == 1 && outcome.output.isEmpty && outcome.errorText.contains("--most"), "\(outcome)")
    }
}
