import LuaBindings
import OpEngine
import TestSupport
import Testing

/// Keys, resources, conditions and limits of queues in scripts.
@Suite struct RequirementTests {
    // MARK: keys and resources

    @Test func operationsThatShareAKeyNeverExecuteAtOnce() throws {
        #expect(
            try script(
                workers: 4,
                """
                local other, state, list = OperationQueue.new(), Operation.new(), {}
                state.inside, state.most = 0, 0
                for i = 1, 40 do
                    list[i] = Operation.new { exclusive = i % 2 == 0 and 'db' or { 'log', 'db' }, main = function()
                        state.inside = state.inside + 1
                        if state.inside > state.most then state.most = state.inside end
                        opscript.sleep(0)
                        state.inside = state.inside - 1
                    end };
                    (i % 3 == 0 and other or queue):addOperation(list[i])
                end
                for _, op in ipairs(list) do op:waitUntilFinished() end
                return state.most, list[1].exclusive[1], list[1].exclusive[2], list[2].exclusive[1], Operation.new().exclusive
                """) == [1, "db", "log", "db", .nil])
    }

    @Test func whatRunsAtOnceNeverNeedsMoreThanThereIs() throws {
        #expect(
            try script(
                workers: 4,
                """
                opscript.resources { gpu = 2, memory = "8G" }
                local state, list = Operation.new(), {}
                state.memory, state.most = 0, 0
                for i = 1, 20 do
                    list[i] = Operation.new { needs = { gpu = 1, memory = "5G" }, main = function()
                        state.memory = state.memory + 5
                        if state.memory > state.most then state.most = state.memory end
                        opscript.sleep(0)
                        state.memory = state.memory - 5
                    end }
                end
                queue:addOperations(list, true)
                local all = opscript.resources()
                opscript.resources {}
                return state.most, all.gpu, all.memory, list[1].needs.memory, next(opscript.resources())
                """) == [5, 2, .integer(8 << 30), .integer(5 << 30), .nil])
    }

    @Test func needingMoreThanThereIsIsAnErrorOfTheLineThatAdds() throws {
        try withRuntime { runtime throws in
            let error = #expect(throws: LuaError.self) {
                try runtime.run("opscript.resources { gpu = 1 }\nqueue:addOperation(Operation.new { name = 'big', needs = { gpu = 2 } })")
            }
            #expect(
                error?.message.hasPrefix("script:2: big cannot be added: it needs 2 of the resource 'gpu', of which there is 1") == true)
        }
    }

    @Test func whyNamesWhatIsMissing() throws {
        #expect(
            try script(
                """
                opscript.resources { gpu = 1 }
                local function holder(options)
                    options.main = function(op) op.begun = true while not op.isCancelled do opscript.sleep(1e6) end end
                    local op = queue:addOperation(Operation.new(options))
                    while not op.begun do opscript.sleep(0.001) end
                    return op
                end
                local a, b = holder { name = 'a', exclusive = 'key' }, holder { name = 'b', needs = { gpu = 1 } }
                local c, d = Operation.new { name = 'c', exclusive = 'key' }, Operation.new { name = 'd', needs = { gpu = 1 } }
                queue:addOperations { c, d }
                local key, resource
                repeat key = select(2, c:why()) until key and key.exclusive
                repeat resource = select(2, d:why()) until resource and resource.resource
                local sentences = c:why() .. '; ' .. d:why()
                a:cancel() b:cancel()
                return key.exclusive, key.occupiedBy[1] == a, resource.resource, resource.occupiedBy[1] == b, sentences
                """) == [
                    "key", true, "gpu", true,
                    "'c' needs the key 'key', which 'a' has; 'd' needs 1 of the resource 'gpu', of which 0 of 1 are left; 'b' has the rest",
                ])
    }

    @Test(arguments: [
        ("Operation.new { exclusive = 1 }", "exclusive must be a string or an array of strings, got a number"),
        ("Operation.new().exclusive = { 'a', {} }", "exclusive[2] must be a string, got a table"),
        ("Operation.new { needs = 'gpu' }", "needs must be a table such as { gpu = 1, memory = \"2G\" }, got a string"),
        (
            "Operation.new { needs = { gpu = 0 } }",
            "needs.gpu must be an integer, 1 or more, or a size: a number of bytes, or one with K, M, G or T, such as \"2G\", got 0"
        ),
        (
            "Operation.new { needs = { memory = '2GB' } }",
            "needs.memory must be an integer, 1 or more, or a size: a number of bytes, or one with K, M, G or T, such as \"2G\", got '2GB'"
        ),
        ("Operation.new { needs = { 2 } }", "needs: resources have names, got a number as a key"),
        (
            "opscript.resources { gpu = -1 }",
            "resources.gpu must be an integer, 0 or more, or a size: a number of bytes, or one with K, M, G or T, such as \"2G\", got -1"
        ),
        ("opscript.resources(3)", "resources must be a table such as { gpu = 1, memory = \"2G\" }, got a number"),
        (
            "local op = Operation.new() op:start() op.exclusive = 'a'",
            "an unnamed Operation has started, so 'exclusive' would have no effect: use it before"
        ),
        (
            "Operation.new():addCondition()",
            "a condition must be a function or one of \"noFailedDependencies\", \"noCancelledDependencies\", \"fileExists\", got a no value"
        ),
        ("Operation.new():addCondition('fileExist')", "there is no condition 'fileExist' (did you mean 'fileExists'?)"),
        (
            "Operation.new():addCondition('fileExists')",
            "the condition \"fileExists\" needs a path, as in operation:addCondition(\"fileExists\", \"input.txt\")"
        ),
        ("Operation.new { conditions = 'fileExists' }", "conditions must be an array, got a string"),
        ("queue.rateLimit = 3", "rateLimit must be a table such as { count = 10, seconds = 1 }, got a number"),
        ("queue.rateLimit = {}", "rateLimit.count is missing: the number of starts in each period"),
        ("queue.rateLimit = { count = 0 }", "rateLimit.count must be an integer, 1 or more, got 0"),
        ("queue.rateLimit = { count = 1, seconds = 0 }", "rateLimit.seconds must be a number of seconds, more than 0, got 0"),
        ("queue.rateLimit = { count = 1, burst = 'x' }", "rateLimit.burst must be an integer, 1 or more, got 'x'"),
        ("OperationQueue.new { rateLimit = { counts = 1 } }", "rateLimit: unknown option 'counts' (did you mean 'count'?)"),
        (
            "queue.maxPendingOperationCount = 0",
            "the limit of waiting operations of queue test cannot be 0: use nil (none) or a positive number"
        ),
        ("queue.maxPendingOperationCount = 'x'", "maxPendingOperationCount: integer expected, got string"),
    ])
    func wrongValuesAreErrors(_ source: String, _ message: String) throws {
        try withRuntime { runtime throws in
            let error = #expect(throws: LuaError.self) { try runtime.run(source) }
            #expect(error?.message == "script:1: \(message)")
        }
    }

    // MARK: conditions

    @Test func aConditionIsAskedOnAWorkerWithItsUpvalues() throws {
        #expect(
            try script(
                """
                local limit, mainState = { most = 3 }, _G
                local function make(n)
                    local op = Operation.new { name = 'op' .. n, main = function() return 'ran' end }
                    op.n = n
                    op:addCondition(function(op)
                        assert(Operation.current == op and not op.isExecuting)
                        return op.n < limit.most, op.n .. ' is too much'
                    end)
                    return op
                end
                local good, bad = make(1), make(5)
                queue:addOperations({ good, bad }, true)
                return good.result, bad.isCancelled, bad.result, bad.error.kind, (bad.error.message:gsub('<.*>', '<>'))
                """) == [
                    "ran", true, .nil, "condition", "'op5' was cancelled because its condition <> does not hold: 5 is too much",
                ])
    }

    @Test func aConditionIsAskedWhenTheDependenciesHaveFinished() throws {
        #expect(
            try script(
                """
                local first = Operation.new { main = function() return 7 end }
                local second = Operation.new { dependencies = { first }, conditions = { function() return first.result == 7 end } }
                queue:addOperations({ second, first }, true)
                return second.isCancelled
                """) == [false])
    }

    @Test func theBuiltInConditionsHaveNames() throws {
        #expect(
            try script(
                """
                local failed = Operation.new { name = 'failed', main = function() error('no', 0) end }
                local gone = Operation.new { name = 'gone' }
                gone:cancel()
                local a = Operation.new { name = 'a', dependencies = { failed }, conditions = { 'noFailedDependencies' } }
                local b = Operation.new { name = 'b', dependencies = { gone } }
                b:addCondition('noCancelledDependencies')
                local c = Operation.new { name = 'c', conditions = { 'noFailedDependencies', { 'fileExists', '/no/such/file' } } }
                local d = Operation.new { dependencies = { failed, gone }, conditions = { { 'fileExists', '/' } } }
                queue:addOperations({ failed, gone, a, b, c, d }, true)
                local _ = failed.error
                return a.error.message, b.error.message, c.error.message, d.error, d.isCancelled
                """) == [
                    "'a' was cancelled because its condition noFailedDependencies does not hold: failed failed",
                    "'b' was cancelled because its condition noCancelledDependencies does not hold: gone was cancelled",
                    "'c' was cancelled because its condition fileExists does not hold: '/no/such/file': No such file or directory", .nil,
                    false,
                ])
    }

    @Test func anErrorInAConditionIsTheOperationsAndCountsAsUnread() throws {
        try withRuntime { runtime throws in
            let values = try runtime.run(
                """
                ran = false
                local op = Operation.new { retry = 5, main = function() ran = true end, conditions = { function() error('asked', 0) end } }
                local looping = Operation.new { timeout = 0.02, conditions = { function() while true do end end } }
                queue:addOperations({ op, looping }, true)
                return op.attempt, looping.error.kind
                """)
            #expect(values == [0, "timeout"])
            #expect(try runtime.finish().unreadFailures.map(\.message) == ["asked"])
        }
    }

    @Test func theTimeOfAConditionIsNotThatOfTheOperation() throws {
        #expect(
            try script(
                """
                local op = Operation.new {
                    timeout = 3, main = function() opscript.sleep(1.6) return 'in time' end,
                    conditions = { function() opscript.sleep(1.6) return true end },
                }
                queue:addOperation(op):waitUntilFinished()
                return op.result
                """) == ["in time"])
    }

    @Test func aValueThatCannotBeSentIsAnErrorOfTheLineThatAddsTheCondition() throws {
        try withRuntime { runtime throws in
            let error = #expect(throws: LuaError.self) {
                try runtime.run("local c = coroutine.create(print)\nOperation.new():addCondition(function() return c end)")
            }
            #expect(error?.message.hasPrefix("script:2: cannot send upvalue 'c' (a coroutine)") == true)
        }
    }

    // MARK: queues

    @Test func aRateLimitSpreadsTheStarts() throws {
        #expect(
            try script(
                """
                local limited = OperationQueue.new { rateLimit = { count = 1, seconds = 0.02, burst = 2 } }
                local begin, list = opscript.now(), {}
                for i = 1, 6 do list[i] = limited:addOperation(function() return opscript.now() end) end
                limited:waitUntilAllOperationsAreFinished()
                local last = 0
                for i = 1, 6 do last = math.max(last, list[i].result) end
                local set = limited.rateLimit
                limited.rateLimit = nil
                return last - begin >= 0.0799, set.count, set.seconds, set.burst, limited.rateLimit
                """) == [true, 1, .number(0.02), 2, .nil])
    }

    @Test func extremeRateLimitsAreHarmless() throws {
        #expect(
            try script(
                """
                local limited = OperationQueue.new()
                for _, limit in ipairs {
                    { count = math.maxinteger, burst = math.maxinteger }, { count = 1, seconds = 1e-300 },
                    { count = math.maxinteger, seconds = 5e-324 }, { count = 1, seconds = 1e300, burst = 5 },
                } do
                    limited.rateLimit = limit
                    limited:addOperation(function() end):waitUntilFinished()
                end
                limited.rateLimit = { count = 1, seconds = 1e300 }
                limited:addOperation(function() end):waitUntilFinished()
                local waiting = limited:addOperation(function() end)
                local fields
                repeat fields = select(2, waiting:why()) until fields and fields.secondsToNextStart
                waiting:cancel()
                waiting:waitUntilFinished()
                return fields.secondsToNextStart > 1e6
                """) == [true])
    }

    @Test func whoAddsToAFullQueueWaitsAndItsCallbacksRun() throws {
        #expect(
            try script(
                """
                local full = OperationQueue.new { maxPendingOperationCount = 1, maxConcurrentOperationCount = 1, isSuspended = true }
                full:addOperation(function() end)
                local order = {}
                opscript.after(0, function() order[#order + 1] = 'callback' full.isSuspended = false end)
                local second = Operation.new(function() return 'second' end)
                full:addOperation(second)
                order[#order + 1] = 'added'
                full:addOperations { Operation.new(), Operation.new() }
                full:addBarrierBlock(function() end)
                full:waitUntilAllOperationsAreFinished()
                local most = full.maxPendingOperationCount
                full.maxPendingOperationCount = nil
                return order[1], order[2], second.result, most, full.maxPendingOperationCount
                """) == ["callback", "added", "second", 1, .nil])
    }

    @Test func manyProducersOnWorkersWaitForRoom() throws {
        #expect(
            try script(
                """
                local full = OperationQueue.new { maxPendingOperationCount = 3 }
                local producers = {}
                for p = 1, 8 do producers[p] = queue:addOperation(function()
                    for i = 1, 50 do full:addOperation(function() return i end) end
                    return 50
                end) end
                queue:waitUntilAllOperationsAreFinished()
                full:waitUntilAllOperationsAreFinished()
                local sum = 0
                for _, op in ipairs(producers) do sum = sum + op.result end
                return sum, full.progress.completedUnitCount
                """) == [400, 400])
    }

    @Test func anOperationThatAddsToItsOwnFullQueueGetsAnError() throws {
        #expect(
            try script(
                """
                local full = OperationQueue.new { name = 'full', maxPendingOperationCount = 1, maxConcurrentOperationCount = 1 }
                local op = Operation.new { name = 'producer', main = function()
                    full:addOperation(function() end)
                    return select(2, pcall(full.addOperation, full, Operation.new { name = 'more' }))
                end }
                full:addOperation(op)
                full:waitUntilAllOperationsAreFinished()
                return op.result
                """) == [
                    .string(
                        "'more' cannot be added: 1 operation waits in queue 'full', its maxPendingOperationCount, and 'producer', which adds it, "
                            + "runs in that queue, so it would wait for itself; add it to another queue, or let the script add it")
                ])
    }

    @Test func aWaitForRoomThatNothingEndsIsAnErrorAndCancellingEndsOne() throws {
        #expect(
            try script(
                """
                local full = OperationQueue.new { name = 'full', maxPendingOperationCount = 1, isSuspended = true }
                local first = full:addOperation(function() end)
                local message = select(2, pcall(full.addOperation, full, Operation.new { name = 'more' }))
                local producer = queue:addOperation(function(op)
                    op.begun = true
                    return select(2, pcall(full.addOperation, full, Operation.new { name = 'other' }))
                end)
                producer.name = 'producer'
                while not producer.begun do opscript.sleep(0.001) end
                producer:cancel()
                producer:waitUntilFinished()
                first:cancel()
                full.isSuspended = false
                return message:find('more cannot be added: 1 operations wait in', 1, true) ~= nil, producer.result
                """) == [
                    true, "'other' was not added: queue 'full' is full, and 'producer', which waited for room, was cancelled",
                ])
    }
}
