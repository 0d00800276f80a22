import LuaBindings
import TestSupport
import Testing

/// How programs are found, and how they and their descendants end.
@Suite struct ProgramDescendantTests {
    @Test(
        "Descendants in other sessions end with a program that is cancelled, or exceeds a limit",
        arguments: [
            "setsid sh -c 'echo $$; exec sleep 1000' &", "setsid -f sh -c 'echo $$; exec sleep 1000';",
            "setsid env -i sh -c 'echo $$; exec sleep 1000' &",
            "setsid -f sh -c 'echo $$; setsid -f sh -c \"trap : TERM; sleep 1000; sleep 1000\"';",
        ], ["cancel", "timeout", "operation's timeout", "captureLimit"])
    func sessions(child: String, cause: String) throws {
        try script(
            processFunctions + """
                local cause, command = "\(cause)", [[\(child) sleep 1000]]
                if cause == "captureLimit" then command = command:gsub("sleep 1000$", "until test -s pid; do sleep 0.01; done; yes") end
                local path = os.tmpname()
                local op = opscript.Operation.new { main = function(op)
                    local options = { command:gsub("echo %$%$", "echo $$ >> " .. path), grace = 0.05 }
                    options[2] = nil
                    if cause == "timeout" then options.timeout = 0.3 end
                    if cause == "captureLimit" then
                        options.captureLimit = 1000
                        options[1] = options[1]:gsub("test %-s pid", "test -s " .. path)
                    end
                    opscript.sh(options):wait()
                end }
                if cause == "operation's timeout" then op.timeout = 0.3 end
                queue:addOperation(op)
                local stop, text = opscript.now() + 30, ""
                while not text:find "\\n" do
                    local file = io.open(path)
                    text = file:read "a"
                    file:close()
                    assert(opscript.now() < stop)
                    opscript.sleep(0.01)
                end
                if cause == "cancel" then op:cancel() end
                op:waitUntilFinished()
                for pid in text:gmatch "%d+" do awaitEnd(pid) end
                os.remove(path)
                assert(op.error == nil or op.error.message)
                """)
    }

    @Test("A program that has exited keeps its number while descendants hold its output, so no signal reaches a stranger")
    func zombie() throws {
        try script(
            processFunctions + """
                local program = opscript.process { "sh", "-c", "sleep 1000 & exit 3", stdout = "capture" }
                local path, state = "/proc/" .. program.pid .. "/stat"
                repeat
                    local file = assert(io.open(path), "the system may use the number again")
                    state = file:read "a":match "%) (%a)"
                    file:close()
                until state == "Z"
                program:kill "TERM"
                assert(program:wait().status == 3 and not io.open(path))
                """)
    }

    @Test("A daemon outlives a program that ends by itself, also when its operation or the runtime ends later")
    func daemons() throws {
        var pid = 0
        try withRuntime { runtime in
            let values = try runtime.run(
                processFunctions + """
                    local op = queue:addOperation(function(op)
                        op.daemon = opscript.run "setsid -f sh -c 'echo $$; exec sleep 1000 > /dev/null 2>&1'"
                        opscript.sleep(1e6)
                    end)
                    while not op.daemon do opscript.sleep(0.01) end
                    local other = opscript.process { "sleep", "1000" }
                    op:interrupt()
                    op:waitUntilFinished()
                    other:kill()
                    other:wait()
                    assert(op.error.kind == "interrupted" and not isGone(op.daemon))
                    return tonumber(op.daemon)
                    """)
            pid = Int(values[0].integer ?? 0)
            _ = try runtime.finish()
        }
        try script(processFunctions + "assert(not isGone(\(pid)) and os.execute 'kill \(pid)') awaitEnd(\(pid))")
    }

    @Test("grace is the time between the signals, and no time passes when no process is left")
    func grace() throws {
        try script(
            processFunctions + """
                local function time(options)
                    local p = opscript.process(options)
                    while not p.isRunning do end
                    local start = opscript.now()
                    local ok, message = pcall(p.wait, p)
                    assert(not ok and message:find "was ended")
                    awaitEnd(p.pid)
                    return opscript.now() - start
                end
                assert(time { "sleep", "1000", timeout = 0.01, grace = 1000 } < 30)
                local stubborn = "trap '' TERM; while :; do sleep 0.01; done"
                assert(time { "sh", "-c", "echo; " .. stubborn, timeout = 0.2, grace = 0 } < 30)
                local between = time { "sh", "-c", stubborn, timeout = 0.2, grace = 0.5 }
                assert(between >= 0.69, between)
                for value, message in pairs { [-1] = "grace must be 0 or more seconds, got %-1", x = "grace must be a number of seconds, got a string" } do
                    local ok, text = pcall(opscript.process, { "true", grace = value })
                    assert(not ok and text:find(message), text)
                end
                local ok, text = pcall(opscript.process, { "true", terminal = 1 })
                assert(text:find "terminal must be true or false, got a number", text)
                """)
    }

    @Test("PATH in env decides where a program is found, and cwd where a relative folder of PATH is")
    func path() throws {
        try script(
            """
            local folder = os.tmpname()
            os.remove(folder)
            assert(os.execute("mkdir -p " .. folder .. "/bin " .. folder .. "/empty"))
            local file = io.open(folder .. "/bin/ls", "w")
            file:write "#!/bin/sh\\necho mine"
            file:close()
            assert(os.execute("chmod +x " .. folder .. "/bin/ls && touch " .. folder .. "/empty/ls"))
            local function found(path, cwd) return opscript.run { "ls", env = { PATH = path }, cwd = cwd } end
            assert(found(folder .. "/bin:/bin") == "mine")
            assert(found(folder .. "/nothing:" .. folder .. "/empty:" .. folder .. "/bin") == "mine")
            assert(found("bin", folder) == "mine" and found("", folder .. "/bin") == "mine")
            assert(opscript.run { "ls", folder, env = { PATH = false } } == "bin\\nempty")
            local function refusal(path) return select(2, pcall(found, path)) end
            assert(refusal(folder):find "cannot start 'ls': No such file or directory", refusal(folder))
            assert(refusal(folder .. "/empty"):find "cannot start 'ls': Permission denied", refusal(folder .. "/empty"))
            os.execute("rm -r " .. folder)
            """)
    }
}
