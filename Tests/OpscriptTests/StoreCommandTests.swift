import Testing

/// The options of finished work. OpStoreTests test the store, and LuaBindingsTests its use by scripts.
@Suite("What the command line says about finished work")
struct StoreCommandTests {
    /// Makes `out` of `in`, and prints what happened.
    private static let script = """
        local op = opscript.Operation.new { name = "copy", inputs = "in", outputs = "out", main = function()
          local from <close> = assert(io.open "in")
          local to <close> = assert(io.open("out", "w"))
          to:write((from:read "a"))
        end }
        opscript.OperationQueue.new():addOperation(op):waitUntilFinished()
        print(op.isSkipped, op:whyRun())
        """

    private func directory() throws -> ScratchDirectory {
        let directory = try ScratchDirectory()
        try directory.write(Self.script, to: "copy.lua")
        try directory.write("1", to: "in")
        return directory
    }

    private func run(_ directory: ScratchDirectory, _ arguments: String..., script: String = "copy.lua") throws -> Outcome {
        var command = Command.opscript().directory(directory.path)
        command.arguments = arguments + [script]
        return try command.run()
    }

    private func files(_ directory: ScratchDirectory) throws -> [String] {
        try Command.shell("cd -- \"$1\" && find . -name '*.db' | sort", directory.path).run().lines
    }

    @Test("Work is kept beside the script, or where --store says")
    func place() throws {
        let directory = try directory()
        #expect(try run(directory).lines == ["false\tnever ran"])
        #expect(try run(directory).lines == ["true\tnil"])
        #expect(try files(directory) == ["./.opscript/store.db"])
        #expect(try run(directory, "--store", "kept").lines == ["false\tnever ran"])
        #expect(try run(directory, "--store=kept").lines == ["true\tnil"])
        #expect(try files(directory) == ["./.opscript/store.db", "./kept/store.db"])
        // If the script is in another folder, its store is there, and the paths of its files are relative to the working directory.
        try directory.write(Self.script, to: "deep/copy.lua")
        #expect(try run(directory, script: "deep/copy.lua").lines == ["false\tnever ran"])
        #expect(try files(directory).contains("./deep/.opscript/store.db"))
    }

    @Test("A script that asks no store leaves no trace")
    func noTrace() throws {
        let directory = try ScratchDirectory()
        try directory.write("opscript.OperationQueue.new():addOperation(function() end)", to: "plain.lua")
        for arguments in [[], ["--dry-run"], ["--explain"], ["--always-run"]] {
            var command = Command.opscript().directory(directory.path)
            command.arguments = arguments + ["plain.lua"]
            let outcome = try command.run()
            #expect(outcome.status == 0 && outcome.errors.isEmpty, "\(outcome)")
        }
        #expect(try Command.shell("ls -A \"$1\"", directory.path).run().lines == ["plain.lua"])
    }

    @Test("--explain says on stderr why an operation runs, and nothing of those that do not")
    func explain() throws {
        let directory = try directory()
        #expect(try run(directory, "--explain").errorText == "opscript: copy runs: never ran\n")
        #expect(try run(directory, "--explain").errorText == "")
        try directory.write("2", to: "in")
        #expect(try run(directory, "--explain").errorText == "opscript: copy runs: input 'in' changed\n")
    }

    @Test("--dry-run says what would run and why, and runs none of it")
    func dryRun() throws {
        let directory = try directory()
        let first = try run(directory, "--dry-run")
        #expect(first.lines == ["copy would run: never ran", "false\tnever ran", "1 operation would run, 0 are done"], "\(first)")
        #expect(try Command.shell("ls -A \"$1\"", directory.path).run().lines == ["copy.lua", "in"])
        _ = try run(directory)
        #expect(try run(directory, "--dry-run").lines == ["true\tnil", "0 operations would run, 1 is done"])
        try directory.write("2", to: "in")
        #expect(try run(directory, "--dry-run").lines.first == "copy would run: input 'in' changed")
        #expect(try Command.shell("cat \"$1\"/out", directory.path).run().text == "1")
        #expect(try run(directory).lines == ["false\tinput 'in' changed"], "a dry run records nothing")
    }

    @Test("--dry-run tells that it has run the operations that ask no store")
    func dryRunOfOthers() throws {
        let directory = try ScratchDirectory()
        try directory.write("for i = 1, 2 do opscript.OperationQueue.new():addOperation(function() end) end", to: "copy.lua")
        #expect(
            try run(directory, "--dry-run").lines == [
                "2 operations without inputs, outputs and memoize were not left out", "0 operations would run, 0 are done",
            ])
    }

    @Test("--always-run runs what is done, and records it")
    func alwaysRun() throws {
        let directory = try directory()
        #expect(try run(directory, "--always-run", "--explain").errorText == "opscript: copy runs: all steps run\n")
        #expect(try run(directory, "--always-run").lines.first?.hasPrefix("false") == true)
        #expect(try run(directory).lines == ["true\tnil"])
    }

    @Test("What cannot be recorded is said")
    func notRecorded() throws {
        let directory = try ScratchDirectory()
        try directory.write(
            """
            local op = opscript.Operation.new { name = "no output", outputs = "out", main = function() end }
            opscript.OperationQueue.new():addOperation(op)
            """, to: "copy.lua")
        let outcome = try run(directory)
        #expect(outcome.errorText == "opscript: no output is not recorded and will run again: it did not make its output 'out'\n")
        #expect(outcome.status == 0)
    }

    @Test("With 'memoize', an operation whose results cannot be kept runs each time")
    func notKept() throws {
        let directory = try ScratchDirectory()
        try directory.write(
            """
            local op = opscript.Operation.new { name = "odd", memoize = true, outputs = "out", main = function()
              local file <close> = assert(io.open("out", "w"))
              return print
            end }
            opscript.OperationQueue.new():addOperation(op):waitUntilFinished()
            print(op.result == print, op.isSkipped)
            """, to: "copy.lua")
        for _ in 0..<3 {
            let outcome = try run(directory)
            #expect(outcome.lines == ["true\tfalse"], "\(outcome)")
            #expect(outcome.errorText.hasPrefix("opscript: odd is not recorded and will run again: "), "\(outcome)")
        }
    }

    @Test("After kill -9, a run goes on where it was")
    func killed() throws {
        let directory = try ScratchDirectory()
        try directory.write(
            """
            local queue = opscript.OperationQueue.new()
            local sum, operations = 0, {}
            for i = 1, 30 do
              operations[i] = opscript.Operation.new { memoize = true, arguments = { i }, main = function(op, i)
                local file <close> = assert(io.open("ran", "a"))
                file:write(i, "\\n")
                file:flush()
                if i == 20 and not io.open "killed" then
                  assert(io.open("killed", "w")):close()
                  local status = assert(io.open "/proc/self/stat")
                  os.execute("kill -9 " .. status:read "n")
                end
                return i * i
              end }
              -- One after the other, also if a worker is slow.
              if i > 1 then operations[i]:addDependency(operations[i - 1]) end
              queue:addOperation(operations[i])
            end
            queue:waitUntilAllOperationsAreFinished()
            for _, op in ipairs(operations) do sum = sum + op.result end
            print(sum)
            """, to: "copy.lua")
        #expect(try run(directory, "--workers=1").status == 128 + 9)
        let outcome = try run(directory, "--workers=1")
        #expect(outcome.lines == ["9455"] && outcome.errors.isEmpty, "\(outcome)")
        let ran = try Command.shell("cat \"$1\"/ran", directory.path).run().lines
        #expect(ran == (Array(1...20) + Array(20...30)).map { "\($0)" })
    }

    @Test("A store that is no store is set aside, and the run goes on")
    func damage() throws {
        let directory = try directory()
        try directory.write(String(repeating: "not a database. ", count: 100), to: ".opscript/store.db")
        let outcome = try run(directory)
        #expect(outcome.lines == ["false\tnever ran"])
        #expect(
            outcome.errorText.hasPrefix("opscript: the store '")
                && outcome.errorText.hasSuffix("store.db.damaged-1', and work is done again\n"))
        #expect(try run(directory).lines == ["true\tnil"])
    }

    @Test("--store-limit keeps the store small")
    func limit() throws {
        let directory = try ScratchDirectory()
        try directory.write(
            """
            local queue = opscript.OperationQueue.new()
            for i = 1, 100 do
              queue:addOperation(opscript.Operation.new { memoize = true, arguments = { i }, main = function(op, i)
                math.randomseed(i)
                local bytes = {}
                for j = 1, 20000 do bytes[j] = string.char(math.random(0, 255)) end
                return table.concat(bytes)
              end })
            end
            """, to: "copy.lua")
        let outcome = try run(directory, "--store-limit", "500k")
        #expect(outcome.status == 0 && outcome.errors.isEmpty, "\(outcome)")
        let size = try Command.shell("stat -c %s \"$1\"/.opscript/store.db", directory.path).run().lines.first.flatMap { Int($0) }
        #expect(try #require(size) <= 512_000)
    }

    @Test("--keep-going takes an earlier --fail-fast back")
    func keepGoing() throws {
        let directory = try ScratchDirectory()
        try directory.write(
            """
            local queue = opscript.OperationQueue.new()
            local bad = queue:addOperation(function() error("bad", 0) end)
            print(pcall(bad.waitUntilFinished, bad), bad.error.message)
            queue:addOperation(print, "went on"):waitUntilFinished()
            """, to: "copy.lua")
        #expect(try run(directory, "--fail-fast", "--keep-going").lines.last?.hasSuffix("went on") == true)
        let ended = try run(directory, "--keep-going", "--fail-fast")
        #expect(ended.status == 1 && ended.errorText.contains("(--fail-fast)"))
    }

    @Test(
        "Wrong options are named",
        arguments: [
            (["--store"], "'--store' needs a folder"),
            (["--store="], "'--store' needs a folder"),
            (["--store-limit"], "'--store-limit' needs a size: a number of bytes, or one with K, M, G or T, such as 512M"),
            (["--store-limit=0"], "'--store-limit' needs a size: a number of bytes, or one with K, M, G or T, such as 512M, got '0'"),
            (
                ["--store-limit", "big"],
                "'--store-limit' needs a size: a number of bytes, or one with K, M, G or T, such as 512M, got 'big'"
            ),
            (["--dry-run", "--always-run"], "'--dry-run' and '--always-run' exclude each other"),
            (["--dry-run=yes"], "unrecognized option '--dry-run=yes'"),
        ])
    func wrong(arguments: [String], message: String) throws {
        var command = Command.opscript()
        command.arguments = arguments
        let outcome = try command.run()
        #expect(outcome.errorText.hasPrefix("opscript: \(message)\nusage: opscript "), "\(outcome)")
        #expect(outcome.status == 1)
    }
}
