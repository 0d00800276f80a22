import Testing

/// The files of `examples/coming-from`: other tools and scripts that do the same.
@Suite("Coming from other tools")
struct ComingFromTests {
    private static let directory = "\(Paths.package)/examples/coming-from"
    private static let page = "\(Paths.package)/docs/coming-from-builds.md"

    /// A tool, and its file.
    struct Tool: CustomTestStringConvertible {
        let command: String
        let file: String
        var testDescription: String { file }
    }

    static let builds = [
        Tool(command: "make", file: "Makefile"), Tool(command: "ninja", file: "build.ninja"),
        Tool(command: "snakemake --cores 2 --quiet all", file: "Snakefile"), Tool(command: "doit", file: "dodo.py"),
        Tool(command: #""$OPSCRIPT" counts.lua"#, file: "counts.lua"),
    ]

    @Test("The page shows each file as it is")
    func shown() throws {
        let blocks = Markdown.blocks(in: String(decoding: try #require(Paths.read(Self.page)), as: UTF8.self)).map(\.text)
        for file in Self.builds.map(\.file) + ["primes.py", "primes.lua"] {
            let text = String(decoding: try #require(Paths.read("\(Self.directory)/\(file)")), as: UTF8.self)
            #expect(blocks.contains(text), "\(file)")
        }
    }

    /// Builds three texts, builds again without an edit, and builds after an edit of one text. Compares the files that each build makes.
    @Test("A build makes what is out of date, and nothing else", arguments: builds)
    func build(tool: Tool) throws {
        let directory = try ScratchDirectory()
        let run = Command.shell(
            """
            set -e
            export HOME="$PWD" PYTHONDONTWRITEBYTECODE=1
            mkdir -p counts texts
            cp "$1/$2" .
            # Waits until a new file gets a later time.
            tick() {
                touch before
                until touch after && [ -n "$(find after -newer before)" ]; do :; done
            }
            build() {
                tick
                \(tool.command) >output 2>&1 || { cat output >&2; exit 1; }
                echo "$1:" $(find counts total -type f -newer before | LC_ALL=C sort) "->" $(cat counts/* total)
            }
            echo 'one two three' >texts/a.txt
            echo 'four five' >texts/b.txt
            echo 'six' >texts/c.txt
            build new
            build unchanged
            tick
            echo 'six seven' >texts/c.txt
            build edited
            """, Self.directory, tool.file
        ).directory(directory.path)
        #expect(
            try run.run()
                == Outcome(
                    status: 0,
                    output: Array(
                        """
                        new: counts/a.count counts/b.count counts/c.count total -> 3 2 1 6
                        unchanged: -> 3 2 1 6
                        edited: counts/c.count total -> 3 2 2 7

                        """.utf8), errors: []))
    }

    /// A command of another tool, and a command or script that does the same: two blocks that follow each other in `options.md`.
    struct Pair: CustomTestStringConvertible {
        let tool, ours: Markdown.Block
        var testDescription: String { "options.md:\(tool.line)" }
    }

    /// Without those of GNU parallel if it is not installed.
    static let pairs: [Pair] = {
        let blocks = Markdown.blocks(in: String(decoding: Paths.read("\(directory)/options.md") ?? [], as: UTF8.self))
        let hasParallel = (try? Command.shell("command -v parallel").run())?.status == 0
        return stride(from: 0, to: blocks.count - 1, by: 2).map { Pair(tool: blocks[$0], ours: blocks[$0 + 1]) }
            .filter { hasParallel || !$0.tool.text.hasPrefix("parallel ") }
    }()

    @Test("An option of another tool and its counterpart here print the same lines", arguments: pairs)
    func option(pair: Pair) throws {
        let lines = try [pair.tool, pair.ours].map { block in
            let directory = try ScratchDirectory()
            try directory.write(block.text, to: "block")
            let run = Command.shell(
                """
                export HOME="$PWD"
                cp "$1"/Makefile "$1"/counts.lua . && mkdir counts texts
                echo 'one two three' >texts/a.txt
                echo 'four five' >texts/b.txt
                echo 'six' >texts/c.txt
                ls texts/* >names
                seq 5 >numbers
                opscript() { "$OPSCRIPT" "$@"; }
                if [ "$2" = lua ]; then opscript block; else . ./block; fi
                """, Self.directory, block.language)
            return try run.directory(directory.path).run().lines.sorted()
        }
        #expect(lines[0] == lines[1] && !lines[0].isEmpty)
    }

    @Test("A function whose result is kept runs once", arguments: ["/usr/bin/python3 primes.py", #""$OPSCRIPT" primes.lua"#])
    func primes(command: String) throws {
        let directory = try ScratchDirectory()
        // joblib empties its store if one process reads the file of the function's code while another writes it.
        // So it gets one processor here, and counts in one process.
        let run = Command.shell(
            """
            export LOKY_MAX_CPU_COUNT=1
            cp "$1"/primes.* . && \(command) | grep -c counting; \(command)
            """, Self.directory
        ).directory(directory.path)
        #expect(
            try run.run().lines.map { $0.split(whereSeparator: \.isWhitespace).joined(separator: " ") } == [
                "3", "100 25", "1000 168", "10000 1229",
            ])
    }
}
