import Testing

@Suite("What the command line allows a run")
struct RunLimitTests {
    private func run(_ arguments: [String], _ script: String) throws -> Outcome {
        var command = Command.opscript().input("local Operation, queue = opscript.Operation, opscript.OperationQueue.new()\n" + script)
        command.arguments = arguments + ["-"]
        return try command.run()
    }

    // MARK: --timeout

    @Test(
        "--timeout stops scripts, waits, operations that do not look, timers and programs, and the status is 124",
        arguments: [
            "while true do end", "while true do pcall(load 'while true do end') end", "opscript.sleep(1e6)",
            "opscript.every(0.01, function() end)", "opscript.process { 'sleep', 1000 }", "opscript.process({ 'sleep', 1000 }):wait()",
            "queue:addOperation(function() while true do end end)",
            "queue:addOperation(function() while true do end end):waitUntilFinished()",
            "queue:addOperation(function() opscript.process({ 'sleep', 1000 }):wait() end)",
            "opscript.OperationQueue.main:addOperation(function() while true do end end)",
        ])
    func timeout(script: String) throws {
        let outcome = try run(["--timeout", "0.2"], script)
        let message = "opscript: the run took longer than 0.2 s: everything was cancelled (--timeout)\n"
        #expect(outcome == Outcome(status: 124, output: [], errors: Array(message.utf8)), "\(outcome)")
    }

    @Test("After the timeout completion blocks run, and unread failures are reported")
    func timeoutCompletions() throws {
        let outcome = try run(
            ["--timeout=0.5"],
            """
            queue:addOperation(function() error('early', 0) end)
            local op = Operation.new { main = function() while true do end end, completionBlock = function() print 'completed' end }
            queue:addOperation(op)
            queue:addOperation(Operation.new { dependencies = { op }, completionBlock = function() print 'after it' end })
            """)
        #expect(outcome.status == 124 && outcome.lines.sorted() == ["after it", "completed"], "\(outcome)")
        #expect(outcome.errorText.hasPrefix("opscript: early\n"), "\(outcome)")
    }

    @Test("A run that ends in time knows nothing of its timeout")
    func inTime() throws {
        #expect(try run(["--timeout", "600"], "queue:addOperation(print, 1)").status == 0)
    }

    // MARK: --fail-fast

    @Test(
        "--fail-fast cancels everything when the first operation fails, and says which that was",
        arguments: ["", "queue:waitUntilAllOperationsAreFinished() print 'not reached'", "while true do end"])
    func failFast(rest: String) throws {
        let outcome = try run(
            ["--workers=4", "--fail-fast"],
            """
            queue.maxConcurrentOperationCount = 4
            for i = 1, 3 do queue:addOperation(function() while true do end end) end
            local bad = Operation.new { name = 'bad', main = function() error('boom', 0) end }
            queue:addOperation(bad)
            for i = 1, 100 do queue:addOperation(function() print 'not reached' end) end
            \(rest)
            """)
        #expect(outcome.status == 1 && outcome.output.isEmpty, "\(outcome)")
        #expect(outcome.errorText.hasPrefix("opscript: boom\n  in operation 'bad'\n"), "\(outcome)")
        #expect(
            outcome.errorText.hasSuffix("opscript: operation 'bad' failed first: all others were cancelled (--fail-fast)\n"), "\(outcome)")
    }

    @Test("--fail-fast holds for errors that would be read, and for the main queue")
    func failFastRead() throws {
        for queue in ["queue", "opscript.OperationQueue.main"] {
            let outcome = try run(
                ["--fail-fast"],
                """
                local bad = Operation.new { name = 'bad', main = function() error 'boom' end }
                \(queue):addOperation(bad)
                bad:waitUntilFinished()
                print(bad.error)
                while true do opscript.sleep(1000) end
                """)
            #expect(outcome.status == 1 && outcome.errorText.contains("operation 'bad' failed first"), "\(outcome)")
        }
    }

    @Test("With --fail-fast a run without failures is as usual")
    func failFastWithoutFailures() throws {
        let script = "local op = queue:addOperation(function() while true do end end) op:interrupt() queue:addOperation(print, 'ran')"
        #expect(try run(["--fail-fast"], script).status == 0)
    }

    // MARK: --memory-limit

    @Test("--memory-limit limits each operation that sets no limit", arguments: ["16M", "16384k", "16384K", "16777216"])
    func memory(size: String) throws {
        let outcome = try run(
            ["--memory-limit", size],
            """
            local function use(_, n) return #('x'):rep(n) end
            local small = queue:addOperation(use, 1 << 20)
            local large = queue:addOperation(use, 1 << 25)
            local free = queue:addOperation(Operation.new { memoryLimit = 1 << 30, main = function() return #('x'):rep(1 << 25) end })
            queue:waitUntilAllOperationsAreFinished()
            print(small.result, large.error.kind, free.result, #('x'):rep(1 << 25))
            """)
        #expect(outcome.text == "1048576\tmemory\t33554432\t33554432\n" && outcome.status == 0, "\(outcome)")
    }

    // MARK: --check

    @Test("--check reports the syntax errors of all scripts, and runs none")
    func check() throws {
        let directory = try ScratchDirectory()
        try directory.write("print 'ran'", to: "good.lua")
        try directory.write("local x = 1\nlocal y = = 2", to: "bad.lua")
        try directory.write("for", to: "worse.lua")
        let good = try Command.opscript("--check", "good.lua", "good.lua").directory(directory.path).run()
        #expect(good == Outcome(status: 0, output: [], errors: []), "\(good)")
        let bad = try Command.opscript("--check", "bad.lua", "good.lua", "worse.lua", "none.lua", "-").directory(directory.path)
            .input("goto nowhere").run()
        let expected = """
            opscript: bad.lua:2: unexpected symbol near '='
              local y = = 2
                        ^
            opscript: worse.lua:1: <name> expected near <eof>
              for
                 ^
            opscript: cannot open none.lua: No such file or directory
            opscript: stdin:1: no visible label 'nowhere' for <goto> at line 1

            """
        #expect(bad == Outcome(status: 1, output: [], errors: Array(expected.utf8)), "\(bad)")
    }

    // MARK: the command line

    @Test(
        "A wrong value is named in one line, with the usage, status 1",
        arguments: [
            (["--timeout", "soon"], "'--timeout' needs a positive number of seconds, got 'soon'"),
            (["--timeout=0"], "'--timeout' needs a positive number of seconds, got '0'"),
            (["--timeout=inf"], "'--timeout' needs a positive number of seconds, got 'inf'"),
            (["--timeout"], "'--timeout' needs a positive number of seconds"),
            (
                ["--memory-limit=much"],
                "'--memory-limit' needs a size: a number of bytes, or one with K, M, G or T, such as 512M, got 'much'"
            ),
            (
                ["--memory-limit", "-1"],
                "'--memory-limit' needs a size: a number of bytes, or one with K, M, G or T, such as 512M, got '-1'"
            ),
            (["--memory-limit=M"], "'--memory-limit' needs a size: a number of bytes, or one with K, M, G or T, such as 512M, got 'M'"),
            (
                ["--memory-limit=9999999999999G"],
                "'--memory-limit' needs a size: a number of bytes, or one with K, M, G or T, such as 512M, got '9999999999999G'"
            ),
            (["--workers=none"], "'--workers' needs a positive number, got 'none'"),
            (["--fail-fast=yes"], "unrecognized option '--fail-fast=yes'"),
            (["--check"], "'--check' needs a script"),
        ])
    func wrong(arguments: [String], message: String) throws {
        var command = Command.opscript()
        command.arguments = arguments
        let outcome = try command.run()
        #expect(outcome.errorText.hasPrefix("opscript: \(message)\nusage: opscript "), "\(outcome)")
        #expect(outcome.status == 1 && outcome.output.isEmpty, "\(outcome)")
    }
}
