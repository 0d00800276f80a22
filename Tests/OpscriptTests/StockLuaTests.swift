import Glibc
import Testing

@Suite("The module in the stock interpreter")
struct StockLuaTests {
    @Test("A golden script does the same with lua5.4 -lopscript", arguments: Golden.all)
    func golden(script: Golden) throws {
        var command = try StockLua.command("-lopscript", script.name + ".lua").directory(Paths.golden)
        command.arguments += (script.text("args") ?? "").split(separator: "\n").map(String.init)
        let expected = Outcome(
            status: script.text("status").flatMap { Int32($0.filter(\.isNumber)) } ?? 0, output: try #require(script.file("expected")),
            errors: script.file("stderr") ?? [])
        let outcome = try command.run()
        #expect(outcome == expected, "\(outcome)")
    }

    @Test("require returns the module and sets no global")
    func loading() throws {
        let outcome = try StockLua.run(
            """
            local module = require "opscript"
            print(rawget(_G, "opscript"), module == package.loaded.opscript)
            package.loaded.opscript = nil
            print(require "opscript" == module)
            local op = module.OperationQueue.new():addOperation(function() return 6 * 7, module ~= nil end)
            op:waitUntilFinished()
            print(table.unpack(op.results))
            """)
        #expect(outcome == Outcome(status: 0, output: Array("nil\ttrue\ntrue\n42\ttrue\n".utf8), errors: []), "\(outcome)")
    }

    @Test("What a script has done before it loads the module stays, and travels")
    func earlierChanges() throws {
        let outcome = try StockLua.run(
            """
            limit = 5
            function helper() return limit + 1 end
            local print0, pcall0, require0, wrap0 = print, pcall, require, coroutine.wrap
            print = function(...) print0("mine:", ...) end
            local json, lfs = require "cjson", require "lfs"
            local utf8Before = utf8
            utf8 = nil
            setmetatable(_G, { __newindex = function(_, name) error("assigned " .. name, 2) end })
            local opscript = require "opscript"
            local op = opscript.OperationQueue.new():addOperation(function()
              print("body", helper())
              return json.encode { 1, 2 }, lfs.currentdir() ~= nil, pcall0(error, "caught"), require0 "cjson" == json, wrap0(helper)()
            end)
            op:waitUntilFinished()
            print(table.unpack(op.results))
            print(utf8, utf8Before ~= nil, pcall(function() new = 1 end))
            """)
        let expected = """
            mine:\tbody\t6
            mine:\t[1,2]\ttrue\tfalse\ttrue\t6
            mine:\tnil\ttrue\tfalse\tstdin:16: assigned new

            """
        #expect(outcome == Outcome(status: 0, output: Array(expected.utf8), errors: []), "\(outcome)")
    }

    @Test("Coroutines that are older than the module, also hidden ones, and the one that loads it, can use it")
    func coroutines() throws {
        let outcome = try StockLua.run(
            """
            local opscript
            local function use() return opscript.OperationQueue.new():addOperation(function() return 7 end) end
            local function body(...)
              local hidden = ...
              coroutine.yield()
              local op = use()
              op:waitUntilFinished()
              print(hidden, op.result)
            end
            local inMetatable = setmetatable({}, { [coroutine.create(body)] = true })
            for co in pairs(getmetatable(inMetatable)) do coroutine.resume(co, "a key of a metatable") end
            local inUpvalue = coroutine.wrap(body)
            inUpvalue("an upvalue of a C function")
            local inArguments = coroutine.create(function(...) coroutine.yield() coroutine.resume((...)) end)
            local last = coroutine.create(body)
            coroutine.resume(last, "a vararg of a coroutine")
            coroutine.resume(inArguments, last)
            last = nil
            local notStarted = coroutine.create(function() local op = use() op:waitUntilFinished() print("not started", op.result) end)
            local loader = coroutine.create(function()
              opscript = require "opscript"
              local op = use()
              coroutine.yield()
              op:waitUntilFinished()
              print("the loader", op.result)
            end)
            coroutine.resume(loader)
            for co in pairs(getmetatable(inMetatable)) do coroutine.resume(co) end
            inUpvalue()
            coroutine.resume(inArguments)
            coroutine.resume(notStarted)
            coroutine.resume(loader)
            loader = nil
            collectgarbage()
            print(opscript.OperationQueue.new():addOperation(function() end) ~= nil)
            """)
        let expected = """
            a key of a metatable\t7
            an upvalue of a C function\t7
            a vararg of a coroutine\t7
            not started\t7
            the loader\t7
            true

            """
        #expect(outcome == Outcome(status: 0, output: Array(expected.utf8), errors: []), "\(outcome)")
    }

    @Test("Operations that are left run to their end, and unread failures are reported")
    func ending() throws {
        let script = """
            local opscript = require "opscript"
            local queue = opscript.OperationQueue.new()
            opscript.after(0.01, function() print("a timer") end)
            queue:addOperation(function() opscript.sleep(0.05) error("unread", 0) end)
            """
        let outcome = try StockLua.run(script)
        #expect(outcome.text == "a timer\n" && outcome.status == 1, "\(outcome)")
        #expect(outcome.errorText.hasPrefix("opscript: unread\n  in an operation"), "\(outcome)")
        #expect(outcome.errorText.hasSuffix("opscript: 1 operation failed\n"), "\(outcome)")
    }

    @Test("A callback at the end can be stopped, although it runs in a finalizer")
    func endingWithTimeout() throws {
        let outcome = try StockLua.run(
            """
            local opscript = require "opscript"
            local op = opscript.Operation.new { timeout = 0.05, main = function() while true do end end }
            op.completionBlock = function() print(op.error.kind) end
            opscript.OperationQueue.main:addOperation(op)
            """)
        #expect(outcome == Outcome(status: 0, output: Array("timeout\n".utf8), errors: []), "\(outcome)")
    }

    @Test("Finalizers that run after the end get errors, not crashes")
    func lateFinalizers() throws {
        let outcome = try StockLua.run(
            """
            local early = setmetatable({}, { __gc = function(object)
              print(pcall(function() object.queue:addOperation(function() end):waitUntilFinished() end))
              print(object.op.result)
            end })
            local opscript = require "opscript"
            early.queue = opscript.OperationQueue.new()
            early.op = early.queue:addOperation(function() return "result" end)
            kept = early
            """)
        let expected = "false\tstdin:2: Operation cannot be added: the engine was shut down\nresult\n"
        #expect(outcome == Outcome(status: 0, output: Array(expected.utf8), errors: []), "\(outcome)")
    }

    @Test(
        "os.exit ends the process with its status, from the script and from operations",
        arguments: [
            ("os.exit(4)", 4), ("os.exit(5, true)", 5), ("os.exit(true, true)", 0),
            ("queue:addOperation(function() os.exit(6) end) while true do end", 6),
            ("queue:addOperation(function() os.exit(7) end) opscript.sleep(1e6)", 7),
            ("queue:addOperation(function() opscript.sleep(0.05) os.exit(8) end)", 8),
        ] as [(String, Int32)])
    func exit(code: String, status: Int32) throws {
        let outcome = try StockLua.run(
            """
            local opscript = require "opscript"
            local queue = opscript.OperationQueue.new { maxConcurrentOperationCount = 2 }
            queue:addOperation(function(op) opscript.sleep(1e6) if not op.isCancelled then print("never") end end)
            \(code)
            """)
        #expect(outcome == Outcome(status: status, output: [], errors: []), "\(outcome)")
    }

    @Test("Ctrl-C ends a wait with an error, and what is left at the end with the signal")
    func interrupt() throws {
        let outcome = try StockLua.run(
            """
            local opscript = require "opscript"
            opscript.after(0.05, function() io.popen("kill -INT $PPID"):close() end)
            print(pcall(opscript.sleep, 1e6))
            print(pcall(opscript.sleep, 0.01))
            local sleeper = opscript.process { "sleep", 1000 }
            print(sleeper.pid)
            io.stdout:flush()
            opscript.OperationQueue.new():addOperation(function() sleeper:wait() end)
            opscript.after(0.3, function() io.popen("kill -INT $PPID"):close() end)
            """)
        #expect(outcome.lines.count == 3 && outcome.lines.starts(with: ["false\tinterrupted!", "true"]), "\(outcome)")
        #expect(outcome.status == 128 + SIGINT && outcome.errors.isEmpty, "\(outcome)")
        let pid = try #require(outcome.lines.last.flatMap { pid_t($0) })
        #expect(kill(pid, 0) != 0 && errno == ESRCH, "process \(pid) is still there")
    }

    @Test("The module needs no Lua of its own and exports one function")
    func symbols() throws {
        let outcome = try Command.shell(#"readelf -dW "$1" && nm -D --defined-only "$1""#, StockLua.module.get()).run()
        #expect(outcome.status == 0 && !outcome.text.contains("liblua") && outcome.text.contains("NODELETE"), "\(outcome)")
        #expect(
            outcome.lines.filter { $0.contains(" T ") }.map { $0.split(separator: " ").last } == ["lua" + "open_opscript"], "\(outcome)")
    }

    // To find handles among freed blocks, the allocator reads a number in each block and checks it. In other blocks it may be uninitialised.
    @Test("Valgrind finds no invalid access in a small script")
    func valgrind() throws {
        let script = """
            local old = coroutine.wrap(function() while true do coroutine.yield() end end)
            old()
            local opscript = require "opscript"
            old()
            local queue = opscript.OperationQueue.new()
            local op = opscript.Operation.new(function() return ("x"):rep(100000), { 1, 2, 3 } end)
            op.completionBlock = function() print("block") end
            queue:addOperation(op)
            op:waitUntilFinished()
            print(#op.result)
            queue:addOperation(function() print("left") end)
            """
        var command = try StockLua.command("-q", "--error-exitcode=99", "--undef-value-errors=no", "lua5.4", "-")
        command.program = "valgrind"
        command.timeout = 300
        let outcome = try command.input(script).run()
        #expect(outcome.status == 0 && outcome.lines.sorted() == ["100000", "block", "left"], "\(outcome)")
    }

    @Test("A state whose allocator cannot be shared, and a finalizer, get one clear error; several states on several threads work")
    func hosts() throws {
        let directory = try ScratchDirectory()
        let source = Paths.package + "/Tests/OpscriptTests/StockLua/host.c"
        let program = directory.path + "/host"
        let compiled = try Command.shell(#"cc -std=gnu11 -rdynamic -o "$2" "$1" -llua5.4 -lpthread"#, source, program).run()
        try #require(compiled.status == 0, "\(compiled)")
        var command = try StockLua.command()
        (command.program, command.name) = (program, "host")
        let outcome = try command.run()
        let refused =
            "module 'opscript' needs a state with the allocator of lua"
            + "L_newstate, because strings travel between states without being copied"
        #expect(outcome.status == 0 && outcome.errors.isEmpty, "\(outcome)")
        #expect(
            Array(outcome.lines.prefix(2)) == [refused, "module 'opscript' cannot be loaded by a finalizer: load it before"], "\(outcome)")
        #expect(
            outcome.lines.dropFirst(2).sorted() == Array(repeating: "1275", count: 12) + Array(repeating: "left", count: 12), "\(outcome)")
    }

    @Test("The rockspec is a Lua file with the version of the command")
    func rockspec() throws {
        let version = try Command.opscript("--version").run().text.split(whereSeparator: { " ,".contains($0) })[1]
        let outcome = try Command.lua("-").input(
            """
            local rock = {}
            assert(loadfile("\(Paths.package)/packaging/opscript-\(version)-1.rockspec", "t", rock))()
            print(rock.package, rock.version, rock.build.type)
            """
        ).run()
        #expect(outcome.text == "opscript\t\(version)-1\tcommand\n", "\(outcome)")
    }
}
