import LuaBindings
import OpEngine
import Testing

@Suite struct TimeoutTests {
    @Test(arguments: [
        "while true do end",
        "while true do pcall(function() while true do end end) end",
        "local f = coroutine.wrap(function() while true do pcall(coroutine.yield) end end) while true do f() end",
        "opscript.sleep(1e6)",
        "while true do pcall(opscript.sleep, 1e6) end",
        "opscript.Operation.new():waitUntilFinished(1e6)",
        "queue:addOperation(function() opscript.sleep(1e6) end):waitUntilFinished()",
    ])
    func aBodyIsStoppedWhereverItIs(_ body: String) throws {
        try withRuntime { runtime throws in
            let source = """
                local op = Operation.new {
                    name = 'endless', timeout = 0.02, main = function(op)
                        \(body)
                    end
                }
                queue:addOperation(op):waitUntilFinished()
                -- The operations that it has added before it was stopped.
                queue:cancelAllOperations()
                local e = op.error
                assert(op.isFinished and op.isCancelled and op.result == nil and e.kind == 'timeout' and e.operation == op)
                assert(e.traceback:find('stack traceback', 1, true))
                -- Its worker goes on.
                assert(queue:addOperation(function() return pcall(error, 'x') end):waitUntilFinished())
                return e.message
                """
            let message = try runtime.run(source, name: "=endless.lua")[0].text
            #expect(message == "endless.lua:3: timeout: 'endless' took longer than 0.02 s")
            #expect(try runtime.finish().unreadFailures.isEmpty)
        }
    }

    @Test func anOperationOfTheMainQueueIsStopped() throws {
        #expect(
            try script(
                """
                local op = Operation.new { timeout = 0.02, main = function() while true do end end }
                OperationQueue.main:addOperation(op)
                op:waitUntilFinished()
                return op.error.message, op.error.kind
                """) == ["script:1: timeout: an unnamed Operation took longer than 0.02 s", "timeout"])
    }

    @Test func anOperationStartedByHandIsStopped() throws {
        #expect(
            try script(
                """
                local op = Operation.new { timeout = 0.02, main = function() while true do end end }
                op:start()
                return op.error.kind, op.isFinished
                """) == ["timeout", true])
    }

    @Test func oneThatEndsInTimeIsLeftAlone() throws {
        try withRuntime { runtime throws in
            try runtime.run(
                """
                local op = Operation.new { timeout = 1e6, main = function() return 'in time' end }
                queue:addOperation(op):waitUntilFinished()
                assert(op.result == 'in time' and not op.isCancelled and not op.error)
                """)
            // A pending timeout does not keep `finish` waiting.
            let ending = try runtime.finish()
            #expect(ending.unreadFailures.isEmpty && ending.stuckOperations.isEmpty)
        }
    }

    @Test func onlyExecutingCounts() throws {
        #expect(
            try script(
                """
                local op = Operation.new { timeout = 1, main = function() return 'started late' end }
                queue.isSuspended = true
                queue:addOperation(op)
                opscript.sleep(1.1)
                queue.isSuspended = false
                op:waitUntilFinished()
                return op.result
                """) == ["started late"])
    }

    @Test func itCanBeSetAndTakenBackWhileTheOperationExecutes() throws {
        #expect(
            try script(
                """
                local op = Operation.new(function(op) op.isRunning = true; opscript.sleep(1e6) end)
                queue:addOperation(op)
                while not op.isRunning do opscript.sleep(0) end
                op.timeout = 0.01
                op:waitUntilFinished()
                local other = Operation.new { timeout = 1, main = function(op)
                    op.timeout = nil
                    opscript.sleep(1.1)
                    return 'went on'
                end }
                queue:addOperation(other):waitUntilFinished()
                return op.error.kind, other.result, other.timeout
                """) == ["timeout", "went on", .nil])
    }

    @Test func dependentsLearnOfIt() throws {
        #expect(
            try script(
                """
                local slow = Operation.new { name = 'slow', timeout = 0.01, main = function() while true do end end }
                local reader = Operation.new(function() return slow.error.kind end)
                local picky = Operation.new { dependencyPolicy = 'succeeded', main = print }
                reader:addDependency(slow)
                picky:addDependency(slow)
                queue:addOperations({ slow, reader, picky }, true)
                return reader.result, picky.isCancelled
                """) == ["timeout", true])
    }

    @Test func itCountsAsAFailureThatNobodyRead() throws {
        try withRuntime { runtime throws in
            try runtime.run("queue:addOperation(Operation.new { timeout = 0.01, main = function() while true do end end })")
            let failures = try runtime.finish().unreadFailures
            #expect(failures.map(\.kind) == [.timeout])
        }
    }

    @Test func manyAtOnceAreStopped() throws {
        #expect(
            try script(
                """
                local count, list = 0, {}
                for i = 1, 100 do
                    list[i] = Operation.new {
                        timeout = 0.01 + i % 10 / 1000,
                        main = i % 2 == 0 and function() while true do end end or function() opscript.sleep(1e6) end,
                    }
                end
                queue:addOperations(list, true)
                for _, op in ipairs(list) do if op.error.kind == 'timeout' then count = count + 1 end end
                return count
                """) == [100])
    }

    @Test(arguments: [
        ("Operation.new().timeout = 0", "timeout: seconds must be more than 0, got 0"),
        ("Operation.new().timeout = -1.5", "timeout: seconds must be more than 0, got -1.5"),
        ("Operation.new().timeout = 0/0", "timeout: seconds must be more than 0, got nan"),
        ("Operation.new().timeout = '1'", "timeout: number expected, got string"),
        ("Operation.new { timeout = true }", "timeout: number expected, got boolean"),
        ("Operation.new().timout = 1", "an operation has no property 'timout' (did you mean 'timeout'?)"),
    ])
    func wrongValuesAreErrors(_ source: String, _ message: String) throws {
        try withRuntime { runtime throws in
            let error = #expect(throws: LuaError.self) { try runtime.run(source) }
            #expect(error?.message == "script:1: \(message)")
        }
    }

    @Test func itReadsAsItWasSet() throws {
        #expect(
            try script(
                """
                local op = Operation.new { timeout = 2 }
                local first = op.timeout
                op.timeout = nil
                return first, op.timeout, Operation.new { timeout = math.huge }.timeout
                """) == [.number(2), .nil, .number(.infinity)])
    }

    @Test func cancellingWakesASleep() throws {
        #expect(
            try script(
                """
                local op = Operation.new(function(op) op.isRunning = true; opscript.sleep(1e6); return op.isCancelled end)
                queue:addOperation(op)
                while not op.isRunning do opscript.sleep(0) end
                op:cancel()
                op:waitUntilFinished()
                return op.result
                """) == [true])
    }
}
