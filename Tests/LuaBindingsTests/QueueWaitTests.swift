import LuaBindings
import OpEngine
import TestSupport
import Testing

/// A script that waits for a queue also waits for its completion blocks, and for operations that these add.
@Suite struct QueueWaitTests {
    @Test func whatCompletionBlocksAddIsWaitedForTogetherWithTheQueue() throws {
        try withRuntime { runtime throws in
            try runtime.run(
                """
                local q, Operation = opscript.OperationQueue.new(), opscript.Operation
                for _ = 1, 100 do
                    local left = 20
                    local function add()
                        local op = Operation.new(function() end)
                        op.completionBlock = function()
                            left = left - 1
                            if left > 0 then add() end
                        end
                        q:addOperation(op)
                    end
                    add()
                    assert(q:waitUntilAllOperationsAreFinished())
                    assert(left == 0 and q.operationCount == 0, left)
                end
                """)
        }
    }
    /// The waiting block itself is among the due blocks.
    @Test func completionBlocksMayWaitForTheirQueue() throws {
        try script(
            """
            local count = 0
            local function add(depth)
                local o = Operation.new(function() return depth end)
                o.completionBlock = function(op)
                    count = count + 1
                    if depth == 0 then return end
                    add(depth - 1)
                    add(depth - 1)
                    assert(queue:waitUntilAllOperationsAreFinished() and op:waitUntilFinished())
                end
                queue:addOperation(o)
            end
            add(5)
            queue:waitUntilAllOperationsAreFinished()
            assert(count == 63, count)
            """)
    }

    /// The wait includes operations that observers add when they are told of an end, besides the completion blocks.
    @Test func aWaitForAQueueEndsWhenItIsEmpty() throws {
        try script(
            """
            for i = 1, \(TestLength.size(2000)) do
                local q, added = OperationQueue.new(), false
                local observation = q:observe('operationCount', function()
                    if added or q.operationCount > 0 then return end
                    added = true
                    q:addOperation(function() opscript.sleep(0.0002) end)
                end)
                local o = Operation.new(function() return 1 end)
                if i % 2 == 0 then o.completionBlock = function() end end
                q:addOperation(o)
                q:waitUntilAllOperationsAreFinished()
                assert(not added or q.operationCount == 0, i)
                observation:invalidate()
                q:waitUntilAllOperationsAreFinished()
            end
            """)
    }
}
