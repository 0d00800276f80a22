import LuaBindings
import OpEngine
import TestLimits
import TestSupport
import Testing

/// `opscript.select` and `opscript.merge`.
@Suite(.endsWithin(seconds: 60)) struct SelectTests {
    // MARK: one of several

    @Test func ofSeveralReadyChannelsEachHasItsTurn() throws {
        #expect(
            try script(
                """
                local a, b, empty = opscript.channel(), opscript.channel(), opscript.channel()
                for i = 1, 30 do a:send(i) b:send(i) end
                local text = {}
                for i = 1, 20 do text[i] = opscript.select { a = a, b = b, empty = empty } end
                text = table.concat(text)
                -- Another call in between does not disturb the order.
                local counts = { [a] = 0, [b] = 0 }
                for i = 1, 10 do
                    local which = opscript.select { a, b }
                    counts[which == 1 and a or b] = counts[which == 1 and a or b] + 1
                    opscript.select { a, empty, timeout = 0 }
                end
                return text == ('ab'):rep(10) or text == ('ba'):rep(10), counts[b] >= 5, counts[a] + counts[b]
                """) == [true, true, 10])
    }

    @Test func aCallReturnsTheKeyAndTheValues() throws {
        #expect(
            try script(
                """
                local a, b = opscript.channel(), opscript.channel { capacity = 1 }
                a:send(1, nil, 'three')
                local results = { opscript.select { a = a, none = opscript.channel() } }
                assert(#results == 4 and results[1] == 'a' and results[2] == 1 and results[3] == nil and results[4] == 'three')
                local key = {}
                local which, sent, more = opscript.select { [key] = { b, 'x', nil, 'z', n = 4 }, [2] = a }
                assert(which == key and sent == true and more == nil)
                assert(select('#', opscript.select { a, timeout = 0 }) == 1)
                local x, y, z = b:receive()
                assert(x == 'x' and y == nil and z == 'z')
                a:close()
                which, sent, more = opscript.select { a, b }
                return which, sent, more, opscript.select { b = b, timeout = 0.001 }
                """) == [1, .nil, "closed", "timeout"])
    }

    @Test func onlyOneOfTheSendsHappens() throws {
        #expect(
            try script(
                """
                local full, first, second = opscript.channel { capacity = 1 }, opscript.channel(), opscript.channel()
                full:send(0)
                local counts = {}
                for i = 1, 10 do
                    local which = opscript.select { full = { full, i }, first = { first, i }, second = { second, i } }
                    counts[which] = (counts[which] or 0) + 1
                end
                assert(not counts.full and counts.first == #first and counts.second == #second)
                return #full, #first, #second, full:receive()
                """) == [1, 5, 5, 0])
    }

    @Test("Messages that were not chosen are freed, and count no more")
    func unsentMessages() throws {
        let tracker = LifetimeTracker()
        var configuration = Runtime.Configuration()
        configuration.limits.channelBytes = 20_000
        let runtime = try Runtime(configuration)
        defer { runtime.close() }
        try runtime.setGlobal("tracked", to: .object(Tracked(tracker)))
        #expect(
            try runtime.run(
                """
                local full, empty = opscript.channel { capacity = 1 }, opscript.channel()
                full:send(0)
                for i = 1, 100 do
                    assert(opscript.select { give = { full, ('x'):rep(1000), tracked }, take = empty, timeout = 0 } == 'timeout')
                end
                tracked = nil
                collectgarbage() collectgarbage()
                local _, message = pcall(opscript.select, { give = { empty, ('x'):rep(30000) } })
                return message
                """) == ["at 'give': the limit of 20000 bytes in channels is reached (limits.channelBytes)"])
        #expect(tracker.alive == 0)
    }

    private final class Tracked: LuaObject {
        private let token: LifetimeTracker.Token

        init(_ tracker: LifetimeTracker) { token = tracker.token() }
    }

    @Test("A wait holds no thread: two operations that select from each other take turns on one worker")
    func oneWorker() throws {
        #expect(
            try script(
                workers: 1,
                """
                local there, back = opscript.channel { capacity = 1 }, opscript.channel { capacity = 1 }
                local function play(_, from, to, first)
                    local sum, received, held = 0, 0, first
                    while received < 100 or held do
                        local which, n = opscript.select { take = received < 100 and from or nil, give = held and { to, held } or nil }
                        if which == 'give' then
                            held = nil
                        else
                            received, sum, held = received + 1, sum + n, n < 199 and n + 1 or nil
                        end
                    end
                    return sum
                end
                local second = queue:addOperation(play, there, back)
                local first = queue:addOperation(play, back, there, 0)
                return first:get() + second:get()
                """) == [.integer(199 * 200 / 2)])
    }

    @Test("A select that two channels wake leaves the message of the other one to the next receiver")
    func wokenByTwo() throws {
        try script(
            """
            -- The timer might send, so no stall wakes a receiver.
            local timer = opscript.after(1000, print)
            local function waits(op) while not (select(2, op:why()) or {}).waits do opscript.sleep(0.001) end end
            for round = 1, 20 do
                local a, b = opscript.channel(), opscript.channel()
                a:send(0)
                assert(opscript.select { a } == 1)                  -- so `b` has its turn
                local selecting = queue:addOperation(function() return (opscript.select { a = a, b = b }) end)
                waits(selecting)
                local receiving = queue:addOperation(function() return a:receive() end)
                waits(receiving)
                a:send(1)
                b:send(2)
                if selecting:get() == 'a' then a:send(3) end
                assert(receiving:get())
            end
            timer:cancel()
            """)
    }

    @Test func theMainStateRunsCallbacksMeanwhileAndHostsMaySend() throws {
        var configuration = Runtime.Configuration()
        configuration.hostMayAddOperations = true
        let runtime = try Runtime(configuration)
        defer { runtime.close() }
        let channel = Channel(capacity: 1, name: "host", in: runtime)
        try runtime.setGlobal("channel", to: .object(channel))
        #expect(
            try runtime.run(
                """
                other = opscript.channel()
                opscript.after(0.001, function() other:send 'timer' end)
                return opscript.select { channel = channel, other = other }
                """) == ["other", "timer"])
        TestSupport.startThread { _ = try? channel.trySend(5, ["x": 6]) }
        #expect(try runtime.run("local which, n, t = opscript.select { other, channel } return which, n, t.x") == [2, 5, 6])
    }

    @Test("Operations in worker processes select and merge")
    func inProcesses() throws {
        try withProcesses(workers: 2) { runtime throws in
            #expect(
                try runtime.run(
                    """
                    local numbers, squares, stop = opscript.channel { capacity = 2 }, opscript.channel { capacity = 2 }, opscript.channel()
                    local worker = queue:addOperation(function()
                        while true do
                            local which, n, f = opscript.select { n = numbers, stop = stop }
                            if which == 'stop' then return 'stopped', pcall(opscript.select, { { stop, coroutine.running() } }) end
                            opscript.select { { squares, f(n) } }
                        end
                    end)
                    local sender = queue:addOperation(function()
                        for i = 1, 20 do numbers:send(i, function(x) return x * x end) end
                    end)
                    local sum = 0
                    for i = 1, 20 do sum = sum + squares:receive() end
                    stop:close()
                    squares:close()
                    local text, ok, message = worker:get()
                    return sum, text, ok, message, queue:run(function() for _ in opscript.merge(squares, stop) do end return 'merged' end)
                    """) == [
                        2870, "stopped", false, "cannot send argument 1[1][2] (a coroutine); create it inside the body", "merged",
                    ])
        }
    }

    // MARK: ends of waits

    @Test("Cancelling an operation, a stop and a timeout end its select at once, and it sends nothing")
    func ends() throws {
        try script(
            """
            local empty, full, timer = opscript.channel(), opscript.channel { capacity = 1 }, opscript.after(1000, print)   -- which might send
            full:send(0)
            local function wait(op)
                local closed <close> = setmetatable({}, { __close = function() op.closed = true end })
                while true do opscript.select { take = empty, give = { full, 1 } } end
            end
            local function merge() for _ in opscript.merge(empty) do end return 'ended' end
            for _, main in ipairs { wait, merge } do
                for _, stop in ipairs { 'cancel', 'interrupt' } do
                    local op = queue:addOperation(main)
                    while not (select(2, op:why()) or {}).waits do opscript.sleep(0.001) end
                    op[stop](op)
                    op:waitUntilFinished()
                    assert(op.error.kind == 'interrupted' and op.result == nil and (main == merge or op.closed))
                end
            end
            local op = opscript.Operation.new { main = wait, timeout = 0.01 }
            queue:addOperation(op):waitUntilFinished()
            assert(op.error.kind == 'timeout' and #full == 1)
            timer:cancel()
            """)
    }

    @Test func aSelectThatNothingCanEndIsAnError() throws {
        #expect(
            try script(
                """
                local a, b, c = opscript.channel { name = 'a' }, opscript.channel { name = 'b', capacity = 1 }, opscript.channel { name = 'c' }
                b:send(1)
                local op = opscript.Operation.new { name = 'reader', main = function() opscript.select { a, { b, 1 }, c } end }
                local sentence, fields
                local gate = opscript.Operation.new { asynchronous = true, main = function() end }
                gate:start()
                queue:addOperation(op)
                repeat
                    sentence, fields = op:why()
                    opscript.sleep(0.001)
                until sentence and fields.waits
                gate:finish()
                op:waitUntilFinished()
                local _, alone = pcall(opscript.select, { a })
                local _, merging = pcall(function() for _ in opscript.merge(a) do end end)
                return sentence, op.error.message, alone, merging
                """) == [
                    "'reader' waits to receive from channel 'a' or to send to channel 'b' or to receive from channel 'c'",
                    "script:3: this wait can never end: 'reader' waits to receive from channel 'a' or to receive from channel 'c' or to send to channel 'b', and nothing is left that could use one of them",
                    "this wait can never end: this code waits to receive from channel 'a', and nothing is left that could send to it",
                    "script:15: this wait can never end: this code waits to receive from channel 'a', and nothing is left that could send to it",
                ])
    }

    // MARK: merge

    @Test func aMergeEndsWhenAllChannelsAreClosedAndEmpty() throws {
        #expect(
            try script(
                """
                local a, b = opscript.channel(), opscript.channel()
                local function send(_, channel, count)
                    local channel <close> = channel
                    for i = 1, count do channel:send(i, i * i) end
                end
                queue:addOperation(send, a, 100)
                queue:addOperation(send, b, 10)
                local sums, squares = { a = 0, b = 0 }, 0
                for which, n, square in opscript.merge { a = a, b = b } do
                    sums[which], squares = sums[which] + n, squares + square
                end
                local again = 0
                for _ in opscript.merge(a, b) do again = again + 1 end
                for _ in opscript.merge {} do again = again + 1 end
                -- The channels of a merge are those of its call.
                local c, d = opscript.channel(), opscript.channel()
                local list = { c, d }
                local next = opscript.merge(list)
                list[1] = nil
                c:send('c')
                local which, value = next()
                return sums.a, sums.b, squares, again, which, value
                """) == [5050, 55, .integer(338_350 + 385), 0, 1, "c"])
    }

    // MARK: misuse

    @Test(arguments: [
        ("opscript.select()", "bad argument #1 to 'select' (table such as { a = channel, timeout = 1 } expected, got no value)"),
        ("opscript.select { timeout = 1 }", "bad argument #1 to 'select' (a channel is missing, as in { a = channel, timeout = 1 })"),
        ("opscript.select { c, timeout = 'x' }", "timeout: number expected, got string"),
        ("opscript.select { c, timeout = -1 }", "timeout: seconds must be 0 or more, got -1.0"),
        ("opscript.select { a = 5 }", "bad argument #1 to 'select' (Channel or { channel, value } expected at 'a', got number)"),
        (
            "opscript.select { [c] = 5 }",
            "bad argument #1 to 'select' (Channel or { channel, value } expected at [Channel], got number)"
        ),
        ("opscript.select { 5 }", "bad argument #1 to 'select' (Channel or { channel, value } expected at [1], got number)"),
        ("opscript.select { a = { 5, c } }", "bad argument #1 to 'select' (Channel or { channel, value } expected at 'a', got table)"),
        (
            "opscript.select { a = { c } }",
            "bad argument #1 to 'select' (at 'a': nil cannot be sent, because receive returns nil at the end of a channel: send false, or a table)"
        ),
        (
            "opscript.select { { c, nil, 1, n = 3 } }",
            "bad argument #1 to 'select' (at [1]: nil cannot be sent, because receive returns nil at the end of a channel: send false, or a table)"
        ),
        ("opscript.select { a = { c, 1, n = 1 << 40 } }", "bad argument #1 to 'select' (at 'a': too many values)"),
        (
            "opscript.select { a = { c, 1, coroutine.running() } }",
            "at 'a': cannot send argument 2 (a coroutine); create it inside the body"
        ),
        ("c:close() opscript.select { a = { c, 1 } }", "nothing can be sent to an unnamed channel: it is closed"),
        ("opscript.merge()", "bad argument #1 to 'merge' (Channel expected, got nil)"),
        ("opscript.merge(c, 5)", "bad argument #2 to 'merge' (Channel expected, got number)"),
        ("opscript.merge({ c }, c)", "bad argument #1 to 'merge' (Channel expected, got table)"),
        ("opscript.merge { a = {} }", "bad argument #1 to 'merge' (Channel expected at [a], got table)"),
        (
            "opscript.merge { timeout = c }",
            "bad argument #1 to 'merge' (a channel cannot be named 'timeout', which opscript.select returns when the time has run out)"
        ),
    ])
    func misuse(_ source: String, _ message: String) throws {
        try withRuntime { runtime throws in
            let error = #expect(throws: LuaError.self) { try runtime.run("local c = opscript.channel() " + source) }
            #expect(error?.message == "script:1: \(message)")
        }
    }
}
