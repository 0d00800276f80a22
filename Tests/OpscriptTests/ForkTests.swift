import Testing

/// Scripts whose modules fork.
@Suite("Processes that a script forks")
struct ForkTests {
    /// The folder with the compiled module `Tests/CrashingModule`.
    private let folder: ScratchDirectory

    init() throws {
        folder = try ScratchDirectory()
        let source = "\(Paths.package)/Tests/CrashingModule/crashing.c"
        let outcome = try Command(program: "cc", name: "cc", arguments: ["-shared", "-fPIC", "-o", "\(folder.path)/crashing.so", source])
            .run()
        try #require(outcome.status == 0, "\(outcome)")
    }

    private static let prelude = """
        local crashing = require "crashing"
        local function run(child)
          local process = crashing.fork()
          if process > 0 then return crashing.wait(process) end
          child()
          return "child"
        end

        """

    private func run(_ script: String, with command: Command) throws -> Outcome {
        try command.input(Self.prelude + script).environment(["LUA_CPATH": "\(folder.path)/?.so;;"]).run()
    }

    @Test(
        "Without operations, a child ends as with lua",
        arguments: [
            "io.write 'once or twice ' local kind, status = run(function() io.write 'child ' end) if not status then return end print(kind, status)",
            "local kind, status = run(function() os.exit(7) end) print(kind, status)",
            "local kind, status = run(function() os.exit(false, true) end) print(kind, status)",
            "guard = setmetatable({}, { __gc = function() print 'collected' end }) if run(function() end) == 'child' then return end print 'parent'",
            "local guard <close> = setmetatable({}, { __close = function() print 'closed' end }) print(run(function() end))",
            "print(run(function() io.stderr:write 'to stderr' os.exit() end))",
            "local kind, status = run(function() print(run(function() os.exit(3) end)) os.exit(4) end) print(kind, status)",
            "print(run(function() io.popen('echo popen'):close() print(io.popen('echo popen'):read 'a') os.execute 'exit 3' end))",
            "if crashing.fork() > 0 then os.exit(0, true) end print 'the daemon' io.stderr:write 'goes on'",
        ])
    func withoutOperations(_ script: String) throws {
        let ours = try run(script, with: .opscript("-")), stock = try run(script, with: .lua("-"))
        #expect(ours == stock)
    }

    @Test("An error in a child is reported there, and gives status 1")
    func error() throws {
        let script = "local kind, status = run(function() error 'boom' end) print(kind, status)"
        let ours = try run(script, with: .opscript("-")), stock = try run(script, with: .lua("-"))
        #expect(ours.text == stock.text && ours.text == "exit\t1\n", "\(ours)")
        for part in ["opscript: stdin:8: boom\n", "stack traceback:"] {
            #expect(ours.errorText.contains(part) && stock.errorText.contains(part), "\(part) is not in \(ours)")
        }
    }

    /// Scripts in which operations have run, and may still run, when they fork.
    private static let queue = """
        local queue = opscript.OperationQueue.new()
        local first = queue:addOperation(function() return 1 end)
        first:waitUntilFinished()
        local gate = opscript.channel()
        queue:addOperation(function() gate:receive() print 'the operation' end)

        """

    @Test("A child of a script with operations ends, and the operations go on in the parent")
    func besideOperations() throws {
        for (body, status) in [("", 0), ("error 'boom'", 1), ("os.exit(7)", 7)] {
            let script = "local kind, status = run(function() \(body) end) if kind ~= 'child' then print(kind, status) gate:send(true) end"
            let outcome = try run(Self.queue + script, with: .opscript("-"))
            #expect(outcome.text == "exit\t\(status)\nthe operation\n" && outcome.status == 0, "\(outcome)")
            #expect(outcome.errorText.contains("stdin:13: boom") == (status == 1), "\(outcome)")
        }
    }

    @Test(
        "A child that uses operations gets an error",
        arguments: [
            "queue:addOperation(function() end)", "queue:addOperation(opscript.Operation.new(function() end))",
            "opscript.OperationQueue.new()", "first:waitUntilFinished()", "print(first.result)", "opscript.sleep(1)",
            "opscript.sh 'true'", "opscript.after(1, print)", "opscript.channel()",
        ])
    func usingOperations(_ use: String) throws {
        let script =
            "local kind, status = run(function() print(pcall(function() \(use) end)) \(use) end) print(kind, status) gate:send(true)"
        let outcome = try run(Self.queue + script, with: .opscript("-"))
        let message =
            "a process that a script has forked cannot use operations, because it has no threads of its parent: execute a program in it, or fork "
            + "it from a script that uses none"
        #expect(outcome.text == "false\tstdin:13: \(message)\nexit\t1\nthe operation\n", "\(outcome)")
        #expect(outcome.errorText.hasPrefix("opscript: stdin:13: \(message)\n"), "\(outcome)")
    }

    @Test("A child of an operation or of a callback ends with it")
    func ofOperations() throws {
        let script = """
            local function fork(child)
              local crashing = require "crashing"
              local process = crashing.fork()
              if process == 0 then return child() end
              print(crashing.wait(process))
            end
            for _, child in ipairs { function() end, function() error "boom" end, function() os.exit(7) end } do
              queue:addOperation(function() fork(child) end):waitUntilFinished()
              opscript.OperationQueue.main:addOperation(function() fork(child) end):waitUntilFinished()
              local done
              local op = opscript.Operation.new(function() end)
              op.completionBlock = function() done = true fork(child) end
              queue:addOperation(op)
              while not done do opscript.sleep(0.001) end
            end
            gate:send(true)
            """
        let outcome = try run(Self.queue + script, with: .opscript("-"))
        let statuses = outcome.lines.filter { $0 != "the operation" }
        #expect(statuses == [0, 1, 7].flatMap { Array(repeating: "exit\t\($0)", count: 3) }, "\(outcome)")
        #expect(outcome.status == 0 && outcome.errorText.ranges(of: "boom\n").count >= 3, "\(outcome)")
    }

    @Test("Only the parent writes what it records")
    func recording() throws {
        let trace = "\(folder.path)/trace.json"
        let script = "run(function() os.exit(0) end) if run(function() end) ~= 'child' then gate:send(true) end"
        let outcome = try run(Self.queue + script, with: .opscript("--trace", trace, "-"))
        #expect(outcome.status == 0, "\(outcome)")
        let text = String(decoding: try #require(Paths.read(trace)), as: UTF8.self)
        #expect(text.hasSuffix("\n]\n") && text.ranges(of: "\n]").count == 1, "\(text)")
    }

    @Test("In lua5.4 with the module, a child ends as without it")
    func stock() throws {
        for body in ["", "error 'boom'", "os.exit(7)", "os.exit(7, true)"] {
            let script = "local kind, status = run(function() \(body) end) if kind ~= 'child' then print(kind, status) gate:send(true) end"
            let path = try StockLua.module.get().split(separator: "/").dropLast().joined(separator: "/")
            let outcome = try Command(program: "lua5.4", name: "lua5.4", arguments: ["-"])
                .environment(["LUA_CPATH": "/\(path)/?.so;\(folder.path)/?.so;;"])
                .input("local opscript = require 'opscript'\n" + Self.prelude + Self.queue + script).run()
            let plain = try run("local gate = { send = function() end } " + script, with: .lua("-"))
            #expect(outcome.text == plain.text + "the operation\n" && outcome.status == plain.status, "\(outcome)")
        }
    }
}
