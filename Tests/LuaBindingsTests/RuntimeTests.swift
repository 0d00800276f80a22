import Glibc
import LuaBindings
import OpEngine
import TestSupport
import Testing

/// The runtime as a whole.
@Suite struct RuntimeTests {
    /// `prefersSpeedToMemory` is what the command uses. By default, a state has Lua's own settings.
    @Test(arguments: [false, true]) func theMainStateIsCollectedMoreSeldomWhereSpeedCounts(prefersSpeed: Bool) throws {
        var configuration = Runtime.Configuration()
        configuration.prefersSpeedToMemory = prefersSpeed
        let runtime = try Runtime(configuration)
        defer { #expect(runtime.close(deadline: .seconds(30)).isEmpty) }
        let pause = "return collectgarbage('setpause', 200)"
        #expect(try runtime.run(pause) == [prefersSpeed ? 300 : 200])
        let inWorker = """
            local operation = opscript.OperationQueue.new():addOperation(function() \(pause) end)
            operation:waitUntilFinished()
            return operation.result
            """
        #expect(try runtime.run(inWorker) == [200])
    }

    @Test func twoRuntimesDoNotDisturbEachOther() throws {
        try withRuntime { first throws in
            try withRuntime { second throws in
                try first.register("who") { _ in ["first"] }
                try second.register("who") { _ in ["second"] }
                try first.setGlobal("shared", to: 1)
                #expect(try second.global("shared") == .nil)
                let a = try first.operation(
                    "package.path = 'first/?'; return queue:addOperation(function() return who(), package.path end)")
                let b = try second.operation("return queue:addOperation(function() return who(), package.path:find 'first' end)")
                #expect(try first.results(of: a) == ["first", "first/?"])
                #expect(try second.results(of: b) == ["second", .nil])
            }
            #expect(try first.results(of: first.operation("return queue:addOperation(function() return who() end)")) == ["first"])
        }
    }

    @Test func runtimesOnThreadsOfTheirOwnRunAtOnce() throws {
        let results = Log<LuaValue>()
        let threads = (1...4).map { number in
            TestThread {
                do {
                    try withRuntime { runtime throws in
                        let operation = try runtime.operation(
                            """
                            local sum = Operation.new(function() return n end)
                            n = 0
                            for i = 1, 200 do queue:addOperation(function() return i end) end
                            queue:waitUntilAllOperationsAreFinished()
                            n = \(number)
                            return queue:addOperation(sum)
                            """)
                        results.append(try runtime.results(of: operation)[0])
                    }
                } catch { Issue.record(error) }
            }
        }
        for thread in threads { thread.join() }
        #expect(Set(results.entries) == [1, 2, 3, 4])
    }

    @Test func closingWaitsForWhatRunsAndCancelsTheRest() throws {
        let (started, ran) = (Gate(), Locked(0))
        var configuration = Runtime.Configuration()
        configuration.workerCount = 1
        let runtime = try Runtime(configuration)
        try runtime.register("started") { _ in
            started.open()
            return []
        }
        try runtime.register("ran") { _ in
            ran.withLock { $0 += 1 }
            return []
        }
        let operations = try runtime.run(
            """
            local queue = opscript.OperationQueue.new()
            local first = queue:addOperation(function(op) started(); while not op.isCancelled do end; ran() end)
            local second = queue:addOperation(function() ran() end)
            return first, second
            """)
        started.wait()
        #expect(runtime.close(deadline: .seconds(30)).isEmpty)
        #expect(ran.withLock { $0 } == 1)
        #expect(operations.allSatisfy { $0.operation?.isCancelled == true && $0.operation?.isFinished == true })
    }

    @Test func operationsOutliveTheirRuntime() throws {
        let (finished, never) = try withRuntime { runtime throws in
            let values = try runtime.run(
                """
                local o = queue:addOperation(function() return { 1 } end)
                o:waitUntilFinished()
                local never = Operation.new(function() return o end)
                never.completionBlock = function() local _ = o, never end
                never.stored = o
                return o, never
                """)
            return (try #require(values[0].operation), try #require(values[1].operation))
        }
        #expect(finished.isFinished && !never.isFinished)
        never.cancel()
        never.start()
        #expect(never.isFinished)
    }

    @Test func anOperationStartedAfterItsRuntimeIsClosedFails() throws {
        let operation = try withRuntime { try $0.operation("return Operation.new(function() return 1 end)") }
        operation.start()
        #expect(operation.outcome == .failed)
    }

    @Test func theHostMayCancelAndStartOperations() throws {
        try withRuntime { runtime throws in
            let operation = try runtime.operation("n = 0; return Operation.new(function() n = n + 1; return n end)")
            operation.start()
            #expect(try runtime.results(of: operation) == [1])
            let other = try runtime.operation("return Operation.new(function() n = n + 1 end)")
            other.cancel()
            other.start()
            #expect(try runtime.run("return n") == [1])
        }
    }
}
