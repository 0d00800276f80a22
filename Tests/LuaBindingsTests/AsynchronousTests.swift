import LuaBindings
import OpEngine
import Testing

/// Operations that go on after their function has returned.
@Suite struct AsynchronousTests {
    @Test func itIsExecutingUntilSomebodyFinishesIt() throws {
        try script(
            """
            local o = Operation.new { asynchronous = true, main = function(op) op.began = true return 'not a result' end }
            assert(o.isAsynchronous and not Operation.new(function() end).isAsynchronous)
            queue:addOperation(o)
            assert(not o:waitUntilFinished(0) and o.result == nil)
            local list = { 1 }
            list.self = list
            queue:addOperation(function()
                while not o.began do opscript.sleep(0.001) end
                assert(o.isExecuting)
                o:finish('a', nil, list)
                list[1] = 2
            end)
            assert(o:waitUntilFinished() and not o.isExecuting)
            local results = o.results
            assert(results.n == 3 and o.result == 'a' and results[2] == nil and results[3][1] == 1 and results[3].self == results[3])
            """)
    }

    @Test(arguments: [
        "function(op) op:finish('early') op:fail('late') op:finish('later') end", "function(op) op:finish('early') return 'no' end",
    ])
    func theFirstEndCounts(_ main: String) throws {
        try script(
            """
            local o = queue:addOperation(Operation.new { asynchronous = true, main = \(main) })
            o:waitUntilFinished()
            assert(o.result == 'early' and not o.error)
            o:finish('again')
            o:fail('again')
            o:interrupt()
            assert(o.result == 'early' and not o.error and not o.isCancelled)
            """)
    }

    @Test func anErrorAfterTheEndIsReported() async throws {
        let outcome = await #expect(processExitsWith: .success, observing: [\.standardErrorContent]) {
            try withRuntime { runtime throws in
                try runtime.run(
                    "queue:addOperation(Operation.new { name = 'o', asynchronous = true, main = function(op) op:finish() error 'late' end })"
                )
                let ending = try runtime.finish()
                #expect(ending.callbackErrorCount == 1 && ending.unreadFailures.isEmpty && ending.stuckOperations.isEmpty)
            }
        }
        let text = String(decoding: outcome?.standardErrorContent ?? [], as: UTF8.self)
        #expect(text.contains("error in 'o' after it had been finished: script:1: late"))
    }

    @Test func itCanFail() throws {
        try script(
            """
            local o = queue:addOperation(Operation.new { asynchronous = true, main = function(op) op:fail { code = 404 } end })
            o:waitUntilFinished()
            assert(o.error.kind == 'error' and o.error.value.code == 404 and o.error.operation == o and o.results == nil)
            local p = queue:addOperation(Operation.new { asynchronous = true, main = function(op) op:fail 'no such file' end })
            p:waitUntilFinished()
            assert(p.error.message == 'no such file' and p.error.traceback:find('in function', 1, true))
            local q = queue:addOperation(Operation.new { asynchronous = true, main = function() error 'raised' end })
            q:waitUntilFinished()
            assert(q.error.message:find 'raised' and q.isFinished)
            local r = queue:addOperation(Operation.new { asynchronous = true, main = function(op) op:finish(coroutine.create(print)) end })
            r:waitUntilFinished()
            assert(r.error.message:find('cannot send result 1', 1, true), r.error)
            """)
    }

    @Test func theMainQueueAndCallersStartIt() throws {
        try script(
            """
            local log = {}
            local function start(op) log[#log + 1] = op.name end
            local a = Operation.new { name = 'a', asynchronous = true, main = start }
            local b = Operation.new { name = 'b', asynchronous = true, main = start }
            a:start()
            assert(a.isExecuting and log[1] == 'a' and not pcall(a.start, a))
            OperationQueue.main:addOperation(b)
            queue:addOperation(function() a:finish('from a worker') end)
            assert(a:waitUntilFinished() and a.result == 'from a worker')
            local watcher = Operation.new(function() while not b.isExecuting do opscript.sleep(0.001) end end)
            watcher.completionBlock = function() b:finish(log[2]) end
            queue:addOperation(watcher)
            assert(b:waitUntilFinished() and b.result == 'b')
            """)
    }

    @Test func cancelledBeforeItStartedItEndsWithoutMain() throws {
        try script(
            """
            local ran = false
            local o = Operation.new { asynchronous = true, main = function() ran = true end }
            o:cancel()
            assert(not pcall(o.finish, o))
            OperationQueue.main:addOperation(o)
            assert(o:waitUntilFinished() and not ran and o.isCancelled and o.results == nil)
            """)
    }

    @Test func cancellingOnlySetsTheFlag() throws {
        try script(
            """
            local o = queue:addOperation(Operation.new { asynchronous = true, main = function(op) op.began = true end })
            while not o.began do opscript.sleep(0.001) end
            o:cancel()
            assert(o.isExecuting and o.isCancelled)
            o:finish('kept')
            assert(o:waitUntilFinished() and o.result == 'kept' and o.isCancelled)
            """)
    }

    @Test func interruptingEndsIt() throws {
        try script(
            """
            local o = queue:addOperation(Operation.new { asynchronous = true, main = function(op) op.began = true end })
            while not o.began do opscript.sleep(0.001) end
            o:interrupt()
            assert(o:waitUntilFinished() and o.error.kind == 'interrupted' and o.isCancelled and o.results == nil)
            o:finish('late')
            assert(o.results == nil)
            local busy = queue:addOperation(Operation.new { asynchronous = true, main = function(op) op.began = true while true do end end })
            while not busy.began do opscript.sleep(0.001) end
            busy:interrupt()
            assert(busy:waitUntilFinished() and busy.error.kind == 'interrupted')
            """)
    }

    @Test func whatNobodyCanFinishIsReported() throws {
        try withRuntime { runtime throws in
            let error = #expect(throws: LuaError.self) {
                try runtime.run(
                    """
                    o = Operation.new { name = 'o', asynchronous = true, main = function() end }
                    queue:addOperation(o)
                    byHand = Operation.new { name = 'byHand', asynchronous = true, main = function() end }
                    byHand:start()
                    o:waitUntilFinished()
                    """)
            }
            #expect(
                error?.message
                    == "script:5: this wait can never end: 'o' is executing, and nothing is left that could finish it")
            let stuck = try runtime.finish().stuckOperations
            #expect(
                stuck == [
                    "'o' can never finish: it is executing, and nothing is left that could finish it",
                    "'byHand' can never finish: it is executing, and nothing is left that could finish it",
                ])
            // Closing the runtime does not wait for either operation.
        }
    }

    @Test func itsBodyMayReturnWhileTheRuntimeCloses() throws {
        try withRuntime { runtime throws in
            let operation = try runtime.operation(
                """
                local o = Operation.new { asynchronous = true, main = function(op)
                    op.began = true
                    while not op.isCancelled do end
                end }
                queue:addOperation(o)
                while not o.began do opscript.sleep(0.001) end
                return o
                """)
            #expect(runtime.close(deadline: .seconds(60)).isEmpty)
            #expect(operation.isFinished)
        }
    }

    @Test(arguments: [
        ("Operation.new(function() end):finish()", "is not asynchronous, so it cannot be ended by 'finish'"),
        ("Operation.new(function() end):fail('x')", "is not asynchronous, so it cannot be ended by 'fail'"),
        ("Operation.new { asynchronous = true }:finish()", "has not started"),
        ("Operation.new { asynchronous = 1 }", "asynchronous: boolean expected, got number"),
        ("local o = Operation.new { asynchronous = true } o:start() o:fail()", "what went wrong is missing"),
        ("local o = Operation.new { asynchronous = true } o.finish()", "call 'finish' with ':'"),
    ])
    func misuseIsAnError(_ source: String, _ message: String) throws {
        try withRuntime { runtime throws in
            let error = #expect(throws: LuaError.self) { try runtime.run(source) }
            #expect(error?.message.contains(message) == true, "\(error?.message ?? "")")
        }
    }
}
