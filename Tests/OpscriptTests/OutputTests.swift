import Testing

@Suite("The output of scripts")
struct OutputTests {
    private static let queue = "local queue = opscript.OperationQueue.new { maxConcurrentOperationCount = 8 }\n"

    private func run(_ script: String) throws -> Outcome {
        try Command.opscript("--workers", "8", "-").input(Self.queue + script).run()
    }

    /// Each statement writes a line that consists of the letter `c`, 2000 times.
    private static let lines = [
        "print(c:rep(2000))", "print(setmetatable({}, { __tostring = function() return c:rep(2000) end }))",
        "io.write(c:rep(500), c:rep(1500), '\\n')", "io.stdout:write(c:rep(500), c:rep(1500), '\\n')",
    ]

    @Test("Lines that operations and the script print at the same time are not mixed", arguments: ["", "io.stdout:setvbuf 'no'"])
    func notMixed(mode: String) throws {
        let outcome = try run(
            """
            \(mode)
            local function write(c) for _ = 1, 50 do \(Self.lines.joined(separator: " ")) end end
            for i = 1, 8 do queue:addOperation(function(_, c) write(c) end, string.char(96 + i)) end
            write 'z'
            """)
        #expect(outcome.status == 0 && outcome.lines.count == 9 * 50 * Self.lines.count)
        #expect(outcome.lines.allSatisfy { $0.count == 2000 && Set($0).count == 1 })
    }

    @Test("Warnings that several states show with -W are not mixed")
    func warningsNotMixed() throws {
        let outcome = try Command.opscript(
            "--workers", "8", "-W", "-e",
            Self.queue + "for i = 1, 8 do queue:addOperation(function() for _ = 1, 100 do warn('one ', 'warning', '') end end) end"
        ).run()
        #expect(outcome.status == 0)
        #expect(outcome.errorText == String(repeating: "Lua warning: one warning\n", count: 800))
    }

    @Test("Lines that operations and the script write to stderr at the same time are not mixed")
    func errorsNotMixed() throws {
        let outcome = try run(
            """
            local function write(c) for _ = 1, 100 do io.stderr:write(c:rep(500), c:rep(1500), '\\n') end end
            for i = 1, 8 do queue:addOperation(function(_, c) write(c) end, string.char(96 + i)) end
            write 'z'
            """)
        let lines = outcome.errorText.split(separator: "\n")
        #expect(outcome.status == 0 && lines.count == 9 * 100)
        #expect(lines.allSatisfy { $0.count == 2000 && Set($0).count == 1 })
    }

    @Test("A value that cannot be printed raises Lua's error and prints nothing, and a number counts as text")
    func whatCannotBePrinted() throws {
        let script = """
            local function try(text)
              local value = setmetatable({}, { __tostring = text })
              io.stderr:write(tostring(select(2, pcall(print, 'before', value, 'after'))), '\\n')
              io.stderr:write(tostring(select(2, coroutine.wrap(function() return pcall(print, 'before', value) end)())), '\\n')
            end
            try(function() return {} end)
            try(function() end)
            try(function() error('raised', 0) end)
            try(function() error { } end and function() error() end)
            try(function() coroutine.yield 'text' end)
            try(5)
            """
        let stock = try Command.lua("-").input(script).run()
        let outcome = try Command.opscript("-").input(script).run()
        #expect(stock.status == 0 && stock.errorText.contains("'__tostring' must return a string"), "\(stock)")
        #expect(outcome == Outcome(status: 0, output: [], errors: stock.errors), "\(outcome)\ninstead of\n\(stock)")
        let number = try Command.opscript("-e", "print(setmetatable({}, { __tostring = function() return 12 end }))").run()
        #expect(number == Outcome(status: 0, output: Array("12\n".utf8), errors: []), "\(number)")
    }

    @Test("write reports a bad argument as Lua does, after writing what precedes it, however much that is and however deep the stack")
    func whatCannotBeWritten() throws {
        let script = """
            local function try(write, ...) io.stderr:write(tostring(select(2, pcall(write, ...))), '\\n') end
            try(io.write, 'a', {}, 'b')
            try(io.write, nil)
            try(io.write, 1, 2.0, 'c', print)
            try(io.stdout.write, io.stdout, 1, 2.0, setmetatable({}, { __name = 'Name' }))
            try(io.stdout.write, 'a')
            try(io.stdout.write)
            try(function() return io.write() == io.stdout, io.write 'd' == io.stdout and 'itself' end)
            local closed = io.tmpfile()
            closed:close()
            try(closed.write, closed, {})
            try(closed.write, closed, 'a', 'b')
            local function deep(depth, ...)
              if depth > 0 then return (deep(depth - 1, ...)) end
              return (pcall(io.write, ...))
            end
            for _, count in ipairs { 50, 250, 1000 } do
              local list = {}
              for i = 1, count do list[i] = 'x' end
              list[count + 1] = {}
              for depth = 1, 180 do coroutine.wrap(function() local t = list deep(depth, table.unpack(t)) end)() end
            end
            """
        let stock = try Command.lua("-").input(script).run()
        let outcome = try Command.opscript("-").input(script).run()
        #expect(stock.status == 0 && stock.output.count > 200_000, "\(stock.errorText)")
        #expect(outcome == stock, "status \(outcome.status)\n\(outcome.errorText)\ninstead of\n\(stock.errorText)")
    }

    /// Writes more than a buffer holds, and then less, without flushing.
    private static let parting = "io.stdout:setvbuf('full') io.write(('x'):rep(99999), '\\n') io.write 'the end'"

    @Test(
        "All output is written at the end of the process, however it ends",
        arguments: [
            ("", 0), ("error 'wrong'", 1), ("os.exit(3)", 3), ("os.exit(3, true)", 3),
            ("queue:addOperation(function() os.exit(3) end)", 3),
            ("queue:addOperation(function() error 'nobody reads this' end)", 1),
            ("queue:addOperation(opscript.Operation.new { name = 'held', dependencies = { opscript.Operation.new() } })", 1),
        ])
    func complete(ending: String, status: Int32) throws {
        for script in [
            "\(Self.parting) \(ending)",
            "queue:addOperation(function() \(Self.parting) end):waitUntilFinished() \(ending)",
            "opscript.after(0, function() \(Self.parting) end) opscript.sleep(0.01) \(ending)",
        ] where !script.hasPrefix("opscript") || status == 0 {
            let directory = try ScratchDirectory()
            let outcome = try Command.shell(
                #"{ "$OPSCRIPT" -e "$1"; echo "status $?" >&2; } 2> "$2/errors" | cat; tail -n 1 "$2/errors""#,
                Self.queue + script, directory.path
            ).run()
            let isComplete = outcome.text.hasPrefix(String(repeating: "x", count: 99_999) + "\n")
            #expect(isComplete && outcome.text.hasSuffix("\nthe endstatus \(status)\n"), "\(script)")
        }
    }

    @Test(
        "Writing to a closed pipe ends the process quietly, as with other filters",
        arguments: [
            "while true do print 'text' end",
            "while true do io.write('text', '\\n') end",
            "queue:addOperation(function() while true do print 'text' end end)",
            "queue:addOperation(function() pcall(function() while true do print 'text' end end) end):waitUntilFinished()",
            "for i = 1, 8 do queue:addOperation(function() while true do io.stdout:write('text', '\\n') end end) end",
            "opscript.OperationQueue.main:addOperation(function() while true do print 'text' end end)",
            "opscript.every(0.001, function() print 'text' end)",
            "queue:addOperation(function() opscript.every(0.001, function() print 'text' end) end)",
            "queue:addOperation(opscript.Operation.new { completionBlock = function() while true do print 'text' end end })",
            "queue:addOperation(function() local out <close> = io.popen('true', 'w') while true do out:write 'text' end end)",
        ])
    func closedPipe(script: String) throws {
        let directory = try ScratchDirectory()
        let outcome = try Command.shell(
            #"""
            { timeout -k 1 60 "$OPSCRIPT" --workers 8 -e "$1" 2>&1; echo "status $?" >&2; } | head -n 1 > "$2/output"
            """#, Self.queue + script,
            directory.path
        ).run()
        #expect(outcome == Outcome(status: 0, output: [], errors: Array("status 141\n".utf8)), "\(outcome)")
    }

    @Test("A pipe that another program has made non-blocking loses nothing", arguments: ["pipe", "socketpair"])
    func nonBlocking(kind: String) throws {
        let outcome = try Command.shell(
            #"""
            exec python3 - "$OPSCRIPT" <<'END'
            import fcntl, os, socket, subprocess, sys
            if "\#(kind)" == "pipe": read, write = os.pipe()
            else: read, write = [s.detach() for s in socket.socketpair()]
            fcntl.fcntl(write, fcntl.F_SETFL, fcntl.fcntl(write, fcntl.F_GETFL) | os.O_NONBLOCK)
            script = "io.stderr:write('go', string.char(10)) for i = 1, 100000 do print('line ' .. i) end"
            child = subprocess.Popen([sys.argv[1], "-e", script], stdout=write, stderr=subprocess.PIPE)
            os.close(write)
            child.stderr.readline()
            print(sum(1 for line in os.fdopen(read, "rb")), child.wait())
            END
            """#
        ).run()
        #expect(outcome.text == "100000 0\n", "\(outcome)")
    }

    @Test(
        "A pipe that is closed before the last write ends the process quietly, too",
        arguments: [
            "io.read() io.write 'late'", "io.read() io.write 'late' os.exit(3)",
            "queue:addOperation(function() io.read() io.stdout:setvbuf 'full' io.write 'late' end)",
        ])
    func closedPipeAtTheEnd(script: String) throws {
        let directory = try ScratchDirectory()
        let outcome = try Command.shell(
            #"""
            mkfifo "$2/in" "$2/out" && exec 4<> "$2/in"
            timeout -k 1 60 "$OPSCRIPT" -e "$1" < "$2/in" > "$2/out" & child=$!
            : < "$2/out"
            echo go >&4
            wait "$child"
            echo "status $?"
            """#, Self.queue + script, directory.path
        ).run()
        #expect(outcome == Outcome(status: 0, output: Array("status 141\n".utf8), errors: []), "\(outcome)")
    }
}
