import CTestSupport
import LuaBindings
import OpEngine
import TestSupport
import Testing

@Suite struct ProcessTests {
    private static let prelude = processFunctions + "function start(...) return opscript.process { ... } end\n"

    @discardableResult
    private func run(workers: Int = 2, _ source: String) throws -> [LuaValue] {
        try withRuntime(workers: workers) { runtime throws in
            try runtime.run(Self.prelude)
            let values = try runtime.run(source)
            let ending = try runtime.finish()
            #expect(ending.stuckOperations.isEmpty && ending.unreadFailures.isEmpty && ending.callbackErrorCount == 0)
            return values
        }
    }

    // MARK: input and output of a program

    @Test(arguments: [
        ("{ 'echo', 'two words', 5 }", "0 nil two words 5\n "),
        ("{ 'sh', '-c', 'echo out; echo err >&2; exit 3' }", "3 nil out\n err\n"),
        ("{ 'sh', '-c', 'kill -TERM $$' }", "nil TERM  "),
        ("{ 'sh', '-c', 'kill -9 $$' }", "nil KILL  "),
        ("{ 'cat', input = 'x\\0\\xFFy' }", "0 nil x\\0\\xFFy "),
        ("{ 'cat', input = '' }", "0 nil  "),
        ("{ 'cat' }", "0 nil  "),
        ("{ 'pwd', cwd = '/usr' }", "0 nil /usr\n "),
        ("{ 'sh', '-c', 'echo $A-$B-$HOME', env = { A = 1, B = 'b c', HOME = false } }", "0 nil 1-b c-\n "),
        ("{ 'sh', '-c', 'echo out; echo err >&2', stdout = 'null' }", "0 nil nil err\n"),
        ("{ 'sh', '-c', 'echo out; echo err >&2', stderr = 'null' }", "0 nil out\n nil"),
    ])
    func aProgramRuns(_ program: String, _ expected: String) throws {
        #expect(
            try run(
                """
                local r = opscript.process(\(program)):wait()
                local found = table.concat({ tostring(r.status), tostring(r.signal), tostring(r.stdout), tostring(r.stderr) }, ' ')
                return found == "\(expected.replacing("\n", with: "\\n"))", found
                """
            ).first == true)
    }

    @Test func aShellRunsACommand() throws {
        #expect(
            try run(
                """
                local r = opscript.sh 'echo one two | tr a-z A-Z'
                local s = opscript.sh { 'cat | wc -c; pwd', input = 'four', cwd = '/' }
                return r:wait().stdout, s:wait().stdout
                """) == ["ONE TWO\n", "4\n/\n"])
    }

    @Test func outputsGoToFiles() throws {
        #expect(
            try run(
                """
                local path = os.tmpname()
                local r = opscript.sh { 'echo out; echo err >&2; echo again', stdout = path, stderr = path }:wait()
                local file <close> = assert(io.open(path))
                os.remove(path)
                return r.stdout, r.stderr, file:read 'a'
                """) == [.nil, .nil, "out\nerr\nagain\n"])
    }

    @Test func aHandleKnowsItsProcess() throws {
        #expect(
            try run(
                """
                local p = start('sleep', 1000)
                assert(p.isRunning and math.type(p.pid) == 'integer' and p.stdout == nil and p.anything == nil)
                assert(tostring(p) == "Process 'sleep' (running, process " .. p.pid .. ')')
                assert(p:wait(0.01) == nil and p:kill() == true)
                local r = p:wait()
                assert(r.status == nil and r.signal == 'TERM' and p:wait().signal == 'TERM')
                assert(not p.isRunning and p:kill() == false and p.stdout == '' and p.stderr == '')
                local q = start('sleep', 1000)
                q:kill 'SIGUSR1'
                local third = start('sleep', 1000)
                third:kill(9)
                return tostring(p), q:wait().signal, third:wait().signal
                """) == ["Process 'sleep' (killed by TERM)", "USR1", "KILL"])
    }

    @Test(arguments: [
        ("process { 'no such program' }", "script:1: cannot start 'no such program': No such file or directory"),
        ("process { '/dev/null' }", "script:1: cannot start '/dev/null': Permission denied"),
        ("process { 'ls', cwd = '/nowhere' }", "script:1: cannot start 'ls': '/nowhere': No such file or directory"),
        ("process { 'ls', stderr = '/nowhere/file' }", "script:1: cannot start 'ls': '/nowhere/file': No such file or directory"),
        ("process { 'ls', cdw = '/' }", "bad argument #1 to 'process' (unknown option 'cdw' (did you mean 'cwd'?))"),
        ("process { }", "bad argument #1 to 'process' (the table does not name a program)"),
        ("process { {} }", "bad argument #1 to 'process' (the program must be a string or an integer, got a table)"),
        ("process { 'ls', 1.5 }", "bad argument #1 to 'process' (argument 1 of the program must be a string or an integer, got a number)"),
        ("process { 'ls', 'a\\0b' }", "bad argument #1 to 'process' (argument 1 of the program contains a zero byte)"),
        ("process { 'ls', [7] = 'x' }", "bad argument #1 to 'process' (element [7] comes after one that is missing)"),
        ("process 'ls'", "bad argument #1 to 'process' (table { program, arguments... } expected, got string)"),
        (
            "process { 'ls', stdout = 'captured' }",
            "bad argument #1 to 'process' (stdout = 'captured': did you mean 'capture'? For a file of that name write './captured')"
        ),
        (
            "process { 'ls', stdout = '' }",
            "bad argument #1 to 'process' (stdout must be 'capture', 'inherit', 'null', 'pipe' or a file's path, got '')"
        ),
        ("process { 'ls', stdout = true }", "bad argument #1 to 'process' (stdout must be a string, got a boolean)"),
        ("process { 'ls', input = 5 }", "bad argument #1 to 'process' (input must be a string, got a number)"),
        ("process { 'ls', timeout = 0 }", "script:1: timeout: seconds must be more than 0, got 0"),
        ("process { 'ls', env = 'A=1' }", "bad argument #1 to 'process' (env must be a table, got a string)"),
        ("process { 'ls', env = { ['A=B'] = 1 } }", "bad argument #1 to 'process' ('A=B' cannot be the name of a variable in env)"),
        (
            "process { 'ls', env = { A = true } }",
            "bad argument #1 to 'process' (env.A must be a string or an integer or false, got a boolean)"
        ),
        ("process { 'ls', onExit = 1 }", "bad argument #1 to 'process' (onExit must be a function, got a number)"),
        ("sh()", "bad argument #1 to 'sh' (command or table expected, got no value)"),
        ("sh { 'a', 'b' }", "bad argument #1 to 'sh' (one command expected in the table, got 2)"),
        ("sh('true'):kill 'TREM'", "bad argument #1 to 'kill' (there is no signal 'TREM' (did you mean 'TERM'?))"),
        ("sh('true'):kill(0)", "bad argument #1 to 'kill' (there is no signal 0)"),
        ("sh('true').wait()", "script:1: call 'wait' with ':', as in process:wait(...); what came before it is a no value"),
        ("sh('true').status = 1", "script:1: a process has nothing to assign to"),
    ])
    func wrongUseIsAnError(_ source: String, _ message: String) throws {
        try withRuntime { runtime throws in
            let error = #expect(throws: LuaError.self) { try runtime.run("opscript.\(source)") }
            #expect(error?.message.replacing("script:1: bad", with: "bad") == message)
            // `finish` would wait for a program that was started.
            _ = try runtime.finish()
        }
    }

    // MARK: many programs at once

    @Test func muchOutputIsTakenWhileTheStateIsBusy() throws {
        #expect(
            try run(
                """
                local flood = opscript.sh { 'head -c 100000000 /dev/zero', captureLimit = 1 << 30 }
                local stop = opscript.now() + 0.2
                while opscript.now() < stop do end
                local r = flood:wait()
                return r.status, #r.stdout, r.stdout:find('[^\\0]') == nil
                """) == [0, 100_000_000, true])
    }

    @Test func muchInputAndOutputDoNotWaitForEachOther() throws {
        #expect(
            try run(
                """
                local text = ('0123456789abcdef'):rep(655360)
                local r = opscript.process { 'cat', input = text }:wait()
                local both = opscript.sh { 'tee /dev/stderr', input = text }:wait()
                return r.stdout == text, both.stdout == text, both.stderr == text
                """) == [true, true, true])
    }

    @Test func aProgramNeedNotReadItsInput() throws {
        #expect(
            try run(
                """
                local text = ('x'):rep(10000000)
                local r = opscript.process { 'true', input = text }:wait()
                local s = opscript.sh { 'exec <&-; sleep 0.05; echo done', input = text }:wait()
                return r.status, s.stdout
                """) == [0, "done\n"])
    }

    @Test func twoHundredRunAtOnce() throws {
        #expect(
            try run(
                """
                local list, sum = {}, 0
                for i = 1, 200 do list[i] = opscript.process { 'sh', '-c', 'cat; exit $1', 'sh', i % 100, input = 'n' .. i } end
                for i, p in ipairs(list) do
                    local r = p:wait()
                    assert(r.stdout == 'n' .. i)
                    sum = sum + r.status
                end
                return sum
                """) == [9900])
    }

    @Test func operationsRunManyOneAfterTheOther() throws {
        #expect(
            try run(
                """
                local list = {}
                for i = 1, 16 do
                    list[i] = queue:addOperation(function()
                        local text = ''
                        for j = 1, 10 do text = text .. opscript.process { 'printf', '%s', i * j }:wait().stdout .. ',' end
                        return text
                    end)
                end
                queue:waitUntilAllOperationsAreFinished()
                return list[7].result
                """) == ["7,14,21,28,35,42,49,56,63,70,"])
    }

    // MARK: waiting

    /// With one worker, the second operation runs only if the waiting one gives up its place. A program that polls may count as computing.
    @Test func aWaitGivesItsPlaceToAnotherThread() throws {
        #expect(
            try run(
                workers: 1,
                """
                local path = os.tmpname()
                os.remove(path)
                local waiting = queue:addOperation(function()
                    return opscript.process { 'sh', '-c', 'until [ -e "$1" ]; do sleep 0.01; done', 'sh', path, slots = 0 }:wait().status
                end)
                queue:addOperation(function() io.open(path, 'w'):close() end)
                waiting:waitUntilFinished()
                os.remove(path)
                return waiting.result
                """) == [0])
    }

    @Test func aWaitDeliversCallbacks() throws {
        #expect(
            try run(
                """
                local p, order = start('sleep', 1000), {}
                OperationQueue.main:addOperation(function() order[#order + 1] = 'operation' end)
                opscript.after(0.02, function() order[#order + 1] = 'timer'; p:kill() end)
                p:wait()
                return table.unpack(order)
                """) == ["operation", "timer"])
    }

    @Test func aHandleGoesToOtherStatesByReference() throws {
        #expect(
            try run(
                """
                local p = start('sleep', 1000)
                local first = queue:addOperation(function() return p:wait().signal, p end)
                queue:addOperation(function() p:kill 'KILL' end)
                first:waitUntilFinished()
                return first.result, first.results[2] == p, p:wait().signal
                """) == ["KILL", true, "KILL"])
    }

    @Test func onExitIsCalledInItsState() throws {
        #expect(
            try run(
                """
                local seen, p
                p = opscript.process { 'echo', 'text', onExit = function(r)
                    assert(Operation.current == nil)
                    assert(not p or not p.isRunning)
                    seen = r
                end }
                local r = p:wait()
                assert(seen and seen ~= r and seen.stdout == 'text\\n' and seen.status == 0)
                local op = queue:addOperation(function(op)
                    opscript.sh { 'exit 7', onExit = function(r) op.status = r.status end }
                end)
                while not op.status do opscript.sleep(0.01) end
                return op.status
                """) == [7])
    }

    @Test func anErrorInOnExitIsReported() throws {
        try withRuntime { runtime throws in
            try runtime.run("opscript.process { 'true', onExit = function() error 'in onExit' end }")
            #expect(try runtime.finish().callbackErrorCount == 1)
        }
    }

    // MARK: the end

    @Test func aTimeoutEndsTheGroupAndSaysSo() throws {
        let message = try run(
            """
            local p = opscript.sh { 'echo said before; echo $$; sleep 1000 & echo $!; wait', timeout = 0.5, onExit = function(r)
                assert(r.timedOut and r.signal == 'TERM')
            end }
            local ok, message = pcall(p.wait, p)
            for pid in p.stdout:gmatch '%d+' do awaitEnd(pid) end
            assert(not ok and tostring(p):find('ended by its timeout', 1, true))
            return (message:gsub('%d%d+', 'PID'))
            """)[0].text
        #expect(
            message
                == "'echo said before; echo $$; sleep PID & echo $!; wait' took longer than 0.5 s and was ended; "
                + "it had written to stdout: said before\nPID\nPID")
    }

    /// All processes of the group ignore SIGTERM, and the children outlive the leader.
    @Test func whoIgnoresTheEndIsKilled() throws {
        #expect(
            try run(
                """
                local command = [[trap '' TERM; sh -c 'trap "" TERM; while :; do sleep 1; done' & echo $! $$; while :; do sleep 1; done]]
                local op = queue:addOperation(function(op)
                    local p = opscript.sh(command)
                    op.process = p
                    return p:wait().signal, p.stdout, op.isCancelled
                end)
                while not op.process do opscript.sleep(0.01) end
                opscript.sleep(0.2)
                op:cancel()
                op:waitUntilFinished()
                for pid in op.results[2]:gmatch '%d+' do awaitEnd(pid) end
                return op.results[1], op.results[3]
                """) == ["KILL", true])
    }

    /// The end of a program does not wait for the pipe that an orphan holds open, which has removed all traces of the program.
    @Test func anOrphanThatNobodyFindsKeepsNobodyWaiting() throws {
        #expect(
            try run(
                """
                local p = opscript.sh { "setsid -f env -i sh -c 'echo $$; exec sleep 1000'; sleep 1000", timeout = 0.5 }
                local ok = pcall(p.wait, p)
                assert(os.execute('kill ' .. p.stdout))
                return ok
                """) == [false])
    }

    @Test(arguments: ["op:cancel()", "op:interrupt()", "op.timeout = 0.01", "queue:cancelAllOperations()"])
    func whatEndsAnOperationEndsItsPrograms(_ how: String) throws {
        #expect(
            try run(
                """
                local op = queue:addOperation(function(op)
                    local first, second = start('sleep', 1000), opscript.sh 'yes'
                    op.pids = { first.pid, second.pid }
                    -- It does not wait for any of them when it is cancelled.
                    while not op.isCancelled do end
                    first:wait()
                    second:wait()
                end)
                while not op.pids do opscript.sleep(0.01) end
                \(how)
                op:waitUntilFinished()
                for _, pid in ipairs(op.pids) do awaitEnd(pid) end
                return op.error and op.error.kind
                """) == [how.contains("interrupt") ? "interrupted" : how.contains("timeout") ? "timeout" : .nil])
    }

    @Test(arguments: [("op:interrupt()", "interrupted"), ("op.timeout = 0.01", "timeout")])
    func anOperationThatWaitsForAProgramIsStoppedAtOnce(_ how: String, _ kind: String) throws {
        let message = try run(
            """
            local op = Operation.new { name = 'runner', main = function(op)
                local p = opscript.sh "trap '' TERM; while :; do sleep 1; done"
                op.pid = p.pid
                p:wait()
            end }
            queue:addOperation(op)
            while not op.pid do opscript.sleep(0.01) end
            \(how)
            op:waitUntilFinished()
            local pid, error = op.pid, op.error
            awaitEnd(pid)
            return error.message, error.kind
            """)
        let suffix = kind == "timeout" ? "timeout: 'runner' took longer than 0.01 s" : "interrupted"
        #expect(message == [.string("script:4: \(suffix)"), .string(kind)])
    }

    @Test func aCancelledOperationStartsNothingThatLasts() throws {
        #expect(
            try run(
                """
                local op = queue:addOperation(function(op)
                    op:cancel()
                    return start('sleep', 1000):wait().signal
                end)
                op:waitUntilFinished()
                return op.result
                """) == ["TERM"])
    }

    /// Only cancelling the operation that started the program ends it.
    @Test func cancellingAnotherOnesWaitLeavesTheProgramAlone() throws {
        #expect(
            try run(
                """
                local p = start('sleep', 1000)
                local op = queue:addOperation(function(op) op.isRunning = true; return p:wait() == nil end)
                while not op.isRunning do opscript.sleep(0.01) end
                op:cancel()
                op:waitUntilFinished()
                local wasRunning = p.isRunning
                p:kill()
                return op.result, wasRunning, p:wait().signal
                """) == [true, true, "TERM"])
    }

    @Test func aProgramOutlivesTheOperationThatStartedItAndIsWaitedForAtTheEnd() throws {
        try withRuntime { runtime throws in
            let path = try runtime.run(
                """
                local path = os.tmpname()
                local op = queue:addOperation(function() opscript.sh { 'sleep 0.3; echo written', stdout = path } end)
                op:waitUntilFinished()
                op:cancel()
                return path
                """)
            _ = try runtime.finish()
            let text = try runtime.run("local f <close> = io.open(..., 'r'); os.remove(...); return f:read 'a'", arguments: path)
            #expect(text == ["written\n"])
        }
    }

    @Test func closingTheRuntimeEndsAllPrograms() throws {
        let pids = try withRuntime { runtime throws in
            try runtime.run(
                """
                local first = opscript.sh 'sleep 1000 & wait'
                local second = opscript.process { 'sleep', 1000, onExit = print }
                local op = queue:addOperation(function() local p = opscript.sh 'yes > /dev/null'; return p.pid end)
                op:waitUntilFinished()
                return first.pid, second.pid, op.result
                """)
        }
        try withRuntime { runtime throws in
            try runtime.run(Self.prelude)
            try runtime.run("for _, pid in ipairs { ... } do assert(isGone(pid)) end", arguments: pids)
        }
    }

    @Test func anEndWhileItFloodsItsPipe() throws {
        #expect(
            try run(
                """
                local list = {}
                for i = 1, 20 do
                    list[i] = queue:addOperation(function(op)
                        local p = opscript.sh 'yes'
                        op.isRunning = true
                        return p:wait().signal
                    end)
                end
                for _, op in ipairs(list) do
                    while not op.isRunning do opscript.sleep(0.001) end
                    op:cancel()
                end
                queue:waitUntilAllOperationsAreFinished()
                local count = 0
                for _, op in ipairs(list) do if op.result == 'TERM' then count = count + 1 end end
                return count
                """) == [20])
    }

    // MARK: what a program inherits

    @Test func aProgramOfAWorkerHasNoSignalsBlockedAndIsInAGroupOfItsOwn() throws {
        #expect(
            try run(
                """
                local op = queue:addOperation(function()
                    local p = opscript.sh [[cat /proc/self/status; ps -o pgid= -p $$; echo $$]]
                    local text = p:wait().stdout
                    local ignored = tonumber(text:match 'SigIgn:%s*(%x+)', 16)
                    local group = tonumber(text:match '(%d+)%s+%d+%s*$')
                    return tonumber(text:match 'SigBlk:%s*(%x+)', 16), ignored & 1 << 12, group == p.pid
                end)
                op:waitUntilFinished()
                return op.results[1], op.results[2], op.results[3]
                """) == [0, 0, true])
    }

    @Test func aProgramGetsNoneOfTheFilesThatAreOpen() throws {
        #expect(
            try run(
                """
                local file <close> = io.open '/dev/null'
                local other = opscript.process { 'cat', input = ('x'):rep(1000000) }
                local r = opscript.process { 'ls', '/proc/self/fd' }:wait()
                other:wait()
                return r.stdout
                """) == ["0\n1\n2\n3\n"])
    }
}
