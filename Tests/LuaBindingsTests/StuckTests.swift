import LuaBindings
import OpEngine
import TestSupport
import Testing

/// A body inside a C function that does not return cannot be stopped.
@Suite struct StuckTests {
    @Test(arguments: ["interrupt()", "timeout = 0.01"]) func anotherWorkerTakesThePlaceOfItsWorker(how: String) throws {
        var configuration = Runtime.Configuration()
        configuration.workerCount = 1
        let runtime = try Runtime(configuration)
        defer { runtime.close() }
        let (hasBegun, mayReturn) = (Gate(), Gate())
        try runtime.register("block") { _ in
            hasBegun.open()
            mayReturn.wait()
            return []
        }
        try runtime.register("go") { _ in
            mayReturn.open()
            return []
        }
        try runtime.register("hasBegun") { _ in
            hasBegun.wait()
            return []
        }
        let stops = how.hasSuffix(")")
        try runtime.run(
            """
            local queue = opscript.OperationQueue.new()
            local stuck = opscript.Operation.new { name = 'stuck', main = function() block() while true do end end }
            \(stops ? "" : "stuck.\(how)")
            queue:addOperation(stuck)
            hasBegun()
            \(stops ? "stuck:\(how)" : "")
            -- There is one worker, and it is stuck: this one runs on another.
            local other = queue:addOperation(function() return 'went on' end)
            assert(other:waitUntilFinished() and other.result == 'went on' and stuck.isExecuting)
            go()
            stuck:waitUntilFinished()
            assert(stuck.error.kind == '\(stops ? "interrupted" : "timeout")', stuck.error.kind)
            -- All is as it was: the worker is there again.
            local last = queue:addOperation(function() return 'healthy' end)
            assert(last:waitUntilFinished() and last.result == 'healthy')
            """)
        #expect(try runtime.finish().unreadFailures.isEmpty)
    }

    /// A request takes longer to handle than it takes until the next one comes, since all functions that are active get a hook.
    @Test func requestsThatComeFasterThanTheyAreHandledDoNotKeepABodyFromEnding() throws {
        let runtime = try Runtime()
        defer { runtime.close() }
        let isDeep = Gate()
        try runtime.register("isDeep") { _ in
            isDeep.open()
            return []
        }
        let operation = try #require(
            try runtime.run(
                """
                return opscript.OperationQueue.new():addOperation(function()
                    local function descend(n)
                        if n > 0 then return 1 + descend(n - 1) end
                        isDeep()
                        while true do end
                    end
                    descend(180000)
                end)
                """)[0].operation as? LuaOperation)
        isDeep.wait()
        let thread = TestThread { while !operation.isFinished { operation.interrupt() } }
        operation.waitUntilFinished()
        thread.join()
        #expect((operation.error as? OperationFailure)?.kind == .interrupted)
    }

    @Test func closingSaysWhatDoesNotEnd() throws {
        let runtime = try Runtime()
        let (hasBegun, mayReturn, hasReturned) = (Gate(), Gate(), Gate())
        try runtime.register("block") { _ in
            hasBegun.open()
            mayReturn.wait()
            hasReturned.open()
            return []
        }
        try runtime.run(
            """
            local queue = opscript.OperationQueue.new()
            queue:addOperation(opscript.Operation.new { name = 'stuck', main = function() block() end })
            """)
        hasBegun.wait()
        #expect(runtime.close(deadline: .milliseconds(10)) == ["'stuck'"])
        mayReturn.open()
        hasReturned.wait()
    }
}
