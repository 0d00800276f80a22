import Glibc
import LuaBindings
import OpEngine
import TestSupport
import Testing

/// `opscript.fetch`, against `Tests/FetchServer/server.py`. No test needs a network.
@Suite struct FetchTests {
    private static let server = #filePath.replacing("LuaBindingsTests/FetchTests.swift", with: "FetchServer/server.py")

    /// Starts a server, whose lines `server:read()` returns, and has its address in `base`. The functions: `fails` returns the message of a fetch that
    /// fails, without the address; `files` the names of the files in a folder.
    private static let beginning = """
        local server = opscript.process { '/usr/bin/python3', '\(server)', stdin = 'pipe', stdout = 'pipe' }
        local base = 'http://127.0.0.1:' .. server:read()
        local function fails(url, options)
          local ok, problem = pcall(opscript.fetch, url, options)
          assert(not ok, 'the request has not failed')
          return (tostring(problem):gsub(base:gsub('%p', '%%%0'), 'BASE')), problem
        end
        local folder = opscript.run 'mktemp -d'
        local function files() return opscript.run { 'ls', '-A', folder } end
        local function read(name)
          local file <close> = io.open(folder .. '/' .. name, 'rb')
          return file and file:read 'a'
        end

        """

    private static let end = "\nopscript.run { 'rm', '-r', folder } server:closeInput() server:wait()"

    /// Runs a script with a server.
    @discardableResult
    private func serve(workers: Int = 2, _ source: String) throws -> [LuaValue] {
        try script(
            workers: workers,
            "\(Self.beginning) local values = table.pack((function() \(source) end)()) \(Self.end) return table.unpack(values)")
    }

    @Test("A fetch returns status, headers, body and address, in the main state and in a body")
    func responses() throws {
        try serve(
            """
            local function use()
              local r = opscript.fetch(base .. '/echo')
              assert(r.status == 200 and r.url == base .. '/echo' and r.body:find '^GET /echo\\n\\naccept', r.body)
              assert(r.headers['content-type'] == 'text/plain' and r.headers['x-two'] == 'one, two')
              assert(r.body:find 'user%-agent: opscript/%d')
              r = opscript.fetch(base .. '/echo', { body = 'a\\0b', headers = { ['X-Name'] = 'value', Empty = '', Number = 5, ['User-Agent'] = 'own' } })
              assert(r.body:find('^POST /echo\\na\\0b\\n') and not r.body:find 'content%-type' and not r.body:find 'expect', r.body)
              assert(r.body:find 'x%-name: value' and r.body:find 'empty: \\n' and r.body:find 'number: 5' and r.body:find 'agent: own', r.body)
              for _, method in ipairs { 'PUT', 'PATCH', 'DELETE' } do
                assert(opscript.fetch(base .. '/echo', { method = method, body = 'text' }).body:find('^' .. method .. ' /echo\\ntext\\n'))
              end
              assert(opscript.fetch(base .. '/echo', { method = 'POST' }).body:find '^POST /echo\\n\\n')
              local head = opscript.fetch(base .. '/echo', { method = 'HEAD' })
              assert(head.body == '' and tonumber(head.headers['content-length']) > 0)
              assert(#opscript.fetch(base .. '/large/3000000').body == 3000000)
            end
            use()
            queue:addOperation(use):get()
            """)
    }

    @Test("A status that is no success is an error with the reason and the first line of a text, unless ok accepts it")
    func failures() throws {
        try serve(
            """
            local message, problem = fails(base .. '/nothing')
            assert(message == 'GET BASE/nothing: 404 Not Found: there is no such page', message)
            assert(problem.status == 404 and problem.body:find 'second line' and problem.method == 'GET' and problem.url == base .. '/nothing')
            assert(problem.headers['content-type'] == 'text/plain')
            assert(fails(base .. '/status/500') == 'GET BASE/status/500: 500 Internal Server Error: {"problem": "as asked"}')
            assert(fails(base .. '/status/304', { ok = function() return false end }):find '304 Not Modified')
            assert(opscript.fetch(base .. '/status/304').status == 304)
            for _, ok in ipairs { 404, { 410, 404 }, function(response) return response.status == 404 end } do
              assert(opscript.fetch(base .. '/nothing', { ok = ok }).status == 404)
            end
            assert(fails(base .. '/nothing', { ok = 410 }):find '404')
            assert(fails(base .. '/echo', { ok = function(response) return response.body:find 'PUT' end }):find '^GET BASE/echo: 200 OK: GET /echo')
            assert(fails(base:gsub('//', '//user:secret@') .. '/nothing') == message)
            assert(fails 'http://127.0.0.1:1/':find "^GET http://127.0.0.1:1/: .*onnect")
            assert(fails 'http://no-such-host.invalid/' == 'GET http://no-such-host.invalid/: Could not resolve host: no-such-host.invalid')
            local op = queue:addOperation(function() return opscript.fetch(base .. '/nothing') end)
            op:waitUntilFinished()
            assert(op.error.value.status == 404 and op.error.message == tostring(op.error.value), op.error.message)
            """)
    }

    @Test(
        "Misuse is one error with the caller's place",
        arguments: [
            ("()", "#1 to 'fetch' (URL expected, got nil)"), ("(5)", "#1 to 'fetch' (URL expected, got number)"),
            ("'ftp://host/'", "#1 to 'fetch' (a URL begins with http:// or https://, got 'ftp://host/')"),
            ("'http://host/a b'", "#1 to 'fetch' (a URL has no spaces and control characters: write %20)"),
            ("('http://host/', 5)", "#2 to 'fetch' (a table of options expected, got number)"),
            ("('http://host/', { timeot = 1 })", "#2 to 'fetch' (unknown option 'timeot' (did you mean 'timeout'?))"),
            ("('http://host/', { 'GET' })", "#2 to 'fetch' (options have names, got a number as a key)"),
            ("('http://host/', { method = 'get' })", "#2 to 'fetch' (method must be a method of HTTP such as \"PUT\", got 'get')"),
            ("('http://host/', { method = 'HEAD', body = 'x' })", "#2 to 'fetch' (a request with the method HEAD has no body)"),
            ("('http://host/', { headers = 'x' })", "#2 to 'fetch' (headers must be a table, got a string)"),
            ("('http://host/', { headers = { 'x' } })", "#2 to 'fetch' (headers have names, got a number as a key)"),
            ("('http://host/', { headers = { ['a b'] = 'x' } })", "#2 to 'fetch' ('a b' cannot be the name of a header)"),
            ("('http://host/', { headers = { ['a\\r\\nb'] = 'x' } })", "cannot be the name of a header)"),
            ("('http://host/', { headers = { a = 'x\\r\\nb: c' } })", "#2 to 'fetch' (headers[\"a\"] contains a line break)"),
            ("('http://host/', { headers = { a = 'x\\ny' } })", "#2 to 'fetch' (headers[\"a\"] contains a line break)"),
            ("('http://host/', { headers = { a = 'x\\0' } })", "#2 to 'fetch' (headers[\"a\"] contains a zero byte)"),
            ("('http://host/', { headers = { a = {} } })", "#2 to 'fetch' (headers[\"a\"] must be a string or an integer, got a table)"),
            ("('http://host/', { body = {} })", "#2 to 'fetch' (body must be a string, got a table)"),
            ("('http://host/', { timeout = 0 })", "timeout: seconds must be more than 0, got 0"),
            ("('http://host/', { connectTimeout = 'x' })", "connectTimeout: number expected, got string"),
            ("('http://host/', { retries = -1 })", "#2 to 'fetch' (retries must be an integer from 0 to 1000, got -1)"),
            ("('http://host/', { retries = 'x' })", "#2 to 'fetch' (retries must be an integer from 0 to 1000, got string)"),
            (
                "('http://host/', { retries = 1, body = 'x' })",
                "#2 to 'fetch' (retries is for requests that can be repeated without harm: not for POST)"
            ),
            ("('http://host/', { captureLimit = -1 })", "captureLimit must be a number of bytes"),
            ("('http://host/', { netrc = 1 })", "#2 to 'fetch' (netrc must be true or false, got a number)"),
            ("('http://host/', { output = '' })", "#2 to 'fetch' (output: '' is no path of a file)"),
            ("('http://host/', { output = '/tmp' })", "#2 to 'fetch' (output: '/tmp' is no regular file)"),
            ("('http://host/', { output = '/dev/null' })", "#2 to 'fetch' (output: '/dev/null' is no regular file)"),
            ("('http://host/', { output = '/proc/none' })", "cannot write '/proc/none': "),
            ("('http://host/', { ok = 'x' })", "#2 to 'fetch' (ok must be a status, an array of these or a function)"),
        ])
    func misuse(arguments: String, message: String) throws {
        let text = try script("local ok, problem = pcall(function()\nopscript.fetch \(arguments)\nend) return problem")
        let problem = text.first?.text ?? ""
        #expect(problem.contains("script:2: ") && problem.contains(message), "\(text)")
    }

    @Test("Redirects of GET, HEAD and POST are followed within http and https; credentials stay with their host")
    func redirects() throws {
        try serve(
            """
            local r = opscript.fetch(base .. '/redirect/302/to/echo')
            assert(r.url == base .. '/echo' and r.body:find '^GET' and not r.headers.location)
            assert(opscript.fetch(base .. '/redirect/303/to/echo', { body = 'text' }).body:find '^GET /echo\\n\\n')
            assert(opscript.fetch(base .. '/redirect/307/to/echo', { body = 'text' }).body:find '^POST /echo\\ntext\\n')
            assert(opscript.fetch(base .. '/redirect/302/to/echo', { method = 'HEAD' }).url == base .. '/echo')
            assert(fails(base .. '/loop') == 'GET BASE/loop: Maximum (10) redirects followed')
            assert(fails(base .. '/redirect/302?ftp://127.0.0.1/'):find 'rotocol "?ftp"?')
            assert(fails(base .. '/redirect/302?file:///etc/passwd'):find 'rotocol "?file"?')
            for _, method in ipairs { 'PUT', 'DELETE' } do
              assert(fails(base .. '/redirect/303/to/echo', { method = method }) == method .. ' BASE/redirect/303/to/echo: 303 See Other')
            end
            local secrets = { Authorization = 'secret', Cookie = 'secret' }
            local other = base:gsub('127.0.0.1', 'localhost')
            assert(opscript.fetch(base .. '/redirect/302/to/echo', { headers = secrets }).body:find 'authorization: secret')
            r = opscript.fetch(base .. '/redirect/302?' .. other .. '/echo', { headers = secrets })
            assert(r.url == other .. '/echo' and not r.body:find 'secret', r.body)
            r = opscript.fetch(base:gsub('//', '//user:word@') .. '/redirect/302?' .. other .. '/echo')
            assert(r.url == other .. '/echo' and not r.body:find 'authorization', r.body)
            """)
    }

    @Test("A request is repeated after failures of the connection, 408, 429 and 5xx, as often as retries says")
    func retries() throws {
        try serve(
            """
            assert(opscript.fetch(base .. '/fail/a/2/503', { retries = 2 }).body == '3')
            assert(opscript.fetch(base .. '/fail/b/1/429', { retries = 5, method = 'PUT', body = 'text' }).body == '2')
            assert(opscript.fetch(base .. '/drop/c/1', { retries = 1 }).body == '2')
            assert(fails(base .. '/fail/d/9/500', { retries = 1 }) == 'GET BASE/fail/d/9/500: 500 Internal Server Error (after 2 attempts)')
            assert(fails(base .. '/fail/e/9/400', { retries = 5 }) == 'GET BASE/fail/e/9/400: 400 Bad Request')
            assert(fails('http://127.0.0.1:1/', { retries = 1 }):find '%(after 2 attempts%)$')
            local start = opscript.now()
            assert(opscript.fetch(base .. '/fail/f/1/503/1', { retries = 1 }).body == '2' and opscript.now() - start >= 1)
            -- The next attempt would be too late.
            assert(fails(base .. '/fail/g/1/503/100', { retries = 1, timeout = 50 }) == 'GET BASE/fail/g/1/503/100: 503 Service Unavailable')
            local op = queue:addOperation(function() opscript.fetch(base .. '/fail/h/1/503/1000', { retries = 1 }) end)
            repeat until server:read() == 'fails h'
            op:cancel()
            op:waitUntilFinished()
            assert(op.isCancelled and op.error.kind == 'interrupted', tostring(op))
            """)
    }

    @Test("A fetch that hangs ends with its operation, or by its timeout, and leaves no file", arguments: ["headers", "body"])
    func hanging(stage: String) throws {
        try serve(
            """
            local url, after = base .. '/hang/\(stage)', false
            local function start(options)
              local op = queue:addOperation(opscript.Operation.new { timeout = options and options.limit, main = function()
                opscript.fetch(url, { output = folder .. '/file', timeout = options and options.timeout })
                after = true
              end })
              return op
            end
            for _, stop in ipairs { 'cancel', 'interrupt' } do
              local op = start()
              assert(server:read() == 'hangs in \(stage)')
              op[stop](op)
              op:waitUntilFinished()
              assert(op.isCancelled and op.error.kind == 'interrupted', tostring(op))
            end
            local limited = start { limit = 0.05 }
            limited:waitUntilFinished()
            assert(limited.error.kind == 'timeout')
            local late = start { timeout = 0.05 }
            late:waitUntilFinished()
            assert(late.error.message:find 'hang/\(stage): it took longer than 0.05 s$', late.error.message)
            assert(not after and files() == '')
            """)
    }

    @Test("A fetch ends while it connects")
    func connecting() throws {
        try serve(
            """
            local port = opscript.fetch(base .. '/full').body
            local url = 'http://127.0.0.1:' .. port .. '/'
            assert(fails(url, { connectTimeout = 0.05 }):find 'after %d+ ms', 1)
            local function attempts()
              local file <close> = io.open '/proc/net/tcp'
              return select(2, file:read 'a':gsub((' 0100007F:%04X 02 '):format(port), ''))
            end
            local others = attempts()
            local op = queue:addOperation(function() opscript.fetch(url) end)
            while attempts() == others do opscript.sleep(0.001) end
            op:cancel()
            op:waitUntilFinished()
            assert(op.isCancelled and op.error.kind == 'interrupted', tostring(op))
            """)
    }

    @Test("Closing a runtime ends its fetches")
    func closing() throws {
        var configuration = Runtime.Configuration()
        configuration.workerCount = 2
        let runtime = try Runtime(configuration)
        try runtime.run(
            """
            \(Self.beginning)
            local queue = opscript.OperationQueue.new()
            for i = 1, 2 do queue:addOperation(function() opscript.fetch(base .. '/hang/body', { output = folder .. '/' .. i }) end) end
            for i = 1, 2 do server:read() end
            queue:addOperation(function() end)
            """)
        #expect(runtime.close(deadline: .seconds(30)).isEmpty)
    }

    @Test(
        "A download that breaks off continues if the server can tell that the rest belongs to the beginning, and else begins again",
        arguments: [
            ("etag", "bytes=50000- \"one\""), ("date", "bytes=50000- Sun, 01 Nov 2026 08:49:37 GMT"),
            ("weak", "None None"), ("none", "None None"), ("changed", "bytes=50000- \"1\""),
            ("wrong", "bytes=50000- \"one\"|None None"),
        ])
    func resuming(kind: String, asked: String) throws {
        let values = try serve(
            """
            local r = opscript.fetch(base .. '/part/x/100000/\(kind)', { output = folder .. '/deep/file', retries = 3 })
            assert(r.body == nil and files() == 'deep' and read 'deep/file' == ('0123456789abcdef'):rep(6250))
            assert(server:read() == 'part None None')
            local asked = { server:read() }
            if '\(kind)' == 'wrong' then asked[2] = server:read() end
            return table.concat(asked, '|'):gsub('part ', '')
            """)
        #expect(values.first == .string(asked))
    }

    @Test("A file gets its name when it is whole; an error leaves the old file")
    func outputs() throws {
        try serve(
            """
            local path = folder .. '/file'
            opscript.fetch(base .. '/echo', { output = path, body = 'first' })
            assert(read 'file':find 'first')
            assert(fails(base .. '/part/a/100000/etag', { output = path }):find 'transfer closed')
            assert(fails(base .. '/nothing', { output = path }):find 'there is no such page')
            assert(opscript.fetch(base .. '/nothing', { output = path, ok = 404 }).body:find 'second line')
            assert(read 'file':find 'first' and files() == 'file')
            opscript.fetch(base .. '/large/0', { output = path })
            assert(read 'file' == '' and files() == 'file')
            -- The bytes of a part that the script asks for itself.
            local r = opscript.fetch(base .. '/part/b/100000/date', { output = path, retries = 1, headers = { Range = 'bytes=1-' } })
            assert(r.status == 200 and #read 'file' == 100000)
            queue:addOperation(function(op) opscript.fetch(base .. '/echo', { output = op:output(folder .. '/made') }) end):get()
            assert(read 'made':find '^GET')
            """)
    }

    @Test("A body is at most as large as captureLimit, and as half of the operation's memory")
    func limits() throws {
        try serve(
            """
            assert(fails(base .. '/large/1001', { captureLimit = 1000 }) == 'GET BASE/large/1001: the body has more than 1000 bytes (captureLimit)')
            assert(#opscript.fetch(base .. '/large/1000', { captureLimit = 1000 }).body == 1000)
            local op = queue:addOperation(opscript.Operation.new { memoryLimit = 2 << 20, main = function()
              return opscript.fetch(base .. '/large/2000000')
            end })
            op:waitUntilFinished()
            assert(op.error.message:find 'more than 1048576 bytes', op.error.message)
            """)
    }

    @Test("A queue bounds the fetches that run at once, not the workers")
    func concurrency() throws {
        try serve(
            workers: 2,
            """
            queue.maxConcurrentOperationCount = 4
            local ops = {}
            for i = 1, 20 do ops[i] = queue:addOperation(function() return tonumber(opscript.fetch(base .. '/together/4').body) end) end
            local most = 0
            for _, op in ipairs(ops) do most = math.max(most, op:get()) end
            assert(most == 4, most)
            """)
    }

    @Test("A sandbox has no fetch; with the network alone, fetch uses no files")
    func sandbox() throws {
        for allowsNetwork in [false, true] {
            var configuration = Runtime.Configuration()
            configuration.sandbox = .untrusted
            configuration.sandbox.allowsNetwork = allowsNetwork
            let runtime = try Runtime(configuration)
            defer { runtime.close() }
            let values = try runtime.run(
                """
                if not opscript.fetch then return 'absent' end
                local found = { select(2, pcall(opscript.fetch, 'http://127.0.0.1:1/')).method }
                for _, option in ipairs { 'output', 'cafile', 'netrc' } do
                  found[#found + 1] = select(2, pcall(opscript.fetch, 'http://127.0.0.1:1/', { [option] = 'x' })):match '%((%a+) is not available'
                end
                return table.concat(found, ' ')
                """)
            #expect(values == [allowsNetwork ? "GET output cafile netrc" : "absent"])
        }
    }

    @Test("A body in a worker process fetches through its host, and ends with its operation")
    func workerProcesses() throws {
        try withProcesses { runtime in
            try runtime.run(
                """
                \(Self.beginning)
                local op = queue:addOperation(function()
                  local r = opscript.fetch(base .. '/nothing', { ok = function(response) return response.status == 404 end, output = folder .. '/file' })
                  local _, problem = pcall(opscript.fetch, base .. '/nothing')
                  return r.body, r.headers['content-type'], tostring(problem), opscript.fetch(base .. '/echo', { output = folder .. '/file' }).status
                end)
                local body, kind, problem, status = op:get()
                assert(body:find '^there' and kind == 'text/plain' and problem:find '404 Not Found: there' and status == 200)
                assert(files() == 'file')
                local hanging = queue:addOperation(function() opscript.fetch(base .. '/hang/headers') end)
                server:read()
                hanging:cancel()
                hanging:waitUntilFinished()
                assert(hanging.isCancelled and hanging.error.kind == 'interrupted')
                \(Self.end)
                """)
        }
    }
}
