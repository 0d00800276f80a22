import Glibc
import OpEngine
import TestSupport
import Testing

@testable import LuaBindings

/// Worker processes that do not read what the host sends, or do not answer.
@Suite struct UnresponsiveProcessTests {
    /// More than a socket holds.
    private static let large = LuaValue.string(String(repeating: "x", count: 8 << 20))

    /// Makes scripts have `signalled(process)`, whose answer is large and due when the process has got a signal.
    private func registerSignalled(_ signal: Int32, in runtime: Runtime) throws {
        try runtime.register("signalled") { arguments in
            kill(pid_t(arguments[0].integer ?? 0), signal)
            return [Self.large]
        }
    }

    private static let process = "io.open('/proc/self/stat'):read 'n'"

    @Test(
        "A process that does not read an answer ends with the operation",
        arguments: [
            (SIGSTOP, "timeout: timeout: 'asking' took longer than 0.05 s"),
            (SIGKILL, "process: the worker process of 'asking' was ended by signal 9 (SIGKILL)"),
        ])
    func answers(signal: Int32, outcome: String) throws {
        try withProcesses { runtime in
            try registerSignalled(signal, in: runtime)
            let operations = try runtime.run(
                """
                local op = Operation.new { name = 'asking', main = function() return #signalled(\(Self.process)) end }
                if ... then op.timeout = ... end
                return queue:addOperation(op), queue:addOperation(function() return 'healthy' end)
                """, arguments: signal == SIGSTOP ? [0.05] : []
            ).compactMap(\.operation)
            #expect(runtime.outcome(of: operations[0]) == outcome)
            #expect(try runtime.results(of: operations[1]) == ["healthy"])
        }
    }

    @Test("Interrupting ends an operation whose process does not read an answer")
    func interrupting() throws {
        try withProcesses { runtime in
            let isDue = Gate()
            try runtime.register("signalled") { arguments in
                kill(pid_t(arguments[0].integer ?? 0), SIGSTOP)
                isDue.open()
                return [Self.large]
            }
            let operation = try runtime.operation("return queue:addOperation(function() signalled(\(Self.process)) end)")
            isDue.wait()
            (operation as? LuaOperation)?.interrupt()
            operation.waitUntilFinished()
            #expect((operation.error as? OperationFailure)?.kind == .interrupted)
        }
    }

    @Test("A process that does not read its body ends with the operation")
    func bodies() throws {
        try withProcesses { runtime in
            try runtime.register("stop") { arguments in
                kill(pid_t(arguments[0].integer ?? 0), SIGSTOP)
                return []
            }
            // The answer fits the socket, so the process stops after the end of the first operation or in it.
            let operations = try runtime.run(
                """
                local text = ('x'):rep(8 << 20)
                local first = queue:addOperation(Operation.new { timeout = 0.05, main = function() stop(\(Self.process)) end })
                return first, queue:addOperation(Operation.new { timeout = 0.05, main = function() return #text end }),
                  queue:addOperation(function() return 'healthy' end)
                """
            ).compactMap(\.operation)
            #expect(runtime.outcome(of: operations[0]).hasPrefix("timeout: "))
            // On a busy machine it may not get far in its time, whoever stops it then.
            let second = runtime.outcome(of: operations[1])
            #expect(second == "ok" || second.hasPrefix("timeout: "), "\(second)")
            #expect(try runtime.results(of: operations[2]) == ["healthy"])
        }
    }

    @Test("A callback whose process does not read an answer ends with its run")
    func callbacks() throws {
        let reports = Log<String>()
        try withProcesses({
            $0.limits.runSeconds = 0.3
            $0.errorOutput = { reports.append(String(decoding: $0, as: UTF8.self)) }
        }) { runtime in
            // The process starts in a run of its own.
            try runtime.operation("return queue:addOperation(function() end)").waitUntilFinished()
            try registerSignalled(SIGSTOP, in: runtime)
            let operation = try runtime.operation(
                "return queue:addOperation(function() opscript.after(0, function() signalled(\(Self.process)) end) end)")
            #expect(runtime.outcome(of: operation) == "ok")
            _ = try runtime.finish()
            #expect(try runtime.results(of: runtime.operation("return queue:addOperation(function() return 'healthy' end)")) == ["healthy"])
        }
        #expect(reports.entries.count == 1 && reports.entries.first?.contains("timeout") == true, "\(reports.entries)")
    }

    @Test("A worker executable that never answers is one clear error, and is killed")
    func silentExecutables() throws {
        let directory = try ModuleDirectory([
            "worker": "#!/bin/sh\necho $$ >>\"${0%/*}/processes.lua\"\nexec cat <&3 >/dev/null\n", "processes": "",
        ])
        let executable = "\(directory.path)/worker.lua"
        #expect(unsafe chmod(executable, 0o700) == 0)
        var isolation = Runtime.Isolation.process(executable: executable)
        isolation.setUpTime = .milliseconds(300)
        try withProcesses({ $0.isolation = isolation }) { runtime in
            for _ in 1...2 {
                let operation = try runtime.operation("return queue:addOperation(function() return 1 end)")
                #expect(
                    runtime.outcome(of: operation)
                        == "process: a worker process did not answer within 0.3 s: does '\(executable)' call "
                        + "WorkerProcess.serveIfRequested() first in its main?")
            }
            let processes: String = try runtime.evaluate("io.open(...):read 'a'", arguments: [.string("\(directory.path)/processes.lua")])
            let numbers = processes.split(separator: "\n").compactMap { pid_t($0) }
            #expect(numbers.count == 2 && numbers.allSatisfy { kill($0, 0) != 0 }, "\(processes)")
        }
    }

    @Test(
        "One instruction of Lua that takes minutes ends with its process",
        arguments: [
            // All keys of the table collide, so a rehash takes quadratic time: 500 s for these.
            "local most, t = (1 << 20) - 1, {} for i = 1, (1 << 19) + 1 do t[i * most] = true end",
            // A chain of ephemerons in a random order: each pass of the collector finds few of them.
            """
            local t, keys = setmetatable({}, { __mode = 'k' }), {}
            for i = 1, 1 << 18 do keys[i] = {} end
            for i = #keys, 2, -1 do local j = math.random(i) keys[i], keys[j] = keys[j], keys[i] end
            for i = 1, #keys - 1 do t[keys[i]] = keys[i + 1] end
            local first = keys[1]
            keys = nil
            collectgarbage()
            return first
            """,
        ])
    func longInstructions(body: String) throws {
        try withProcesses({
            $0.sandbox = .untrusted
            $0.limits = .untrusted
            $0.limits.operationSeconds = 2
        }) { runtime in
            let operation = try runtime.operation("return queue:addOperation(function() \(body) end)")
            operation.waitUntilFinished()
            #expect((operation.error as? OperationFailure)?.kind == .timeout)
            // The only worker has another process, because the first one was killed.
            #expect(try runtime.run("return queue:addOperation(function() return 'next' end):get()") == ["next"])
        }
    }
}
