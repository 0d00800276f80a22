import Glibc
import Testing

@Suite("Signals while timers and programs exist")
struct InterruptionTests {
    @Test(
        "The first signal cancels timers and ends programs, and the status tells which signal it was",
        arguments: [
            ("INT", 130, ""), ("TERM", 143, ""), ("INT", 130, "local ended = opscript.process({ 'sleep', 1000 }):wait()"),
            ("INT", 130, "while true do end"), ("TERM", 143, "opscript.sleep(1e6)"),
        ])
    func signal(name: String, status: Int32, body: String) throws {
        let script = """
            local sleeping = opscript.sh "trap 'exit 0' TERM; sleep 1000 & echo $!; wait"
            local first = opscript.process { "sleep", 1000 }
            local operation = opscript.OperationQueue.new():addOperation(function(op)
              local second = opscript.process { "sleep", 1000 }
              op.pid = second.pid
              \(body)
              second:wait()
            end)
            while not operation.pid do opscript.sleep(0.01) end
            print(sleeping.pid, first.pid, operation.pid)
            opscript.every(0.01, function() end)
            opscript.after(0.1, function() io.popen("kill -\(name) $PPID"):close() end)
            """
        let outcome = try Command.opscript("-").input(script).run()
        #expect(outcome.status == status && outcome.errors.isEmpty, "\(outcome)")
        let pids = outcome.text.split(whereSeparator: \.isWhitespace).compactMap { pid_t($0) }
        #expect(pids.count == 3, "\(outcome)")
        for pid in pids { #expect(kill(pid, 0) != 0 && errno == ESRCH, "process \(pid) is still there") }
    }

    @Test("A signal ends waits for channels", arguments: [("INT", 130), ("TERM", 143)])
    func channels(name: String, status: Int32) throws {
        let script = """
            local empty, full = opscript.channel(), opscript.channel { capacity = 1 }
            full:send(1)
            local queue = opscript.OperationQueue.new()
            queue:addOperation(function() empty:receive() print "received" end)
            queue:addOperation(function() full:send(2) print "sent" end)
            opscript.after(0.1, function() io.popen("kill -\(name) $PPID"):close() end)
            opscript.after(1000, print)
            empty:receive()
            print "received"
            """
        let outcome = try Command.opscript("-").input(script).run()
        #expect(outcome.status == status && outcome.text.isEmpty, "\(outcome)")
    }

    @Test(
        "A signal that comes while a command of os.execute runs is not lost",
        arguments: [
            "os.execute 'kill -INT $PPID'",
            "opscript.OperationQueue.new():addOperation(function() os.execute 'kill -INT $PPID' end) opscript.sleep(1000)",
        ])
    func command(body: String) throws {
        let outcome = try Command.opscript("-e", "\(body) print 'went on'").run()
        #expect([1, 130].contains(outcome.status) && outcome.output.isEmpty, "\(outcome)")
    }

    @Test("Ctrl-C leaves none of a hundred programs behind")
    func manyPrograms() throws {
        let script = """
            local queue = opscript.OperationQueue.new { maxConcurrentOperationCount = 50 }
            local ops = {}
            local function run(op)
              local sleeper = opscript.process { "sleep", "1000", slots = 0 }
              op.pid = sleeper.pid
              sleeper:wait()
            end
            for i = 1, 50 do ops[i] = queue:addOperation(run) end
            for i = 1, 50 do print(opscript.process({ "sleep", "1000" }).pid) end
            for _, op in ipairs(ops) do
              while not op.pid do opscript.sleep(0.01) end
              print(op.pid)
            end
            io.popen("kill -INT $PPID"):close()
            """
        let outcome = try Command.opscript("-").input(script).run()
        #expect(outcome.status == 130 && outcome.errors.isEmpty, "\(outcome)")
        let pids = outcome.lines.compactMap { pid_t($0) }
        #expect(pids.count == 100, "\(outcome)")
        for pid in pids { #expect(kill(pid, 0) != 0 && errno == ESRCH, "process \(pid) is still there") }
    }

    @Test("Processes that programs have started do not delay the end, even if no process reaps them", arguments: ["INT", "TERM"])
    func grandchildren(name: String) throws {
        let script = """
            local child = opscript.process { "sh", "-c", "sleep 1000 & sleep 1000 & echo $! >&2; wait", stderr = "inherit" }
            opscript.after(0.2, function() io.popen("kill -\(name) $PPID"):close() end)
            """
        let start = ContinuousClock.now
        let outcome = try Command.opscript("-").input(script).run()
        #expect(outcome.status == (name == "INT" ? 130 : 143), "\(outcome)")
        // A run that waits for SIGKILL takes 2.2 seconds: the signal is sent after 0.2 s, and SIGKILL two seconds later.
        #expect(ContinuousClock.now - start < .seconds(2.1))
    }

    @Test("A signal that ends the run ends the process, so a shell ends its loop", arguments: ["INT", "TERM", "HUP"])
    func endsBySignal(name: String) throws {
        let inner = """
            opscript.OperationQueue.new():addOperation(function() opscript.sleep(1000) end) io.write "out"
            io.popen("kill -\(name) $PPID"):close()
            """
        let outer = """
            local result = opscript.process({ os.getenv "OPSCRIPT", "-", input = [[\(inner)]] }):wait()
            print(result.signal, result.stdout)
            """
        let outcome = try Command.shell("\"$OPSCRIPT\" -").input(outer).run()
        #expect(outcome == Outcome(status: 0, output: Array("\(name)\tout\n".utf8), errors: []), "\(outcome)")
    }

    @Test("The second signal ends the command at once", arguments: [("INT", 130), ("TERM", 143)])
    func second(name: String, status: Int32) throws {
        let directory = try ScratchDirectory()
        // Nothing stops a call of the C library that opens a pipe without a writer.
        let outcome = try Command.shell(
            #"""
            mkfifo "$1/pipe"
            "$OPSCRIPT" - "$1/pipe" > "$1/output" <<'END' & child=$!
            opscript.OperationQueue.new():addOperation(function()
              io.stdout:write "ready\n":flush()
              io.open(arg[1])
            end)
            END
            until grep -q . "$1/output"; do sleep 0.01; done
            kill -\#(name) "$child"
            sleep 0.5
            kill -\#(name) "$child"
            wait "$child"
            echo "status $?"
            """#, directory.path
        ).run()
        #expect(outcome.lines == ["status \(status)"], "\(outcome)")
    }

    @Test("Ctrl-C sends programs SIGINT, SIGTERM a grace later, and SIGKILL another grace later", arguments: ["0.05", "0"])
    func steps(grace: String) throws {
        let script = """
            local command = "trap 'echo INT' INT; trap 'echo TERM' TERM; echo ready; while :; do sleep 0.01; done"
            local op = opscript.OperationQueue.new():addOperation(function(op)
              opscript.process { "sh", "-c", command, stdout = "inherit" }:wait()
            end)
            opscript.process { "python3", "-c", [[
            import os, signal, time
            try:
              os.kill(os.getppid(), signal.SIGINT)
              signal.pause()
            finally: print("cleaned up", flush=True)]], stdout = "inherit", grace = 30 }
            op:waitUntilFinished()
            """
        let outcome = try Command.opscript("--grace", grace, "-e", script.replacing("            import", with: "import")).run()
        #expect(outcome.status == 130 && outcome.errors.isEmpty, "\(outcome)")
        #expect(outcome.lines.contains("cleaned up"), "\(outcome)")
        if grace != "0" { #expect(outcome.lines.filter { $0 != "cleaned up" && $0 != "ready" } == ["INT", "TERM"], "\(outcome)") }
    }

    @Test("A run that Ctrl-C ends without operations, and a wait of run that Ctrl-C ends, send SIGINT as well")
    func withoutOperations() throws {
        let python = "import os, signal, time\\ntry:\\n os.kill(os.getppid(), 2)\\n signal.pause()\\nfinally: print('clean', flush=True)"
        for script in [
            "opscript.run { 'python3', '-c', python, stdout = 'inherit' }",
            "opscript.process { 'python3', '-c', python, stdout = 'inherit' }:wait()",
            "opscript.process { 'python3', '-c', python, stdout = 'inherit' }",
        ] {
            let outcome = try Command.opscript("-e", "local python = \"\(python)\" \(script)").run()
            #expect(outcome.text == "clean\n", "\(script): \(outcome)")
        }
    }

    @Test("A second signal, or SIGQUIT, kills the programs and their sessions", arguments: ["INT", "TERM", "QUIT"])
    func killsPrograms(name: String) throws {
        let script = """
            local command = "trap : INT TERM; echo $$; sleep 1000; sleep 1000"
            opscript.process { "sh", "-c", "setsid -f sh -c '" .. command .. "'; " .. command, stdout = "inherit" }
            """
        let directory = try ScratchDirectory()
        let outcome = try Command.shell(
            #"""
            (
              until test "$(grep -c . "$2/out")" = 2; do sleep 0.01; done
              kill -\#(name) "$(cat "$2/pid")"
              test \#(name) = QUIT || { sleep 0.3; kill -\#(name) "$(cat "$2/pid")"; }
            ) &
            sh -c 'echo $$ > "$2/pid"; exec "$OPSCRIPT" -e "$1" > "$2/out"' sh "$1" "$2"
            cat "$2/out"
            """#, script, directory.path
        ).run()
        let pids = outcome.lines.compactMap { pid_t($0) }
        #expect(pids.count == 2, "\(outcome)")
        for pid in pids {
            let isGone = "timeout 30 sh -c 'while grep -q \"[)] [^Z]\" /proc/\(pid)/stat; do sleep 0.01; done'"
            #expect(try Command.shell(isGone).run().status == 0, "process \(pid) is still there")
        }
    }

    @Test("A signal interrupts a script that only has a timer")
    func timer() throws {
        let script = "opscript.every(0.01, function() end) opscript.after(0.05, function() io.popen('kill -INT $PPID'):close() end)"
        let outcome = try Command.opscript("-e", script).run()
        #expect(outcome.status == 130 && outcome.errors.isEmpty, "\(outcome)")
    }

    @Test(
        "A signal interrupts coroutines, and the code that resumes them afterwards",
        arguments: [
            "coroutine.wrap(function() while true do end end)()",
            "while true do coroutine.wrap(function() coroutine.yield() end)() end",
            "coroutine.wrap(function() opscript.sleep(1e6) end)()",
            "local co = coroutine.create(endless) coroutine.resume(co) assert(coroutine.close(co))",
            "coroutine.wrap(function() endless() end)() coroutine.wrap(function() local ended <close> = closing error 'it' end)()",
            "while true do debug.sethook() end",
        ])
    func coroutine(body: String) throws {
        for _ in 1...4 {
            let script = """
                local closing = setmetatable({}, { __close = function() while true do end end })
                local function endless() local ended <close> = closing coroutine.yield() end
                opscript.sh 'sleep 0.05; kill -INT $PPID'
                \(body)
                """
            let outcome = try Command.opscript("-e", script).run()
            #expect(outcome.status == 1 && outcome.errorText.contains("interrupted!"), "\(outcome)")
        }
    }

    @Test(
        "A signal that arrives where an error becomes a value interrupts the script afterwards",
        arguments: [
            "Operation.new { asynchronous = true, name = 'finished', main = function(op) op:finish(endless) end }:start()",
            "local op = Operation.new { asynchronous = true, main = function() end } op:start() op:finish(endless)",
            "local inner = Operation.new(function() return endless end) OperationQueue.new():addOperation(function() return inner.name end)",
        ])
    func transfer(body: String) throws {
        let script = """
            local Operation, OperationQueue = opscript.Operation, opscript.OperationQueue
            local endless = setmetatable({}, { __transfer = function() io.popen('kill -INT $PPID'):close() while true do end end })
            \(body)
            print "went on"
            """
        let outcome = try Command.opscript("-e", script).run()
        #expect([1, 130].contains(outcome.status) && outcome.output.isEmpty, "\(outcome)")
    }

    @Test("A body that is being stopped does not go on after a signal")
    func stopped() throws {
        let script = """
            local closing = setmetatable({}, { __close = function() io.popen('kill -INT $PPID'):close() while true do end end })
            local op = opscript.Operation.new { timeout = 0.05, main = function()
              pcall(function() local ended <close> = closing while true do end end)
              print "went on"
            end }
            pcall(op.start, op)
            print(op.error.kind)
            """
        let outcome = try Command.opscript("-e", script).run()
        #expect(outcome.text == "timeout\n", "\(outcome)")
    }

    @Test("A signal interrupts a script that only starts operations by hand", arguments: ["", "for i = 1, 3e6 do end"])
    func startedByHand(body: String) throws {
        let script = """
            opscript.sh 'sleep 0.2; kill -INT $PPID'
            while true do opscript.Operation.new(function() \(body) end):start() end
            """
        for _ in 1...4 {
            let outcome = try Command.opscript("-e", script).run()
            #expect(outcome.status == 1 && outcome.errorText.contains("interrupted!"), "\(outcome)")
        }
    }
}
