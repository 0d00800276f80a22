import LuaBindings
import Testing

/// The main queue runs functions in the main state, without copying them.
@Suite struct MainQueueTests {
    @Test func upvaluesAndGlobalsAreShared() throws {
        try withRuntime { runtime throws in
            try runtime.run(
                """
                local n, thread = 0, coroutine.create(print)
                total = 0
                for i = 1, 10 do
                    OperationQueue.main:addOperation(function(op, x) n = n + x; total = n; return thread and nil end, i)
                end
                result = function() return n end
                """)
            let ending = try runtime.finish()
            #expect(ending.unreadFailures.isEmpty, "\(ending.unreadFailures)")
            #expect(try runtime.run("return result(), total") == [55, 55])
        }
    }

    @Test func itRunsWhileTheMainStateWaits() throws {
        try script(
            """
            local order = {}
            local onMain = OperationQueue.main:addOperation(function() order[#order + 1] = 'main' end)
            local worker = Operation.new(function() return 'worker' end)
            worker:addDependency(onMain)
            queue:addOperation(worker)
            assert(#order == 0)
            worker:waitUntilFinished()
            assert(order[1] == 'main' and worker.result == 'worker')
            """)
    }

    @Test func aManualStartRunsHere() throws {
        try script(
            """
            local n = 0
            local o = Operation.new(function(op, x) n = n + x; return Operation.current == op end, 5)
            o:start()
            assert(n == 5 and o.isFinished and o.result == true)
            local failing = Operation.new(function() error { code = 3 } end)
            failing:start()
            assert(failing.error.value.code == 3)
            """)
    }

    @Test func whatAMainOperationAddsToAnotherQueueIsSent() throws {
        try withRuntime { runtime throws in
            try runtime.run(
                """
                local t = { 1 }
                OperationQueue.main:addOperation(function()
                    sent = queue:addOperation(function() t[1] = t[1] + 1; return t[1] end)
                    t[1] = 10
                end)
                """)
            _ = try runtime.finish()
            #expect(try runtime.run("return sent.result") == [2])
        }
    }

    @Test func anErrorThereIsTheOperationsError() throws {
        try script(
            """
            local o = OperationQueue.main:addOperation(function() error('on main', 0) end)
            o:waitUntilFinished()
            assert(o.error.message == 'on main' and o.error.operation == o)
            """)
    }
}
