import OpEngine
import TestSupport
import Testing

@testable import LuaBindings

@Suite struct TimerTests {
    @Test func aTimerFiresOnceNotEarlyAndInItsState() throws {
        try withRuntime { runtime throws in
            try runtime.run(
                """
                count, start = 0, opscript.now()
                timer = opscript.after(0.02, function(t)
                    assert(t == timer and opscript.Operation.current == nil and tostring(t) == 'Timer (after 0.02 s, ended)')
                    assert(opscript.now() - start >= 0.02)
                    count = count + 1
                end)
                assert(tostring(timer) == 'Timer (after 0.02 s, pending)' and timer ~= 1 and timer.anything == nil)
                """)
            let ending = try runtime.finish()
            #expect(ending.callbackErrorCount == 0)
            #expect(try runtime.global("count") == 1)
        }
    }

    @Test func timersFireInTheOrderOfTheirTimes() throws {
        // A thread may lose its processor between two calls, so the test compares only what is certain: a timer does not overtake
        // another one that was due before it was set.
        _ = try script(
            """
            local earliest, latest, order = {}, {}, {}
            for i, seconds in ipairs { 0.8, 0.2, 0.5 } do
                earliest[i] = opscript.now() + seconds
                opscript.after(seconds, function() order[#order + 1] = i end)
                latest[i] = opscript.now() + seconds
            end
            while #order < 3 do opscript.sleep(0.01) end
            for later = 2, 3 do
                for sooner = 1, later - 1 do
                    assert(earliest[order[sooner]] <= latest[order[later]], "a timer was overtaken")
                end
            end
            """)
    }

    @Test func aRepeatingTimerIsSomethingUntilItIsCancelled() throws {
        try withRuntime { runtime throws in
            try runtime.run(
                """
                count = 0
                opscript.every(0.001, function(timer)
                    count = count + 1
                    if count == 20 then timer:cancel(); timer:cancel() end
                end)
                """)
            #expect(try runtime.finish().callbackErrorCount == 0)
            #expect(try runtime.global("count") == 20)
        }
    }

    @Test func whatIsCancelledDoesNotFire() throws {
        try withRuntime { runtime throws in
            try runtime.run(
                """
                local first = opscript.after(0, function() fired = true end)
                first:cancel()
                local repeating = opscript.every(0.001, function() fired = true end)
                -- Cancelled elsewhere: it may be on its way here, and does not arrive.
                queue:addOperation(function() repeating:cancel() end):waitUntilFinished()
                fired = nil
                opscript.sleep(0.01)
                assert(not fired and tostring(repeating) == 'Timer (every 0.001 s, ended)')
                """)
            _ = try runtime.finish()
            #expect(try runtime.global("fired") == .nil)
        }
    }

    /// While the state is busy, a timer fires many times but calls its function only once.
    @Test func repeatingTimersDoNotPileUp() throws {
        try withRuntime { runtime throws in
            try runtime.run(
                """
                count = 0
                local timer = opscript.every(0.02, function() count = count + 1 end)
                local stop = opscript.now() + 0.4
                while opscript.now() < stop do end
                OperationQueue.main:addOperation(function() seen = count; timer:cancel() end)
                """)
            _ = try runtime.finish()
            // One call, and those that came before `seen` was set.
            #expect([1, 2, 3].contains(try runtime.global("seen")))
        }
    }

    /// While its function waits, a timer that fires again does not call the function a second time.
    @Test func aFunctionThatWaitsIsNotNestedInItself() throws {
        #expect(
            try script(
                """
                local depth, deepest, count = 0, 0, 0
                local timer = opscript.every(0.001, function(timer)
                    depth = depth + 1
                    deepest = math.max(deepest, depth)
                    opscript.sleep(0.005)
                    depth, count = depth - 1, count + 1
                end)
                while count < 5 do opscript.sleep(0.005) end
                timer:cancel()
                return deepest
                """) == [1])
    }

    @Test func aTimerOfAnOperationRunsInItsWorkerAfterIt() throws {
        try withRuntime(workers: 1) { runtime throws in
            let workers = Log<Int?>()
            try runtime.register("note") { _ in
                workers.append(Worker.current?.number)
                return []
            }
            let first = try runtime.operation(
                """
                return queue:addOperation(function(op)
                    value = 'first'  -- a global of this operation
                    opscript.after(0.05, function()
                        assert(value == 'first' and opscript.Operation.current == nil)
                        note()
                    end)
                    note()
                    return value
                end)
                """)
            #expect(try runtime.results(of: first) == ["first"])
            #expect(try runtime.finish().callbackErrorCount == 0)
            #expect(workers.entries.count == 2 && workers.entries[0] != nil && workers.entries[0] == workers.entries[1])
        }
    }

    @Test func aWaitThatATimerEndsIsNotStuck() throws {
        try withRuntime { runtime throws in
            let values = try runtime.run(
                """
                local late = Operation.new(function() return 'in time' end)
                opscript.after(0.02, function() queue:addOperation(late) end)
                late:waitUntilFinished()
                local other = Operation.new(function() return 'there too' end)
                local waiting = queue:addOperation(function()
                    opscript.after(0.02, function() queue:addOperation(other) end)
                    other:waitUntilFinished()
                    return other.result
                end)
                waiting:waitUntilFinished()
                return late.result, waiting.result
                """)
            #expect(values == ["in time", "there too"])
        }
    }

    @Test func withoutItTheSameWaitIs() throws {
        try withRuntime { runtime throws in
            let error = #expect(throws: LuaError.self) {
                try runtime.run(
                    """
                    local timer = opscript.after(1e6, print)
                    opscript.after(0.01, function() timer:cancel() end)
                    Operation.new { name = 'late' }:waitUntilFinished()
                    """)
            }
            #expect(error?.message.contains("this wait can never end: 'late'") == true, "\(error?.message ?? "")")
        }
    }

    @Test func aWaitInOneThatNothingCanEndIsAnError() throws {
        try withRuntime { runtime throws in
            let values = try runtime.run(
                """
                local message
                opscript.after(0.01, function()
                    local never = Operation.new { name = 'never' }
                    message = select(2, pcall(never.waitUntilFinished, never))
                end)
                while not message do opscript.sleep(0.1) end
                return message
                """)
            #expect(values.first?.text?.contains("this wait can never end: 'never'") == true, "\(values)")
        }
    }

    @Test func anErrorInOneIsReportedAndStopsNothingElse() throws {
        try withRuntime { runtime throws in
            try runtime.run(
                """
                count = 0
                opscript.after(0, function() error 'the one' end)
                opscript.every(0.001, function(timer)
                    count = count + 1
                    if count == 3 then timer:cancel() end
                    error 'each time'
                end)
                """)
            #expect(try runtime.finish().callbackErrorCount == 4)
            #expect(try runtime.global("count") == 3)
        }
    }

    @Test(arguments: [
        ("opscript.after()", "bad argument #1 to 'after' (number expected, got no value)"),
        ("opscript.after(1)", "bad argument #2 to 'after' (function expected, got no value)"),
        ("opscript.after('1', print)", "bad argument #1 to 'after' (number expected, got string)"),
        ("opscript.after(-1, print)", "bad argument #1 to 'after' (seconds must be 0 or more, got -1.0)"),
        ("opscript.every(0, print)", "bad argument #1 to 'every' (seconds must be more than 0)"),
        (
            "opscript.after(1e9, print).cancel()",
            "script:1: call 'cancel' with ':', as in timer:cancel(...); what came before it is a no value"
        ),
        ("opscript.after(1e9, print).delay = 1", "script:1: a timer has nothing to assign to"),
    ])
    func wrongUseIsAnError(_ source: String, _ message: String) throws {
        try withRuntime { runtime throws in
            let error = #expect(throws: LuaError.self) { try runtime.run(source) }
            #expect(error?.message.replacing("script:1: bad", with: "bad") == message)
        }
    }

    /// Only the function refers to the timer, and only the timer to the function. Both stay alive as long as they are needed.
    @Test func aFunctionIsCollectedWhenItsTimerHasEnded() throws {
        try withRuntime { runtime throws in
            try runtime.run(
                """
                collected, fired = 0, 0
                local function token() return setmetatable({}, { __gc = function() collected = collected + 1 end }) end
                do
                    local token = token()
                    opscript.after(0.02, function() fired = fired + 1; return token end)
                end
                do
                    local token = token()
                    local timer = opscript.every(1e6, function() return token end)
                    opscript.after(0.02, function() timer:cancel() end)
                end
                do
                    local token = token()
                    local timer = opscript.every(1e6, function() return token end)
                    queue:addOperation(function() timer:cancel() end)
                end
                collectgarbage()
                """)
            _ = try runtime.finish()
            try runtime.run("collectgarbage() collectgarbage()")
            #expect(try runtime.run("return collected, fired") == [3, 1])
        }
    }

    @Test func closingTheRuntimeCancelsWhatIsPending() throws {
        try withRuntime { runtime throws in
            try runtime.run(
                """
                opscript.every(0.001, print)
                opscript.after(1e6, print)
                queue:addOperation(function() opscript.every(1e6, print) end):waitUntilFinished()
                """)
        }
    }

    @Test func thousandsOfTimersAreEachCalled() throws {
        try withRuntime { runtime throws in
            try runtime.run(
                """
                count = 0
                for i = 1, 5000 do
                    local timer = opscript.after((i * 7919 % 50) / 1000, function() count = count + 1 end)
                    if i % 5 == 0 then timer:cancel() end
                end
                """)
            _ = try runtime.finish()
            #expect(try runtime.global("count") == 4000)
        }
    }

    // MARK: the interface for higher layers

    @Test func aClosureIsReleasedWhenItsTimerHasEnded() throws {
        let tracker = LifetimeTracker()
        let io = IOThread()
        let fired = Gate()
        func start(_ seconds: Double, repeating: Bool = false) -> IOTimer {
            let token = tracker.token()
            return io.after(seconds, repeating: repeating) { withExtendedLifetime(token) { fired.open() } }
        }
        _ = start(0)
        fired.wait()
        let repeating = start(0.001, repeating: true)
        fired.wait(3)
        let far = start(1e9)
        far.cancel()
        far.cancel()
        repeating.cancel()
        let kept = start(1e9)
        io.end()
        io.stop()
        #expect(tracker.alive == 0)
        kept.cancel()
        _ = start(0)
        #expect(tracker.alive == 0)
    }

    /// Each thread starts and cancels timers. In any order, no timer is lost, and all of them end.
    @Test func timersAreStartedAndCancelledByManyThreads() throws {
        let tracker = LifetimeTracker()
        let io = IOThread()
        let threads = (0..<4).map { number in
            TestThread {
                var random = SeededGenerator(seed: UInt64(number))
                for _ in 0..<2000 {
                    let token = tracker.token()
                    let timer = io.after(Double.random(in: 0...0.002, using: &random), repeating: Bool.random(using: &random)) {
                        withExtendedLifetime(token) {}
                    }
                    if Bool.random(using: &random) { timer.cancel() }
                }
            }
        }
        for thread in threads { thread.join() }
        io.end()
        io.stop()
        #expect(tracker.alive == 0)
    }
}
