import Glibc
import LuaBindings
import OpEngine
import TestLimits
import TestSupport
import Testing

/// Completion blocks that become due before their state runs them are run together.
@Suite(.endsWithin(seconds: 60)) struct DueCompletionTests {
    /// The blocks run one after the other. A block that waits lets the others run meanwhile.
    @Test func aBlockMayWaitForTheBlocksThatAreDueBehindIt() throws {
        try script(
            """
            local ran, operations = {}, {}
            for i = 1, 100 do
                local o = Operation.new(function() return i end)
                o.completionBlock = function()
                    ran[#ran + 1] = i
                    if i % 10 > 0 then return end
                    for other = i + 1, math.min(i + 5, 100) do assert(operations[other]:waitUntilFinished()) end
                    queue:waitUntilAllOperationsAreFinished()
                    assert(#ran == 100)
                end
                operations[i] = o
                queue:addOperation(o)
            end
            queue:waitUntilAllOperationsAreFinished()
            table.sort(ran)
            for i = 1, 100 do assert(ran[i] == i) end
            """)
    }

    /// Lua has room for fewer than 200 calls from C that begin inside each other.
    @Test(
        arguments: [
            "local o = Operation.new(function() return -1 end) OperationQueue.new():addOperation(o) assert(o:waitUntilFinished() and o.result == -1)",
            "assert(opscript.process({ 'true' }):wait().status == 0)",
        ]) func manyBlocksMayWait(for wait: String) throws
    {
        try script(
            """
            local told = 0
            for i = 1, 400 do
                local o = Operation.new(function() end)
                o.completionBlock = function()
                    \(wait)
                    told = told + 1
                end
                queue:addOperation(o)
            end
            queue:waitUntilAllOperationsAreFinished()
            while told < 400 do opscript.sleep(0.001) end
            """)
    }

    /// A function of the host that drains the main inbox also runs the other blocks.
    @Test func aBlockMayHaveTheHostWaitForTheBlocksBehindIt() throws {
        try withRuntime { runtime throws in
            let inbox = runtime.engine.mainInbox
            try runtime.register("drain") { _ in
                _ = inbox.drain()
                return []
            }
            try runtime.run(
                """
                local ran = 0
                for i = 1, 10 do
                    local o = Operation.new(function() end)
                    o.completionBlock = function()
                        ran = ran + 1
                        if ran > 1 then return end
                        -- The last one may leave the queue before it has told that it has finished.
                        local patience = os.time() + 60
                        while ran < 10 and os.time() < patience do drain() end
                        assert(ran == 10, ran)
                        checked = true
                    end
                    queue:addOperation(o)
                end
                while queue.operationCount > 0 do end
                queue:waitUntilAllOperationsAreFinished()
                assert(ran == 10 and checked)
                """)
        }
    }

    @Test func aBlockThatFailsLeavesTheOthers() throws {
        try withRuntime { runtime throws in
            try runtime.run(
                """
                local ran = 0
                for i = 1, 9 do
                    local o = Operation.new(function() end)
                    o.completionBlock = function()
                        ran = ran + 1
                        if ran % 3 == 0 then error 'expected: this is a test' end
                    end
                    queue:addOperation(o)
                end
                queue:waitUntilAllOperationsAreFinished()
                assert(ran == 9, ran)
                """)
            #expect(try runtime.finish().callbackErrorCount == 3)
        }
    }

    /// The script keeps no reference to the operation.
    @Test func aBlockThatIsSetWhileTheOperationEndsRuns() throws {
        try withRuntime { runtime throws in
            let token = Locked<KeyValueObservation?>(nil)
            try runtime.register("endWhenTheBlockIsSet") { arguments in
                let operation = try #require(arguments.first?.operation), queue = try #require(operation.queue)
                let observation = operation.observe(\.completionBlock) { _, _ in
                    queue.isSuspended = false
                    // A wait would run the block.
                    while !operation.isFinished { sched_yield() }
                }
                token.withLock { $0 = observation }
                return []
            }
            try runtime.run(
                """
                local ran = 0
                local queue = OperationQueue.new { isSuspended = true }
                do
                    local o = Operation.new(function() end)
                    queue:addOperation(o)
                    endWhenTheBlockIsSet(o)
                    o.completionBlock = function() ran = ran + 1 end
                    assert(o.isFinished and ran == 0)
                end
                collectgarbage()
                collectgarbage()
                queue:waitUntilAllOperationsAreFinished()
                local patience = os.time() + 60
                while ran == 0 and os.time() < patience do opscript.sleep(0) end
                assert(ran == 1, ran)
                """)
            token.withLock { $0?.invalidate() }
            #expect(try runtime.finish().stuckOperations.isEmpty)
        }
    }
}
