import LuaBindings
import OpEngine
import TestLimits
import TestSupport
import Testing

/// Channels that the host sends to and receives from.
@Suite(.endsWithin(seconds: 60)) struct ChannelHostTests {
    private func withHostRuntime(_ body: (Runtime) throws -> Void) throws {
        var configuration = Runtime.Configuration()
        configuration.workerCount = 2
        configuration.hostMayAddOperations = true
        let runtime = try Runtime(configuration)
        defer { #expect(runtime.close(deadline: .seconds(30)).isEmpty) }
        try runtime.run("queue = opscript.OperationQueue.new 'test'")
        try body(runtime)
    }

    @Test func aThreadOfTheHostFeedsAScript() throws {
        try withHostRuntime { runtime in
            let channel = Channel(capacity: 4, name: "host", in: runtime)
            try runtime.setGlobal("channel", to: .object(channel))
            TestSupport.startThread {
                for number in 1...100 { while (try? channel.trySend(.integer(number), ["n": .integer(number)])) == false {} }
                channel.close()
            }
            #expect(
                try runtime.run(
                    """
                    local sum = 0
                    while true do
                        local x, t = channel:receive()
                        if x == nil then return sum, t, tostring(channel) end
                        assert(t.n == x)
                        sum = sum + x
                    end
                    """) == [5050, "closed", "Channel 'host' (0 of 4, closed)"])
            #expect(throws: LuaError.self) { try channel.trySend(1) }
        }
    }

    @Test func aTaskReceivesWhatOperationsSend() throws {
        try withHostRuntime { runtime in
            let channel = try #require(
                try runtime.run(
                    """
                    local channel = opscript.channel { capacity = 2 }
                    queue:addOperation(function()
                        for i = 1, 20 do channel:send({ i }) end
                        channel:close()
                    end)
                    return channel
                    """
                ).first?.object as? Channel)
            runTask {
                var sum = 0
                for try await value in channel { sum += value[1].integer ?? 0 }
                #expect(sum == 210)
                #expect(try await channel.receive() == nil)
            }
        }
    }

    @Test func aTaskWaitsForRoom() throws {
        try withHostRuntime { runtime in
            let channel = Channel(capacity: 1, in: runtime)
            try runtime.setGlobal("channel", to: .object(channel))
            try runtime.run("op = queue:addOperation(function() local sum = 0 for x in channel do sum = sum + x end return sum end)")
            runTask {
                for number in 1...20 { try await channel.send(.integer(number)) }
                channel.close()
                await #expect(throws: LuaError.self) { try await channel.send(1) }
                await #expect(throws: LuaError.self) { try await channel.send(.nil) }
            }
            #expect(try runtime.results(of: try #require(try runtime.global("op").operation)) == [210])
        }
    }

    @Test func cancellingATaskEndsItsWait() throws {
        try withHostRuntime { runtime in
            let channel = Channel(in: runtime)
            runTask {
                // A child task runs on the threads of this one.
                await #expect(throws: CancellationError.self) {
                    try await withThrowingTaskGroup(of: [LuaValue]?.self) { group in
                        group.addTask { try await channel.receive() }
                        group.cancelAll()
                        _ = try await group.next()
                    }
                }
                try await channel.send("kept")
                #expect(try await channel.receive() == ["kept"])
            }
        }
    }

    @Test func insideTheRuntimeTheHostNeedNotWait() throws {
        try withHostRuntime { runtime in
            let channel = Channel(in: runtime)
            #expect(try channel.tryReceive() == nil)
            #expect(try channel.trySend("a", 2))
            #expect(try channel.tryReceive() == ["a", 2])
            try runtime.setGlobal("channel", to: .object(channel))
            try runtime.run("channel:send { x = { 1, 2 } } channel:send(opscript.freeze { y = { 3 } })")
            #expect(channel.count == 2)
            #expect(try channel.tryReceive() == [["x": [1, 2]]])
            #expect(try channel.tryReceive() == [["y": [3]]])
        }
    }

    @Test func closingTheRuntimeEndsTheWaitOfATask() throws {
        let channel = Locked<Channel?>(nil)
        try withHostRuntime { runtime in channel.withLock { $0 = Channel(in: runtime) } }
        runTask {
            let closed = try #require(channel.withLock { $0 })
            #expect(try await closed.receive() == nil)
        }
    }
}
