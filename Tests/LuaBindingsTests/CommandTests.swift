import LuaBindings
import TestSupport
import Testing

/// Commands of `os.execute` and `io.popen`, in operations that are stopped.
@Suite struct CommandTests {
    /// Runs `body` in an operation, with the path `path`, which the body's command writes its process number to. Then `stop` stops the operation
    /// `op`, or has it stop. Checks that it ends with the kind of error `kind`, and that the command is gone.
    private func expectEnd(of body: String, stopping stop: String = "op:interrupt()", options: String = "", kind: String = "interrupted")
        throws
    {
        try withRuntime(workers: 2) { runtime in
            try runtime.run(
                """
                local path = os.tmpname()
                local function contents()
                  local file <close> = assert(io.open(path))
                  return file:read 'a'
                end
                local op = Operation.new { \(options) arguments = { path }, main = function(op, path) \(body) end }
                queue:addOperation(op)
                while not contents():find '\\n' do opscript.sleep(0.001) end
                local process = contents():match '%d+'
                \(stop)
                op:waitUntilFinished()
                assert(op.error.kind == '\(kind)', op.error)
                local function isRunning()
                  local file <close> = io.open('/proc/' .. process .. '/status')
                  -- The file may be open when the process goes.
                  local text = file and file:read 'a'
                  return text and not text:find 'State:%s+[XZ]'
                end
                while isRunning() do opscript.sleep(0.001) end
                os.remove(path)
                """)
        }
    }

    /// The shell waits for a child of its own.
    private static let sleeping = "'sleep 1000 & echo $! >' .. path .. '; wait; true'"
    /// The number is a `sleep`'s that SIGTERM does not end.
    private static let stubborn = #""trap '' TERM; sleep 1000 & echo $! >" .. path .. "; while :; do wait; done""#

    private static let writing = "'echo $$ >' .. path .. '; exec cat >/dev/null'"

    @Test(arguments: [
        "os.execute(\(sleeping))", "io.popen(\(sleeping)):read 'a'", "io.popen(\(sleeping), 'w'):close()",
        "pcall(os.execute, \(sleeping)) while true do end", "os.execute(\(stubborn))",
        "local f <close> = io.popen(\(stubborn)) while true do end",
        "local f <close> = io.popen(\(sleeping), 'w') f:write 'x' while true do end",
        "local f <close> = io.popen(\(writing), 'w') while true do f:write(('x'):rep(1000)) end", "io.popen(\(stubborn)):read 'a'",
        // The script does not close these files. Closing the state writes the rest.
        "io.popen(\(sleeping), 'w'):write(('x'):rep(100)) while true do end", "io.popen(\(stubborn)) while true do end",
        "local f = io.popen(\(writing), 'w') while true do f:write(('x'):rep(1000)) end",
    ])
    func aCommandEndsWithItsBody(body: String) throws { try expectEnd(of: body) }

    @Test func aCommandEndsWithTheTimeOfItsBody() throws {
        try expectEnd(of: "os.execute(\(Self.sleeping))", stopping: "op.timeout = 0.01", kind: "timeout")
    }

    @Test func aCommandEndsWhenItsBodyHasNoMemory() throws {
        try expectEnd(
            of: """
                local f <close> = io.popen(\(Self.sleeping))
                while not op.mayGrow do opscript.sleep(0.001) end
                local t = {}
                while true do t[#t + 1] = ('x'):rep(1000) .. #t end
                """,
            stopping: "op.mayGrow = true", options: "memoryLimit = 4000000,", kind: "memory")
    }

    @Test func aCommandThatOutlivesItsBodyIsNoneOfAnother() throws {
        try withRuntime(workers: 1) { runtime in
            let results = try runtime.run(
                """
                local path = os.tmpname()
                -- The worker keeps the file: the collector would close it in a later body, and that body would wait for the command.
                local function body(_, path) debug.getregistry().kept = io.popen('sleep 0.3; echo survived >' .. path) end
                queue:addOperation(body, path):waitUntilFinished()
                for i = 1, 20 do
                  local op = queue:addOperation(function(op) op.hasBegun = true while true do end end)
                  while not op.hasBegun do opscript.sleep(0.001) end
                  op:interrupt()
                  op:waitUntilFinished()
                end
                local text
                local deadline = opscript.now() + 60
                while not text do
                  assert(opscript.now() < deadline, "the command has ended with another body")
                  local file <close> = assert(io.open(path))
                  text = file:read 'l'
                  opscript.sleep(0.01)
                end
                os.remove(path)
                return text
                """)
            #expect(results == ["survived"])
        }
    }

    @Test func onlyCommandsOfTheStoppedBodyEnd() throws {
        try withRuntime(workers: 2) { runtime in
            let results = try runtime.run(
                """
                local path = os.tmpname()
                local other = queue:addOperation(function(_, path) return os.execute('until test -s ' .. path .. '; do sleep 0.01; done') end, path)
                local own = io.popen('cat', 'w')
                local op = queue:addOperation(function(op, path)
                  local cleaning <close> = setmetatable({}, { __close = function() assert(os.execute('echo cleaned >' .. path)) end })
                  op.hasBegun = true
                  io.popen('sleep 1000'):read 'a'
                end, path)
                while not op.hasBegun do opscript.sleep(0.001) end
                op:interrupt()
                op:waitUntilFinished()
                assert(op.error.kind == 'interrupted', op.error)
                other:waitUntilFinished()
                local file <close> = assert(io.open(path))
                os.remove(path)
                return other.result, file:read 'l', own:close()
                """)
            #expect(results == [true, "cleaned", true, "exit", 0])
        }
    }

    @Test func aCommandHasTheSignalsOfAnyProgram() throws {
        try withRuntime { runtime in
            let results = try runtime.run(
                """
                local op = queue:addOperation(function()
                  local function blocked(file) return file:read 'a':match 'SigBlk:%s*(%x+)' end
                  local path = os.tmpname()
                  os.execute('cat /proc/self/status >' .. path)
                  local file <close> = assert(io.open(path))
                  os.remove(path)
                  return blocked(io.popen 'cat /proc/self/status'), blocked(file)
                end)
                op:waitUntilFinished()
                return table.unpack(op.results)
                """)
            #expect(results == ["0000000000000000", "0000000000000000"])
        }
    }

    @Test func aFileOfACommandBehavesAsInLua() throws {
        try withRuntime { runtime in
            let results = try runtime.run(
                """
                local path = os.tmpname()
                local writer = io.popen('cat >' .. path, 'w')
                writer:write 'some text'
                assert(writer:close() == true)
                local file <close> = assert(io.open(path))
                os.remove(path)
                local killed = io.popen 'kill $$'
                local lines = {}
                for line in io.popen "printf 'a\\nb'":lines() do lines[#lines + 1] = line end
                return file:read 'a', table.concat(lines, ','), io.type(killed), select('#', killed:close()), io.type(killed),
                  select(2, pcall(io.popen, 'true', 'x')), select(3, io.popen 'exit 3':close())
                """)
            #expect(
                results == [
                    "some text", "a,b", "file", 3, "closed file", "bad argument #2 to 'io.popen' (invalid mode)", 3,
                ])
        }
    }
}
