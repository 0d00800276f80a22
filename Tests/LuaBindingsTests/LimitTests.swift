import LuaBindings
import OpEngine
import TestSupport
import Testing

/// Each limit of `Runtime.Limits` by itself, and the error that names it.
@Suite struct LimitTests {
    private func outcome(_ limit: (inout Runtime.Limits) -> Void, _ source: String) throws -> String {
        var configuration = Runtime.Configuration()
        configuration.workerCount = 2
        limit(&configuration.limits)
        let runtime = try Runtime(configuration)
        defer { #expect(runtime.close(deadline: .seconds(30)).isEmpty) }
        do {
            let values = try runtime.run("queue = opscript.OperationQueue.new()\n" + source, name: "=s")
            guard let operation = values.first?.operation else { return values.first?.text ?? "nothing" }
            _ = try runtime.results(of: operation)
            return "ok"
        } catch let failure as OperationFailure { return "\(failure.kind): \(failure.message)" } catch { return "\(error)" }
    }

    @Test func eachNamesItself() throws {
        let operation = "return queue:addOperation(function(op) "
        #expect(
            try outcome({ $0.operationSeconds = 0.05 }, operation + "op.timeout = 1e9 while true do end end)").hasPrefix(
                "timeout: s:2: timeout"))
        #expect(
            try outcome(
                { $0.operationMemory = 1 << 20 }, operation + "op.memoryLimit = 1 << 40 local s = 'x' while true do s = s .. s end end)"
            ).hasPrefix("memory"))
        #expect(
            try outcome({ $0.operationInstructions = 100_000 }, operation + "while true do end end)").hasPrefix(
                "instructions: s:2: instruction limit exceeded"))
        #expect(
            try outcome({ $0.operationInstructions = 100_000 }, operation + "while true do coroutine.wrap(function() end)() end end)")
                .hasPrefix("instructions"))
        #expect(
            try outcome({ $0.operationInstructions = 1_000_000 }, operation + "('a'):rep(30000):find('.-.-.-.-b') end)").hasPrefix(
                "instructions"))
        #expect(try outcome({ $0.operationInstructions = 1_000_000 }, operation + "for i = 1, 1000 do end end)") == "ok")
        #expect(
            try outcome({ $0.runSeconds = 0.05 }, "while true do pcall(function() while true do end end) end")
                == "s:2: timeout: the run took longer than 0.05 s (limits.runSeconds)")
        #expect(try outcome({ $0.runSeconds = 0.05 }, "opscript.sleep(1e6)").contains("limits.runSeconds"))
        #expect(try outcome({ $0.runInstructions = 100_000 }, "while true do end").contains("(limits.runInstructions)"))
        #expect(try outcome({ $0.valueBytes = 1000 }, operation + "return ('x'):rep(2000) end)").contains("(limits.valueBytes)"))
        #expect(try outcome({ $0.storedValues = 1 }, operation + "op.a = 1 op.a = 2 op.b = 3 end)").contains("(limits.storedValues)"))
        #expect(try outcome({ $0.outputBytes = 0 }, "print('x')").contains("(limits.outputBytes)"))
        #expect(try outcome({ $0.processes = 0 }, "opscript.sh 'true'").contains("(limits.processes)"))
        #expect(
            try outcome({ $0.operations = 2 }, "for i = 1, 3 do queue:addOperation(function() end) end").contains("(limits.operations)"))
        #expect(
            try outcome(
                { $0.queueLength = 2 }, "queue.isSuspended = true for i = 1, 3 do queue:addOperation(opscript.Operation.new(print)) end"
            ).contains("(limits.queueLength)"))
        #expect(try outcome({ $0.queues = 1 }, "opscript.OperationQueue.new()").contains("(limits.queues)"))
        #expect(
            try outcome({ $0.timers = 1 }, "opscript.after(0, print):cancel() opscript.after(9, print) opscript.after(9, print)").contains(
                "(limits.timers)"))
    }

    /// The hook that stops a coroutine never returns, so Lua would call no further one there.
    @Test(arguments: ["coroutine.wrap(f)()", "coroutine.resume(coroutine.create(f))", "pcall(coroutine.wrap(f))"])
    func closingAStoppedCoroutineEnds(_ call: String) throws {
        let script = """
            local function loop() while true do end end
            local function f()
                local x <close> = setmetatable({}, { __close = loop })
                local y <close> = setmetatable({}, { __close = loop })
                loop()
            end
            \(call)
            """
        let operation = "return queue:addOperation(function() \(script) end)"
        #expect(try outcome({ $0.operationInstructions = 100_000 }, operation).hasPrefix("instructions: s:2: instruction limit exceeded"))
        #expect(try outcome({ $0.operationSeconds = 0.05 }, operation).hasPrefix("timeout: s:2: timeout"))
        #expect(try outcome({ $0.runInstructions = 100_000 }, script).contains("(limits.runInstructions)"))
        #expect(try outcome({ $0.runSeconds = 0.05 }, script).contains("(limits.runSeconds)"))
    }

    @Test func whateverTheHostCallsEndsInTime() throws {
        var configuration = Runtime.Configuration()
        configuration.limits.runSeconds = 0.05
        configuration.moduleLoader = { _ in "while true do end" }
        let runtime = try Runtime(configuration)
        defer { #expect(runtime.close(deadline: .seconds(30)).isEmpty) }
        try runtime.run("setmetatable(_G, { __index = function() while true do end end })")
        let calls: [() throws -> Void] = [
            { try runtime.call("missing") }, { try runtime.require("endless", as: "x") }, { _ = try runtime.evaluate("missing") },
            { try runtime.runLine("rawset(_G, 'print', missing)") }, { _ = try runtime.function("return missing") },
            { _ = try runtime.global("missing") },
        ]
        for call in calls {
            let error = #expect(throws: LuaError.self) { try call() }
            #expect(error?.message.contains("(limits.runSeconds)") == true)
        }
    }

    @Test func whatTheEngineRefusesCountsForNothing() throws {
        #expect(
            try outcome(
                { $0.operations = 2 },
                """
                local op = queue:addOperation(function() end)
                for i = 1, 9 do assert(not pcall(queue.addOperation, queue, op)) assert(not pcall(op.start, op)) end
                return queue:addOperation(function() end)
                """) == "ok")
    }

    @Test func modulesComeFromTheHost() throws {
        var configuration = Runtime.Configuration()
        configuration.sandbox = .untrusted
        configuration.moduleLoader = { $0 == "twice" ? "return { of = function(x) return 2 * x end }" : nil }
        let runtime = try Runtime(configuration)
        defer { runtime.close() }
        #expect(try runtime.run("return require('twice').of(21), pcall(require, 'other')").prefix(2) == [42, false])
        let operation = try #require(
            try runtime.run(
                """
                local queue = opscript.OperationQueue.new()
                queue.maxConcurrentOperationCount = 1
                queue:addOperation(function() local m = require 'twice' m.of = print end)
                return queue:addOperation(function() return require('twice').of(4) end)
                """)[0].operation)
        #expect(try runtime.results(of: operation) == [8])
    }

    @Test func callbacksAndOperationsShareTheTimeOfARun() throws {
        let sources = [
            "local function again() local op = opscript.Operation.new(function() end) op.completionBlock = again queue:addOperation(op) end again()",
            "local function again() opscript.after(0, again) end again()", "opscript.every(0.001, function() end)",
            "local function again() queue:addOperation(again) end again()",
            "local function again() opscript.OperationQueue.main:addOperation(again) end again()",
            "local other = opscript.OperationQueue.new() other:observe('operationCount', function() queue:addOperation(function() end) end)"
                + " local function again() other:addOperation(again) end again()",
        ]
        for (source, limit) in sources.flatMap({ [($0, true), ($0, false)] }) {
            var configuration = Runtime.Configuration()
            configuration.workerCount = 2
            configuration.errorOutput = { _ in }
            if limit { configuration.limits.runSeconds = 0.1 } else { configuration.limits.runInstructions = 200_000 }
            let runtime = try Runtime(configuration)
            try runtime.run("queue = opscript.OperationQueue.new() \(source)")
            // Ends only because nothing of the run is called any more.
            _ = try runtime.finish()
            // Another run has a budget of its own.
            #expect(try runtime.run("return 1 + 1") == [2])
            #expect(runtime.close(deadline: .seconds(30)).isEmpty)
        }
    }

    @Test func anOperationHasTheTimeOfTheRunThatAddedIt() throws {
        var configuration = Runtime.Configuration()
        configuration.limits.runSeconds = 0.05
        let runtime = try Runtime(configuration)
        defer { #expect(runtime.close(deadline: .seconds(30)).isEmpty) }
        let values = try runtime.run(
            "local q = opscript.OperationQueue.new() q.isSuspended = true return q, q:addOperation(function() while true do end end)")
        do {
            try runtime.run("local q = ... q.isSuspended = false", arguments: [values[0]])
            _ = try runtime.results(of: try #require(values[1].operation))
            Issue.record("it ended")
        } catch let failure as OperationFailure {
            #expect(failure.kind == .timeout && failure.message.contains("(limits.runSeconds)"), "\(failure.message)")
        }
    }

    @Test func aWorkerInAFunctionOfTheHostIsReportedAndReplaced() throws {
        let (entered, reported, left) = (Gate(), Gate(), Gate())
        var configuration = Runtime.Configuration()
        configuration.workerCount = 1
        configuration.sandbox = .untrusted
        configuration.limits = .untrusted
        configuration.limits.operationSeconds = 0.05
        configuration.errorOutput = { bytes in
            let report = String(decoding: bytes, as: UTF8.self)
            if report.contains("inside a C function that does not return; another worker does its work") { reported.open() }
        }
        let runtime = try Runtime(configuration)
        defer { #expect(runtime.close(deadline: .seconds(30)).isEmpty) }
        try runtime.register("block") { _ in
            entered.open()
            left.wait()
            return []
        }
        let operations = try runtime.run(
            """
            local queue = opscript.OperationQueue.new()
            return queue:addOperation(function() block() end), queue:addOperation(function() return 'done' end)
            """
        ).compactMap(\.operation)
        entered.wait()
        reported.wait()
        // Only a second worker can run it now.
        #expect(try runtime.results(of: operations[1]) == ["done"])
        left.open()
        let failure = #expect(throws: OperationFailure.self) { try runtime.results(of: operations[0]) }
        #expect(failure?.kind == .timeout)
    }
}
