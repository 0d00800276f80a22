import LuaBindings
import OpEngine
import TestSupport
import Testing

/// Random senders and receivers against what a channel promises: each value arrives once, and those of a sender in their order.
@Suite struct ChannelRandomTests {
    private static let model = """
        local seed, senders, receivers, capacity, count, cancels = ...
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
}
