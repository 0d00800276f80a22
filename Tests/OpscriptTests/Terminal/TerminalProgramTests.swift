import Glibc
import Testing

/// Programs, and the keys of a terminal that shells turn into signals.
@Suite("Programs on a terminal")
struct TerminalProgramTests {
    private static func start(_ script: String, arguments: String = "", columns: Int = 160) throws -> Terminal {
        let home = try ScratchDirectory()
        let file = try home.write(script, to: "script.lua")
        let terminal = try Terminal(columns: columns, home: home)
        try terminal.enter("cd \(home.path); clear; \"$OPSCRIPT\" \(arguments) \(file)")
        return terminal
    }

    /// The numbers in the rows that begin with `pids`.
    private static func pids(in rows: [String]) -> [pid_t] {
        rows.filter { $0.hasPrefix("pids") }.flatMap { $0.split(separator: " ").compactMap { pid_t($0) } }
    }

    /// The state of a process in `/proc`; nil if it has ended.
    private static func state(of pid: pid_t) -> Character? {
        let text = ScratchFile.contents(of: "/proc/\(pid)/stat")
        let state = text.flatMap { $0.split(separator: ")").last?.dropFirst().first }
        return state == "Z" ? nil : state
    }

    private static func await(_ pids: [pid_t], _ isWanted: (Character?) -> Bool) throws {
        let end = ContinuousClock.now + .seconds(30)
        for pid in pids {
            while !isWanted(state(of: pid)) {
                if ContinuousClock.now > end {
                    throw CommandError(description: "process \(pid) is \(state(of: pid).map(String.init) ?? "gone")")
                }
                sched_yield()
            }
        }
    }

    // MARK: terminal = true

    @Test("Programs with terminal = true have the terminal, one at a time", arguments: ["", "--progress"])
    func oneAtATime(arguments: String) throws {
        let terminal = try Self.start(
            """
            local queue = opscript.OperationQueue.new { maxConcurrentOperationCount = 4 }
            for i = 1, 4 do queue:addOperation(function() opscript.sleep(1e6) end) end
            queue.isSuspended = false
            local ops = {}
            local asking = opscript.OperationQueue.new { maxConcurrentOperationCount = 2 }
            for i = 1, 2 do
              ops[i] = asking:addOperation(function()
                return opscript.run { "bash", "-c", "read -p 'name: ' x; read -s -p 'secret: ' y < /dev/tty; echo $x $y", terminal = true }
              end)
            end
            asking:waitUntilAllOperationsAreFinished()
            local results = { ops[1].result, ops[2].result }
            table.sort(results)
            print(table.concat(results, ", "))
            os.exit(0)
            """, arguments: arguments)
        for name in ["one", "two"] {
            try terminal.expect { $0.last?.hasSuffix("name:") == true }
            try terminal.enter(name)
            try terminal.expect { $0.last?.hasSuffix("secret:") == true }
            try terminal.enter("s")
        }
        try terminal.expect { $0.contains { $0.hasSuffix("one s, two s") } }
        try terminal.expectShell(status: 0)
    }

    @Test(
        "A program that draws has the screen, and the modes of the terminal are restored",
        arguments: ["vi -c q script.lua", "less script.lua"])
    func draws(command: String) throws {
        let words = command.split(separator: " ").map { "'\($0)'" }.joined(separator: ", ")
        let terminal = try Self.start("opscript.run { \(words), terminal = true, stdout = 'inherit' }", columns: 80)
        if command.hasPrefix("less") {
            try terminal.expect { $0.last == "script.lua (END)" }
            try terminal.type("q")
        }
        try terminal.expectShell(status: 0)
    }

    @Test("At the prompt, a program of an operation gets the terminal, and the prompt returns")
    func prompt() throws {
        let terminal = try Terminal()
        try terminal.startPrompt()
        try terminal.evaluate("queue = opscript.OperationQueue.new()")
        try terminal.enter(
            "op = queue:addOperation(function() return opscript.run { 'bash', '-c', 'read -p name: x; echo $x', terminal = true } end)")
        try terminal.expect { $0.last == "name:" }
        try terminal.enter("hello")
        try terminal.expect { $0.last == ">" }
        try terminal.enter("op.result")
        try terminal.expect(last: "hello", ">")
        try terminal.press("C-d")
        try terminal.expectShell(status: 0)
    }

    @Test(
        "A program that uses the terminal without having it fails at once and says what to do",
        arguments: [
            "opscript.run \"printf 'password: ' > /dev/tty; read x < /dev/tty\"", "opscript.run { 'stty', '-F', '/dev/tty', '-echo' }",
            "opscript.run { 'less', arg[0], stdout = 'inherit' }",
        ])
    func refused(statement: String) throws {
        let terminal = try Self.start("print(select(2, pcall(function() \(statement) end)))")
        try terminal.expect { $0.contains { $0.hasSuffix(" wants the terminal: pass terminal = true") } }
        try terminal.expectShell(status: 0)
    }

    @Test("sudo -n ends by itself, without the terminal")
    func sudo() throws {
        let terminal = try Self.start("print('ended', select(2, pcall(opscript.run, { 'sudo', '-n', '-k', 'true' })))")
        try terminal.expect { $0.contains { $0.hasPrefix("ended") } }
        #expect(try !terminal.rows.contains { $0.contains("wants the terminal") })
        try terminal.expectShell(status: 0)
    }

    @Test("The terminal returns from a shell that was killed while one of its jobs had the terminal")
    func subgroup() throws {
        let terminal = try Self.start(
            """
            local program = opscript.process { "bash", "-ic", "sleep 1000; :", terminal = true, stdout = "inherit" }
            local job
            repeat
              local stat = io.open("/proc/" .. program.pid .. "/stat")
              job = stat:read("a"):match "%) %a %d+ %d+ %d+ %d+ (%d+)"
              stat:close()
            until job ~= tostring(program.pid) and opscript.run { "ps", "-o", "comm=", "-p", job } == "sleep"
            program:kill "KILL"
            program:wait()
            io.write "name: "
            print("got " .. io.read())
            os.execute("kill " .. job)
            """)
        try terminal.expect { $0.last?.hasSuffix("name:") == true }
        try terminal.enter("one")
        try terminal.expect { $0.contains("got one") }
        try terminal.expectShell(status: 0)
    }

    @Test("A program that another signal has stopped is left alone")
    func leftAlone() throws {
        let terminal = try Self.start(
            """
            local program = opscript.sh "kill -STOP $$; kill -TSTP $$; echo ok"
            for i = 1, 2 do
              repeat
                assert(program:wait(0.2) == nil)
                local stat = io.open("/proc/" .. program.pid .. "/stat")
              until stat:read("a"):match "%) (%a)" == "T"
              program:kill "CONT"
            end
            print(program:wait().stdout)
            """)
        try terminal.expect { $0.contains("ok") }
        try terminal.expectShell(status: 0)
    }

    @Test("A process in the background, or without a terminal, cannot lend it")
    func cannotLend() throws {
        let script = "print(select(2, pcall(opscript.run, { 'cat', terminal = true })))"
        let terminal = try Self.start(script, arguments: "/dev/null &")
        try terminal.enter("clear; \"$OPSCRIPT\" script.lua &")
        try terminal.expect { $0.contains { $0.contains("this process is in the background: bring it to the foreground (fg)") } }
        let outcome = try Command(program: "setsid", name: "setsid", arguments: ["-w", Paths.opscript, "-e", script]).run()
        #expect(outcome.text == "cannot start 'cat' with terminal = true: this process has no terminal\n", "\(outcome)")
    }

    @Test("Ctrl-C that ends the program on the terminal ends the run")
    func interrupted() throws {
        let terminal = try Self.start(
            """
            opscript.OperationQueue.new():addOperation(function()
              opscript.run { "bash", "-c", "read -p 'name: '", terminal = true }
            end):waitUntilFinished()
            """)
        try terminal.expect { $0.last == "name:" }
        try terminal.press("C-c")
        try terminal.expect { $0.last?.hasSuffix("$") == true }
        try terminal.enter("echo status $?")
        // The operation may have ended before the script is interrupted: the status is then that of its error.
        try terminal.expect { ["status 130", "status 1"].contains($0.dropLast().last) && $0.last == "$" }
    }

    // MARK: Ctrl-Z

    @Test("Ctrl-Z stops the programs, fg continues them, and no time limit counts the time between")
    func stopped() throws {
        let terminal = try Self.start(
            """
            os.execute "mkfifo go"
            local op = opscript.Operation.new { timeout = 3, main = function()
              local program = opscript.sh { "sleep 1000 & echo pids $$ $!; read x < go; kill $!; echo $x", stdout = "inherit", timeout = 3 }
              assert(program:wait().status == 0)
            end }
            opscript.OperationQueue.new():addOperation(op)
            op:waitUntilFinished()
            print(op.error or "fine")
            """, arguments: "--timeout 3 --progress=never")
        try terminal.expect { !Self.pids(in: $0).isEmpty }
        let pids = Self.pids(in: try terminal.rows)
        #expect(pids.count == 2)
        try terminal.press("C-z")
        try terminal.expect { $0.last == "$" && $0.contains { $0.contains("Stopped") } }
        try Self.await(pids) { $0 == "T" }
        let end = ContinuousClock.now + .seconds(3)
        try terminal.expect { _ in ContinuousClock.now > end }
        try terminal.enter("fg")
        try Self.await(pids) { $0 == "S" }
        try terminal.press("C-z")
        try terminal.expect { $0.last == "$" && $0.filter { $0.contains("Stopped") }.count == 2 }
        try terminal.enter("(echo gone > go &); fg")
        try terminal.expect { $0.contains("fine") }
        try terminal.expectShell(status: 0)
    }

    @Test("Ctrl-Z stops the run when a program has the terminal, and fg gives the terminal back to it")
    func stoppedOnTheTerminal() throws {
        let terminal = try Self.start("print(opscript.run { 'bash', '-c', 'read -s -p name: x; echo got $x', terminal = true })")
        try terminal.expect { $0.last == "name:" }
        try terminal.press("C-z")
        try terminal.expect { $0.last == "$" && $0.contains { $0.contains("Stopped") } }
        try terminal.enter("stty -a | grep -ow -e '-*echo'")
        try terminal.expect(last: "echo", "$")
        try terminal.enter("fg")
        try terminal.expect { $0.last?.contains("script.lua") == true }
        try terminal.enter("hello")
        try terminal.expect { $0.contains { $0.hasSuffix("got hello") } }
        try terminal.expectShell(status: 0)
    }

    // MARK: the end

    @Test("Ctrl-\\ leaves no program behind", arguments: ["--progress", "--progress=never"])
    func quit(arguments: String) throws {
        let terminal = try Self.start(
            """
            local command = "setsid -f sh -c 'echo pids $$; exec sleep 1000'; trap '' TERM INT QUIT; sleep 1000 & echo pids $$ $!; wait"
            opscript.process { "sh", "-c", command, stdout = "inherit" }
            opscript.OperationQueue.new():addOperation(function() opscript.run { "sh", "-c", command, stdout = "inherit" } end):waitUntilFinished()
            """, arguments: arguments)
        try terminal.expect { Self.pids(in: $0).count == 6 }
        let pids = Self.pids(in: try terminal.rows)
        try terminal.press("C-\\")
        try terminal.expect { $0.last == "$" }
        try Self.await(pids) { $0 == nil }
        try terminal.enter("stty -a | grep -ow -e '-*echo'")
        try terminal.expect(last: "echo", "$")
    }
}

extension ScratchFile {
    /// The contents of any file as text; nil if it cannot be read.
    fileprivate static func contents(of path: String) -> String? {
        guard let file = unsafe fopen(path, "r") else { return nil }
        defer { unsafe fclose(file) }
        var bytes = [UInt8](repeating: 0, count: 4096)
        let count = unsafe fread(&bytes, 1, bytes.count, file)
        return String(decoding: bytes[..<count], as: UTF8.self)
    }
}
