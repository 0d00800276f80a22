import LuaBindings
import TestSupport
import Testing

/// `opscript.run` and `opscript.quote`, and programs whose failure no code has seen.
@Suite struct RunningProgramTests {
    @Test("run returns the output of a program or a shell command without its last newline, in the main state and in a body")
    func output() throws {
        try script(
            """
            local function use()
              assert(opscript.run { "printf", "%s", "a  b" } == "a  b")
              assert(opscript.run { "echo", 5 } == "5" and opscript.run { "printf", "a\\n\\n" } == "a\\n")
              assert(opscript.run "echo one | tr a-z A-Z" == "ONE")
              assert(opscript.run { "cat", input = "in" } == "in" and opscript.run { "pwd", cwd = "/" } == "/")
              assert(opscript.run { "true", stdout = "null" } == nil)
              assert(opscript.run { "sh", "-c", "exit 1", ok = 1 } == "" and opscript.run { "false", ok = { 0, 1 } } == "")
              local odd = "it's \\\\ $x `y` \\n*"
              assert(opscript.run("printf %s " .. opscript.quote(odd)) == odd)
            end
            use()
            local op = queue:addOperation(use)
            op:waitUntilFinished()
            assert(not op.error, op.error)
            """)
    }

    @Test(
        "A program that fails is an error with its command, its end and the last lines of stderr",
        arguments: [
            (
                "{ 'sh', '-c', 'echo out; echo no paper >&2; exit 3' }",
                "sh -c 'echo out; echo no paper >&2; exit 3': exit status 3: no paper", "3 nil out"
            ),
            ("'kill -KILL $$'", "kill -KILL $$: killed by SIGKILL: it wrote nothing to stderr", "nil KILL "),
            ("{ 'false', ok = 0 }", "false: exit status 1: it wrote nothing to stderr", "1 nil "),
            ("{ 'true', ok = 1 }", "true: exit status 0: it wrote nothing to stderr", "0 nil "),
            ("'seq 7 20 >&2; false'", "seq 7 20 >&2; false: exit status 1: 9\n10\n11\n12\n13\n14\n15\n16\n17\n18\n19\n20", "1 nil "),
            (
                "{ 'sh', '-c', 'echo both >&2; exit 1', stderr = 'stdout' }", "sh -c 'echo both >&2; exit 1': exit status 1: both",
                "1 nil both"
            ),
            ("{ 'false', stderr = 'null' }", "false: exit status 1", "1 nil "),
            (
                "{ 'sh', '-c', 'echo half; sleep 60', timeout = 0.05 }",
                "'sh' took longer than 0.05 s and was ended; it had written to stdout: half", "nil nil half"
            ),
        ])
    func failures(command: String, message: String, fields: String) throws {
        for place in ["main", "body"] {
            let text = try script(
                """
                local function fields(problem)
                  return tostring(problem) .. "|" .. tostring(problem.status) .. " " .. tostring(problem.signal) .. " "
                    .. (problem.stdout or ""):gsub("\\n$", "")
                end
                if "\(place)" == "main" then
                  local ok, problem = pcall(opscript.run, \(command))
                  assert(not ok)
                  return fields(problem)
                end
                local op = queue:addOperation(function() return opscript.run(\(command)) end)
                op:waitUntilFinished()
                assert(op.error.message == tostring(op.error.value))
                return fields(op.error.value)
                """)
            #expect(text.first == .string(message + "|" + fields), "\(place): \(text)")
        }
    }

    @Test(
        "Misuse is an error with the caller's place",
        arguments: [
            ("opscript.run()", "bad argument #1 to 'run' (a command or a table of a program and its arguments expected, got nil)"),
            ("opscript.run { 'true', ok = 'x' }", "bad argument #1 to 'run' (ok must be an exit status or an array of these)"),
            ("opscript.run { 'true', okay = 1 }", "okay"), ("opscript.run { 'true', onExit = print }", "onExit is for opscript.process"),
            ("opscript.run { 'no-such-program' }", "cannot start 'no-such-program'"),
            ("opscript.quote(5)", "bad argument #1 to 'quote' (string expected, got number)"),
        ])
    func misuse(call: String, message: String) throws {
        let text = try script("local ok, problem = pcall(function()\n\(call)\nend) return problem")
        let problem = text.first?.text ?? ""
        #expect(problem.contains("script:") && problem.contains(message), "\(text)")
    }

    @Test("A program that writes more than captureLimit, or than its operation's memory limit, is ended with an error that says so")
    func endlessOutput() throws {
        let text = try script(
            """
            local op = queue:addOperation(opscript.Operation.new { memoryLimit = 1 << 20, main = function() return opscript.run "yes" end })
            op:waitUntilFinished()
            local ok, problem = pcall(opscript.run, { "yes", captureLimit = 100000 })
            local ended = opscript.process { "printf", "12345", captureLimit = 5 }:wait()
            return op.error.message, tostring(problem), #problem.stdout, ended.stdout,
              tostring(select(2, pcall(opscript.run, { "true", captureLimit = -1 })))
            """)
        let words = "'yes' wrote more than %s bytes to one output and was ended (captureLimit)"
        #expect(text.count == 5 && text[0].text == words.replacing("%s", with: "\(1 << 19)"), "\(text)")
        #expect(text[1].text == words.replacing("%s", with: "100000") && text[2] == 100_000 && text[3] == "12345", "\(text)")
        #expect(text[4].text?.contains("captureLimit must be a number of bytes") ?? false, "\(text)")
    }

    @Test("An output of less than half of the memory limit fits; a cancelled operation ends in run without an error")
    func limitsAndCancelling() throws {
        try script(
            """
            local op = queue:addOperation(opscript.Operation.new { memoryLimit = 10 << 20, main = function()
              return #opscript.run "head -c 4000000 /dev/zero", opscript.run { "printf", "a\\n" }
            end })
            op:waitUntilFinished()
            assert(op.results[1] == 4000000 and op.results[2] == "a", op.error)
            local after = false
            local waiting = queue:addOperation(function() opscript.run "sleep 60" after = true end)
            while not waiting.isExecuting do opscript.sleep(0.001) end
            waiting:cancel()
            waiting:waitUntilFinished()
            assert(waiting.isCancelled and not after and tostring(waiting):find "cancelled", tostring(waiting))
            """)
    }

    @Test("The end tells of programs that failed, unless code read their status, ended them, or set onExit")
    func unseenFailures() throws {
        let runtime = try Runtime()
        defer { runtime.close() }
        try runtime.run(
            """
            opscript.process { "false" }
            opscript.sh "echo no paper >&2; kill -KILL $$"
            opscript.sh { "sleep 60", timeout = 0.05 }
            opscript.process { "true" }
            opscript.sh "exit 3":wait()
            assert(opscript.sh "exit 4":wait().status == 4)
            opscript.sh { "exit 5", onExit = function() end }
            opscript.sh "sleep 60":kill()
            pcall(opscript.run, "exit 6")
            local queue = opscript.OperationQueue.new()
            local op = queue:addOperation(function() opscript.process { "sleep", "60" } opscript.sleep(60) end)
            while not op.isExecuting do opscript.sleep(0.001) end
            op:cancel()
            op:waitUntilFinished()
            """)
        let ending = try runtime.finish()
        #expect(
            Set(ending.failedPrograms) == [
                "'false' exited with status 1, and no code has looked at its result",
                "'exit 3' exited with status 3, and no code has looked at its result",
                "'echo no paper >&2; kill -KILL $$' killed by KILL, and no code has looked at its result: no paper",
                "'sleep 60' ended by its timeout, and no code has looked at its result",
            ])
        #expect(try runtime.finish().failedPrograms == [])
    }

    @Test("An argument may be an array of arguments, and an output may be added to a file")
    func arraysAndAppending() throws {
        let values = try script(
            """
            local folder = opscript.run 'mktemp -d'
            local file = folder .. '/log'
            local words = { 'b', 'c d', 5 }
            opscript.run { 'echo', 'a', words, 'e', stdout = { file, append = true } }
            opscript.run { 'sh', '-c', 'echo out; echo err >&2', stdout = { file, append = true }, stderr = { file, append = true } }
            opscript.process({ 'echo', {}, 'last', stdout = { file, append = true } }):wait()
            local _, failure = pcall(opscript.run, { 'false', { 'x', 'y z' } })
            local text = opscript.run { 'cat', file }
            opscript.run { 'rm', '-r', folder }
            local errors = {}
            for _, output in ipairs { {}, { '' }, { file, appends = true }, { {} } } do
              errors[#errors + 1] = select(2, pcall(opscript.run, { 'true', stdout = output })):match '%((.*)%)$'
            end
            errors[#errors + 1] = select(2, pcall(opscript.run, { 'true', { {} } })):match '%((.*)%)$'
            errors[#errors + 1] = select(2, pcall(opscript.run, { { 'true' } })):match '%((.*)%)$'
            return text, failure.message, table.concat(errors, '; ')
            """)
        #expect(
            values == [
                "a b c d 5 e\nout\nerr\nlast", "false x 'y z': exit status 1: it wrote nothing to stderr",
                .string(
                    "stdout needs a path, as in stdout = { \"file\", append = true }; stdout needs a path, as in stdout = { \"file\", append = true }; "
                        + "stdout has a path and the field 'append', got the field 'appends'; "
                        + "stdout must be a string or an integer, got a table; argument 1 of the program must be a string or an integer, got a table; "
                        + "the program must be a string or an integer, got a table"),
            ])
    }

    @Test("Code that reads, lists, sends, freezes or returns the result of a failed program looks at its status")
    func looksAtResults() throws {
        let runtime = try Runtime()
        defer { runtime.close() }
        let values = try runtime.run(
            """
            local function failed(status) return opscript.sh("echo no paper >&2; exit " .. status):wait() end
            local texts = {}
            for key, value in pairs(failed(3)) do texts[#texts + 1] = key .. "=" .. tostring(value) end
            table.sort(texts)
            local queue = opscript.OperationQueue.new()
            local sent = queue:addOperation(function() return failed(4), opscript.sh "kill -KILL $$":wait() end)
            local received = queue:addOperation(function(_, result) return result.status end, failed(5))
            sent:waitUntilFinished()
            local returned, killed = table.unpack(sent.results)
            local seen = failed(7)
            local unseen = failed(8)
            return table.concat(texts, " "), returned.status .. " " .. tostring(killed.status) .. killed.signal, received.result,
              opscript.freeze(failed(6)).status, { seen.status, getmetatable(seen), rawget(seen, "status") }, unseen.stderr,
              pcall(setmetatable, unseen, {}), failed(9)
            """)
        let expected: [LuaValue] = [
            "status=3 stderr=no paper\n stdout=", "4 nilKILL", 5, 6, [7, nil, 7], "no paper\n", false,
        ]
        #expect(Array(values.prefix(5)) + [values[5], values[6]] == expected)
        #expect(values.last == ["status": 9, "stdout": "", "stderr": "no paper\n"])
        #expect(
            try runtime.finish().failedPrograms == [
                "'echo no paper >&2; exit 8' exited with status 8, and no code has looked at its result: no paper"
            ])
    }
}
