import LuaBindings
import TestSupport
import Testing

/// Pipes between scripts and programs.
@Suite struct StreamTests {
    /// Runs the code in the main state, and again as the body of an operation. `reach(text)` waits until a file exists that a program has made.
    private func runTwice(_ source: String) throws {
        try run(
            "local function test()\n\(source)\nend\ntest()\nlocal op = queue:addOperation(test)\nop:waitUntilFinished()\nassert(not op.error, op.error)"
        )
    }

    @discardableResult
    private func run(_ source: String) throws -> [LuaValue] {
        try withRuntime { runtime throws in
            let values = try runtime.run(source)
            let ending = try runtime.finish()
            #expect(
                ending.stuckOperations.isEmpty && ending.unreadFailures.isEmpty && ending.callbackErrorCount == 0
                    && ending.failedPrograms.isEmpty,
                "\(ending)")
            return values
        }
    }

    // MARK: reading

    @Test("read takes the formats of file:read, and finds the same as it in the same bytes")
    func formats() throws {
        try runTwice(
            #"""
            local text = "one\n\ntwo\r\n 12 -0x1Fp2 .5e3x 99999999999999999999 abc\n" .. ("long"):rep(5000) .. "\n\0nul\0\nlast"
            local path = os.tmpname()
            local file = assert(io.open(path, "w"))
            file:write(text)
            file:close()
            local calls = {
              { }, { "l" }, { "L" }, { "n", "n", "n", 1 }, { "n", "l" }, { "n" }, { 3 }, { "*l" }, { 0 }, { 1000, "L" }, { "l", "l" }, { "a" }, { "a" },
              { 0 }, { "l" }, { 5, "l" }, { "n" },
            }
            file = assert(io.open(path))
            local p = opscript.process { "cat", path, stdout = "pipe" }
            for i, formats in ipairs(calls) do
              local expected, found = table.pack(file:read(table.unpack(formats))), table.pack(p:read(table.unpack(formats)))
              assert(expected.n == found.n, i)
              for j = 1, expected.n do assert(rawequal(expected[j], found[j]), i .. ": " .. tostring(found[j])) end
            end
            file:close()
            os.remove(path)
            assert(p:wait().status == 0 and p:read() == nil and p:read "a" == "")
            """#)
    }

    @Test("lines gives all lines in order, with formats and without, of stdout and stderr, and the rest is there after a break")
    func lines() throws {
        try runTwice(
            """
            local count = 0
            for line in opscript.process({ "seq", 100000, stdout = "pipe" }):lines() do
              count = count + 1
              assert(line == tostring(count))
            end
            assert(count == 100000)
            local p = opscript.sh { "seq 3 >&2; printf 'ab\\nc\\n'", stdout = "pipe", stderr = "pipe" }
            local found = {}
            for line in p.stderr:lines "L" do found[#found + 1] = line end
            for text, number in p:lines(1, "l") do found[#found + 1] = text .. number end
            assert(table.concat(found, "|") == "1\\n|2\\n|3\\n|ab|c", table.concat(found, "|"))
            p = opscript.process { "seq", 9, stdout = "pipe" }
            for line in p:lines() do if line == "3" then break end end
            assert(p:read "L" == "4\\n" and p:read "a" == "5\\n6\\n7\\n8\\n9\\n" and p:wait().stdout == nil)
            """)
    }

    @Test("A line arrives while the program still runs")
    func linesArriveAtOnce() throws {
        try runTwice(
            """
            local p = opscript.process { "cat", stdin = "pipe", stdout = "pipe" }
            for i = 1, 100 do
              assert(p:write("line ", i, "\\n") == p)
              assert(p:read() == "line " .. i and p.isRunning)
            end
            p:closeInput()
            assert(p:read() == nil and p:wait().status == 0)
            """)
    }

    @Test("Much output passes through an operation with a small memory limit, which one read must not exceed")
    func memoryLimit() throws {
        try run(
            """
            local op = queue:addOperation(Operation.new { memoryLimit = 4 << 20, main = function()
              local size = 0
              local p = opscript.process { "head", "-c", 50000000, "/dev/zero", stdout = "pipe" }
              for piece in p:lines(65536) do size = size + #piece end
              p = opscript.process { "head", "-c", 50000000, "/dev/zero", stdout = "pipe" }
              local ok, message = pcall(p.read, p, "a")
              assert(not ok and message:find("more than 2097152 bytes at once", 1, true), message)
              p:kill()
              return size
            end })
            op:waitUntilFinished()
            assert(op.result == 50000000, op.error)
            """)
    }

    @Test("A piece of more than captureLimit is an error that names the remedy")
    func longPieces() throws {
        try runTwice(
            """
            for _, format in ipairs { "l", "a", 300000 } do
              local p = opscript.process { "head", "-c", 10000000, "/dev/zero", stdout = "pipe", captureLimit = 200000 }
              local ok, message = pcall(p.read, p, format)
              assert(not ok and message:find("stdout of 'head': more than 200000 bytes at once: read less with read(n), or set captureLimit", 1, true), message)
              assert(#p:read(1000) == 1000)
              p:kill()
              p:wait()
            end
            """)
    }

    // MARK: waiting

    @Test("wait keeps what no code has read, up to captureLimit; more is an error, and ends the program")
    func waitBeforeReading() throws {
        try runTwice(
            """
            local p = opscript.process { "seq", 100000, stdout = "pipe", stderr = "pipe" }
            assert(p:wait().status == 0 and #p:read "a" == 588895)
            local q = opscript.process { "yes", stdout = "pipe", captureLimit = 1000000 }
            local ok, message = pcall(q.wait, q)
            assert(not ok and message:find("stdout of 'yes': the program wrote more than 1000000 bytes that no code has read, and was ended: read them first", 1, true), message)
            """)
    }

    @Test("A program that fills its other pipe, or does not read its input before it has written, keeps no script waiting")
    func otherPipes() throws {
        try runTwice(
            """
            local p = opscript.sh { "head -c 1000000 /dev/zero >&2; echo done", stdout = "pipe", stderr = "pipe" }
            assert(p:read() == "done" and #p.stderr:read "a" == 1000000)
            local text = ("0123456789abcde\\n"):rep(100000)
            p = opscript.process { "cat", stdin = "pipe", stdout = "pipe" }
            p:write(text):closeInput()
            assert(p:read "a" == text and p:wait().status == 0)
            """)
    }

    @Test("While one operation reads, the wait of another takes nothing from it and does not end the program")
    func waitsOfOthers() throws {
        try run(
            """
            local p = opscript.sh { "head -c 10000000 /dev/zero | tr '\\\\0' '\\\\n'", stdout = "pipe", captureLimit = 100000 }
            local go = opscript.channel { capacity = 1 }
            local reading = queue:addOperation(function()
              local count = 0
              for _ in p:lines() do
                count = count + 1
                if count == 1 then go:send(true) end
              end
              return count
            end)
            go:receive()
            assert(p:wait().status == 0)
            reading:waitUntilFinished()
            assert(reading.result == 10000000, reading.error)
            """)
    }

    @Test("When the operation that reads a program has finished, a wait of another one notices that no code reads it")
    func readersFinish() throws {
        try run(
            """
            local p = opscript.process { "yes", stdout = "pipe", captureLimit = 100000 }
            local begun, go = opscript.channel { capacity = 1 }, opscript.channel { capacity = 1 }
            local reading = queue:addOperation(function()
              local line = p:read()
              begun:send(true)
              go:receive()
              return line
            end)
            begun:receive()
            -- Runs while the main state waits for the program.
            OperationQueue.main:addOperation(function() go:send(true) end)
            local ok, message = pcall(p.wait, p)
            assert(not ok and message:find("that no code has read", 1, true) and reading.result == "y", message)
            """)
    }

    @Test(
        "A read that waits is ended by a cancel of the operation, its timeout and its interrupt; callbacks run in the main state meanwhile")
    func waitsEnd() throws {
        try run(
            """
            local p = opscript.process { "cat", stdin = "pipe", stdout = "pipe" }
            local others = {}
            for i, end_ in ipairs { "cancel", "timeout", "interrupt" } do
              local begun = opscript.channel { capacity = 1 }
              local op = Operation.new(function() begun:send(true) p:read() return "read" end)
              if end_ == "timeout" then op.timeout = 0.05 end
              queue:addOperation(op)
              begun:receive()
              if end_ ~= "timeout" then op[end_](op) end
              op:waitUntilFinished()
              assert(op.result == nil and (end_ == "cancel" or op.error.kind == (end_ == "timeout" and "timeout" or "interrupted")), op.error)
            end
            local ran
            OperationQueue.main:addOperation(function() ran = true p:write "after\\n" end)
            assert(p:read() == "after" and ran)
            p:closeInput()
            -- An operation's own program ends with it.
            local started = opscript.channel { capacity = 1 }
            local own = queue:addOperation(function()
              local p = opscript.process { "cat", stdin = "pipe", stdout = "pipe" }
              started:send(p)
              for _ in p:lines() do end
              return p:wait().signal
            end)
            started:receive()
            own:cancel()
            own:waitUntilFinished()
            assert(own.result == "TERM" or own.result == nil)
            """)
    }

    @Test("A grandchild that holds the pipe open after the program's end can still be read, and keeps no wait for the program")
    func grandchildren() throws {
        try runTwice(
            """
            local p = opscript.process { "sh", "-c", "exec 3<&0; (read line <&3; echo late $line) & exit 3", stdin = "pipe", stdout = "pipe", stderr = "null" }
            assert(p:wait().status == 3 and not p.isRunning)
            p:write "word\\n"
            assert(p:read() == "late word" and p:read() == nil)
            """)
    }

    // MARK: the ends of pipes

    @Test("A program ends by SIGPIPE when its reader closes, drops or leaves the pipe, and that is no failure to tell")
    func readersLeave() throws {
        try run(
            """
            local p = opscript.process { "yes", stdout = "pipe" }
            assert(p:read() == "y")
            p.stdout:close()
            assert(p:wait().signal == "PIPE")
            assert(select(2, pcall(p.read, p)):find("stdout of 'yes' is closed", 1, true))
            -- The collection of the last handle closes the pipe.
            local pid = opscript.process({ "yes", stdout = "pipe" }).pid
            local stop = opscript.now() + 30
            repeat
              collectgarbage()
              local file = io.open("/proc/" .. pid .. "/stat")
              local text = file and file:read "a"
              if file then file:close() end
              assert(opscript.now() < stop)
            until not text or text:match "%) Z"
            -- The end of the script closes the pipes of programs that no code reads.
            left = opscript.process { "yes", stdout = "pipe" }
            assert(left:read() == "y")
            open = opscript.process { "cat", stdin = "pipe", stdout = "null" }
            queue:addOperation(function() kept = opscript.process { "yes", stdout = "pipe" } kept:read() end)
            """)
    }

    @Test("The closing of a runtime ends readers and writers that wait")
    func closing() throws {
        let runtime = try Runtime(Runtime.Configuration())
        _ = try runtime.run(
            """
            local begun = opscript.channel { capacity = 2 }
            local queue = opscript.OperationQueue.new()
            p = opscript.process { "sh", "-c", "trap '' TERM; exec sleep 1000", stdin = "pipe", stdout = "pipe" }
            queue:addOperation(function() begun:send(true) p:read() end)
            queue:addOperation(function() begun:send(true) p:write(("x"):rep(1000000)) end)
            begun:receive()
            begun:receive()
            """)
        let left = runtime.close(deadline: .seconds(30))
        #expect(left == [])
    }

    @Test("A write to a program that does not read any more is an error of that call")
    func brokenPipe() throws {
        try runTwice(
            """
            local p = opscript.process { "true", stdin = "pipe" }
            p:wait()
            local ok, message = pcall(p.write, p, "text")
            assert(not ok and message:find("cannot write to stdin of 'true': the program does not read it any more", 1, true), message)
            p:closeInput()
            p:closeInput()
            ok, message = pcall(p.write, p, "text")
            assert(not ok and message:find("stdin of 'true' is closed", 1, true), message)
            """)
    }

    // MARK: other inputs and outputs

    @Test("stdin is a file, nothing, or the output of another program; stderr can go to stdout, in order")
    func inputs() throws {
        try runTwice(
            """
            local path = os.tmpname()
            local file = assert(io.open(path, "w"))
            file:write "from a file\\n"
            file:close()
            assert(opscript.run { "cat", stdin = path } == "from a file" and opscript.run { "cat", stdin = "null" } == "")
            os.remove(path)
            local q = opscript.process { "seq", 1000000, stdout = "pipe" }
            local p = opscript.process { "tail", "-n", 1, stdin = q }
            assert(p:wait().stdout == "1000000\\n" and q:wait().status == 0)
            assert(select(2, pcall(q.read, q)):find("stdout of 'seq' goes to 'tail': read that program", 1, true))
            local both = opscript.sh { "for i in 1 2 3; do echo $i; echo e$i >&2; done", stderr = "stdout" }:wait()
            assert(both.stdout == "1\\ne1\\n2\\ne2\\n3\\ne3\\n" and both.stderr == nil)
            local lines = opscript.sh { "echo a; echo b >&2", stdout = "pipe", stderr = "stdout" }
            assert(lines:read() == "a" and lines:read() == "b" and lines:read() == nil)
            """)
    }

    @Test("onLine gets each line in the state that set it, before onExit, and wait returns after both")
    func onLine() throws {
        try run(
            """
            local lines, ended = {}, nil
            local p = opscript.process { "seq", 5000, onLine = function(line)
              assert(Operation.current == nil and not ended)
              lines[#lines + 1] = line
            end, onExit = function(result) ended = result.status end }
            assert(p:wait().status == 0)
            assert(#lines == 5000 and lines[5000] == "5000" and ended == 0, #lines)
            local count = 0
            opscript.process({ "seq", 200000, captureLimit = 1000, onLine = function() count = count + 1 end }):wait()
            assert(count == 200000)
            local op = queue:addOperation(function(op)
              local count = 0
              opscript.sh { "printf 'a\\nb\\nc'", onLine = function(line) count = count + 1 op.last = line end }:wait()
              op.count = count
            end)
            op:waitUntilFinished()
            assert(op.count == 3 and op.last == "c", op.error)
            -- The script's end waits for the program.
            opscript.process { "seq", 2000, onLine = function(line) if line == "2000" then hasAll = true end end }
            """)
    }

    @Test("onExit follows the last line, also if onLine waits, and though a process that was left behind writes on")
    func lastLines() throws {
        try run(
            """
            local events = {}
            opscript.process({ "seq", 3, onLine = function(line)
              opscript.sleep(0.01)
              events[#events + 1] = line
            end, onExit = function() events[#events + 1] = "exit" end }):wait()
            while #events < 4 do opscript.sleep(0.001) end
            assert(table.concat(events, " ") == "1 2 3 exit", table.concat(events, " "))
            local count, hasEnded = 0, false
            local p = opscript.process { "sh", "-c", "yes & echo", captureLimit = 4096, stderr = "null", onLine = function() count = count + 1 end,
              onExit = function() hasEnded = true end }
            while not hasEnded do opscript.sleep(0.001) end
            p.stdout:close()
            """)
    }

    @Test("A program that has got a signal other than to end still may not write more than captureLimit unread")
    func signals() throws {
        try runTwice(
            """
            local p = opscript.process { "sh", "-c", "trap '' USR1; echo; exec yes", stdout = "pipe", captureLimit = 1000 }
            assert(p:read() == "" and p:kill "USR1")
            local ok, message = pcall(p.wait, p)
            assert(not ok and message:find "more than 1000 bytes that no code has read", message)
            """)
    }

    @Test("A numeral of more than 200 characters is no number, as for Lua's files")
    func longNumeral() throws {
        try runTwice(
            """
            local p = opscript.process { "cat", stdin = "pipe", stdout = "pipe" }
            p:write(("1"):rep(250), " 5"):closeInput()
            assert(p:read "n" == nil and p:read(50) == ("1"):rep(50) and p:read "n" == 5)
            p:wait()
            """)
    }

    @Test(
        "Misuse is an error that says what to do",
        arguments: [
            ("process({ 'cat' }):lines()", "lines: start 'cat' with stdout = 'pipe' to read its output while it runs"),
            ("process({ 'cat' }):write 'x'", "write: start 'cat' with stdin = 'pipe' to write to it"),
            ("process({ 'cat' }):closeInput()", "closeInput: start 'cat' with stdin = 'pipe' to write to it"),
            ("process({ 'true', onLine = print }):read()", "read: the lines of stdout of 'true' go to its onLine"),
            ("process { 'cat', input = 'x', stdin = 'null' }", "input is the text of stdin: give one of the two"),
            (
                "process { 'cat', stdin = opscript.process { 'true' } }",
                "stdin: the output of 'true' is no pipe: start it with stdout = 'pipe'"
            ),
            ("process { 'cat', stdin = 5 }", "stdin"), ("process { 'cat', stdin = 'pipes' }", "did you mean 'pipe'?"),
            ("process { 'cat', stdin = '/nowhere/file' }", "cannot start 'cat': '/nowhere/file': No such file or directory"),
            ("process { 'cat', onLine = 5 }", "onLine must be a function"),
            (
                "process { 'cat', onLine = print, stdout = 'null' }",
                "onLine gets the lines of stdout: leave stdout out, or set it to 'pipe'"
            ),
            ("process { 'cat', onExit = print, stdout = 'pipe' }", "needs onLine"),
            ("process { 'cat', onLine = print, stderr = 'pipe' }", "onLine cannot be combined with stderr = 'pipe'"),
            ("process({ 'true', onLine = print }).stdout:read()", "read: the lines of stdout of 'true' go to its onLine"),
            (
                "process { 'cat', stdin = opscript.process { 'true', onLine = print } }",
                "stdin: the lines of 'true' go to its onLine"
            ),
            ("process({ 'true', stdout = 'pipe' }):read 'x'", "bad argument #1 to 'read' (invalid format)"),
            ("process({ 'true', stdout = 'pipe' }):read(-1)", "a number of bytes is at least 0"),
            ("process({ 'true', stdout = 'pipe' }):lines 'x'", "bad argument #1 to 'lines' (invalid format)"),
            ("process({ 'true', stdout = 'pipe' }).stdout.read()", "call 'read' with ':'"),
            ("process({ 'true', stdin = 'pipe' }):write {}", "string or integer expected, got table"),
            ("run { 'true', stdout = 'pipe' }", "stdout = 'pipe' is for opscript.process: run waits"),
        ])
    func misuse(call: String, message: String) throws {
        try withRuntime { runtime throws in
            let error = #expect(throws: LuaError.self) { try runtime.run("opscript.\(call)") }
            #expect(error?.message.contains(message) ?? false, "\(String(describing: error))")
            _ = try runtime.finish()
        }
    }

    // MARK: pipelines

    @Test("A pipeline returns the output of its last program, and a failure names the first that has failed by itself")
    func pipelines() throws {
        try runTwice(
            """
            assert(opscript.pipeline({ "seq", 100 }, { "grep", "7" }, "wc -l") == "19")
            assert(opscript.pipeline({ "echo", "one" }) == "one" and opscript.pipeline({ "cat", input = "in" }, { "cat" }) == "in")
            -- `yes` ends by SIGPIPE, because `head` has enough.
            assert(opscript.pipeline({ "yes" }, { "head", "-n", 2 }) == "y\\ny")
            -- A shell tells of the signal by a status.
            assert(opscript.pipeline("cat /dev/zero | tr '\\\\0' x", { "head", "-c", 5 }) == "xxxxx")
            -- The end of the last one by its timeout ends the others.
            local isGood, late = pcall(opscript.pipeline, { "sleep", 1000 }, { "cat", timeout = 0.05 })
            assert(not isGood and tostring(late):find "'cat' took longer than 0.05 s and was ended", late)
            local function fails(message, ...)
              local ok, problem = pcall(opscript.pipeline, ...)
              assert(not ok and tostring(problem) == message, tostring(problem))
              return problem
            end
            local problem = fails("cat /nowhere | wc -l: cat /nowhere: exit status 1: cat: /nowhere: No such file or directory",
              { "cat", "/nowhere", env = { LC_ALL = "C" } }, { "wc", "-l" })
            assert(problem.member == 1 and problem.status == 1 and problem.command == "cat /nowhere | wc -l")
            assert(fails("yes | sh -c 'exit 3': sh -c 'exit 3': exit status 3: it wrote nothing to stderr", { "yes" }, { "sh", "-c", "exit 3" }).member == 2)
            assert(opscript.pipeline({ "false", ok = 1 }, { "cat" }) == "")
            local ok, problem = pcall(opscript.pipeline, { "yes" }, { "no-such-program" })
            assert(not ok and problem:find("cannot start 'no-such-program'", 1, true))
            ok, problem = pcall(opscript.pipeline, { "true", stdout = "null" }, { "cat" })
            assert(problem:find("bad argument #1 to 'pipeline' (stdout goes to the next program)", 1, true), problem)
            """)
    }
}
