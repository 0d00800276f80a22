import LuaBindings
import OpEngine
import TestLimits
import TestSupport
import Testing

/// Random senders and receivers against what a channel promises: each value arrives once, and those of a sender in their order.
@Suite(.endsWithin(seconds: 300)) struct ChannelRandomTests {
    private static let model = """
        local seed, senders, receivers, capacity, count, cancels = ...
        -- The timer might send, so no stall wakes a waiter that a channel has forgotten.
        local timer = opscript.after(1000, print)
        local channel = opscript.channel { capacity = capacity }
        local function send(op, number, seed)
            local state = seed
            local function random(n)
                state = (state * 6364136223846793005 + 1442695040888963407)
                return (state >> 33) % n
            end
            for i = 1, count do
                local way = random(4)
                if way == 0 then
                    while not channel:trySend(number, i) do opscript.sleep(0.0001) end
                elseif way == 1 then
                    while not channel:sendWithin(0.0001, number, i) do end
                else
                    assert(channel:send(number, i))
                end
            end
        end
        local function receive(op, seed)
            local state, got = seed, {}
            while true do
                state = (state * 6364136223846793005 + 1442695040888963407)
                local way, number, i = (state >> 33) % 4
                if way == 0 then
                    number, i = channel:tryReceive()
                elseif way == 1 then
                    number, i = channel:receive(0.0001)
                else
                    number, i = channel:receive()
                end
                if number then
                    got[#got + 1] = { number, i }
                elseif i == 'closed' or i == 'cancelled' or op.isCancelled then
                    return got
                end
            end
        end
        local sending, receiving = {}, {}
        for i = 1, senders do sending[i] = queue:addOperation(send, i, seed + i) end
        for i = 1, receivers do receiving[i] = queue:addOperation(receive, seed - i) end
        for i = 1, cancels do
            opscript.sleep(0)
            receiving[i]:cancel()
        end
        for i = 1, senders do sending[i]:waitUntilFinished() assert(not sending[i].error, sending[i].error) end
        channel:close()
        local arrived = {}
        for i = 1, senders do arrived[i] = {} end
        for i = 1, receivers do
            receiving[i]:waitUntilFinished()
            local last = {}
            -- A receiver that is cancelled before it starts has no result.
            for _, value in ipairs(receiving[i].result or {}) do
                local sender, number = value[1], value[2]
                assert(number > (last[sender] or 0), 'order')
                last[sender] = number
                assert(not arrived[sender][number], 'twice')
                arrived[sender][number] = true
            end
        end
        for i = 1, senders do assert(#arrived[i] == count, 'lost') end
        timer:cancel()
        return #channel
        """

    @Test func eachValueArrivesOnceAndInItsSendersOrder() throws {
        let rounds = TestLength.isQuick || TestLength.isShort ? 6 : 40
        for _ in 0..<rounds {
            let seed = UInt64.random(in: 0...UInt64(UInt32.max))
            var random = SeededGenerator(seed: seed)
            let senders = Int.random(in: 1...5, using: &random), receivers = Int.random(in: 1...5, using: &random)
            let capacity = Int.random(in: 1...8, using: &random), workers = Int.random(in: 1...4, using: &random)
            let cancels = Int.random(in: 0..<receivers, using: &random)
            let arguments: [LuaValue] = [
                .integer(Int(seed)), .integer(senders), .integer(receivers), .integer(capacity), .integer(TestLength.size(200)),
                .integer(cancels),
            ]
            try withRuntime(workers: workers) { runtime in
                do { #expect(try runtime.run(Self.model, arguments: arguments) == [0]) } catch { Issue.record("seed \(seed): \(error)") }
            }
        }
    }

    // MARK: choosing

    private static let choosing = """
        local seed, senders, receivers, channelCount, capacity, count, cancels, closes = ...
        -- The timer might send, so no stall wakes a waiter that a channel has forgotten.
        local timer = opscript.after(1000, print)
        local channels = {}
        for i = 1, channelCount do channels[i] = opscript.channel { capacity = capacity } end
        -- Their sends never wait, so a stop loses no record.
        local sent, got = opscript.channel { capacity = math.huge }, opscript.channel { capacity = math.huge }
        local function generator(state)
            return function(n)
                state = (state * 6364136223846793005 + 1442695040888963407)
                return (state >> 33) % n
            end
        end
        local function sendOne(random, number, i)
            local way, one, other = random(4), channels[random(#channels) + 1], channels[random(#channels) + 1]
            local which, from, value
            if way == 0 then
                one:send(number, i)
            elseif way == 1 then
                repeat which = opscript.select { { one, number, i }, { other, number, i }, timeout = 0.0001 } until which ~= 'timeout'
            elseif way == 2 then
                opscript.select { { one, number, i }, { other, number, i } }
            else
                repeat
                    which, from, value = opscript.select { give = { one, number, i }, take = other }
                    if which == 'take' then
                        if not from then error 'it is closed' end
                        got:send(from, value, 0, 0)
                    end
                until which == 'give'
            end
        end
        local function send(_, number, seed)
            local random = generator(seed)
            for i = 1, count do
                local isSent, problem = pcall(sendOne, random, number, i)
                if isSent then sent:send(number, i) else assert(problem:find 'it is closed', problem) end
            end
        end
        local function receive(_, me, seed)
            local random = generator(seed)
            if random(3) == 0 then
                for which, number, i in opscript.merge(channels) do got:send(number, i, me, which) end
                return
            end
            local open = table.move(channels, 1, #channels, 1, {})
            while next(open) do
                open.timeout = ({ 0, 0.0001 })[random(4)]
                local which, number, i = opscript.select(open)
                open.timeout = nil
                if number then
                    got:send(number, i, me, which)
                elseif which ~= 'timeout' then
                    assert(i == 'closed')
                    open[which] = nil
                end
            end
        end
        local all, random = {}, generator(seed)
        for i = 1, receivers do all[i] = queue:addOperation(receive, i, seed - i) end
        for i = 1, senders do all[receivers + i] = queue:addOperation(send, i, seed + i) end
        -- The first receiver is left, so each value has a receiver.
        for i = 1, cancels do
            opscript.sleep(random(3) / 10000)
            all[2 + random(#all - 1)]:cancel()
            if i <= closes then channels[i]:close() end
        end
        for i = receivers + 1, #all do all[i]:waitUntilFinished() end
        for _, channel in ipairs(channels) do channel:close() end
        for _, op in ipairs(all) do
            op:waitUntilFinished()
            assert(not op.error or op.error.kind == 'interrupted' and op.isCancelled, op.error)
        end
        sent:close()
        got:close()
        local isSent, arrived, last = {}, {}, {}
        for number, i in sent do isSent[number << 32 | i] = true end
        for number, i, receiver, channel in got do
            local value, order = number << 32 | i, ('%d %d %d'):format(number, receiver, channel)
            assert(isSent[value], 'not sent')
            assert(not arrived[value], 'twice')
            arrived[value] = true
            assert(receiver == 0 or i > (last[order] or 0), 'order')
            last[order] = i
        end
        for value in pairs(isSent) do assert(arrived[value], 'lost') end
        local left = 0
        for _, channel in ipairs(channels) do left = left + #channel end
        timer:cancel()
        return left
        """

    @Test("Random selects, merges, closes and cancels: each value that was sent arrives once, and nothing hangs", arguments: [false, true])
    func choosing(inProcesses: Bool) throws {
        let rounds = inProcesses ? 2 : TestLength.isQuick || TestLength.isShort ? 10 : 60
        for _ in 0..<rounds {
            let seed = UInt64.random(in: 0...UInt64(UInt32.max))
            var random = SeededGenerator(seed: seed)
            let senders = Int.random(in: 1...4, using: &random), receivers = Int.random(in: 1...4, using: &random)
            let channels = Int.random(in: 1...3, using: &random), capacity = Int.random(in: 1...4, using: &random)
            let cancels = Int.random(in: 0...3, using: &random), closes = Int.random(in: 0...min(1, channels - 1), using: &random)
            let workers = Int.random(in: 1...4, using: &random)
            let arguments: [LuaValue] = [
                .integer(Int(seed)), .integer(senders), .integer(receivers), .integer(channels), .integer(capacity),
                .integer(inProcesses ? 20 : TestLength.size(200)), .integer(cancels), .integer(closes),
            ]
            func check(_ runtime: Runtime) {
                do { #expect(try runtime.run(Self.choosing, arguments: arguments) == [0], "seed \(seed)") } catch {
                    Issue.record("seed \(seed): \(error)")
                }
            }
            if inProcesses { try withProcesses(workers: workers) { check($0) } } else { try withRuntime(workers: workers) { check($0) } }
        }
    }
}
