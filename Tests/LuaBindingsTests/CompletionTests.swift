import Glibc
import LuaBindings
import OpEngine
import TestLimits
import TestSupport
import Testing

/// Completion blocks run in the state that set them.
@Suite(.endsWithin(seconds: 60)) struct CompletionTests {
    @Test("A completion block may be set while its operation executes and removed at any time, but not set after the end")
    func setWhileItExecutes() throws {
        try script(
            """
            local log = {}
            local inside = queue:addOperation(function(op)
              op.completionBlock = function() op.ran = 'inside' end
            end)
            local outside = queue:addOperation(function(op) while not op.isSet do opscript.sleep(0.001) end end)
            while not outside.isExecuting do opscript.sleep(0.001) end
            outside.completionBlock = function() log[#log + 1] = 'outside' end
            outside.isSet = true
            local byHand = Operation.new(function(op) op.completionBlock = function() log[#log + 1] = 'by hand' end end)
            byHand:start()
            inside:waitUntilFinished() outside:waitUntilFinished() byHand:waitUntilFinished()
            assert(table.concat(log, ' ') == 'by hand outside' or table.concat(log, ' ') == 'outside by hand', table.concat(log, ' '))
            while not inside.ran do opscript.sleep(0.001) end
            outside.completionBlock = nil
            local ok, message = pcall(function() outside.completionBlock = print end)
            assert(not ok and message:find 'it has finished', message)
            """)
    }

    @Test func blocksRunInOrderOnLiveUpvalues() throws {
        try withRuntime(workers: 1) { runtime throws in
            try runtime.run(
                """
                local order = {}
                seen = function() return table.concat(order, ' ') end
                for i = 1, 5 do
                    local o = Operation.new(function() return i end)
                    o.completionBlock = function(op) assert(op == o and op.isFinished); order[#order + 1] = op.result end
                    queue:addOperation(o)
                end
                """)
            _ = try runtime.finish()
            #expect(try runtime.run("return seen()") == ["1 2 3 4 5"])
        }
    }

    @Test func aBlockRunsOnceAndIsGoneAfterwards() throws {
        try script(
            """
            local count = 0
            local o = Operation.new { main = function() end, completionBlock = function() count = count + 1 end }
            queue:addOperation(o)
            queue:waitUntilAllOperationsAreFinished()
            while count == 0 do queue:addOperation(function() end):waitUntilFinished() end
            for i = 1, 10 do queue:addOperation(function() end):waitUntilFinished() end
            assert(count == 1 and o.completionBlock == nil)
            """)
    }

    @Test func blocksRunForCancelledAndFailedOperations() throws {
        try withRuntime { runtime throws in
            try runtime.run(
                """
                ended = {}
                local function block(op) ended[op.name] = tostring(op) end
                local cancelled = Operation.new { name = 'cancelled', main = function() error 'runs' end, completionBlock = block }
                cancelled:cancel()
                local failed = Operation.new { name = 'failed', main = function() error 'x' end, completionBlock = block }
                local started = Operation.new { name = 'started', main = function() end, completionBlock = block }
                queue:addOperations { cancelled, failed }
                started:start()
                """)
            _ = try runtime.finish()
            #expect(
                try runtime.run("return ended.cancelled, ended.failed, ended.started")
                    == ["Operation 'cancelled' (cancelled)", "Operation 'failed' (failed)", "Operation 'started' (finished)"])
        }
    }

    @Test func anErrorInABlockStopsNobody() throws {
        try script(
            """
            local ran = false
            local first = Operation.new { name = 'first', main = function() end, completionBlock = function() error 'in a block, as expected' end }
            local second = Operation.new { main = function() end, completionBlock = function() ran = true end }
            queue.maxConcurrentOperationCount = 1
            queue:addOperations({ first, second }, true)
            while not ran do queue:addOperation(function() end):waitUntilFinished() end
            """)
    }

    /// A wait does not wait for a block that will not run.
    @Test(arguments: ["op.completionBlock = nil", "op.completionBlock = function() replaced = true end"])
    func aBlockMayBeReplacedOrRemovedByAnotherState(assignment: String) throws {
        try script(
            """
            local late = OperationQueue.new { isSuspended = true }
            local o = Operation.new { main = function() end, completionBlock = function() error 'not to run' end }
            late:addOperation(o)
            local change = queue:addOperation(function(_, op) \(assignment) end, o)
            change:waitUntilFinished()
            assert(not change.error, change.error)
            late.isSuspended = false
            assert(o:waitUntilFinished(30))
            assert(late:waitUntilAllOperationsAreFinished(30))
            """)
    }

    @Test func aMistakeNamesTheClassAsScriptsKnowIt() throws {
        try script(
            """
            local Download = Operation:subclass 'Download'
            function Download:main() end
            for name, o in pairs { Operation = Operation.new(function() end), Download = Download.new() } do
                queue:addOperation(o)
                o:waitUntilFinished()
                local ok, message = pcall(function() o.completionBlock = print end)
                assert(not ok and message:find('the completion block of ' .. name .. ' cannot be set', 1, true), message)
            end
            """)
    }

    /// Waits also wait for the new block.
    @Test func aBlockMayBeSetAnewAfterItWasRemovedFromAnOperationInAQueue() throws {
        try script(
            """
            for i = 1, 300 do
                local late, ran = OperationQueue.new { isSuspended = true }, nil
                local o = Operation.new { main = function() end, completionBlock = function() ran = 'the first' end }
                late:addOperation(o)
                o.completionBlock = nil
                o.completionBlock = function() ran = 'the second' end
                late.isSuspended = false
                o:waitUntilFinished()
                assert(ran == 'the second', ran)
            end
            """)
    }

    @Test func aBlockMayBeReplacedByTheHost() throws {
        try withRuntime { runtime throws in
            let operation = try runtime.operation(
                """
                late = OperationQueue.new { isSuspended = true }
                local o = Operation.new { main = function() end, completionBlock = function() error 'not to run' end }
                late:addOperation(o)
                return o
                """)
            let hasRun = Gate()
            operation.completionBlock = { hasRun.open() }
            try runtime.run("late.isSuspended = false; assert(late:waitUntilAllOperationsAreFinished(30))")
            #expect(try runtime.finish().callbackErrorCount == 0)
            hasRun.wait()
        }
    }

    @Test func aHostsBlockMayCallTheOneOfTheScript() throws {
        try withRuntime { runtime throws in
            let operation = try runtime.operation(
                """
                late, ran = OperationQueue.new { isSuspended = true }, 0
                local o = Operation.new { main = function() end, completionBlock = function() ran = ran + 1 end }
                late:addOperation(o)
                return o
                """)
            let scripts = operation.completionBlock
            operation.completionBlock = { scripts?() }
            try runtime.run("late.isSuspended = false; collectgarbage(); while ran == 0 do opscript.sleep(0.001) end; collectgarbage()")
            #expect(try runtime.finish().callbackErrorCount == 0)
            #expect(try runtime.run("return ran") == [1])
        }
    }

    @Test func whoeverObservesTheBlockSeesEachChangeOnce() throws {
        try withRuntime { runtime throws in
            let log = Log<String>()
            let operation = try runtime.operation("o = Operation.new(function() end) return o")
            let token = operation.observe(\.completionBlock, options: [.old, .new]) { _, change in
                log.append("\(change.oldValue! == nil ? "nil" : "block") \(change.newValue! == nil ? "nil" : "block")")
            }
            operation.completionBlock = {}
            try runtime.run("o.completionBlock = function() end")
            operation.completionBlock = {}
            operation.completionBlock = nil
            try runtime.run("o.completionBlock = function() end")
            operation.completionBlock = nil
            try runtime.run("o.completionBlock = function() end o:cancel() o:start()")
            for _ in 1...2 { operation.whenFinished {} }
            #expect(
                log.entries == [
                    "nil block", "block block", "block block", "block nil", "nil block", "block nil", "nil block", "block nil",
                ])
            token.invalidate()
        }
    }

    /// A state that ran out of memory is discarded, but not while one of its functions is on the stack.
    @Test func aBlockMayRunWhatExhaustsTheMemoryOfItsState() throws {
        var configuration = Runtime.Configuration()
        configuration.workerCount = 1
        configuration.stateMemoryLimit = 8_000_000
        let runtime = try Runtime(configuration)
        defer { #expect(runtime.close(deadline: .seconds(30)).isEmpty) }
        try runtime.run(
            """
            local Operation, OperationQueue = opscript.Operation, opscript.OperationQueue
            local queue = OperationQueue.new()
            local late, told = OperationQueue.new { isSuspended = true }, Operation.new()
            queue:addOperation(function()
                local o = Operation.new { main = function() end }
                o.completionBlock = function()
                    local p = Operation.new(function() local t = {} for i = 1, 1e9 do t[i] = { i } end end)
                    p:start()
                    told.by = p.error and p.error.kind or 'nobody'
                end
                late:addOperation(o)
            end):waitUntilFinished()
            late.isSuspended = false
            while not told.by do opscript.sleep(0.001) end
            assert(told.by == 'memory', told.by)
            """)
    }

    @Test(arguments: ["o.start, o", "queue.addOperations, queue, { o, o }"])
    func whatIsRefusedIsKeptNoLonger(_ attempt: String) throws {
        try script(
            """
            local kept, never = setmetatable({}, { __mode = 'k' }), Operation.new()
            for i = 1, 100 do
                local o = Operation.new { main = function() end, completionBlock = function() end }
                o:observe('isFinished', function() end)
                o:addDependency(never)
                kept[o] = true
                assert(not pcall(\(attempt)))
            end
            opscript.sleep(0)
            collectgarbage() collectgarbage()
            assert(next(kept) == nil)
            """)
    }

    /// The handle must stay alive, because the host may add the operation.
    @Test func theBlockOfAnOperationOfTheHostStaysWhenAScriptIsRefused() throws {
        try withRuntime { runtime throws in
            let operation = LuaOperation(try runtime.function("return function() return 1 end"))
            let dependency = Operation()
            operation.addDependency(dependency)
            try runtime.run(
                """
                local o = ...
                o.completionBlock = function(op) ran = op.result end
                assert(not pcall(o.start, o))
                o = nil
                """, arguments: [.operation(operation)])
            try runtime.run("for _ = 1, 3 do collectgarbage() end")
            dependency.start()
            OperationQueue(engine: runtime.engine).addOperation(operation)
            operation.waitUntilFinished()
            #expect(try runtime.finish().callbackErrorCount == 0)
            #expect(try runtime.run("return ran") == [1])
        }
    }

    @Test func whatWasRefusedRunsWhenItIsAddedAgain() throws {
        try script(
            """
            local o, dependency, ran = Operation.new(function() return 1 end), Operation.new(), 0
            o.completionBlock = function(op) ran = ran + op.result end
            o:addDependency(dependency)
            assert(not pcall(o.start, o))
            collectgarbage()
            queue:addOperations { o, dependency }
            o:waitUntilFinished()
            assert(ran == 1, ran)
            """)
    }

    /// To an observer, the completion block is a property like the others.
    @Test func theHostSeesTheBlockThatAScriptHasSet() throws {
        try withRuntime { runtime throws in
            let log = Log<String>()
            let operation = try runtime.operation(
                """
                late = OperationQueue.new { isSuspended = true }
                o = Operation.new(function() end)
                return o
                """)
            let token = operation.observe(\.completionBlock, options: [.old, .new]) { _, change in
                log.append("\(change.oldValue! == nil) \(change.newValue! == nil)")
            }
            try runtime.run("o.completionBlock = function() ran = true end late:addOperation(o)")
            #expect(operation.completionBlock != nil)
            try runtime.run("late.isSuspended = false; assert(late:waitUntilAllOperationsAreFinished(30)); assert(ran)")
            #expect(operation.completionBlock == nil)
            #expect(log.entries == ["true false", "false true"])
            token.invalidate()
        }
    }

    @Test func aBlockThatAnotherStateSetIsKeptUntilTheOperationIsAdded() throws {
        try script(
            workers: 1,
            """
            local o, told = Operation.new(function() end), Operation.new()
            queue:addOperation(function()
                o.completionBlock = function() told.by = 'the worker' end
            end):waitUntilFinished()
            queue:addOperation(function() collectgarbage() collectgarbage() end):waitUntilFinished()
            queue:addOperation(o)
            while not told.by do opscript.sleep(0.001) end
            """)
    }

    @Test func aBlockMayBeReplacedOrRemovedBeforeTheStart() throws {
        try withRuntime { runtime throws in
            try runtime.run(
                """
                log = {}
                local o = Operation.new { main = function() end, completionBlock = function() log[1] = 'old' end }
                o.completionBlock = function() log[#log + 1] = 'new' end
                local silent = Operation.new { main = function() end, completionBlock = function() log[#log + 1] = 'never' end }
                silent.completionBlock = nil
                assert(silent.completionBlock == nil)
                queue:addOperations { o, silent }
                """)
            #expect(try runtime.finish().stuckOperations.isEmpty)
            #expect(try runtime.run("return log") == [.array(["new"])])
        }
    }

    @Test func aBlockOfAnExecutingOrFinishedOperationCannotBeSet() throws {
        try withRuntime { runtime throws in
            try runtime.run(
                """
                local o = queue:addOperation(function() end)
                o:waitUntilFinished()
                local ok, message = pcall(function() o.completionBlock = print end)
                assert(not ok and message:find 'completion block of', message)
                """)
        }
    }

    @Test func aWorkersBlockRunsInThatWorker() throws {
        try withRuntime { runtime throws in
            let outer = try runtime.operation(
                """
                return queue:addOperation(function()
                    local ran = 0
                    local inner = Operation.new(function() return 5 end)
                    inner.completionBlock = function(op) ran = op.result end
                    OperationQueue.new():addOperation(inner)
                    return inner
                end)
                """)
            let inner = try #require(try runtime.results(of: outer)[0].operation)
            #expect(try runtime.results(of: inner) == [5])
            #expect(try runtime.finish().unreadFailures.isEmpty)
        }
    }

    @Test func aBlockThatIsSetWhileTheOperationEndsRunsOrIsRefused() throws {
        try withRuntime { runtime throws in
            try runtime.run(
                """
                all = {}
                for round = 1, 10 do
                    local start = Operation.new()
                    start.isDue = false
                    for i = 1, 300 do all[#all + 1] = Operation.new(function() end) end
                    local ops = table.move(all, #all - 299, #all, 1, {})
                    local setter = queue:addOperation(function()
                        start.isDue = true
                        for _, op in ipairs(ops) do
                            op.isSet = pcall(function() op.completionBlock = function(op) op.hasRun = true end end)
                        end
                    end)
                    while not start.isDue do end
                    for _, op in ipairs(ops) do
                        op:cancel()
                        op:start()
                    end
                    setter:waitUntilFinished()
                    assert(not setter.error, setter.error)
                    collectgarbage()
                end
                """)
            _ = try runtime.finish()
            let lost = try runtime.run(
                "local n = 0 for _, op in ipairs(all) do if op.isSet and not op.hasRun then n = n + 1 end end return n")
            #expect(lost == [0])
        }
    }

    @Test func aBlockMayAddOperations() throws {
        try withRuntime { runtime throws in
            try runtime.run(
                """
                depth = 0
                local function again(op)
                    depth = depth + 1
                    if depth < 200 then queue:addOperation(Operation.new { main = function() end, completionBlock = again }) end
                end
                queue:addOperation(Operation.new { main = function() end, completionBlock = again })
                """)
            _ = try runtime.finish()
            #expect(try runtime.run("return depth") == [200])
        }
    }

    @Test func theCurrentOperationIsNoneInABlockAndOneInABody() throws {
        try withRuntime { runtime throws in
            try runtime.run(
                """
                local o = Operation.new(function(op) return Operation.current == op, OperationQueue.current.name end)
                o.completionBlock = function() inBlock = Operation.current == nil and OperationQueue.current == OperationQueue.main end
                assert(Operation.current == nil)
                queue:addOperation(o)
                o:waitUntilFinished()
                assert(o.results[1] and o.results[2] == 'test')
                """)
            _ = try runtime.finish()
            #expect(try runtime.run("return inBlock") == [true])
        }
    }

    // MARK: a runtime that closes

    private static let operationWithBlock = "return opscript.Operation.new { main = function() end, completionBlock = function() end }"

    private func runtime() throws -> Runtime {
        var configuration = Runtime.Configuration()
        configuration.workerCount = 1
        configuration.ignoresEnvironment = true
        return try Runtime(configuration)
    }

    /// The operation ends after the inbox of its state was closed.
    @Test func aRuntimeThatClosesWhileAnObserverHearsOfTheEndIsLetGo() throws {
        weak var weakly: Operation?
        weak var engine: Engine?
        try {
            let (arrived, mayGoOn) = (Gate(), Gate())
            let runtime = try runtime()
            engine = runtime.engine
            let (thread, token): (TestThread, KeyValueObservation)
            do {
                let operation = try runtime.operation(Self.operationWithBlock)
                weakly = operation
                token = operation.observe(\.completionBlock) { _, _ in
                    arrived.open()
                    mayGoOn.wait()
                }
                thread = TestThread { operation.start() }
            }
            arrived.wait()
            runtime.close()
            mayGoOn.open()
            thread.join()
            token.invalidate()
        }()
        // The thread releases its closure shortly after `join` returns.
        for _ in 0..<1_000_000 where weakly != nil || engine != nil { sched_yield() }
        #expect(weakly == nil)
        #expect(engine == nil)
    }

    @Test func anObserverHearsThatTheBlockOfAClosedStateHasGone() throws {
        let runtime = try runtime()
        let operation = try runtime.operation(Self.operationWithBlock)
        let log = Log<String>()
        let token = operation.observe(\.completionBlock, options: [.old, .new]) {
            log.append("\($1.oldValue! == nil) \($1.newValue! == nil)")
        }
        runtime.close()
        #expect(operation.completionBlock != nil)
        TestThread { operation.start() }.join()
        #expect(operation.completionBlock == nil)
        #expect(log.entries == ["false true"])
        token.invalidate()
    }
}
