import LuaBindings
import OpEngine
import Testing

/// Queues in scripts.
@Suite struct QueueTests {
    @Test func addingAListWaitsWhenItIsAsked() throws {
        try script(
            """
            local a, b = Operation.new(function() return 1 end), Operation.new(function() return 2 end)
            b:addDependency(a)
            queue:addOperations({ b, a }, true)
            assert(a.isFinished and b.isFinished and b.result == 2)
            local c = Operation.new(function() return 3 end)
            OperationQueue.main:addOperations({ c }, true)
            assert(c.result == 3)
            queue.isSuspended = true
            local d = Operation.new(function() end)
            queue:addOperations({ d }, false)
            assert(not d.isFinished)
            queue:addOperations({}, true)
            queue.isSuspended = false
            """)
    }

    @Test func aBarrierStandsBetween() throws {
        try script(
            workers: 4,
            """
            queue.isSuspended = true
            local before, after = {}, {}
            for i = 1, 3 do before[i] = queue:addOperation(function() opscript.sleep(0.001) end) end
            local barrier = queue:addBarrierBlock(function(op, x)
                local all = true
                for i = 1, 3 do all = all and before[i].isFinished end
                return all, x
            end, 'argument')
            for i = 1, 3 do after[i] = queue:addOperation(function() return barrier.isFinished end) end
            queue.isSuspended = false
            queue:waitUntilAllOperationsAreFinished()
            assert(barrier.result == true and barrier.results[2] == 'argument')
            for i = 1, 3 do assert(after[i].result == true) end
            local failing = queue:addBarrierBlock(function() error 'in the barrier' end)
            failing:waitUntilFinished()
            assert(failing.error.message:find 'in the barrier')
            """)
    }

    @Test func aScriptsQueueHasNoUnderlyingQueue() throws {
        final class Inline: OperationExecutor {
            func execute(_ job: @escaping @Sendable () -> Void) { job() }
        }
        try withRuntime { runtime throws in
            try runtime.run(
                "assert(queue.underlyingQueue == nil and OperationQueue.main.underlyingQueue == nil) queue.underlyingQueue = nil")
            let queue = OperationQueue(engine: runtime.engine)
            queue.underlyingQueue = Inline()
            try runtime.setGlobal("hosts", to: .queue(queue))
            #expect(try runtime.run("return hosts.underlyingQueue") == ["Inline"])
        }
    }

    @Test(arguments: [
        ("queue:addBarrierBlock()", "function expected, got no value"),
        ("queue:addBarrierBlock(Operation.new(print))", "function expected, got Operation"),
        ("queue.addBarrierBlock(print)", "call 'addBarrierBlock' with ':'"),
        ("local t = coroutine.create(print) queue:addBarrierBlock(function() return t end)", "cannot send upvalue 't'"),
        ("queue:addOperations(Operation.new(print), true)", "table expected, got Operation"),
        ("queue:addOperations({ 1 }, true)", "Operation expected at [1], got number"),
        ("queue:addOperations({}, 1)", "boolean expected, got number"),
        ("queue.underlyingQueue = OperationQueue.new()", "'underlyingQueue' of its queues stays nil"),
    ])
    func misuseIsAnError(_ source: String, _ message: String) throws {
        try withRuntime { runtime throws in
            let error = #expect(throws: LuaError.self) { try runtime.run(source) }
            #expect(error?.message.contains(message) == true, "\(error?.message ?? "")")
            #expect(try runtime.run("return queue.operationCount") == [0])
        }
    }
}
