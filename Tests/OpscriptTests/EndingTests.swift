import Testing

@Suite("The end of a run")
struct EndingTests {
    private static let prelude = """
        local Operation, OperationQueue = opscript.Operation, opscript.OperationQueue
        local queue = OperationQueue.new 'q'

        """

    private func run(_ script: String) throws -> Outcome {
        try Command.opscript("-").input(Self.prelude + script).run()
    }

    @Test("The command runs everything the script has left before it ends")
    func remaining() throws {
        let outcome = try run(
            """
            local first = Operation.new(function() print "first" end)
            local second = Operation.new(function() print "second" end)
            second:addDependency(first)
            second.completionBlock = function() print "completed" end
            queue:addOperations({ second, first }, false)
            print "returned"
            """)
        #expect(outcome.lines.first == "returned" || outcome.lines.first == "first", "\(outcome)")
        #expect(outcome.lines.filter { $0 != "returned" } == ["first", "second", "completed"], "\(outcome)")
        #expect(outcome.status == 0 && outcome.errors.isEmpty, "\(outcome)")
    }

    @Test("A failure that was not read is reported with its place, and gives status 1")
    func unread() throws {
        let outcome = try run(
            """
            queue:addOperation(Operation.new { name = "the culprit", main = function() error "boom" end })
            queue:addOperation(function() print "the other runs" end)
            """)
        #expect(outcome.status == 1, "\(outcome)")
        #expect(outcome.text == "the other runs\n")
        for part in ["opscript: stdin:3: boom\n", "operation 'the culprit'"] {
            #expect(outcome.errorText.contains(part), "\(part) is not in \(outcome)")
        }
    }

    @Test("Failures that no code has read are reported before an error of the script, which names the one whose result it missed")
    func hiddenCauses() throws {
        let outcome = try run(
            """
            local ops = {}
            queue.maxConcurrentOperationCount = 1
            for i = 1, 3 do ops[i] = queue:addOperation(Operation.new { name = "fetch " .. i, main = function() error("HTTP 500", 0) end }) end
            queue:waitUntilAllOperationsAreFinished()
            local sum = 0
            for _, op in ipairs(ops) do sum = sum + op.result end
            """)
        #expect(outcome.status == 1, "\(outcome)")
        let text = outcome.errorText
        let cause = try #require(
            text.firstRange(of: "opscript: HTTP 500\n  in operation 'fetch 1' of queue 'q'\n  and 2 more alike"), "\(text)")
        let own = try #require(text.firstRange(of: "perform arithmetic on a nil value"), "\(text)")
        #expect(cause.lowerBound < own.lowerBound && text.contains("  because operation 'fetch 1' failed\n"), "\(text)")
    }

    @Test("os.exit reports failures that no code has read, and how many operations it drops; a forked child does neither")
    func exits() throws {
        let fail = "queue.maxConcurrentOperationCount = 1 queue:addOperation(function() error 'the upload failed' end):waitUntilFinished() "
        let outcome = try run(fail + "for i = 1, 2 do queue:addOperation(function() opscript.sleep(60) end) end os.exit(0)")
        #expect(outcome.status == 0 && outcome.errorText.contains("stdin:3: the upload failed"), "\(outcome)")
        #expect(outcome.errorText.hasSuffix("opscript: os.exit has dropped 2 operations that had not finished\n"), "\(outcome)")
        let endless = try run("queue:addOperation(function() while true do end end) io.write 'out' os.exit(3)")
        #expect(
            endless.status == 3 && endless.text == "out" && endless.errorText.hasSuffix("has dropped 1 operation that had not finished\n"))
        #expect(try run("os.exit(3)") == Outcome(status: 3, output: [], errors: []))
    }

    @Test(
        "Output that cannot be written is an error; a script that has closed stdout ends as with lua",
        arguments: ["print 'x'", "opscript.OperationQueue.new():addOperation(function() print 'x' end)", "print 'x' os.exit(0)"])
    func fullDisk(script: String) throws {
        let outcome = try Command.shell("\"$OPSCRIPT\" -e \"$1\" >/dev/full", script).run()
        #expect(outcome.status == 1, "\(outcome)")
        #expect(outcome.errorText == "opscript: cannot write standard output: No space left on device\n", "\(outcome)")
        #expect(
            try Command.opscript("-e", "print 'x' io.stdout:close()").run() == Outcome(status: 0, output: Array("x\n".utf8), errors: []))
    }

    @Test("The command runs without a standard descriptor", arguments: ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
    func closedDescriptors(redirection: String) throws {
        let script = "opscript.OperationQueue.new():addOperation(function() io.open('/dev/null'):close() end)"
        let outcome = try Command.shell("\"$OPSCRIPT\" -e \"$1\" \(redirection)", script).run()
        #expect(outcome == Outcome(status: 0, output: [], errors: []), "\(outcome)")
    }

    @Test("A failure without a message says so, and how a program of the operation has ended")
    func emptyMessages() throws {
        let outcome = try run(
            """
            for _, line in ipairs { "exit 3", "kill -KILL $$" } do
              queue:addOperation(Operation.new { name = line, main = function() error(opscript.sh(line):wait().stderr, 0) end })
            end
            queue:addOperation(function() error "" end)
            """)
        for part in [
            "error without a message; 'exit 3' exited with status 3\n", "error without a message; 'kill -KILL $$' killed by KILL\n",
            "opscript: stdin:6: error without a message\n",
        ] { #expect(outcome.errorText.contains(part), "\(part) is not in \(outcome)") }
        #expect(outcome.status == 1)
    }

    @Test(
        "Reading `error` anywhere marks a failure as read",
        arguments: [
            "op:waitUntilFinished() print(op.error.message)",
            "op.completionBlock = function(op) print(op.error.message) end",
            "local reader = Operation.new(function() print(op.error.message) end) reader:addDependency(op) queue:addOperation(reader)",
        ])
    func read(how: String) throws {
        let add = "queue:addOperation(op)"
        let script = how.contains("completionBlock") ? "\(how) \(add)" : "\(add) \(how)"
        let outcome = try run("local op = Operation.new(function() error('boom', 0) end) " + script)
        #expect(outcome == Outcome(status: 0, output: Array("boom\n".utf8), errors: []), "\(outcome)")
    }

    @Test("An error in a completion block is reported and gives status 1")
    func completionBlock() throws {
        let outcome = try run(
            """
            local op = Operation.new(function() end)
            op.completionBlock = function() error "in the block" end
            queue:addOperation(op)
            """)
        #expect(outcome.status == 1 && outcome.errorText.contains("stdin:4: in the block"), "\(outcome)")
    }

    @Test(
        "os.exit ends the command from anywhere without losing output",
        arguments: [
            "io.write 'out' os.exit(3)",
            "queue:addOperation(function() io.write 'out' os.exit(3) end):waitUntilFinished() print 'not reached'",
            "queue:addOperation(function() io.write 'out' os.exit(3) end)",
            "queue:addOperation(function() opscript.after(0, function() io.write 'out' os.exit(3) end) end)",
            "OperationQueue.main:addOperation(function() io.write 'out' os.exit(3) end)",
            "local op = Operation.new(function() end) op.completionBlock = function() io.write 'out' os.exit(3) end queue:addOperation(op)",
            "queue:addOperation(function() io.write 'out' os.exit(3, true) end)",
            "queue:addOperation(function() io.write 'out' pcall(os.exit, 3) print 'not reached' end) while true do pcall(load 'while true do end') end",
            "queue:addOperation(function() io.write 'out' os.exit(3) end) pcall(opscript.sleep, 1000) print 'not reached'",
            "queue:addOperation(function() opscript.sleep(1000) end) queue:addOperation(function() io.write 'out' os.exit(3) end)",
            "queue:addOperation(function() Operation.new(function() io.write 'out' os.exit(3) end):start() print 'not reached' end)",
            "queue:addOperation(function() io.write 'out' coroutine.wrap(os.exit)(3) end)",
        ])
    func exit(script: String) throws {
        let outcome = try run(script)
        #expect(outcome == Outcome(status: 3, output: Array("out".utf8), errors: []), "\(outcome)")
    }

    @Test("os.exit in an operation reports the failures that were not read")
    func exitWithFailures() throws {
        let outcome = try run(
            """
            local failing = Operation.new { name = 'failing', main = function() error("boom", 0) end }
            queue:addOperation(failing)
            while not failing.isFinished do opscript.sleep(0.001) end
            queue:addOperation(function() os.exit(4) end)
            """)
        #expect(outcome.status == 4 && outcome.errorText.hasPrefix("opscript: boom\n  in operation 'failing' of queue 'q'\n"), "\(outcome)")
    }

    @Test(
        "Operations that can never run are named, and give status 1",
        arguments: [
            "local op = Operation.new { name = 'the held one', main = print } op:addDependency(Operation.new(print)) queue:addOperation(op)",
            "queue.isSuspended = true queue:addOperation(Operation.new { name = 'the held one', main = print })",
            "queue.maxConcurrentOperationCount = 0 queue:addOperation(Operation.new { name = 'the held one', main = print })",
        ])
    func stuck(script: String) throws {
        let outcome = try run(script)
        #expect(outcome.status == 1 && outcome.output.isEmpty && outcome.errorText.contains("the held one"), "\(outcome)")
    }

    @Test(
        "A wait that can never end is an error that names the operation",
        arguments: [
            "local op = Operation.new { name = 'the held one', main = print } op:waitUntilFinished()",
            "local op = Operation.new { name = 'the held one', main = function(op) op:waitUntilFinished() end } queue:addOperation(op)",
        ])
    func endlessWait(script: String) throws {
        let outcome = try run(script)
        #expect(outcome.status == 1 && outcome.errorText.contains("the held one"), "\(outcome)")
    }

    @Test("An error of the script is reported as lua does, and its operations still end")
    func scriptError() throws {
        let outcome = try run("queue:addOperation(function() print 'ran' end):waitUntilFinished()\nerror 'at the end'")
        #expect(outcome.status == 1 && outcome.text == "ran\n", "\(outcome)")
        #expect(outcome.errorText == "opscript: stdin:4: at the end\n", "\(outcome)")
    }

    @Test("Without operations, SIGTERM ends the process as usual, even inside a C function")
    func terminatedWithoutOperations() throws {
        let directory = try ScratchDirectory()
        let outcome = try Command.shell(
            #"""
            mkfifo "$1/pipe" && exec 4<> "$1/pipe"
            "$OPSCRIPT" -e 'io.stdout:write "ready\n":flush() io.read()' <&4 > "$1/output" & child=$!
            until grep -q ready "$1/output"; do sleep 0.01; done
            kill -TERM "$child"
            wait "$child"
            echo "status $?"
            """#, directory.path
        ).run()
        #expect(outcome.lines.last == "status 143", "\(outcome)")
    }

    @Test("SIGHUP ends the operations and their programs, unless it is ignored", arguments: [(true, 143), (false, 129)])
    func hangup(isIgnored: Bool, status: Int) throws {
        let directory = try ScratchDirectory()
        let outcome = try Command.shell(
            #"""
            [ "$2" = no ] || trap '' HUP
            "$OPSCRIPT" - > "$1/output" <<'END' & child=$!
            local queue = opscript.OperationQueue.new()
            queue:addOperation(function()
              local sleeper = opscript.process { "sleep", "1000" }
              io.stdout:write(sleeper.pid, "\n"):flush()
              sleeper:wait()
            end)
            END
            until [ -s "$1/output" ]; do sleep 0.01; done
            kill -HUP "$child"
            [ "$2" = no ] || kill -TERM "$child"
            wait "$child"
            echo "status $?"
            kill -0 "$(cat "$1/output")" 2>&1 || true
            """#, directory.path, isIgnored ? "ignored" : "no"
        ).run()
        #expect(outcome.lines.first == "status \(status)" && outcome.lines.last?.contains("No such process") == true, "\(outcome)")
    }

    @Test("Two signals at once end all operations and programs in order, as one signal does")
    func terminatedTwice() throws {
        let directory = try ScratchDirectory()
        let outcome = try Command.shell(
            #"""
            "$OPSCRIPT" - > "$1/output" <<'END' & child=$!
            local queue = opscript.OperationQueue.new()
            queue:addOperation(opscript.Operation.new { main = function(op)
              local sleeper = opscript.process { "sleep", "1000" }
              io.stdout:write(sleeper.pid, "\n"):flush()
              sleeper:wait()
            end, completionBlock = function() io.stdout:write "completed\n" end })
            END
            until grep -q . "$1/output"; do sleep 0.01; done
            read -r sleeper < "$1/output"
            # Both signals are pending when the command goes on.
            kill -STOP "$child"; kill -INT "$child"; kill -TERM "$child"; kill -CONT "$child"
            wait "$child"
            echo "status $?"
            kill -0 "$sleeper" 2> "$1/gone" && echo "still there"
            tail -n 1 "$1/output"
            """#, directory.path
        ).run()
        #expect(["status 130", "status 143"].contains(outcome.lines.first), "\(outcome)")
        #expect(outcome.lines.dropFirst() == ["completed"], "\(outcome)")
    }

    /// On one processor, the timer thread usually starts only after the script has ended, and then frees memory before it allocates any.
    @Test("On one processor, the command ends even when a thread frees memory before it allocates any")
    func onOneProcessor() throws {
        let script = """
            local queue = opscript.OperationQueue.new()
            local polite = queue:addOperation(function(op) while not op.isCancelled do opscript.sleep(3600) end end)
            local endless = queue:addOperation(function() while true do end end)
            local greedy = opscript.Operation.new { memoryLimit = 1 << 20, main = function() return ("x"):rep(1 << 24) end }
            queue:addOperation(greedy)
            while not (polite.isExecuting and endless.isExecuting) do opscript.sleep(0.001) end
            polite:cancel()
            endless:interrupt()
            queue:waitUntilAllOperationsAreFinished()
            print(endless.error.kind, greedy.error.kind)
            """
        for _ in 0..<5 {
            let outcome = try Command.shell("exec taskset -c \"$(taskset -cp $$ | grep -oE '[0-9]+' | tail -1)\" \"$OPSCRIPT\" -", "-")
                .input(script).run()
            #expect(outcome.status == 0 && outcome.text == "interrupted\tmemory\n", "\(outcome)")
        }
    }
}
