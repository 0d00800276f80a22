import LuaBindings
import TestSupport
import Testing

/// `op:get`, `queue:run`, `opscript.all`, `race` and `settle`.
@Suite struct GetTests {
    @Test("get returns all results, in the main state and in bodies, whatever made the operation")
    func results() throws {
        try script(
            """
            local function check()
              local op = queue:addOperation(function(_, a, b) return a + b, nil, "three", nil end, 1, 2)
              local results = table.pack(op:get())
              assert(results.n == 4 and results[1] == 3 and results[3] == "three")
              assert(select("#", op:get()) == 4 and select("#", queue:addOperation(function() end):get()) == 0)
              assert(queue:run(function(_, ...) return math.max(...) end, 3, 9) == 9)
              local blocks = opscript.BlockOperation.new(function() return 1, 2 end)
              blocks:addExecutionBlock(function() return 3 end)
              queue:addOperation(blocks)
              local first, second, third = blocks:get()
              assert(first == 1 and second == 3 and third == nil)
              local group = opscript.GroupOperation.new {}
              group:addOperation(function() return "member" end)
              queue:addOperation(group)
              assert(group:get() == "member")
            end
            check()
            queue:run(check)
            """)
    }

    @Test("get raises the value of the error again, with both tracebacks")
    func errors() throws {
        try script(
            """
            local object = setmetatable({ code = 5 }, { __tostring = function(self) return "code " .. self.code end })
            local op = queue:addOperation(function() error(object) end)
            local ok, problem = pcall(op.get, op)
            assert(not ok and problem.code == 5 and tostring(problem) == "code 5")
            ok, problem = pcall(queue.run, queue, function() error("text", 0) end)
            assert(not ok and problem == "text", problem)
            ok, problem = pcall(queue.run, queue, function() local t t.x = 1 end)
            assert(not ok and problem:find "attempt to index a nil value %(local 't'%)$", problem)
            """)
        let runtime = try Runtime()
        defer { runtime.close() }
        let error = #expect(throws: LuaError.self) {
            try runtime.run(
                """
                local function inner() error "deep" end
                local op = opscript.OperationQueue.new():addOperation(function() inner() end)
                local function ask() return (op:get()) end
                ask()
                """, name: "@s.lua")
        }
        let report = error?.report ?? ""
        #expect(error?.message == "s.lua:1: deep")
        #expect(report.contains("s.lua:3: in ") && report.contains("in upvalue 'inner'"), "\(report)")
        #expect(try runtime.finish().unreadFailures.isEmpty)
    }

    @Test("get of a cancelled operation, and one that takes too long, are errors that name it; in a cancelled body it ends the body")
    func ends() throws {
        try script(
            """
            local slow = opscript.Operation.new { name = "slow", main = function() opscript.sleep(1000) end }
            queue:addOperation(slow)
            local ok, problem = pcall(function() slow:get(0.001) end)
            assert(problem:find "'slow' has not finished after 0.001 s$", problem)
            local asking = queue:addOperation(function() slow:get() return "not here" end)
            while not asking.isExecuting do opscript.sleep(0.001) end
            asking:cancel()
            asking:waitUntilFinished()
            assert(asking.isCancelled and asking.result == nil and not slow.isFinished)
            assert(not asking.error or asking.error.kind == "interrupted")
            slow:cancel()
            ok, problem = pcall(slow.get, slow)
            assert(problem:find "'slow' was cancelled$", problem)
            ok, problem = pcall(opscript.Operation.get, opscript.Operation.new(function() end))
            assert(problem:find "can never end", problem)
            """)
    }

    @Test("all returns results under their keys, and cancels the rest when one fails")
    func all() throws {
        try script(
            """
            local function value(n) return function() return n, "more" end end
            local results = opscript.all { queue:addOperation(value(1)), key = queue:addOperation(value(2)) }
            assert(results[1] == 1 and results.key == 2 and next(opscript.all {}) == nil)
            local slow = queue:addOperation(function() opscript.sleep(1000) end)
            local ok, problem = pcall(opscript.all, { slow, queue:addOperation(function() error({ code = 7 }) end) })
            assert(not ok and problem.code == 7 and slow.isCancelled)
            slow:waitUntilFinished()
            local cancelled = opscript.Operation.new { name = "gone", main = function() end }
            cancelled:cancel()
            queue:addOperation(cancelled)
            ok, problem = pcall(opscript.all, { cancelled })
            assert(problem:find "'gone' was cancelled$", problem)
            local many = {}
            for i = 1, 2000 do many[i] = queue:addOperation(value(i)) end
            results = opscript.all(many)
            for i = 1, 2000 do assert(results[i] == i) end
            for _, bad in ipairs { 5, { 5 } } do assert(not pcall(opscript.all, bad)) end
            local function message(f, ...)
              local arguments = table.pack(...)
              return select(2, pcall(function() f(table.unpack(arguments, 1, arguments.n)) end))
            end
            assert(message(opscript.all, 5):find "^[^%[]*:%d+: bad argument #1 to 'all' %(table of operations expected, got number%)$")
            assert(message(opscript.settle, { 5 }):find "^[^%[]*:%d+: bad argument #1 to 'settle' %(Operation expected at %[1%], got number%)$")
            assert(message(opscript.race, {}):find "^[^%[]*:%d+: bad argument #1 to 'race' %(the table has no operation%)$")
            assert(message(queue.run, queue, 5):find "^[^%[]*:%d+: bad argument #1 to 'run' %(function expected, got number%)$")
            local slow = opscript.Operation.new { name = "slow", main = function() end }
            slow:cancel()
            assert(message(queue.run, queue, slow):find "^[^%[]*:%d+: 'slow' was cancelled$", message(queue.run, queue, slow))
            -- The culprit is the one that failed, not one that was cancelled because of it.
            local first = opscript.Operation.new(function() error("cause", 0) end)
            local second = opscript.Operation.new { main = function() end, dependencyPolicy = "succeeded", dependencies = { first } }
            queue:addOperations { first, second }
            assert(message(opscript.all, { second, first }) == "cause")
            """)
    }

    @Test("race returns the results of the first that succeeds, and cancels the others; settle returns all ends")
    func raceAndSettle() throws {
        try script(
            """
            local slow = queue:addOperation(function() opscript.sleep(1000) end)
            local failing = queue:addOperation(function() error("no", 0) end)
            failing:waitUntilFinished()
            local blocks = 0
            slow.completionBlock = function() blocks = blocks + 1 end
            local a, b = opscript.race { slow, failing, queue:addOperation(function() return 1, 2 end) }
            assert(a == 1 and b == 2 and slow.isCancelled)
            local ok, problem = pcall(opscript.race, { queue:addOperation(function() error("first", 0) end), failing })
            assert(not ok and problem == "first", problem)
            local ends = opscript.settle { failing, slow, x = queue:addOperation(function() return 5, 6 end) }
            assert(ends[1].status == "failed" and ends[1].error.message == "no" and ends[2].status == "cancelled")
            opscript.OperationQueue.main:waitUntilAllOperationsAreFinished()
            assert(blocks == 1, blocks)
            local late = opscript.Operation.new { timeout = 0.01, main = function() while true do end end }
            queue:addOperation(late)
            assert(opscript.settle({ late })[1].status == "failed")
            assert(ends.x.status == "succeeded" and ends.x.result == 5 and ends.x.results[2] == 6 and ends.x.error == nil)
            assert(not pcall(opscript.race, {}) and next(opscript.settle {}) == nil)
            """)
    }

    @Test("waitForAny waits for an outcome, or until all have finished")
    func outcomes() throws {
        try script(
            """
            local good = queue:addOperation(function() return 1 end)
            local bad = queue:addOperation(function() error "x" end)
            assert(opscript.waitForAny({ good, bad }, nil, "failed") == bad)
            assert(opscript.waitForAny({ bad, good }, nil, "succeeded") == good)
            assert(opscript.waitForAny({ good }, nil, "failed") == nil and opscript.waitForAny({ good }, nil, "finished") == good)
            local ok, problem = pcall(opscript.waitForAny, { good }, nil, "done")
            assert(problem:find([[one of "finished", "succeeded", "failed" expected, got 'done']], 1, true), problem)
            local _ = bad.error
            """)
    }
}
