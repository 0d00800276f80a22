import LuaBindings
import OpEngine
import Testing

/// No Lua state holds more memory than its host allows.
@Suite struct StateLimitTests {
    private func runtime(limit: Int) throws -> Runtime {
        var configuration = Runtime.Configuration()
        configuration.workerCount = 1
        configuration.stateMemoryLimit = limit
        return try Runtime(configuration)
    }

    @Test func aBodyThatNeedsMoreFailsAndTheNextIsHealthy() throws {
        let runtime = try runtime(limit: 2_000_000)
        defer { runtime.close() }
        try runtime.run(
            """
            local queue = opscript.OperationQueue.new()
            local function fill()
                local t = {}
                while true do pcall(function() t[#t + 1] = ('x'):rep(1000) .. #t end) end
            end
            for round = 1, 20 do
                local greedy, modest = queue:addOperation(fill), queue:addOperation(function() return #('x'):rep(100000) end)
                queue:waitUntilAllOperationsAreFinished()
                assert(greedy.error.kind == 'memory', greedy.error.message)
                assert(modest.result == 100000, modest.error)
            end
            -- A limit of its own is the tighter one, and what may be more is not.
            local small = opscript.Operation.new { main = function() return ('x'):rep(1000000) end, memoryLimit = 100000 }
            local large = opscript.Operation.new { main = function() return #('x'):rep(4000000) end, memoryLimit = 1 << 40 }
            queue:addOperations({ small, large }, true)
            assert(small.error.kind == 'memory' and large.error.kind == 'memory')
            """)
        #expect(try runtime.finish().unreadFailures.isEmpty)
    }

    @Test func theErrorSaysWhereMemoryRanOut() throws {
        let runtime = try runtime(limit: 2_000_000)
        defer { runtime.close() }
        try runtime.run(
            """
            local queue = opscript.OperationQueue.new()
            for _, fill in ipairs {
              function(t) while true do t[#t + 1] = ('x'):rep(1000) .. #t end end,
              function(t) while true do t[#t + 1] = {} end end,
              function(t) while true do pcall(function() t[#t + 1] = ('x'):rep(50000) .. #t end) end end,
            } do
              local op = queue:addOperation(function() fill {} end)
              op:waitUntilFinished()
              assert(op.error.kind == 'memory' and op.error.message:find '^script:[345]: memory limit exceeded$', op.error.message)
              assert(op.error.traceback:find 'fill')
            end
            """)
    }

    @Test func garbageIsCollectedBeforeAnOperationIsStopped() throws {
        let runtime = try runtime(limit: 2_000_000)
        defer { runtime.close() }
        try runtime.run(
            """
            local wasteful = opscript.OperationQueue.new():addOperation(function()
                collectgarbage("stop")
                for i = 1, 200 do local s = ("x"):rep(100000) end
                collectgarbage("restart")
            end)
            wasteful:waitUntilFinished()
            assert(wasteful.error == nil, wasteful.error)
            """)
    }

    @Test func aStateThatIsFullIsMadeAnew() throws {
        let runtime = try runtime(limit: 2_000_000)
        defer { runtime.close() }
        try runtime.run(
            """
            local queue = opscript.OperationQueue.new()
            for round = 1, 5 do
                -- The values that a module holds stay in the state.
                local hoarder = queue:addOperation(function()
                    assert(package.loaded.hoard == nil)
                    package.loaded.hoard = {}
                    for i = 1, 1e9 do package.loaded.hoard[i] = ('x'):rep(1000) .. i end
                end)
                local modest = queue:addOperation(function() return package.loaded.hoard, #('x'):rep(100000) end)
                queue:waitUntilAllOperationsAreFinished()
                assert(hoarder.error.kind == 'memory', hoarder.error.message)
                assert(modest.results[1] == nil and modest.results[2] == 100000, modest.error)
            end
            """)
        #expect(try runtime.finish().unreadFailures.isEmpty)
    }

    @Test func inTheMainStateItIsAnErrorThatCanBeCaught() throws {
        let runtime = try runtime(limit: 2_000_000)
        defer { runtime.close() }
        #expect(
            try runtime.run(
                """
                local ok, message = pcall(string.rep, 'x', 4000000)
                local op = opscript.OperationQueue.new():addOperation(function() return 'fine' end)
                op:waitUntilFinished()
                return ok, message, op.result
                """) == [false, "not enough memory", "fine"])
    }

    @Test func aLimitThatIsTooLittleIsRefused() {
        #expect(throws: LuaError.self) { try runtime(limit: 10_000) }
    }
}
