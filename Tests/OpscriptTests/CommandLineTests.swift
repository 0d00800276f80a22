import Testing

/// A command line for the stock interpreter and for opscript.
struct Invocation: CustomTestStringConvertible {
    var testDescription: String
    var arguments: [String]
    var input = ""
    var environment: [String: String] = [:]

    init(_ description: String, _ arguments: [String], input: String = "", environment: [String: String] = [:]) {
        testDescription = description
        self.arguments = arguments
        self.input = input
        self.environment = environment
    }

    static let chunks: [Invocation] = [
        .init("a chunk", ["-e", "print(1, 'two')"]),
        .init("a chunk without a space", ["-eprint(1)"]),
        .init("several chunks share globals", ["-e", "a = 1", "-e", "b = a + 1", "-e", "print(a, b)"]),
        .init("an error with a string", ["-e", "error 'boom'"]),
        .init("an error without a place", ["-e", "error('boom', 0)"]),
        .init("an error with a table", ["-e", "error {}"]),
        .init("an error that describes itself", ["-e", "error(setmetatable({}, {__tostring = function() return 'described' end}))"]),
        .init("an error with nil", ["-e", "error()"]),
        .init("an error with a number", ["-e", "error(42)"]),
        .init("a failed assertion", ["-e", "assert(false, 'claim')"]),
        .init("indexing nil", ["-e", "local x; x.y = 1"]),
        .init("calling a global that is nil", ["-e", "undefined()"]),
        .init("arithmetic on a string", ["-e", "return 1 + 'x'"]),
        .init("a syntax error", ["-e", "x ="]),
        .init("an unfinished string", ["-e", "x = 'abc"]),
        .init("a goto without its label", ["-e", "goto nowhere"]),
        .init("a traceback through functions", ["-e", "local function f() error 'deep' end\nlocal function g() f() end\ng()"]),
        .init("a traceback through C", ["-e", "string.gsub('a', 'a', function() error 'in gsub' end)"]),
        .init("a traceback through a coroutine", ["-e", "coroutine.wrap(function() error 'in a coroutine' end)()"]),
        .init("a stack overflow", ["-e", "local function f() return 1 + f() end f()"]),
        .init("an error in a __close", ["-e", "local x <close> = setmetatable({}, {__close = function() error 'closing' end})"]),
        .init("a warning, off", ["-e", "warn 'quiet'"]),
        .init("a warning, on", ["-W", "-e", "warn('loud', ' and clear')"]),
        .init("a module", ["-l", "answer", "-e", "print(answer.value)"], environment: ["LUA_PATH": "Golden/modules/?.lua"]),
        .init("a module by another name", ["-l", "a=answer", "-e", "print(a.value)"], environment: ["LUA_PATH": "Golden/modules/?.lua"]),
        .init("a module that there is not", ["-l", "nothing"], environment: ["LUA_PATH": "?.lua", "LUA_CPATH": "?.so"]),
        .init("LUA_INIT", ["-e", "print(initial)"], environment: ["LUA_INIT": "initial = 'set'"]),
        .init("LUA_INIT_5_4 first", ["-e", "print(initial)"], environment: ["LUA_INIT": "initial = 1", "LUA_INIT_5_4": "initial = 2"]),
        .init("LUA_INIT with an error", ["-e", "print(1)"], environment: ["LUA_INIT": "error 'initial'"]),
        .init("LUA_INIT with a file", ["-e", "print(1)"], environment: ["LUA_INIT": "@Golden/none.lua"]),
        .init("no environment", ["-E", "-e", "print(initial, package.path)"], environment: ["LUA_INIT": "initial = 1", "LUA_PATH": "x"]),
        .init("LUA_PATH", ["-e", "print(package.path, package.cpath)"], environment: ["LUA_PATH": "x;;", "LUA_CPATH_5_4": "y"]),
        .init("an option without its argument", ["-e"]),
        .init(
            "writing numbers", ["-e", "io.write(1.0, ' ', -0.0, ' ', 2^53, ' ', 3, ' ', 1e100, '\\n') io.stdout:write(2.0) io.write(0.5)"]),
        .init(
            "writing what cannot be written",
            ["-e", "print(pcall(io.write, 'a', {}, 'b')) print(pcall(io.stdout.write)) print(pcall(io.stdout.write, io.stdout, nil))"]),
        .init("writing nothing", ["-e", "print(select('#', io.write()), io.write('x') == io.stdout, io.stdout:write() == io.stdout)"]),
        .init("an error in the reader of a chunk", ["-e", "print(pcall(load, function() error 'reader' end))"]),
        .init("more memory than there is", ["-e", "print(pcall(io.read, 1 << 42))"]),
        .init("an exit status", ["-e", "io.write('flushed') os.exit(3)"]),
        .init("an exit with true", ["-e", "os.exit(true)"]),
        .init("an exit with false", ["-e", "os.exit(false, true)"]),
    ]

    static let scripts: [Invocation] = [
        .init("standard input", [], input: "print('from', ...)\nprint(#arg, arg[0])"),
        .init("standard input by name", ["-", "a", "b"], input: "print(...)\nprint(#arg, arg[0], arg[1], arg[2])"),
        .init("a syntax error in standard input", ["-"], input: "x = = 1"),
        .init("an error in standard input", ["-"], input: "local x\n\nx.y = 1"),
        .init("a first line with #", ["-"], input: "#!/usr/bin/env opscript\nprint 'second'\nerror 'third line'"),
        .init("a script that is not there", ["nothing.lua"]),
        .init("a directory", ["Golden"]),
        .init("after --", ["--", "-e"]),
    ]
}

@Suite("The command line")
struct CommandLineTests {
    /// Both interpreters run in the folder that has the modules of the golden scripts.
    private static let directory = Paths.package + "/Tests/OpscriptTests"

    private func compare(_ invocation: Invocation, directory: String = directory) throws {
        func run(_ command: Command) throws -> Outcome {
            var command = command.directory(directory).input(invocation.input).environment(invocation.environment)
            command.arguments = invocation.arguments
            return try command.run()
        }
        let (stock, ours) = (try run(.lua()), try run(.opscript()))
        if !ours.isLike(stock) { Issue.record("\(invocation.arguments)\n--- lua\n\(stock)\n--- opscript\n\(ours)") }
    }

    @Test("Chunks and options do what lua does", arguments: Invocation.chunks)
    func chunks(invocation: Invocation) throws { try compare(invocation) }

    @Test("Scripts do what lua does", arguments: Invocation.scripts)
    func scripts(invocation: Invocation) throws { try compare(invocation) }

    @Test("A script in a file gets its arguments, and its errors have a position")
    func file() throws {
        let directory = try ScratchDirectory()
        try directory.write("print(...)\nfor i = -3, #arg do print(i, arg[i]) end", to: "args.lua")
        try directory.write("#!/usr/bin/env opscript\nlocal function f(t) return t.a.b end\nprint 'before'\nf {}", to: "error.lua")
        try directory.write("local x = 1\nlocal y = = 2", to: "syntax.lua")
        try directory.write("\u{FEFF}# a first line\nprint 'after a byte order mark'", to: "mark.lua")
        try directory.write("return 1, 2", to: "returns.lua")
        for arguments in [
            ["args.lua"], ["args.lua", "a b", "", "-e", "--", "ü\n"], ["-e", "x = 1", "args.lua", "-"], ["--", "args.lua", "x"],
            ["-e", "arg[1] = 100", "args.lua", "5", "6"], ["-e", "arg = 1", "args.lua"], ["-e", "arg = 1", "none.lua"],
            ["-e", "arg[1] = nil", "args.lua", "5", "6"],
            ["-e", "arg = setmetatable({ 7 }, { __len = function() return 3 end })", "args.lua"],
            ["error.lua"], ["syntax.lua"], ["mark.lua"], ["returns.lua"],
        ] {
            try compare(Invocation("", arguments), directory: directory.path)
        }
    }

    @Test("An error in a script from standard input gives status 1", arguments: ["error 'boom'", "x = = 1"])
    func standardInput(script: String) throws {
        // The stock interpreter ends with 0 here, but with 1 when the script is named `-`.
        #expect(try Command.opscript().input(script).run() == Command.opscript("-").input(script).run())
        #expect(try Command.opscript().input(script).run().status == 1)
    }

    @Test("-v prints the version of Lua, as lua does")
    func version() throws {
        let stock = try Command.lua("-v").run()
        let ours = try Command.opscript("-v").run()
        #expect(ours.text.contains(stock.text), "\(ours)")
        #expect(ours.status == 0)
        #expect(try Command.opscript("-v", "-e", "print 'then'").run().lines.last == "then")
    }

    @Test("--help and --version print to stdout and give status 0", arguments: ["--help", "--version"])
    func information(option: String) throws {
        let outcome = try Command.opscript(option).run()
        #expect(outcome.status == 0 && outcome.errors.isEmpty && !outcome.output.isEmpty, "\(outcome)")
        #expect(outcome.text.contains(option == "--help" ? "usage: opscript [options] [script [args]]" : "opscript "), "\(outcome)")
    }

    @Test("--help names every option")
    func help() throws {
        let text = try Command.opscript("--help").run().text
        for option in [
            "-e", "-i", "-l", "-v", "-E", "-W", "--workers", "--timeout", "--fail-fast", "--memory-limit", "--check", "--help", "--version",
            "--keep-going", "--store", "--store-limit", "--dry-run", "--always-run", "--explain",
        ] {
            #expect(text.contains(option), "\(option) is not in:\n\(text)")
        }
    }

    @Test("An unknown option is named together with the usage, and gives status 1", arguments: ["-x", "-h", "--unknown", "-vv"])
    func unknown(option: String) throws {
        let outcome = try Command.opscript(option).run()
        let lines = outcome.errorText.split(separator: "\n").map(String.init)
        #expect(lines.first == "opscript: unrecognized option '\(option)'", "\(outcome)")
        #expect(lines.dropFirst().first?.hasPrefix("usage: opscript") == true, "\(outcome)")
        #expect(outcome.status == 1 && outcome.output.isEmpty, "\(outcome)")
    }

    @Test("SIGINT raises an error in the script while there is no operation")
    func interruption() throws {
        let outcome = try Command.opscript("-e", "io.popen('kill -INT $PPID'):close() while true do end").run()
        #expect(outcome.errorText.hasPrefix("opscript: (command line):1: interrupted!\n"), "\(outcome)")
        #expect(outcome.status == 1)
    }

    @Test(
        "Once a script has made an operation, freed memory is reused without asking the system",
        .enabled(if: Paths.hasJemalloc))
    func freedMemory() throws {
        let chunk = """
            local operation = opscript.Operation.new(function() end)
            local function faults()
              local file <close> = assert(io.open '/proc/self/stat')
              return tonumber(file:read 'a':match('%) %S+' .. (' %S+'):rep(6) .. ' (%d+)'))
            end
            local function churn()
              for i = 1, 10 do
                local kept = {}
                for j = 1, 16 do kept[j] = ('x'):rep(1000000 + i) end
                kept = nil
                collectgarbage()
              end
            end
            churn()
            local before = faults()
            churn()
            print(faults() - before)
            """
        let faults = try #require(Int(Command.opscript("-e", chunk).run().text.dropLast()))
        // New memory for each string would cause 40,000 faults. On a busy machine the script may last seconds, and then the allocator frees memory.
        #expect(faults < 10_000)
    }

    @Test("The module is a global and can also be required")
    func module() throws {
        let chunk = "print(opscript == require 'opscript', package.loaded.opscript == opscript, type(opscript.Operation.new))"
        #expect(try Command.opscript("-e", chunk).run().text == "true\ttrue\tfunction\n")
    }

    @Test("As a filter, opscript ends quietly when its reader has gone")
    func filter() throws {
        let outcome = try Command.shell(#"{ "$OPSCRIPT" -e 'while true do print "line" end'; echo "status $?" >&2; } | head -n 1"#).run()
        #expect(outcome.text == "line\n")
        #expect(outcome.errorText == "status 141\n")
    }

    @Test("The prompt prints values, goes on after errors, and ends with the input")
    func prompt() throws {
        let input = "1 + 1, 'two'\nx = 5\nx * 2\nlocal y =\n3; print(y)\nerror 'boom'\nx =\n= 1\n#undefined + 1\nprint 'last'\n"
        let (stock, ours) = (try Command.lua("-i").input(input).run(), try Command.opscript("-i").input(input).run())
        // The first lines name the interpreters.
        #expect(ours.lines.dropFirst() == stock.lines.dropFirst() && ours.lines.contains("> x * 2"), "\(ours)")
        #expect(ours.errorText == stock.errorText)
        #expect(ours.status == stock.status)
    }

    @Test("On a terminal without abilities, -i prints values as lua does, and does not repeat what is typed")
    func dumbTerminal() throws {
        let outcome = try Command.shell(#"TERM=dumb script -qec "'$OPSCRIPT' -i" /dev/null"#).input("{ 1, 2 }\n").run()
        #expect(outcome.text.contains("table: 0x") && outcome.text.ranges(of: "{ 1, 2 }").count == 1, "\(outcome)")
    }

    @Test("A prompt whose `print` fails reports it and goes on")
    func failingPrint() throws {
        let input = "print = 3\n5\nprint = error\n'six'\nprint = nil\n7\n"
        let (stock, ours) = (try Command.lua("-i").input(input).run(), try Command.opscript("-i").input(input).run())
        #expect(ours.errorText == stock.errorText && ours.errorText.hasPrefix("error calling 'print' (attempt to call"))
    }

    /// `lfs.currentdir` frees memory that the C library has allocated.
    @Test("All memory comes from jemalloc, including the memory of libraries", .enabled(if: Paths.hasJemalloc))
    func allocator() throws {
        let outcome = try Command.opscript("-e", "assert(#require 'lfs'.currentdir() > 0)")
            .environment(["MALLOC_CONF": "stats_print:true"]).run()
        #expect(outcome.status == 0 && outcome.errorText.contains("jemalloc statistics"), "\(outcome)")
    }

    @Test("On a terminal, the prompt runs operations, and their completion blocks use its variables")
    func terminal() throws {
        let lines = [
            "done, queue = 0, opscript.OperationQueue.new()", "op = opscript.Operation.new(function() return 6 * 7 end)",
            "op.completionBlock = function() done = done + 1 end", "op = queue:addOperation(op)",
            "while done == 0 do queue:addOperation(function() end):waitUntilFinished() end", "op.result, done", "",
        ]
        let outcome = try Command.shell(#"script -qec "'$OPSCRIPT'" /dev/null"#).input(lines.joined(separator: "\n")).run()
        #expect(outcome.text.contains("42\t1"), "\(outcome)")
        #expect(outcome.status == 0, "\(outcome)")
    }
}

extension Outcome {
    /// Whether the status, output and message are the same as those of `stock`. A source line and the useful frames of the traceback follow
    /// the message.
    fileprivate func isLike(_ stock: Outcome) -> Bool {
        let (ours, stock) = (withoutDepth, stock.withoutDepth)
        if ours == stock { return true }
        let known = Set(stock.frames)
        return ours.status == stock.status && ours.output == stock.output && ours.message == stock.message
            && ours.frames.allSatisfy(known.contains)
    }

    private var errorLines: [Substring] { errorText.split(separator: "\n") }

    private var message: ArraySlice<Substring> { errorLines.prefix { $0 != "stack traceback:" && !$0.hasPrefix("  ") } }

    private var frames: ArraySlice<Substring> { errorLines.drop { $0 != "stack traceback:" } }

    /// The outcome without the number of levels that a long traceback skips. That number depends on the frames below the script.
    fileprivate var withoutDepth: Outcome {
        var copy = self
        copy.errors = Array(errorText.replacing(/skipping \d+ levels/, with: "skipping levels").utf8)
        return copy
    }
}
