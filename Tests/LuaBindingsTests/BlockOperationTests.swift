import LuaBindings
import OpEngine
import Testing

/// `BlockOperation`: one operation with several functions.
@Suite struct BlockOperationTests {
    @Test func eachBlockHasAResult() throws {
        try script(
            """
            local o = opscript.BlockOperation.new(function(op, x) return x, 'not this' end, 'one')
            o:addExecutionBlock(function(op, x, y) return { x, y } end, 'two', 2)
            o:addExecutionBlock(function() end)
            o:addExecutionBlock(function(op) return op == o and Operation.current == o end)
            assert(o.executionBlocks == 4)
            queue:addOperation(o)
            o:waitUntilFinished()
            local r = o.results
            assert(r.n == 4 and r[1] == 'one' and r[2][1] == 'two' and r[2][2] == 2 and r[3] == nil and r[4] == true)
            assert(o.result == 'one' and o.results == r and o.executionBlocks == 4)
            local empty = opscript.BlockOperation.new()
            queue:addOperation(empty)
            empty:waitUntilFinished()
            assert(empty.executionBlocks == 0 and empty.results.n == 0)
            assert(Operation.new(print).executionBlocks == nil)
            """)
    }

    /// Each function waits until all have begun, so none would end if they ran one after the other.
    @Test func theBlocksRunConcurrently() throws {
        try script(
            workers: 4,
            """
            local o = opscript.BlockOperation.new()
            for i = 1, 4 do
                o:addExecutionBlock(function(op)
                    op['block' .. i] = true
                    for other = 1, 4 do while not op['block' .. other] do opscript.sleep(0.001) end end
                    return i
                end)
            end
            OperationQueue.new { maxConcurrentOperationCount = 1 }:addOperation(o)
            o:waitUntilFinished()
            assert(table.concat(o.results, ' ') == '1 2 3 4')
            """)
    }

    @Test func aManualStartAndTheMainQueueRunThemInTheirState() throws {
        try script(
            """
            for _, start in ipairs { function(o) o:start() end, function(o) OperationQueue.main:addOperation(o) end } do
                local log = {}
                local o = opscript.BlockOperation.new(function() log[#log + 1] = 'a' return #log end)
                o:addExecutionBlock(function() log[#log + 1] = 'b' return #log end)
                start(o)
                o:waitUntilFinished()
                assert(table.concat(log) == 'ab' and o.results[1] == 1 and o.results[2] == 2)
            end
            local inner = queue:addOperation(function()
                local log = {}
                local o = opscript.BlockOperation.new(function() log[1] = true end)
                o:addExecutionBlock(function() return log[1] end)
                o:start()
                return o.results[2]
            end)
            inner:waitUntilFinished()
            assert(inner.result == true, inner.error)
            """)
    }

    @Test func theFirstErrorIsItsErrorAndAllBlocksRun() throws {
        try script(
            """
            local o = opscript.BlockOperation.new(function() error 'first' end)
            o:addExecutionBlock(function(op) op.ran = true end)
            queue:addOperation(o)
            o:waitUntilFinished()
            assert(o.error.message:find 'first' and o.ran and o.results == nil)
            """)
    }

    @Test func interruptingStopsAllBlocks() throws {
        try script(
            workers: 3,
            """
            local o = opscript.BlockOperation.new()
            for i = 1, 3 do o:addExecutionBlock(function(op) op['block' .. i] = true while true do end end) end
            queue:addOperation(o)
            for i = 1, 3 do while not o['block' .. i] do opscript.sleep(0.001) end end
            o:interrupt()
            assert(o:waitUntilFinished() and o.error.kind == 'interrupted' and o.isCancelled and o.results == nil)
            """)
    }

    @Test func cancelledBeforeItStartedNoneRuns() throws {
        try script(
            """
            local o = opscript.BlockOperation.new(function(op) op.ran = true end)
            o:addExecutionBlock(function(op) op.ran = true end)
            o:cancel()
            queue:addOperation(o)
            assert(o:waitUntilFinished() and not o.ran and o.results == nil)
            """)
    }

    @Test func blocksAreAddedInAQueueAndFromOtherStates() throws {
        try script(
            """
            queue.isSuspended = true
            local o = opscript.BlockOperation.new(function() return 1 end)
            queue:addOperation(o)
            local two = 2
            o:addExecutionBlock(function() return two end)
            two = 'changed'
            local other = OperationQueue.new()
            other:addOperation(function() o:addExecutionBlock(function(op, x) return x end, 3) end):waitUntilFinished()
            queue.isSuspended = false
            o:waitUntilFinished()
            assert(table.concat(o.results, ' ') == '1 2 3')
            -- One that another state adds, after it was sent there.
            local p = opscript.BlockOperation.new(function() return 'a' end)
            local adding = other:addOperation(function() p:addExecutionBlock(function() return 'b' end) queue:addOperation(p) end)
            adding:waitUntilFinished()
            assert(not adding.error, adding.error)
            p:waitUntilFinished()
            assert(table.concat(p.results, ' ') == 'a b')
            -- And one that it does not add.
            local q = opscript.BlockOperation.new(function() return 'a' end)
            other:addOperation(function() q:addExecutionBlock(function() return 'b' end) end):waitUntilFinished()
            q:addExecutionBlock(function() return 'c' end)
            OperationQueue.main:addOperation(q)
            q:waitUntilFinished()
            assert(table.concat(q.results, ' ') == 'a b c')
            """)
    }

    @Test func whatABlockCannotSendIsAnError() throws {
        try withRuntime { runtime throws in
            let error = #expect(throws: LuaError.self) {
                try runtime.run(
                    """
                    local o = opscript.BlockOperation.new(function() end)
                    local thread = coroutine.create(print)
                    o:addExecutionBlock(function() return thread end)
                    queue:addOperation(o)
                    """)
            }
            #expect(error?.message.contains("script:4: cannot send upvalue 'thread'") == true, "\(error?.message ?? "")")
            #expect(try runtime.run("return queue.operationCount") == [0])
        }
    }

    @Test(arguments: [
        ("opscript.BlockOperation.new(12)", "function expected, got number"),
        ("opscript.BlockOperation.new(nil)", "function expected, got nil"),
        ("opscript.BlockOperation.new(function() end):addExecutionBlock('x')", "function expected, got string"),
        ("opscript.BlockOperation.new(function() end).addExecutionBlock(print)", "call 'addExecutionBlock' with ':'"),
        ("Operation.new(print):addExecutionBlock(print)", "is not a BlockOperation of a script"),
        ("local o = opscript.BlockOperation.new() o:start() o:addExecutionBlock(print)", "executing or finished"),
        (
            "local o o = opscript.BlockOperation.new(function() o:addExecutionBlock(print) end) o:start() error(o.error.message)",
            "executing"
        ),
        ("opscript.BlockOperation.new(function() end).executionBlocks = 1", "cannot be assigned"),
    ])
    func misuseIsAnError(_ source: String, _ message: String) throws {
        try withRuntime { runtime throws in
            let error = #expect(throws: LuaError.self) { try runtime.run(source) }
            #expect(error?.message.contains(message) == true, "\(error?.message ?? "")")
        }
    }

    @Test(arguments: [254, 255, 256, 5000])
    func manyBlocksAreCountedAndEachHasItsResult(count: Int) throws {
        try script(
            """
            local o = opscript.BlockOperation.new(function() return 1 end)
            for i = 2, \(count) do o:addExecutionBlock(function() return i end) end
            assert(o.executionBlocks == \(count), o.executionBlocks)
            queue:addOperation(o)
            o:waitUntilFinished()
            assert(o.executionBlocks == \(count), o.executionBlocks)
            local results = o.results
            for i = 1, \(count) do assert(results[i] == i) end
            """)
    }
}
