import Glibc
import Testing

@Suite("Progress on a terminal")
struct ProgressTests {
    /// 40 operations. Four of them wait for a file. They print the lines "line 1" to "line 40".
    private static let script = """
        local directory = os.getenv 'XDG_STATE_HOME'
        local queue = opscript.OperationQueue.new { maxConcurrentOperationCount = 2 }
        for i = 1, 40 do
          queue:addOperation(opscript.Operation.new { name = '日本 job ' .. i, arguments = { directory, i }, main = function(op, directory, i)
            while i % 10 == 0 and not io.open(directory .. '/go' .. i) do opscript.sleep(0.01) end
            print('line ' .. i)
            if i == 7 then error 'broken' end
          end })
        end
        """

    private static func directory() throws -> (ScratchDirectory, script: String) {
        let home = try ScratchDirectory()
        return (home, try home.write(script, to: "script.lua"))
    }

    @Test("A row shows what is done, what failed and what runs; lines scroll above it; it goes at the end", arguments: [80, 30])
    func row(columns: Int) throws {
        let (home, script) = try Self.directory()
        let terminal = try Terminal(columns: columns, home: home)
        try terminal.enter("clear; \"$OPSCRIPT\" --progress \(script); echo ended")
        try terminal.touch("go10")
        try terminal.touch("go20")
        try terminal.touch("go30")
        let bar = columns == 80 ? "[#######################.] " : ""
        try terminal.expect { rows in
            rows.dropLast().contains("line 39") && rows.last?.hasPrefix(bar + "39/40 1 failed") == true
                && rows.last?.contains("日") == true
        }
        try terminal.resize(columns: columns + 10)
        try terminal.expect { $0.last?.contains("39/40 1 failed") == true }
        try terminal.touch("go40")
        try terminal.expect { $0.suffix(2) == ["ended", "$"] && !$0.contains { $0.contains("39/40") } }
    }

    @Test("Ctrl-C leaves a clean terminal, also a second one", arguments: [1, 2])
    func interrupted(times: Int) throws {
        let home = try ScratchDirectory()
        let terminal = try Terminal(home: home)
        let wait = times == 1 ? "opscript.sleep(1000)" : "local file = io.popen 'trap \"\" INT; exec sleep 1000' file:read()"
        let script = try home.write(
            "opscript.OperationQueue.new():addOperation(function() opscript.sleep(1000) end) print 'begun' \(wait)", to: "script.lua")
        try terminal.enter("clear; \"$OPSCRIPT\" \(script)")
        try terminal.expect { $0.last?.contains("0/1") == true }
        try terminal.press("C-c")
        if times == 2 {
            // Signals within a fifth of a second are one request.
            let end = ContinuousClock.now + .milliseconds(300)
            try terminal.expect { _ in ContinuousClock.now > end }
            try terminal.press("C-c")
        }
        try terminal.expectShell(status: 130)
        let rows = try terminal.rows
        #expect(rows.contains("begun") && !rows.contains { $0.contains("0/1") }, "\(rows)")
    }

    @Test(
        "Nothing is drawn where it is not wanted",
        arguments: ["\"$0\" --progress=never \"$1\"", "\"$0\" \"$1\" 2>\"$1.errors\"", "TERM=dumb \"$0\" \"$1\""])
    func notWanted(line: String) throws {
        let home = try ScratchDirectory()
        let script = try home.write(
            """
            opscript.OperationQueue.new():addOperation(function() opscript.sleep(1.5) end):waitUntilFinished()
            os.execute 'tty <&1'
            """, to: "script.lua")
        let terminal = try PseudoTerminal(["-c", "tty; " + line, Paths.opscript, script], program: "/bin/sh", home: home)
        #expect(terminal.finish() == 0)
        let text = String(decoding: terminal.output, as: UTF8.self)
        let names = text.split(whereSeparator: \.isNewline)
        #expect(names.count == 2 && names.first == names.last && text.hasPrefix("/dev/"), "\(text.debugDescription)")
    }

    @Test("Elsewhere than on a terminal, always means plain lines, at most one a second, and auto nothing")
    func plainLines() throws {
        let script = """
            local queue = opscript.OperationQueue.new { maxConcurrentOperationCount = 1 }
            for i = 1, 50 do queue:addOperation(opscript.Operation.new { name = 'job ' .. i, main = function() opscript.sleep(0.05) end }) end
            """
        let start = ContinuousClock.now
        let outcome = try Command.opscript("--progress=always", "-e", script).run()
        let seconds = Int((ContinuousClock.now - start).components.seconds)
        let lines = outcome.errorText.split(separator: "\n")
        #expect(outcome.status == 0 && (1...seconds).contains(lines.count), "\(outcome)")
        #expect(lines.allSatisfy { $0.hasPrefix("opscript: ") && $0.contains("/50 operations done, running job ") }, "\(outcome)")
        #expect(try Command.opscript("--progress=auto", "-e", script).run().errors.isEmpty)
    }

    @Test("A wrong word is an error that says what there is")
    func wrongWord() throws {
        let outcome = try Command.opscript("--progress=often").run()
        #expect(outcome.status == 1 && outcome.errorText.contains("after '--progress=' comes auto, always or never"), "\(outcome)")
    }

    @Test("Everything that is printed while the row is drawn arrives, in order")
    func complete() throws {
        let home = try ScratchDirectory()
        let script = try home.write(
            """
            opscript.OperationQueue.new():addOperation(function()
              opscript.sleep(1.2)
              for i = 1, 20000 do print('line ' .. i) end
            end)
            """, to: "script.lua")
        let terminal = try PseudoTerminal([script], home: home)
        #expect(terminal.finish() == 0)
        let isComplete = terminal.lines(beginning: "line ") == (1...20000).map { "line \($0)" }
        #expect(isComplete)
    }
}
