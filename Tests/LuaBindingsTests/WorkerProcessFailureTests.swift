import CTestSupport
import Glibc
import LuaBindings
import OpEngine
import TestSupport
import Testing

/// The end or the stop of a worker process costs the operation that it runs, and nothing else.
@Suite struct WorkerProcessFailureTests {
    /// Ways in which native code ends its process, and what the operation's error says.
    @Test(arguments: [
        ("fault()", "was ended by signal 11 (SIGSEGV)"), ("abort()", "was ended by signal 6 (SIGABRT)"),
        ("exit(7)", "exited with status 7"), ("closeAll()", "closed its connection"),
    ])
    func whatEndsAProcessFailsItsOperation(call: String, words: String) throws {
        let module = try CrashingModule()
        try withProcesses(workers: 2, { $0.cModulePaths = module.paths }) { runtime in
            let operations = try runtime.run(
                """
                local other = queue:addOperation(function() local sum = 0 for i = 1, 1e6 do sum = sum + i end return sum end)
                local op = opscript.Operation.new { name = 'crashing', main = function() require 'crashing'.\(call) end }
                queue:addOperation(op)
                local next = queue:addOperation(function() return 'healthy' end)
                next:addDependency(op)
                return op, other, queue:addOperation(function() return 'healthy' end)
                """
            ).compactMap(\.operation)
            #expect(runtime.outcome(of: operations[0]) == "process: the worker process of 'crashing' \(words)")
            #expect(try runtime.results(of: operations[1]) == [500_000_500_000])
            #expect(try runtime.results(of: operations[2]) == ["healthy"])
        }
    }

    @Test func aForkedProcessThatExecutesNoProgramEndsAndTellsTheHostNothing() throws {
        let module = try CrashingModule()
        try withProcesses({ $0.cModulePaths = module.paths }) { runtime in
            let operations = try runtime.run(
                """
                local function body()
                  local crashing = require 'crashing'
                  local child = crashing.fork()
                  if child == 0 then return 'the child' end
                  return crashing.wait(child)
                end
                return queue:addOperation(body), queue:addOperation(function() return 'healthy' end)
                """
            ).compactMap(\.operation)
            #expect(try runtime.results(of: operations[0]) == ["exit", 1])
            #expect(try runtime.results(of: operations[1]) == ["healthy"])
        }
    }

    @Test func aBodyThatABodyHasStartedEndsBoth() throws {
        let module = try CrashingModule()
        try withProcesses({ $0.cModulePaths = module.paths }) { runtime in
            let operations = try runtime.run(
                """
                local inner = opscript.Operation.new { name = 'inner', main = function() require 'crashing'.exit(3) end }
                local outer = opscript.Operation.new { name = 'outer', main = function() inner:start() return 'reached' end }
                queue:addOperation(outer)
                return inner, outer, queue:addOperation(function() return 'healthy' end)
                """
            ).compactMap(\.operation)
            #expect(runtime.outcome(of: operations[1]) == "process: the worker process of 'outer' exited with status 3")
            #expect(runtime.outcome(of: operations[0]) == "process: the worker process of 'inner' has ended")
            #expect(try runtime.results(of: operations[2]) == ["healthy"])
        }
    }

    @Test(arguments: ["loop", "halt"]) func codeThatNeverReturnsEndsWithItsTimeLimit(function: String) throws {
        let module = try CrashingModule()
        try withProcesses({ $0.cModulePaths = module.paths }) { runtime in
            let operations = try runtime.run(
                """
                local op = opscript.Operation.new { timeout = 0.05, main = function() require 'crashing'.\(function)() end }
                queue:addOperation(op)
                return op, queue:addOperation(function() return 'healthy' end)
                """
            ).compactMap(\.operation)
            #expect(runtime.outcome(of: operations[0]) == "timeout: timeout: an unnamed Operation took longer than 0.05 s")
            #expect(try runtime.results(of: operations[1]) == ["healthy"])
        }
    }

    @Test func aPreludeThatNeverEndsInAProcessEndsWithTheTimeLimitOfTheOperation() throws {
        try withProcesses({ $0.prelude = "if io.open('/proc/self/stat'):read 'n' ~= \(getpid()) then while true do end end" }) { runtime in
            let operation = try runtime.operation("return queue:addOperation(Operation.new { timeout = 0.05, main = function() end })")
            #expect(runtime.outcome(of: operation) == "timeout: timeout: an unnamed Operation took longer than 0.05 s")
        }
    }

    @Test func interruptingStopsABodyThatNeverLooks() throws {
        try withProcesses { runtime in
            let hasBegun = Gate()
            try runtime.register("begin") { _ in
                hasBegun.open()
                return []
            }
            for _ in 1...3 {
                let operations = try runtime.run(
                    """
                    return queue:addOperation(function() begin() pcall(function() while true do end end) while true do end end),
                      queue:addOperation(function() return 'healthy' end)
                    """
                ).compactMap(\.operation)
                hasBegun.wait()
                (operations[0] as? LuaOperation)?.interrupt()
                operations[0].waitUntilFinished()
                #expect((operations[0].error as? OperationFailure)?.kind == .interrupted)
                #expect(try runtime.results(of: operations[1]) == ["healthy"])
            }
        }
    }

    @Test func cancellingIsSeenByABody() throws {
        try withProcesses { runtime in
            let hasBegun = Gate()
            try runtime.register("begin") { _ in
                hasBegun.open()
                return []
            }
            let operation = try runtime.operation(
                "return queue:addOperation(function(op) begin() while not op.isCancelled do end opscript.sleep(100) return 'noticed' end)")
            hasBegun.wait()
            operation.cancel()
            #expect(try runtime.results(of: operation) == ["noticed"])
        }
    }

    /// A body's output is taken over by its host before its results are. So a process can end when its body has returned, but the host does not
    /// know that yet.
    @Test("What ends a process after its last message does not harm the next operation", arguments: ["interrupt", "kill"])
    func endsAfterTheLastMessage(way: String) throws {
        let operation = Locked<LuaOperation?>(nil), isSet = Gate()
        // The runtime keeps the function below, and the operation keeps the runtime.
        defer { operation.withLock { $0 = nil } }
        try withProcesses({
            $0.output = { bytes in
                guard let process = pid_t(String(decoding: bytes, as: UTF8.self).dropLast()) else { return }
                isSet.wait()
                if way == "kill" { kill(process, SIGKILL) } else { operation.withLock { $0 }?.interrupt() }
                var information = unsafe siginfo_t()
                #expect(unsafe waitid(P_PID, id_t(process), &information, WEXITED | WNOWAIT) == 0)
            }
        }) { runtime in
            let first = try runtime.operation("return queue:addOperation(function() print(io.open('/proc/self/stat'):read 'n') end)")
            operation.withLock { $0 = first as? LuaOperation }
            isSet.open()
            first.waitUntilFinished()
            #expect(try runtime.results(of: runtime.operation("return queue:addOperation(function() return 'healthy' end)")) == ["healthy"])
        }
    }

    @Test func limitsAreThoseOfThreads() throws {
        func outcome(_ configure: (inout Runtime.Configuration) -> Void, _ body: String) throws -> String {
            try withProcesses(configure) { runtime in
                runtime.outcome(of: try runtime.operation("return queue:addOperation(function(op) \(body) end)"))
            }
        }
        #expect(try outcome({ $0.limits.operationSeconds = 0.05 }, "while true do end").hasPrefix("timeout: "))
        #expect(try outcome({ $0.limits.operationMemory = 1 << 20 }, "local s = 'x' while true do s = s .. s end").hasPrefix("memory"))
        #expect(
            try outcome({ $0.limits.operationInstructions = 100_000 }, "while true do end").hasPrefix(
                "instructions: script:1: instruction limit exceeded"))
        #expect(try outcome({ $0.limits.runInstructions = 200_000 }, "while true do end").contains("limits.runInstructions"))
        #expect(try outcome({ $0.limits.runSeconds = 0.05 }, "while true do end").contains("limits.runSeconds"))
        #expect(try outcome({ $0.limits.valueBytes = 1000 }, "return ('x'):rep(2000)").contains("limits.valueBytes"))
        // LeakSanitizer finds what the host would keep of a refused request.
        let requests = [
            "Operation.new { main = function() end, completionBlock = f }", "Operation.new(function() end):observe('isFinished', f)",
        ]
        for request in requests {
            let body = "local big = ('x'):rep(2000) local function f() return big end return opscript.\(request)"
            #expect(try outcome({ $0.limits.valueBytes = 1000 }, body).contains("limits.valueBytes"))
        }
        #expect(
            try outcome(
                {
                    $0.limits.outputBytes = 100
                    $0.output = { _ in }
                }, "for i = 1, 100 do print 'text' end"
            ).contains("limits.outputBytes"))
        #expect(try outcome({ $0.stateMemoryLimit = 8 << 20 }, "local s = 'x' while true do s = s .. s end").hasPrefix("memory"))
        #expect(try outcome({ $0.limits.operationInstructions = 100_000 }, "for i = 1, 100 do end") == "ok")
    }

    @Test func anInterruptedCallbackOfABodyEnds() throws {
        let reports = Log<String>()
        try withProcesses({
            $0.limits.runSeconds = 0.3
            $0.errorOutput = { reports.append(String(decoding: $0, as: UTF8.self)) }
        }) { runtime in
            // The process starts in a run of its own.
            try runtime.operation("return queue:addOperation(function() end)").waitUntilFinished()
            let operation = try runtime.operation(
                "return queue:addOperation(function() opscript.after(0, function() while true do end end) end)")
            #expect(runtime.outcome(of: operation) == "ok")
            _ = try runtime.finish()
        }
        #expect(reports.entries.count == 1 && reports.entries.first?.contains("timeout") == true, "\(reports.entries)")
    }

    // MARK: what is left

    private func isThere(_ process: Int?) -> Bool { process.map { kill(pid_t($0), 0) == 0 } ?? false }

    @Test func closingLeavesNoProcess() throws {
        let module = try CrashingModule()
        var processes: [Int] = []
        try withProcesses(workers: 2, { $0.cModulePaths = module.paths }) { runtime in
            let began = Locked<[Int]>([]), haveBegun = Gate()
            try runtime.register("begin") { arguments in
                began.withLock { $0.append(arguments[0].integer ?? 0) }
                haveBegun.open()
                return []
            }
            let operations = try runtime.run(
                """
                return queue:addOperation(function() return require 'crashing'.id() end),
                  queue:addOperation(function() local c = require 'crashing' begin(c.id()) c.loop() end)
                """
            ).compactMap(\.operation)
            processes = try runtime.results(of: operations[0]).compactMap(\.integer)
            haveBegun.wait()
            processes += began.withLock { $0 }
            (operations[1] as? LuaOperation)?.interrupt()
        }
        #expect(processes.count == 2)
        for process in processes { #expect(!isThere(process)) }
    }

    @Test func manyOperationsAndCrashesLeaveNoDescriptors() async {
        // In a process of its own: other tests open descriptors meanwhile.
        await #expect(processExitsWith: .success) {
            func descriptors() -> Int {
                guard let list = unsafe opendir("/proc/self/fd") else { return 0 }
                defer { unsafe closedir(list) }
                var count = 0
                while unsafe readdir(list) != nil { count += 1 }
                return count
            }
            let module = try CrashingModule()
            try withProcesses({ $0.cModulePaths = module.paths }) { runtime in
                let wait = "queue:waitUntilAllOperationsAreFinished()"
                try runtime.run("queue:addOperation(function() require 'crashing'.exit(0) end) queue:addOperation(function() end) \(wait)")
                let before = descriptors()
                try runtime.run(
                    """
                    for i = 1, 1000 do queue:addOperation(function(op, i) return { op, i } end, i) end
                    for i = 1, 10 do queue:addOperation(function() require 'crashing'.exit(0) end) end
                    queue:addOperation(function() end)
                    \(wait)
                    """)
                #expect(descriptors() == before)
                #expect(runtime.takeUnreadFailures().count == 11)
            }
        }
    }

    @Test func aProcessEndsWithItsHost() throws {
        let runtime = try Runtime()
        defer { runtime.close() }
        // This host runs an operation that never ends, prints the number of its worker process, and kills itself.
        let values = try runtime.run(
            "local host = opscript.process { (...) }; local result = host:wait(); return result.signal, tonumber(result.stdout)",
            arguments: [.string(Products.folder + "/ProcessHost")])
        #expect(values[0] == "KILL")
        let worker = pid_t(try #require(values[1].integer))
        let watched = pidfd_of_process(worker)
        // It may be gone already.
        guard watched >= 0 else { return }
        defer { close(watched) }
        var polled = pollfd(fd: watched, events: Int16(POLLIN), revents: 0)
        #expect(unsafe poll(&polled, 1, 60_000) == 1, "the worker process goes on")
    }

    @Test func aHostMayIgnoreTheEndOfItsChildren() throws {
        let runtime = try Runtime()
        defer { runtime.close() }
        let values = try runtime.run(
            """
            local host = opscript.process { (...), env = { HOST_IGNORES_CHILDREN = "1" } }
            local result = host:wait()
            return result.status, result.stdout
            """, arguments: [.string(Products.folder + "/ProcessHost")])
        #expect(values == [0, "[integer(7)]\n"] || values == [0, "[7]\n"], "\(values)")
    }

    /// Outcomes of tasks that no worker process sends: the bytes after the header of the message.
    @Test(
        arguments: [
            ("a status that Lua does not have", [0, 0x9a, 0x01, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
            ("a stop for no reason", [0, 4, 0, 99, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
            ("more values than bytes", [0, 0, 0, 2, 0, 1, 0, 0, 0, 0]),
            ("more values than a stack holds", [0, 0, 0, 0xf8, 0xff, 0xff, 0xff, 0x0f, 0, 0, 0, 0, 0]),
        ] as [(String, [UInt8])])
    func whatNoWorkerProcessSendsEndsIt(name: String, content: [UInt8]) throws {
        let outcome: UInt8 = 11
        let message = [UInt8(content.count), 0, 0, 0, 0, 0, 0, 0, outcome, 0, 0, 0, 0, 0, 0, 0] + content
        try expectEnd(of: message, name)
    }

    @Test(arguments: [1 << 32, UInt64.max - 15, .max])
    func aMessageOfFourGigabytesOrMoreEndsTheProcess(size: UInt64) throws {
        let header = (0..<8).map { UInt8(truncatingIfNeeded: size >> (8 * $0)) }
        try expectEnd(of: header + [11, 0, 0, 0, 0, 0, 0, 0], "\(size)")
    }

    /// Expects that the first operation in a worker process that sends `message` fails.
    private func expectEnd(of message: [UInt8], _ name: String) throws {
        let octal = message.map { "\\\(String(Int($0) + 0o1000, radix: 8).dropFirst())" }.joined()
        // Answers each task at once with the same message.
        let directory = try ModuleDirectory([
            "worker": "#!/bin/sh\nfor i in 1 2 3 4 5 6 7 8; do printf '\(octal)' >&3; done\nexec cat <&3 >/dev/null\n"
        ])
        let executable = "\(directory.path)/worker.lua"
        #expect(unsafe chmod(executable, 0o700) == 0)
        try withProcesses({ $0.isolation = .process(executable: executable) }) { runtime in
            let operation = try runtime.operation("return queue:addOperation(function() return 1 end)")
            #expect(runtime.outcome(of: operation) == "process: a worker process closed its connection", "\(name)")
        }
    }

    /// The program that shows a trap's backtrace inherits the output, and under AddressSanitizer it may never end.
    @Test func aWorkerExecutableThatDoesNotServeStartsNoProcesses() throws {
        let runtime = try Runtime()
        defer { runtime.close() }
        let values = try runtime.run(
            """
            local worker = opscript.process { (...), '--opscript-worker', env = { HOST_FORGETS_TO_SERVE = '1', SWIFT_BACKTRACE = 'enable=no' } }
            local result = worker:wait()
            return result.stdout, result.stderr
            """, arguments: [.string(Products.folder + "/ProcessHost")])
        #expect(values[0] == "")
        #expect(values[1].text?.contains("call WorkerProcess.serveIfRequested() first in its main") == true, "\(values[1])")
    }

    /// An object with a finalizer cannot be sent, so the finalizer does not run in the state of the host that answers the body's calls.
    @Test func finalizersOfABodyDoNotRunInTheHost() throws {
        var path = ""
        try withProcesses { runtime in
            try runtime.register("take") { _ in [] }
            let operation = try runtime.operation(
                """
                return queue:addOperation(function()
                  local path, worker = os.tmpname(), io.open('/proc/self/stat'):read 'n'
                  local mt = { __gc = function() if io.open('/proc/self/stat'):read 'n' ~= worker then os.remove(path) end end }
                  for i = 1, 10 do assert(not pcall(take, setmetatable({ i }, mt))) end
                  return path
                end)
                """)
            path = try #require(try runtime.results(of: operation).first?.text)
        }
        #expect(unsafe unlink(path) == 0, "the host has run a finalizer of the body")
    }

    // MARK: confinement

    @Test func aProcessOfASandboxIsConfined() throws {
        try withProcesses({
            $0.sandbox = .untrusted
            $0.sandbox.allowsFiles = true
            $0.stateMemoryLimit = 64 << 20
        }) { runtime in
            let operation = try runtime.operation(
                "return queue:addOperation(function() return io.open('/proc/self/status'):read 'a', io.open('/proc/self/limits'):read 'a' end)"
            )
            let texts = try runtime.results(of: operation).compactMap(\.text)
            let lines = texts.joined().split(separator: "\n").map { $0.split { $0 == " " || $0 == "\t" } }
            #expect(lines.contains { $0 == ["Seccomp:", "2"] } && lines.contains { $0 == ["NoNewPrivs:", "1"] })
            #expect(lines.contains { $0.starts(with: ["Max", "core", "file", "size", "0", "0"]) })
            #expect(lines.contains { $0.starts(with: ["Max", "processes", "0", "0"]) })
            #expect(!lines.contains { $0.starts(with: ["Max", "address", "space", "unlimited"]) })
        }
    }

    @Test func aConfinedProcessHasWhatLuaNeeds() throws {
        try withProcesses({
            $0.sandbox = .untrusted
            $0.limits = .untrusted
            $0.stateMemoryLimit = 64 << 20
        }) { runtime in
            let operation = try runtime.operation(
                """
                return queue:addOperation(function()
                  local t = {}
                  for i = 1, 1e5 do t[i] = tostring(i) .. os.time() end
                  assert(os.date() and os.clock() and #os.date('%c', 0) > 0 and math.random() and coroutine.wrap(function() return 1 end)())
                  print 'text'
                  opscript.sleep(0.001)
                  collectgarbage()
                  return #table.concat(t), io
                end)
                """)
            #expect(runtime.outcome(of: operation) == "ok")
        }
    }

    @Test func aMissingExecutableIsAnError() throws {
        var configuration = Runtime.Configuration()
        configuration.isolation = .process(executable: "/nowhere/worker")
        #expect { try Runtime(configuration) } throws: {
            "\($0)".contains("the worker executable '/nowhere/worker' (Configuration.isolation) cannot be executed")
        }
        try withProcesses({ $0.isolation = .process(executable: "/bin/false") }) { runtime in
            let operation = try runtime.operation("return queue:addOperation(function() end)")
            #expect(runtime.outcome(of: operation) == "process: a worker process exited with status 1")
        }
    }
}
