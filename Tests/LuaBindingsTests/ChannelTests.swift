import LuaBindings
import OpEngine
import TestSupport
import Testing

/// Channels between the states of a runtime.
@Suite struct ChannelTests {
    // MARK: sending and receiving

    @Test func valuesArriveInTheOrderInWhichTheyWereSent() throws {
        #expect(
            try script(
                """
                local channel = opscript.channel { capacity = 3, name = 'numbers' }
                local producer = queue:addOperation(function()
                    local channel <close> = channel
                    for i = 1, 1000 do channel:send(i) end
                end)
                local expected = 1
                for i in channel do
                    assert(i == expected)
                    expected = i + 1
                end
                producer:waitUntilFinished()
                return expected, channel.isClosed, #channel, tostring(channel)
                """) == [1001, true, 0, "Channel 'numbers' (0 of 3, closed)"])
    }

    @Test("A consumer and a producer take turns on one worker")
    func oneWorker() throws {
        #expect(
            try script(
                workers: 1,
                """
                local channel = opscript.channel { capacity = 1 }
                local consumer = queue:addOperation(function()
                    local sum = 0
                    for x in channel do sum = sum + x end
                    return sum
                end)
                queue:addOperation(function()
                    for i = 1, 200 do channel:send(i) end
                    channel:close()
                end)
                consumer:waitUntilFinished()
                return consumer.result
                """) == [20100])
    }

    @Test("Whatever can be sent to an operation can be sent to a channel")
    func kindsOfValues() throws {
        #expect(
            try script(
                """
                local channel, other = opscript.channel(), opscript.channel { name = 'other' }
                local step = 3
                local failed = queue:addOperation(function() error { code = 7 } end)
                failed:waitUntilFinished()
                local shared = { 'x' }
                channel:send(function(x) return x + step end, nil, { shared, shared, string.format, math.huge })
                channel:send(queue, failed, failed.error, other, channel, ('x'):rep(100000))
                channel:send(false)
                local receiver = queue:addOperation(function()
                    local f, none, list = channel:receive()
                    assert(none == nil and f(4) == 7 and list[1] == list[2] and list[1][1] == 'x' and list[3] == string.format)
                    local q, op, err, o, same, text = channel:receive()
                    assert(op.error.value.code == 7 and err.value.code == 7 and same == channel and o.name == 'other' and #text == 100000)
                    o:send(select('#', channel:receive()), q.name)
                end)
                local count, name = other:receive()
                return count, name
                """) == [1, "test"])
    }

    @Test func aChannelWaitsForNothingThatIsThere() throws {
        #expect(
            try script(
                """
                local channel = opscript.channel { capacity = 2 }
                local results = { channel:trySend('a'), channel:trySend('b', 2), channel:trySend('c'), channel:sendWithin(0.001, 'c') }
                local a = channel:tryReceive()
                local b, two = channel:receive()
                local none, reason = channel:tryReceive()
                local late, timeout = channel:receive(0.001)
                assert(none == nil and late == nil)
                channel:send('d')
                channel:close()
                channel:close()
                local d = channel:receive()
                local ended, closed = channel:receive()
                local again = select(2, channel:tryReceive())
                return results[1], results[2], results[3], results[4], a, b, two, reason, timeout, d, ended, closed, again
                """) == [true, true, false, false, "a", "b", 2, "empty", "timeout", "d", .nil, "closed", "closed"])
    }

    @Test("A channel is the same object in every state")
    func identity() throws {
        #expect(
            try script(
                """
                local channel, back = opscript.channel(), opscript.channel()
                local op = queue:addOperation(function(op, sent)
                    back:send(channel)
                    return channel == sent, channel
                end, channel)
                op:waitUntilFinished()
                return op.results[1], op.results[2] == channel, back:receive() == channel, ({ [channel] = 5 })[op.results[2]]
                """) == [true, true, true, 5])
    }

    @Test func aCoroutineMayWaitForAChannel() throws {
        #expect(
            try script(
                """
                local channel = opscript.channel()
                local function each() for x in channel do coroutine.yield(x) end end
                local op = queue:addOperation(function() for i = 1, 3 do channel:send(i) end channel:close() end)
                local sum = 0
                for x in coroutine.wrap(each) do sum = sum + x end
                return sum
                """) == [6])
    }

    @Test("While the main state waits for a channel, callbacks and operations of the main queue run")
    func callbacksRunMeanwhile() throws {
        #expect(
            try script(
                """
                local channel = opscript.channel { capacity = 1 }
                local ran = 0
                local op = Operation.new(function() end)
                op.completionBlock = function() ran = ran + 1; channel:send('block') end
                queue:addOperation(op)
                assert(channel:receive() == 'block')
                OperationQueue.main:addOperation(function() ran = ran + 1; channel:send('main') end)
                assert(channel:receive() == 'main')
                opscript.after(0.001, function() ran = ran + 1; channel:tryReceive() end)
                channel:send(1)
                channel:send(2)                                     -- waits until the timer makes room
                return ran, channel:receive()
                """) == [3, 2])
    }

    // MARK: ends of waits

    @Test func cancellingAnOperationEndsItsWaitForAValue() throws {
        #expect(
            try script(
                """
                local channel = opscript.channel()
                local op = queue:addOperation(function(op)
                    op.begun = true
                    local count = 0
                    for _ in channel do count = count + 1 end
                    return count, channel:receive()
                end)
                channel:send(1)
                channel:send(2)
                while not (op.begun and #channel == 0) do opscript.sleep(0.001) end
                op:cancel()
                op:waitUntilFinished()
                return op.results[1], op.results[2], op.results[3], op.error
                """) == [2, .nil, "cancelled", .nil])
    }

    @Test("Cancelling an operation that waits for room stops it, and its value is not sent")
    func cancelledSender() throws {
        #expect(
            try script(
                """
                local channel, closed = opscript.channel { capacity = 1 }, opscript.channel()
                local op = queue:addOperation(function(op)
                    local closed <close> = closed
                    while true do
                        channel:send('x')
                        op.sent = true
                    end
                end)
                while not op.sent do opscript.sleep(0.001) end
                op:cancel()
                op:waitUntilFinished()
                return #channel, op.isCancelled, op.error.kind, closed.isClosed
                """) == [1, true, "interrupted", true])
    }

    @Test func closingWakesEverybodyWhoWaits() throws {
        #expect(
            try script(
                """
                local full, empty = opscript.channel { capacity = 1, name = 'full' }, opscript.channel()
                full:send(1)
                local senders, receivers = {}, {}
                for i = 1, 3 do
                    senders[i] = queue:addOperation(function() return pcall(full.send, full, i) end)
                    receivers[i] = queue:addOperation(function() return empty:receive() end)
                end
                opscript.sleep(0.005)
                full:close()
                empty:close()
                queue:waitUntilAllOperationsAreFinished()
                local text = {}
                for i = 1, 3 do text[#text + 1] = tostring(senders[i].result) .. ' ' .. receivers[i].results[2] end
                return table.concat(text, ', '), senders[1].results[2], full:receive(), full:receive()
                """) == [
                    "false closed, false closed, false closed", "nothing can be sent to channel 'full': it is closed", 1, .nil, "closed",
                ])
    }

    @Test func limitsAndTimeoutsEndAWait() throws {
        #expect(
            try script(
                """
                local channel, timer = opscript.channel(), opscript.after(1000, print)   -- which might send
                local op = Operation.new { main = function() return channel:receive() end, timeout = 0.01 }
                queue:addOperation(op):waitUntilFinished()
                timer:cancel()
                return op.error.kind
                """) == ["timeout"])
        var configuration = Runtime.Configuration()
        configuration.limits.runSeconds = 0.02
        let runtime = try Runtime(configuration)
        defer { runtime.close() }
        let error = #expect(throws: LuaError.self) { try runtime.run("pcall(function() opscript.channel():receive(100) end)") }
        #expect(error?.message.isEmpty == false)
    }

    // MARK: waits that nothing can end

    @Test func aWaitThatNothingCanEndSaysWhoWaitsForWhat() throws {
        try withRuntime { runtime throws in
            func failure(_ source: String) -> String? { #expect(throws: LuaError.self) { try runtime.run(source) }?.message }
            #expect(
                failure("opscript.channel { name = 'lines' }:receive()")
                    == "script:1: this wait can never end: this code waits to receive from channel 'lines', and nothing is left that could send to it"
            )
            #expect(
                failure("local c = opscript.channel { capacity = 1 } c:send(1) c:send(2)")
                    == "script:1: this wait can never end: this code waits to send to an unnamed channel, and nothing is left that could receive from it"
            )
        }
    }

    @Test("Two operations that wait for each other are told of that")
    func deadlock() throws {
        let messages = try script(
            """
            local a, b = opscript.channel { name = 'a' }, opscript.channel { name = 'b' }
            local function forward(op, from, to) to:send(from:receive()) end
            local first = Operation.new { name = 'first', main = forward, arguments = { a, b } }
            local second = Operation.new { name = 'second', main = forward, arguments = { b, a } }
            queue:addOperations({ first, second }, true)
            -- One gets the error. After its end no operation sends to the other one, which gets the next error.
            return first.error.message .. '\\n' .. second.error.message
            """)
        let text = try #require(messages.first?.text)
        let lines = text.split(separator: "\n")
        #expect(lines.count == 2)
        #expect(
            lines.contains {
                $0.hasSuffix(
                    "'second' waits to receive from channel 'b', and nothing is left that could send to it; 'first' waits to receive from channel 'a'"
                )
                    || $0.hasSuffix(
                        "'first' waits to receive from channel 'a', and nothing is left that could send to it; 'second' waits to receive from channel 'b'"
                    )
            })
    }

    @Test func whyTellsWhatAnExecutingOperationWaitsFor() throws {
        #expect(
            try script(
                """
                local channel = opscript.channel { name = 'lines' }
                local op = Operation.new { name = 'reader', main = function() return channel:receive() end }
                queue:addOperation(op)
                local sentence, fields
                repeat
                    sentence, fields = op:why()
                    opscript.sleep(0.001)
                until sentence and fields.waits
                channel:send(1)
                op:waitUntilFinished()
                return sentence, fields.waits, op:why()
                """) == ["'reader' waits to receive from channel 'lines'", "to receive from channel 'lines'", .nil])
    }

    // MARK: misuse

    @Test(arguments: [
        ("opscript.channel(5)", "bad argument #1 to 'channel' (table such as { capacity = 100 } expected, got number)"),
        (
            "opscript.channel { capacity = 0 }",
            "bad argument #1 to 'channel' (capacity must be an integer, 1 or more, or math.huge, got 0)"
        ),
        (
            "opscript.channel { capacity = 'x' }",
            "bad argument #1 to 'channel' (capacity must be an integer, 1 or more, or math.huge, got a string)"
        ),
        ("opscript.channel { capcity = 1 }", "bad argument #1 to 'channel' (unknown option 'capcity' (did you mean 'capacity'?))"),
        (
            "opscript.channel():send()",
            "bad argument #1 to 'send' (nil cannot be sent, because receive returns nil at the end of a channel: send false, or a table)"
        ),
        (
            "opscript.channel():sendWithin(1, nil)",
            "bad argument #2 to 'sendWithin' (nil cannot be sent, because receive returns nil at the end of a channel: send false, or a table)"
        ),
        ("opscript.channel():receive(-1)", "bad argument #1 to 'receive' (seconds must be 0 or more, got -1.0)"),
        ("opscript.channel().send(1)", "call 'send' with ':', as in channel:send(...); what came before it is a number"),
        ("opscript.channel().size = 1", "a channel has nothing to assign to: use channel:send(...)"),
        ("local c = opscript.channel() c:close() c:send(1)", "nothing can be sent to an unnamed channel: it is closed"),
        (
            "opscript.channel():send(1, { a = { io.tmpfile() } })",
            "cannot send argument 2.a[1] (a userdata); open it inside the body"
        ),
    ])
    func misuse(_ source: String, _ message: String) throws {
        try withRuntime { runtime throws in
            let error = #expect(throws: LuaError.self) { try runtime.run(source) }
            #expect(error?.message == "script:1: \(message)")
        }
    }

    @Test func aChannelWithoutALimitTakesAnyNumber() throws {
        #expect(
            try script(
                """
                local channel = opscript.channel { capacity = math.huge }
                for i = 1, 5000 do channel:send(i) end
                local sum = 0
                for i = 1, 5000 do sum = sum + channel:receive() end
                return sum, channel.capacity, #channel
                """) == [.integer(5000 * 5001 / 2), .number(.infinity), 0])
    }

    // MARK: memory

    @Test("Values in channels count against a limit, and count no more when they have left")
    func limitedBytes() throws {
        var configuration = Runtime.Configuration()
        configuration.limits.channelBytes = 100_000
        let runtime = try Runtime(configuration)
        defer { runtime.close() }
        #expect(
            try runtime.run(
                """
                local text = ('x'):rep(1000)
                for round = 1, 3 do
                    local channel = opscript.channel { capacity = math.huge }
                    local sent, message = 0
                    repeat
                        local ok
                        ok, message = pcall(channel.send, channel, text)
                        if ok then sent = sent + 1 end
                    until not ok
                    assert(sent > 90 and sent < 100, sent)
                    assert(message == 'the limit of 100000 bytes in channels is reached (limits.channelBytes)', message)
                    if round == 1 then for i = 1, sent do channel:receive() end else channel = nil end
                    collectgarbage() collectgarbage()
                end
                local channels = {}
                local ok, message = pcall(function() for i = 1, 1000 do channels[i] = opscript.channel() end end)
                return ok, #channels < 400
                """) == [false, true])
    }

    @Test func scriptsThatNobodyHasReadMayUseChannels() throws {
        var configuration = Runtime.Configuration()
        configuration.sandbox = .untrusted
        configuration.limits = .untrusted
        let runtime = try Runtime(configuration)
        defer { runtime.close() }
        #expect(
            try runtime.run(
                """
                local channel, frozen = opscript.channel(), opscript.freeze { 1, { 2 } }
                local op = opscript.OperationQueue.new():addOperation(function() channel:send(frozen, frozen[2][1]) end)
                local a, b = channel:receive()
                return a == frozen, b, pcall(channel.send, channel, ('x'):rep(2000000))
                """) == [true, 2, false, "values of more than 1048576 bytes cannot be sent (limits.valueBytes)"])
    }

    @Test("A channel that contains itself is freed with its runtime")
    func cycle() throws {
        let tracker = LifetimeTracker()
        do {
            let runtime = try Runtime()
            try runtime.setGlobal("tracked", to: .object(Tracked(tracker)))
            try runtime.run("local c = opscript.channel() c:send(c, tracked) tracked = nil")
            runtime.close()
        }
        #expect(tracker.alive == 0)
    }

    private final class Tracked: LuaObject {
        private let token: LifetimeTracker.Token

        init(_ tracker: LifetimeTracker) { token = tracker.token() }
    }

    // MARK: processes

    @Test("Operations in worker processes use channels")
    func inProcesses() throws {
        try withProcesses(workers: 2) { runtime throws in
            #expect(
                try runtime.run(
                    """
                    local numbers, squares = opscript.channel { capacity = 2 }, opscript.channel { capacity = 2 }
                    for i = 1, 2 do
                        queue:addOperation(function()
                            for x, f in numbers do squares:send(f(x), #numbers >= 0) end
                        end)
                    end
                    queue:addOperation(function()
                        for i = 1, 20 do numbers:send(i, function(x) return x * x end) end
                        numbers:close()
                    end)
                    local sum = 0
                    for i = 1, 20 do sum = sum + squares:receive() end
                    queue:waitUntilAllOperationsAreFinished()
                    local op = queue:addOperation(function() return pcall(opscript.freeze, {}) end)
                    op:waitUntilFinished()
                    return sum, op.result, op.results[2] == select(2, pcall(opscript.freeze, {}))
                    """) == [2870, false, true])
        }
    }

    /// The main state waits for the channel, and a callback in it waits for an operation that waits for the channel, too.
    @Test func aWaitThatRunsACallbackLeavesItsTurnToOthers() throws {
        try withRuntime(workers: 2) { runtime in
            let values = try runtime.run(
                """
                local channel, queue = opscript.channel(), opscript.OperationQueue.new()
                local result
                opscript.after(0, function()
                    local op = queue:addOperation(function() return channel:receive() end)
                    queue:addOperation(function() channel:send 'one' end)
                    op:waitUntilFinished()
                    result = op.result
                    channel:send 'two'
                end)
                return channel:receive(), result
                """)
            #expect(values == ["two", "one"])
        }
    }
}
