import LuaBindings
import OpEngine
import TestSupport
import Testing

/// `retry` of operations in scripts.
@Suite struct LuaRetryTests {
    @Test func theBodyRunsAnewWithTheArgumentsAsTheyWereSent() throws {
        #expect(
            try script(
                """
                local seen = { 0 }
                local op = Operation.new {
                    retry = 3, arguments = { { n = 1 } },
                    main = function(op, t)
                        seen[1], t.n = seen[1] + 1, t.n + 1
                        if op.attempt < 3 then error { attempt = op.attempt } end
                        return op.attempt, seen[1], t.n
                    end,
                }
                queue:addOperation(op):waitUntilFinished()
                local first, second = table.unpack(op.attempts)
                return op.result, op.results[2], op.results[3], op.error, #op.attempts, first.value.attempt, second.value.attempt,
                    first.operation == op, op.attempt
                """) == [3, 1, 2, .nil, 2, 1, 2, true, 3])
    }

    @Test func theLastErrorIsTheOperationsAndTheOnlyOneThatNobodyHasRead() throws {
        try withRuntime { runtime throws in
            try runtime.run(
                """
                queue:addOperation(Operation.new { name = 'never', retry = 3, main = function(op) error('attempt ' .. op.attempt, 0) end })
                queue:addOperation(Operation.new { retry = 3, main = function(op) if op.attempt < 3 then error('not yet') end end })
                """)
            let failures = try runtime.finish().unreadFailures
            #expect(failures.map(\.message) == ["attempt 3"])
        }
    }

    @Test(arguments: ["op:fail('no')", "error('no', 0)", "opscript.after(0, function() op:fail('no') end)"])
    func anAsynchronousOperationIsTriedAgain(_ failing: String) throws {
        #expect(
            try script(
                """
                local op = Operation.new { asynchronous = true, retry = { attempts = 3, delay = 0.001 }, main = function(op)
                    if op.attempt < 3 then
                        \(failing)
                    else
                        opscript.after(0, function() op:finish(op.attempt) end)
                    end
                end }
                queue:addOperation(op):waitUntilFinished()
                return op.result, #op.attempts, op.attempts[1].message
                """) == [3, 2, "no"])
    }

    @Test func betweenTwoAttemptsNothingEndsAnAsynchronousOperation() throws {
        #expect(
            try script(
                """
                local op = Operation.new { asynchronous = true, retry = { attempts = 2, delay = 1e6 }, main = function(op) op:fail('no') end }
                queue:addOperation(op)
                while #op.attempts == 0 do opscript.sleep(0) end
                op:finish(1)
                op:fail('late')
                local isWaiting, sentence, fields = not op.isFinished and not op.isExecuting, op:why()
                op:cancel()
                op:waitUntilFinished()
                return isWaiting, fields.nextAttempt, fields.secondsToNextStart > 1e5, op.isCancelled, op.result, op.attempt
                """) == [true, 2, true, true, .nil, 1])
    }

    @Test func theFunctionWhenDecidesByTheErrorAndTakesItsUpvaluesAlong() throws {
        #expect(
            try script(
                """
                local worth = { busy = true }
                local function retrying(code) return Operation.new {
                    retry = { attempts = 4, when = function(e) return worth[e.value.code] and e.kind == 'error' end },
                    main = function(op) error { code = op.attempt < 3 and 'busy' or code } end,
                } end
                local gone, busy = retrying 'gone', retrying 'busy'
                queue:addOperations({ gone, busy }, true)
                return gone.attempt, gone.error.value.code, busy.attempt, #busy.attempts
                """) == [3, "gone", 4, 3])
    }

    @Test func anErrorInWhenIsReportedAndEndsTheOperation() throws {
        let output = Log<String>()
        var configuration = Runtime.Configuration()
        configuration.errorOutput = { output.append(String(decoding: $0, as: UTF8.self)) }
        let runtime = try Runtime(configuration)
        defer { runtime.close() }
        let values = try runtime.run(
            """
            local op = opscript.Operation.new { name = 'op', retry = { attempts = 3, when = function() error('oh', 0) end }, main = function()
                error('no', 0)
            end }
            opscript.OperationQueue.new():addOperation(op):waitUntilFinished()
            return op.attempt, op.error.message
            """)
        #expect(values == [1, "no"])
        #expect(output.entries.joined().hasPrefix("opscript: error in the function 'when' of 'op': oh"))
    }

    @Test(arguments: [false, true])
    func theTimeoutIsThatOfAnAttempt(isAsynchronous: Bool) throws {
        #expect(
            try script(
                """
                local op = Operation.new {
                    timeout = 0.05, asynchronous = \(isAsynchronous), retry = { attempts = 1000, when = function(e) return e.kind == 'timeout' end },
                    main = function(op)
                        if op.attempt == 1 then while true do end end
                        if op.attempt == 2 then opscript.sleep(\(isAsynchronous ? 0 : 1e6)) return end
                        if op.isAsynchronous then op:finish(op.attempt) end
                        return op.attempt
                    end,
                }
                queue:addOperation(op):waitUntilFinished()
                -- On a busy machine, an attempt that has nothing to do may take too long as well.
                return op.result >= 3, op.isCancelled, op.attempts[1].kind, op.attempts[2].kind, op.timeout
                """) == [true, false, "timeout", "timeout", 0.05])
    }

    @Test func theLastTimeoutStopsTheOperation() throws {
        #expect(
            try script(
                """
                local op = Operation.new { timeout = 0.01, retry = 2, main = function() while true do end end }
                queue:addOperation(op):waitUntilFinished()
                return op.error.kind, op.isCancelled, op.attempt, op.attempts[1].kind
                """) == ["timeout", true, 2, "timeout"])
    }

    @Test func aProgramOfAnAttemptThatRanOutOfTimeIsEnded() throws {
        #expect(
            try script(
                """
                local op = Operation.new { timeout = 1, retry = 2, main = function(op)
                    if op.attempt == 2 then return op.pid end
                    local process = opscript.process { 'sleep', '1000' }
                    op.pid = process.pid
                    process:wait()
                end }
                queue:addOperation(op):waitUntilFinished()
                while opscript.sh('kill -0 ' .. op.pid .. ' 2>/dev/null'):wait().status == 0 do opscript.sleep(0.001) end
                return op.result == op.pid
                """) == [true])
    }

    @Test(arguments: ["cancel", "interrupt"])
    func stoppingEndsTheOperationWhateverItsPolicy(_ method: String) throws {
        #expect(
            try script(
                """
                local op = Operation.new { retry = 1000, main = function(op)
                    op.begun = true
                    while not op.isCancelled do opscript.sleep(1e6) end
                    error('stopped', 0)
                end }
                queue:addOperation(op)
                while not op.begun do opscript.sleep(0.001) end
                op:\(method)()
                op:waitUntilFinished()
                return op.isCancelled, op.attempt, op.error ~= nil
                """) == [true, 1, true])
    }

    @Test func anOperationOfTheMainQueueIsTriedAgain() throws {
        #expect(
            try script(
                """
                local count = 0
                local op = Operation.new { retry = { attempts = 5, delay = 0.001 }, main = function(op)
                    count = count + 1
                    if count < 4 then error('not yet') end
                    return count
                end }
                OperationQueue.main:addOperation(op)
                op:waitUntilFinished()
                return op.result, op.attempt
                """) == [4, 4])
    }

    @Test func blocksMethodsAndSubclassesAreTriedAgain() throws {
        #expect(
            try script(
                """
                local blocks = opscript.BlockOperation.new(function(op) if op.attempt < 3 then error 'a' end return 1 end)
                blocks:addExecutionBlock(function(op) return op.attempt end)
                local Flaky = Operation:subclass 'Flaky'
                function Flaky:init() self.retry = 3 end
                function Flaky:main() if self.attempt < 3 then error 'no' end return self.attempt end
                local flaky = Flaky.new()
                local invocation = opscript.InvocationOperation.new({ run = function()
                    if Operation.current.attempt < 2 then error 'no' end
                    return 'run'
                end }, 'run')
                blocks.retry, invocation.retry = 3, 2
                queue:addOperations({ blocks, flaky, invocation }, true)
                return blocks.results[1], blocks.results[2], flaky.result, invocation.result
                """) == [1, 3, 3, "run"])
    }

    @Test func anOperationOfTheHostsFunctionIsTriedAgain() throws {
        try withRuntime { runtime throws in
            let function = try runtime.function("return function(op) if op.attempt < 3 then error 'no' end return op.attempt end")
            let operation = LuaOperation(function)
            operation.retryPolicy = RetryPolicy(attempts: 3)
            OperationQueue(engine: runtime.engine).addOperation(operation)
            #expect(try runtime.results(of: operation) == [3])
            #expect(try runtime.finish().unreadFailures.isEmpty)
        }
    }

    @Test func theCompletionBlockRunsOnceAndTheProgressCountsOnce() throws {
        #expect(
            try script(
                """
                local calls = 0
                local op = Operation.new { retry = 4, main = function(op) if op.attempt < 4 then error 'no' end end }
                op.completionBlock = function() calls = calls + 1 end
                queue:addOperation(op):waitUntilFinished()
                return calls, queue.progress.completedUnitCount, queue.progress.totalUnitCount
                """) == [1, 1, 1])
    }

    @Test func itReadsAsItWasSet() throws {
        #expect(
            try script(
                """
                local op = Operation.new { retry = { attempts = 5, delay = 0.5, backoff = 2, maxDelay = 60, jitter = true } }
                local r = op.retry
                op.retry = nil
                return r.attempts, r.delay, r.backoff, r.maxDelay, r.jitter, op.retry, op.attempt, #op.attempts
                """) == [5, .number(0.5), .number(2), .number(60), true, .nil, 0, 0])
    }

    @Test(arguments: [
        ("Operation.new { retry = 0 }", "retry must be an integer, 1 or more, got 0"),
        ("Operation.new { retry = 'x' }", "retry must be a number of attempts or a table, got a string"),
        ("Operation.new { retry = {} }", "retry.attempts is missing: the number of attempts, including the first"),
        ("Operation.new { retry = { attempts = 1.5 } }", "retry.attempts must be an integer, 1 or more, got 1.5"),
        ("Operation.new { retry = { attempts = 2, delay = -1 } }", "retry.delay must be a number of seconds, 0 or more, got -1"),
        ("Operation.new { retry = { attempts = 2, delay = 0/0 } }", "retry.delay must be a number of seconds, 0 or more, got nan"),
        ("Operation.new { retry = { attempts = 2, maxDelay = '1' } }", "retry.maxDelay must be a number of seconds, 0 or more, got '1'"),
        ("Operation.new { retry = { attempts = 2, backoff = 0.5 } }", "retry.backoff must be a number, 1 or more, got 0.5"),
        ("Operation.new { retry = { attempts = 2, jitter = 1 } }", "retry.jitter must be a boolean, got a number"),
        ("Operation.new().retry = { attempts = 2, when = 1 }", "retry.when must be a function, got a number"),
        ("Operation.new().retry = { attempt = 2 }", "retry: unknown option 'attempt' (did you mean 'attempts'?)"),
        ("Operation.new().retry = { 3 }", "retry: options have names, got a number as a key"),
        ("Operation.new().attempt = 3", "'attempt' of an operation cannot be assigned"),
        (
            "local op = Operation.new() op:start() op.retry = 2",
            "an unnamed Operation has started, so 'retry' would have no effect: use it before"
        ),
    ])
    func wrongValuesAreErrors(_ source: String, _ message: String) throws {
        try withRuntime { runtime throws in
            let error = #expect(throws: LuaError.self) { try runtime.run(source) }
            #expect(error?.message == "script:1: \(message)")
        }
    }

    @Test func whatTheFunctionsOfAnOperationCaptureIsReleased() throws {
        try withRuntime(workers: 1) { runtime throws in
            weak var kept: Operation?
            do {
                let operation = try runtime.operation(
                    """
                    local other = Operation.new()
                    local op = Operation.new { retry = { attempts = 3, when = function() return op ~= 1 and other end } , main = function(op)
                        if other and op.attempt < 3 then error 'no' end
                    end }
                    op:addCondition(function(o) return o == op and other end)
                    queue:addOperation(op):waitUntilFinished()
                    local copy = op
                    other, op = nil, nil
                    return copy
                    """)
                #expect(operation.outcome == .succeeded && operation.attempt == 3)
                kept = operation
            }
            try runtime.run(
                """
                local function collect() collectgarbage() collectgarbage() end
                queue:addOperation(collect):waitUntilFinished()
                collect()
                """)
            #expect(kept == nil)
        }
    }
}
