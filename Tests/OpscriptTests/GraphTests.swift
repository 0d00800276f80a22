import Testing

/// `--graph`: the text says what ran, and pictures are drawn from it.
@Suite struct GraphTests {
    private static let pipeline = #"""
        local queue = opscript.OperationQueue.new("files")
        local a = opscript.Operation.new { name = "a </script>\"\\N&lt;\1\xff", main = function() end }
        local b = opscript.Operation.new { name = "b", main = function() error("no such", 0) end }
        local c = opscript.Operation.new { name = "c", dependencies = { a, b }, main = function() end }
        local d = opscript.Operation.new { main = function() end }
        d:addDependency(c)
        d:cancel()
        queue:addOperations({ a, b, c, d }, true)
        print(b.error)
        """#

    /// Runs a script, with the graph's file in a new directory.
    private func run(_ script: String, _ file: String, path: String? = nil) throws -> (outcome: Outcome, directory: ScratchDirectory) {
        let directory = try ScratchDirectory()
        var command = Command.opscript("--graph", "\(directory.path)/\(file)", "-").input(script)
        if let path { command = command.environment(["PATH": path]) }
        return (try command.run(), directory)
    }

    private func text(_ directory: ScratchDirectory, _ file: String) throws -> String {
        String(decoding: try #require(Paths.read("\(directory.path)/\(file)")), as: UTF8.self)
    }

    @Test("The text of a graph has the operations, outcomes, queues and dependencies of the run, and hostile names are escaped")
    func pipeline() throws {
        let (outcome, directory) = try run(Self.pipeline, "run.dot")
        #expect(outcome.status == 0 && outcome.errors.isEmpty, "\(outcome)")
        let graph = try text(directory, "run.dot")
            .replacing(/[0-9.]+ ms/, with: "T ms")
        #expect(
            graph == ##"""
                digraph run {
                  rankdir=LR; nslimit=2; nslimit1=2; mclimit=0.2; fontname="sans-serif";
                  node [shape=box, style="rounded,filled", fontname="sans-serif"];
                  label="stdin";
                  subgraph cluster_0 {
                    color=gray;
                    label="files";
                    o0 [label="a </script>\"\\N&amp;lt;␁�\nT ms", tooltip="succeeded\nstdin:2", fillcolor="#cdebc5"];
                    o1 [label="b\nT ms", tooltip="failed\nstdin:3\nno such", fillcolor="#f7b5ad"];
                    o2 [label="c\nT ms", tooltip="succeeded\nstdin:4", fillcolor="#cdebc5"];
                    o3 [label="stdin:5\ndid not run", tooltip="cancelled\nstdin:5", fillcolor="#dddddd"];
                  }
                  o0 -> o2;
                  o1 -> o2;
                  o2 -> o3;
                }

                """##)
    }

    @Test("The file may follow an equals sign; an option without a file is an error", arguments: ["--graph", "--report", "--trace"])
    func fileOption(option: String) throws {
        let directory = try ScratchDirectory()
        let path = "\(directory.path)/file.dot"
        let outcome = try Command.opscript("\(option)=\(path)", "-").input("print(1)").run()
        #expect(outcome.status == 0 && outcome.text == "1\n" && Paths.read(path) != nil, "\(outcome)")
        for word in [option, "\(option)="] {
            let outcome = try Command.opscript(word).run()
            #expect(outcome.status == 1 && outcome.errorText.hasPrefix("opscript: '\(option)' needs a file\n"), "\(outcome)")
        }
    }

    @Test("No option overwrites a script or the file of another option", arguments: ["--graph", "--report", "--trace"])
    func overwriting(option: String) throws {
        let directory = try ScratchDirectory()
        let script = "\(directory.path)/script.lua", file = "\(directory.path)/file.dot"
        try directory.write("print(1)\n", to: "script.lua")
        let forgotten = try Command.opscript(option, script).run()
        #expect(forgotten.status == 1, "\(forgotten)")
        #expect(
            forgotten.errorText.hasPrefix("opscript: '\(option)' needs a file to write, and not the script '\(script)'\n"), "\(forgotten)")
        #expect(Paths.read(script) == Array("print(1)\n".utf8))
        try directory.write("print(1)\n", to: "script.dot")
        let same = try Command.opscript(option, "\(directory.path)/script.dot", "\(directory.path)/script.dot").run()
        #expect(same.status == 1 && same.errorText.hasPrefix("opscript: an option would overwrite the script"), "\(same)")
        let twice = try Command.opscript("--trace", file, "--report=\(file)", script).run()
        #expect(twice.status == 1 && twice.errorText.hasPrefix("opscript: two options write the same file '\(file)'\n"), "\(twice)")
    }

    @Test("A picture shows names as they are")
    func picture() throws {
        let (outcome, directory) = try run(Self.pipeline, "run.svg")
        #expect(outcome.status == 0 && outcome.errors.isEmpty, "\(outcome)")
        let picture = try text(directory, "run.svg")
        // Graphviz writes spaces and hyphens in its own way.
        #expect(picture.contains("&lt;/script&gt;&quot;\\N&amp;lt;␁�</text>"), "\(picture)")
        #expect(picture.hasSuffix("</svg>\n"))
        let drawn = try run(Self.pipeline, "run.png")
        #expect(Paths.read("\(drawn.directory.path)/run.png")?.starts(with: [0x89, 0x50, 0x4E, 0x47]) == true)
    }

    @Test("A graph that is too large for a picture is written as text beside it")
    func tooLarge() throws {
        let (outcome, directory) = try run(
            """
            local queue, last = opscript.OperationQueue.new()
            for i = 1, 10000 do
              local op = opscript.Operation.new { dependencies = { last }, main = function() end }
              queue:addOperation(op)
              if i % 100 == 0 then last = op end
            end
            """, "run.svg")
        #expect(outcome.status == 0)
        #expect(
            outcome.errorText == "opscript: --graph: 10000 operations with 9900 dependencies are too many for a picture; "
                + "the graph is in '\(directory.path)/run.svg.dot'\n")
        #expect(Paths.read("\(directory.path)/run.svg") == nil)
        let graph = try text(directory, "run.svg.dot")
        #expect(graph.split(separator: "\n").count { $0.contains(" -> ") } == 9900)
    }

    @Test("Without Graphviz, a picture is one error before anything runs")
    func withoutGraphviz() throws {
        let (outcome, directory) = try run("print(1)", "run.png", path: "/nowhere")
        #expect(outcome.status == 1 && outcome.output.isEmpty)
        #expect(
            outcome.errorText == "opscript: --graph: a picture needs the program 'dot': install the package graphviz, "
                + "or name a file that ends in .dot\n")
        #expect(Paths.read("\(directory.path)/run.png") == nil)
        #expect(try run("print(1)", "run.dot", path: "/nowhere").outcome.status == 0)
    }

    @Test("A file that cannot be written is one error before anything runs", arguments: ["dot", "svg"])
    func unwritableFile(ending: String) throws {
        let outcome = try Command.opscript("--graph", "/proc/none/run.\(ending)", "-e", "print(1)").run()
        #expect(outcome.status == 1 && outcome.output.isEmpty)
        #expect(outcome.errorText == "opscript: --graph: cannot write '/proc/none/run.\(ending)': No such file or directory\n")
    }

    @Test("Another ending of the file's name is an error of usage", arguments: ["run.pdf", "svg", "run.SVG"])
    func otherEnding(file: String) throws {
        let outcome = try Command.opscript("--graph", file, "-e", "print(1)").run()
        #expect(outcome.status == 1 && outcome.output.isEmpty)
        #expect(
            outcome.errorText.hasPrefix(
                "opscript: '--graph' needs a file that ends in .dot, .svg or .png, and not '\(file)'\n"), "\(outcome)")
    }
}
