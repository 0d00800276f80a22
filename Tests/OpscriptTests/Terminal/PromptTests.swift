import Glibc
import Testing

@Suite("The prompt on a terminal")
struct PromptTests {
    @Test("Expressions print their values, and incomplete input continues", arguments: [80, 30])
    func evaluates(columns: Int) throws {
        let terminal = try Terminal(columns: columns)
        try terminal.startPrompt()
        try terminal.enter("1 + 1, 'a'")
        try terminal.expect(last: "2\ta".replacing("\t", with: "       "), ">")
        try terminal.enter("for i = 1, 2 do")
        try terminal.expect { $0.last == ">>" }
        try terminal.enter("print(i * 7) end")
        try terminal.expect(last: "7", "14", ">")
        try terminal.enter("_PROMPT = 'now> '")
        try terminal.expect { $0.last == "now>" }
        try terminal.press("C-d")
        try terminal.expectShell(status: 0)
    }

    @Test("A line is edited with the arrow keys, also one with wide characters", arguments: [80, 30])
    func edits(columns: Int) throws {
        let terminal = try Terminal(columns: columns)
        try terminal.startPrompt()
        try terminal.type("'日本'..#'日本語'")
        try terminal.press("Home", "Right", "Right")
        try terminal.type("新")
        try terminal.press("End", "Left", "BSpace")
        try terminal.type("ab")
        try terminal.press("Enter")
        try terminal.expect(last: "> '日新本'..#'日本ab'", "日新本8", ">")
    }

    @Test("A line longer than the terminal can be edited")
    func wraps() throws {
        let terminal = try Terminal(columns: 30)
        try terminal.startPrompt()
        try terminal.type("#'123456789012345678901234567890123456789'")
        try terminal.press("Home", "Delete", "Enter")
        try terminal.expect(last: "123456789012345678901234567890", "123456789", ">")
    }

    @Test("The history is there in the next session, and in that of a prompt that ended at the same time")
    func remembers() throws {
        let home = try ScratchDirectory()
        do {
            let (first, second) = (try Terminal(home: home), try Terminal(home: home))
            try first.startPrompt()
            try second.startPrompt()
            try first.enter("'first'")
            try second.enter("'second'")
            try first.expect(last: "first", ">")
            try second.expect(last: "second", ">")
            try first.press("C-d")
            try second.press("C-d")
            try first.expectShell(status: 0)
            try second.expectShell(status: 0)
        }
        let terminal = try Terminal(home: home)
        try terminal.startPrompt()
        try terminal.press("Up")
        try terminal.expect { ["> 'first'", "> 'second'"].contains($0.last) }
        try terminal.press("Up", "Enter")
        try terminal.expect { ["first", "second"].contains($0.dropLast().last) && $0.last == ">" }
        let file = Paths.read(home.path + "/opscript/history").map { String(decoding: $0, as: UTF8.self) } ?? ""
        #expect(file.contains("'first'\n") && file.contains("'second'\n"))
    }

    @Test("Tab completes globals, fields, methods, commands and file names, and calls nothing of the user's")
    func completes() throws {
        let home = try ScratchDirectory()
        try home.write("", to: "some/uncommon name.txt")
        let terminal = try Terminal(home: home)
        try terminal.startPrompt()
        let steps = [
            ("queue = opscript.OperationQueue.new 'z'", "", ""), ("queu", ":addB", "queue:addBarrierBlock"),
            ("string.forma", "", "string.format"), ("x = setmetatable({}, { __index = { inherited = 1 } })", "", ""),
            ("x.inh", "", "x.inherited"), ("('x'):re", "", "('x'):re"), ("queue.maxC", "", "queue.maxConcurrentOperationCount"),
            ("y = setmetatable({}, { __index = function() error 'called' end })", "", ""), ("y.anything", "", "y.anything"),
            ("loadfile '\(home.path)/some/unc", "", "loadfile '\(home.path)/some/uncommon name.txt"), (":qu", "eu", ":queues"),
        ]
        for (typed, more, completed) in steps {
            if completed.isEmpty {
                try terminal.evaluate(typed)
                continue
            }
            try terminal.type(typed)
            try terminal.press("Tab")
            try terminal.type(more)
            try terminal.press("Tab")
            try terminal.expect { $0.joined().hasSuffix("> " + completed) }
            try terminal.press("C-c")
            try terminal.expect { $0.last == ">" }
        }
        try terminal.type("queue:add")
        try terminal.press("Tab")
        try terminal.expect { $0.suffix(3).joined().contains("addBarrierBlock  addOperation     addOperations> queue:add") }
    }

    @Test("Ctrl-C stops what runs, or clears the line; a pasted one acts in its turn")
    func interrupts() throws {
        let terminal = try Terminal()
        try terminal.startPrompt()
        try terminal.enter("print 'begun' while true do end")
        try terminal.expect { $0.last == "begun" }
        try terminal.press("C-c")
        try terminal.expect { $0.last == ">" && $0.contains("stdin:1: interrupted!") }
        try terminal.type("half a line")
        try terminal.expect { $0.last == "> half a line" }
        try terminal.press("C-c")
        try terminal.expect(last: "> half a line^C", ">")
        try terminal.enter("function f(")
        try terminal.expect { $0.last == ">>" }
        try terminal.press("C-c")
        try terminal.enter("'still ' .. 'here'")
        try terminal.expect(last: "still here", ">")
        try terminal.enter("opscript.after(0.01, function() print 'timer' while true do end end) and nil")
        try terminal.expect { $0.contains("timer") }
        try terminal.press("C-c")
        try terminal.enter("'and ' .. 'here'")
        try terminal.expect(last: "and here", ">")
    }

    @Test("Ctrl-D asks once while operations are left, and then waits for them")
    func leaves() throws {
        let terminal = try Terminal()
        try terminal.startPrompt()
        try terminal.evaluate("gate = opscript.Operation.new { name = 'gate' }; queue = opscript.OperationQueue.new 'q'")
        try terminal.evaluate("op = opscript.Operation.new { name = 'job', dependencies = { gate }, main = function() print 'ran' end }")
        try terminal.evaluate("queue:addOperation(op) queue:addOperation(function() opscript.sleep(0.3) end)")
        try terminal.enter(":ops")
        try terminal.expect { rows in rows.contains { $0.hasPrefix("'job': waiting; it depends on 'gate'") } }
        try terminal.enter(":queues")
        try terminal.expect { rows in rows.contains { $0.hasPrefix("queue 'q': ") } }
        try terminal.press("C-d")
        try terminal.expect { rows in rows.contains { $0.contains("Ctrl-D again") } && rows.last == ">" }
        try terminal.enter("queue:addOperation(gate)")
        try terminal.expect { $0.contains("ran") && $0.last == ">" }
        try terminal.evaluate("queue:waitUntilAllOperationsAreFinished()")
        try terminal.press("C-d")
        try terminal.expectShell(status: 0)
    }

    @Test("What jobs, timers and programs print appears above the line being typed, in order", arguments: [80, 30])
    func isLive(columns: Int) throws {
        let terminal = try Terminal(columns: columns)
        try terminal.startPrompt()
        try terminal.evaluate("file = os.getenv('XDG_STATE_HOME') .. '/go'")
        try terminal.evaluate("queue, main = opscript.OperationQueue.new(), opscript.OperationQueue.main")
        // The body waits until the test makes a file, and then prints from a worker, a program, and the main state.
        try terminal.evaluate(
            "queue:addOperation(function() while not io.open(file) do opscript.sleep(0.01) end print 'worker 日本' os.execute 'echo program' "
                + "main:addOperation(function() print('main state') end) end) and nil")
        try terminal.type("'a 語 long enough line to wrap' .. 1")
        try terminal.press("Left", "Left", "Left", "Left", "Left", "Left")
        try terminal.expect { $0.joined().hasSuffix("wrap' .. 1") }
        let column = 32 % columns
        try terminal.expectCursor(column: column)
        try terminal.touch("go")
        try terminal.expect { rows in
            guard let first = rows.lastIndex(of: "worker 日本"), rows.count > first + 3 else { return false }
            return rows[first + 1] == "program" && rows[first + 2] == "main state"
                && rows[(first + 3)...].joined() == "> 'a 語 long enough line to wrap' .. 1"
        }
        try terminal.expectCursor(column: column)
        try terminal.type("!")
        try terminal.press("Enter")
        try terminal.expect { $0.joined().hasSuffix("a 語 long enough line to wrap!1>") }
    }

    @Test("Ctrl-Z stops the prompt and fg brings the line back")
    func suspends() throws {
        let terminal = try Terminal()
        try terminal.startPrompt()
        try terminal.type("6 * 7")
        try terminal.expect { $0.last == "> 6 * 7" }
        try terminal.press("C-z")
        try terminal.expectShell(status: 148)
        try terminal.enter("fg")
        try terminal.expect { $0.last == "> 6 * 7" }
        try terminal.press("Enter")
        try terminal.expect(last: "42", ">")
    }

    @Test("A resized terminal shows the line once")
    func resizes() throws {
        let terminal = try Terminal()
        try terminal.startPrompt()
        try terminal.type("'one two three four five six seven'")
        try terminal.expect { $0.last == "> 'one two three four five six seven'" }
        try terminal.resize(columns: 30)
        try terminal.type(" ..  ''")
        try terminal.expect { $0.suffix(2) == ["> 'one two three four five six", " seven' ..  ''"] }
        try terminal.press("Enter")
        try terminal.enter("os.execute('stty size <&1') and nil")
        try terminal.expect { $0.contains("24 30") }
    }

    @Test(
        "The terminal is as it was after the end",
        arguments: [
            ("os.exit(3)", 3), ("opscript.after(0, function() os.exit(4) end) and nil", 4),
            ("opscript.OperationQueue.new():addOperation(function() os.exit(5) end) and nil", 5), (":quit", 0),
            ("os.execute('kill -TERM ' .. io.open('/proc/self/stat'):read('n')) and nil", 143),
            ("os.execute('sleep 0.1; kill -HUP ' .. io.open('/proc/self/stat'):read('n') .. ' &') and nil", 129),
            ("opscript.after(0, function() os.execute('kill -ABRT ' .. io.open('/proc/self/stat'):read('n')) end) and nil", 134),
        ])
    func restores(line: String, status: Int) throws {
        let terminal = try Terminal(environment: ["SWIFT_BACKTRACE": "enable=no"])
        try terminal.startPrompt("-i -e 'print(\"be\" .. \"fore\")'")
        try terminal.enter(line)
        try terminal.expectShell(status: status)
    }

    @Test("Nothing that was printed before the end is lost", arguments: ["os.exit(0, true)", "os.exit(0)", "error 'x'"])
    func drains(end: String) throws {
        let home = try ScratchDirectory()
        let terminal = try PseudoTerminal(["-i"], home: home)
        try terminal.read { $0.contains("> ") }
        terminal.type("for i = 1, 20000 do print('line ' .. i) end \(end)\n")
        if end.hasPrefix("error") {
            try terminal.read { $0.contains("stdin:1: x") }
            terminal.type("os.exit(0)\n")
        }
        #expect(terminal.finish() == 0)
        let isComplete = terminal.lines(beginning: "line ") == (1...20000).map { "line \($0)" }
        #expect(isComplete)
    }

    @Test("An error shows the line with a caret, and a traceback without frames that say nothing")
    func errors() throws {
        let terminal = try Terminal()
        try terminal.startPrompt()
        try terminal.enter("local x = y.z")
        try terminal.expect(last: "stdin:1: attempt to index a nil value (global 'y')", "  local x = y.z", "            ^", ">")
        try terminal.enter("1 + + 2")
        try terminal.expect(last: "stdin:2: unexpected symbol near '1'", "  1 + + 2", "  ^", ">")
        try terminal.evaluate("function f() error 'broken' end")
        try terminal.enter("f()")
        try terminal.expect(
            last: "stdin:3: broken", "  function f() error 'broken' end", "stack traceback:", "        stdin:3: in function 'f'", ">")
        try terminal.evaluate("print = nil")
        try terminal.enter("1")
        try terminal.expect { rows in rows.contains("error calling 'print' (attempt to call a nil value)") }
    }

    @Test("Tables, operations and queues print readably")
    func values() throws {
        let terminal = try Terminal()
        try terminal.startPrompt()
        let steps = [
            ("{ 1, 'two', { b = 2, a = 1, ['c d'] = {} } }", "{ 1, \"two\", { a = 1, b = 2, [\"c d\"] = {} } }"),
            ("t = { n = 1 }; t.t = t; return t", "{ n = 1, t = <cycle> }"), ("{ { { { { 5 } } } } }", "{ { { { {…} } } } }"),
            ("setmetatable({}, { __tostring = function() return 'mine' end })", "mine"), ("'a\\tb' .. 1, nil", "a       b1      nil"),
            ("op = opscript.Operation.new { name = 'six', main = function() return 6, 'x' end }", nil), ("op:start()", nil),
            ("opscript.freeze { 1, a = { 'x' } }", "frozen { 1, a = frozen { \"x\" } }"),
            ("op", "Operation 'six' (finished) → 6, \"x\""), ("opscript.OperationQueue.new 'q'", "OperationQueue 'q' (0 operations)"),
        ]
        for (line, shown) in steps {
            try terminal.evaluate(line)
            if let shown { try terminal.expect(last: shown, ">") }
        }
    }

    @Test("Commands say what they do, and an unknown one what there are")
    func commands() throws {
        let terminal = try Terminal()
        try terminal.startPrompt()
        try terminal.enter(":halp")
        try terminal.expect { $0.contains { $0.hasPrefix("there is no command ':halp'; there are :help, :ops, :queues, :why NAME") } }
        try terminal.expect { $0.last == ">" }
        try terminal.enter(":time 6 * 7")
        try terminal.expect { $0.dropLast(2).last == "42" && $0.dropLast().last?.hasPrefix("0.0") == true }
        try terminal.enter(":load /nonexistent")
        try terminal.expect { rows in rows.contains { $0.hasPrefix("cannot open /nonexistent") } && rows.last == ">" }
        try terminal.enter(":load")
        try terminal.expect(last: "usage: :load FILE", ">")
        try terminal.enter(":doc op:cancel")
        try terminal.expect { $0.contains("Operation:cancel()") && $0.contains { $0.hasPrefix("  Sets `isCancelled`") } && $0.last == ">" }
        try terminal.enter(":doc opscript.nothing")
        try terminal.expect(last: "nothing in opscript is called 'opscript.nothing'; Tab completes names", ">")
    }

    @Test("A local variable stays for the next lines, and travels; one in a block does not stay")
    func locals() throws {
        let terminal = try Terminal()
        try terminal.startPrompt()
        let steps = [
            ("local x, y <const> = 5, 6", nil), ("x + y", "11"), ("_ * 2", "22"), ("local x = x + 1 -- a comment", nil), ("x", "6"),
            ("local function fact(n) return n < 2 and 1 or n * fact(n - 1) end", nil), ("fact(5)", "120"),
            ("opscript.OperationQueue.new():addOperation(function() return x, fact(3) end):get()", "6       6"),
            ("do local z = 1 end; return z", "nil"), ("local print = print; print 'local q'", "local q"), ("q", "nil"),
            ("local u local v = 3 u = v; return u", "3"), ("x = x + 1; return x", "7"),
            ("local c <close> = setmetatable({}, { __close = function() print 'closed' end })", "closed"), ("c", "nil"),
            ("local s = [[ local t = 1 ]]", nil), ("s .. type(t)", " local t = 1 nil"),
        ]
        for (line, shown) in steps {
            try terminal.evaluate(line)
            if let shown { try terminal.expect(last: shown, ">") }
        }
        try terminal.type("fac")
        try terminal.press("Tab")
        try terminal.expect { $0.last == "> fact" }
    }

    @Test("A failure that no line has read is told once, above the line being typed")
    func failures() throws {
        let terminal = try Terminal()
        try terminal.startPrompt()
        try terminal.evaluate("queue, channel = opscript.OperationQueue.new(), opscript.channel()")
        try terminal.evaluate("queue:addOperation(function() channel:receive() error 'no such thing' end) and nil")
        try terminal.evaluate("opscript.after(0.1, function() channel:send(1) end) and nil")
        try terminal.type("half a line")
        try terminal.expect { rows in rows.contains("stdin:2: no such thing") && rows.last == "> half a line" }
        try terminal.press("C-c")
        try terminal.evaluate("local op = queue:addOperation(function() error 'read' end); pcall(op.get, op)")
        try terminal.press("C-d")
        try terminal.expectShell(status: 0)
    }

    @Test("A pasted text is text: a tab in it completes nothing")
    func paste() throws {
        let terminal = try Terminal()
        try terminal.startPrompt()
        try terminal.paste("tos\t\t= 1\ntos")
        try terminal.expect { $0.last == "> tos" }
        try terminal.press("Enter")
        try terminal.expect(last: "1", ">")
        try terminal.evaluate("type(tostring)")
        try terminal.expect(last: "function", ">")
    }

    @Test("Ctrl-C in a search leaves the line that was found, and nothing else")
    func search() throws {
        let terminal = try Terminal()
        try terminal.startPrompt()
        try terminal.evaluate("x = 'something'")
        try terminal.press("C-r")
        try terminal.type("some")
        try terminal.expect { $0.last?.hasPrefix("bck:some") == true }
        try terminal.press("C-c")
        try terminal.expect(last: "> x = 'something'^C", ">")
    }

    @Test("Wide characters that move to the next row are drawn where they are")
    func wide() throws {
        let terminal = try Terminal(columns: 30)
        try terminal.startPrompt()
        try terminal.type("#'日本語日本語日本語日本語日本語日本語'")
        try terminal.press("Home")
        for count in 1...4 {
            try terminal.type("a")
            try terminal.expect { rows in
                rows.suffix(2).joined() == "> \(String(repeating: "a", count: count))#'日本語日本語日本語日本語日本語日本語'"
            }
        }
    }

    @Test("A line that is printed in parts stays one line above the prompt")
    func parts() throws {
        let terminal = try Terminal()
        try terminal.startPrompt()
        try terminal.evaluate("file = os.getenv('XDG_STATE_HOME') .. '/part'")
        try terminal.evaluate("function await(i) while not io.open(file .. i) do opscript.sleep(0.01) end return i end")
        try terminal.evaluate("function step(i) io.write(await(i) == 3 and 'done\\n' or i .. ' ') io.stdout:flush() end")
        try terminal.evaluate("opscript.OperationQueue.new():addOperation(function() for i = 1, 3 do step(i) end end) and nil")
        try terminal.type("typed")
        for (i, shown) in ["1", "1 2", "1 2 done"].enumerated() {
            try terminal.touch("part\(i + 1)")
            try terminal.expect(last: shown, "> typed")
        }
    }

    @Test("A key is answered within 20 ms while two operations compute")
    func answersSoon() throws {
        let home = try ScratchDirectory()
        let terminal = try PseudoTerminal(["-i"], home: home)
        try terminal.read { $0.contains("> ") }
        terminal.type(
            "q = opscript.OperationQueue.new() for i = 1, 2 do q:addOperation(function() while true do end end) end print('sp'..'in')\n")
        try terminal.read { $0.contains("spin") && $0.hasSuffix("> ") }
        var taken: [Duration] = []
        for _ in 1...60 {
            let start = ContinuousClock.now
            terminal.type("x")
            try terminal.read { $0.contains("x") }
            taken.append(.now - start)
        }
        // The prompt has answered, and not the terminal's own echo.
        #expect(String(decoding: terminal.output, as: UTF8.self).hasSuffix(String(repeating: "x", count: 60)))
        taken.sort()
        print("a key at the prompt, two operations computing: median \(taken[30]), 95 % within \(taken[56]), longest \(taken[59])")
        #expect(taken[30] < .milliseconds(20))
        terminal.type("\u{3}:quit\n")
        #expect(terminal.finish() == 0)
    }
}
