extension AllocationSteps {
    /// The steps that run programs.
    static let programs = [
        "a program": """
        local program = opscript.process { 'cat', input = 'text', env = { KEY = 'value' }, cwd = '/', timeout = 100, captureLimit = 1000, slots = 1,
          grace = 1 }
        local result = program:wait()
        assert(result.status == 0 and result.stdout == 'text')
        local shown = opscript.run { 'echo', 'text', timeout = 100 } .. opscript.quote "it's"
        local _, problem = pcall(opscript.run, { 'false' })
        shown = shown .. tostring(problem)
        return tostring(program), program.pid, program.isRunning, program.stdout, pcall(opscript.process, { '/no/such/program', terminal = false })
        """,
        "the pipes of a program": """
        local program = opscript.process { 'cat', stdin = 'pipe', stdout = 'pipe', stderr = 'stdout' }
        program:write('one\\n', n, '\\n' .. ('long'):rep(500) .. '\\n'):closeInput()
        local first, number, rest = program:read('l', 'n', 'a')
        assert(first == 'one' and number == n and #rest == 2002)
        program.stdout:close()
        local other = opscript.process { 'echo', 'text', stdout = 'pipe' }
        assert(opscript.run { 'cat', stdin = other, label = false } == 'text' and opscript.pipeline({ 'echo', 'a' }, { 'cat' }) == 'a')
        opscript.process({ 'echo', 'a', onLine = function(line) assert(line == 'a') end }):wait()
        return tostring(program.stdout)
        """,
        "a request": """
        local options = { method = 'PUT', headers = { A = 'b' }, body = 'text', timeout = 100, connectTimeout = 10, retries = 0,
          captureLimit = 1000, ok = { 404 } }
        local isDone, problem = pcall(opscript.fetch, 'http://127.0.0.1:1/', options)
        assert(not isDone)
        return tostring(problem), select(2, pcall(opscript.fetch, 'ftp://127.0.0.1/'))
        """,
        "the lines of a program": """
        local count = 0
        for line, byte in opscript.process({ 'printf', 'a\\nb', stdout = 'pipe' }):lines('L', 1) do count = count + #line + #(byte or '') end
        assert(count == 3)
        """,
    ]
}
