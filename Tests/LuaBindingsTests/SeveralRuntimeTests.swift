import LuaBindings
import OpEngine
import Testing

/// Several runtimes on one thread.
@Suite struct SeveralRuntimeTests {
    @Test(arguments: [false, true]) func bodiesOfTheFirstAreStopped(otherIsClosed: Bool) throws {
        try withRuntime { first throws in
            let other = try Runtime()
            if otherIsClosed { other.close() }
            let kinds = try first.run(
                """
                local op = Operation.new { timeout = 0.02, main = function() while true do end end }
                op:start()
                return op.error.kind
                """)
            #expect(kinds == ["timeout"])
            other.close()
        }
    }

    @Test func handlesOfTheFirstGoWithTheirOperations() throws {
        try withRuntime { first throws in
            let other = try Runtime()
            let left = try first.run(
                """
                local weak = setmetatable({}, { __mode = 'k' })
                for i = 1, 100 do
                    local op = Operation.new(function() return i end)
                    weak[op] = true
                    op:start()
                end
                for _ = 1, 3 do collectgarbage() end
                return next(weak) == nil
                """)
            #expect(left == [true])
            other.close()
        }
    }

    /// A function of the host makes another runtime on a worker and closes it.
    @Test func theWorkersOwnGoesOn() throws {
        try withRuntime(workers: 1) { first throws in
            try first.register("other") { _ in
                let other = try Runtime()
                _ = try other.run("return 1")
                other.close()
                return []
            }
            let values = try first.run(
                """
                log = Operation.new()
                local waiter = queue:addOperation(function()
                    local inner = Operation.new(function() return 1 end)
                    inner.completionBlock = function() log.told = 'told' end
                    other()
                    OperationQueue.new():addOperation(inner)
                    inner:waitUntilFinished()
                    return log.told
                end)
                waiter:waitUntilFinished()
                return waiter.error and waiter.error.message, waiter.result
                """)
            #expect(values == [.nil, "told"])
            let kinds = try first.run(
                """
                local op = Operation.new { timeout = 0.02, main = function() other() while true do end end }
                queue:addOperation(op):waitUntilFinished()
                return op.error.kind
                """)
            #expect(kinds == ["timeout"])
        }
    }
}
