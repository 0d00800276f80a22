import Glibc
import LuaBindings
import OpEngine
import TestLimits
import TestSupport
import Testing

/// Work that waits for the main state: how a host learns of it, and runs it.
struct PendingTests {
    private static let threeOperations = """
        ran = 0
        for i = 1, 3 do opscript.OperationQueue.main:addOperation(function() ran = ran + 1 end) end
        """

    @Test func aDrainWithACountRunsAsMany() throws {
        try withRuntime { runtime throws in
            try runtime.run(Self.threeOperations)
            for left in [true, true, false] { #expect(try runtime.drain(limit: 1) == left) }
            #expect(try runtime.run("return ran") == [3])
            #expect(try !runtime.drain(limit: 1))
        }
    }

    @Test func aDrainWithoutTimeRunsNothingAndWithAnyTimeOneOperation() throws {
        try withRuntime { runtime throws in
            try runtime.run(Self.threeOperations)
            #expect(try runtime.drain(limit: 0))
            #expect(try runtime.run("return ran") == [0])
            #expect(try runtime.drain(for: .zero))
            #expect(try runtime.run("return ran") == [1])
            #expect(try !runtime.drain(for: .seconds(1000)))
            #expect(try runtime.run("return ran") == [3])
        }
    }

    /// An operation that adds the next one never ends a drain without a limit.
    @Test func aLimitEndsADrainThatWouldNotEnd() throws {
        try withRuntime { runtime throws in
            try runtime.run(
                "ran = 0; local function again() ran = ran + 1; OperationQueue.main:addOperation(again) end; OperationQueue.main:addOperation(again)"
            )
            #expect(try runtime.drain(limit: 100))
            #expect(try runtime.run("return ran") == [100])
            #expect(try runtime.drain(for: .milliseconds(1)))
        }
    }

    /// One job of the inbox runs many completion blocks, and each of them counts.
    @Test func completionBlocksCount() throws {
        try withRuntime { runtime throws in
            let last = try runtime.operation(
                """
                ran = 0
                queue.maxConcurrentOperationCount = 1
                for i = 1, 10 do
                    local o = Operation.new(function() end)
                    o.completionBlock = function() ran = ran + 1 end
                    queue:addOperation(o)
                end
                return queue:addOperation(function() end)
                """)
            // Outside of the runtime, so that nothing is delivered.
            last.waitUntilFinished()
            var ran = 0
            while ran < 10 {
                try runtime.drain(limit: 3)
                let now = try runtime.run("return ran")[0].integer ?? 0
                #expect(now - ran <= 3)
                ran = now
            }
        }
    }

    /// A callback that waits is not held up by the limit.
    @Test func aLimitDoesNotConcernWhatACallbackWaitsFor() throws {
        try withRuntime { runtime throws in
            try runtime.run(
                """
                opscript.OperationQueue.main:addOperation(function()
                    local o = Operation.new(function() end)
                    local completed
                    o.completionBlock = function() completed = true end
                    queue:addOperation(o)
                    while not completed do opscript.sleep(0.001) end
                    done = true
                end)
                """)
            try runtime.drain(limit: 1)
            #expect(try runtime.run("return done") == [true])
        }
    }

    // MARK: announcements

    private func isReadable(_ descriptor: Int32, milliseconds: Int32) -> Bool {
        var watched = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        return unsafe poll(&watched, 1, milliseconds) == 1
    }

    @Test func theDescriptorIsReadableWhileSomethingWaits() throws {
        try withRuntime { runtime throws in
            let descriptor = runtime.wakeDescriptor
            #expect(!isReadable(descriptor, milliseconds: 0))
            try runtime.run("opscript.after(0.001, function() fired = true end)")
            #expect(isReadable(descriptor, milliseconds: 60_000))
            try runtime.drain()
            #expect(!isReadable(descriptor, milliseconds: 0))
            #expect(try runtime.run("return fired") == [true])
            try runtime.run(Self.threeOperations)
            try runtime.drain(limit: 1)
            #expect(isReadable(descriptor, milliseconds: 0))
            try runtime.drain()
            #expect(!isReadable(descriptor, milliseconds: 0))
        }
    }

    @Test func theHookIsCalledOnceUntilADrain() throws {
        try withRuntime { runtime throws in
            let calls = Locked(0)
            try runtime.run(Self.threeOperations)
            runtime.onWake = { calls.withLock { $0 += 1 } }
            #expect(calls.withLock { $0 } == 1)
            try runtime.drain()
            #expect(calls.withLock { $0 } == 1)
            try runtime.run(Self.threeOperations)
            #expect(calls.withLock { $0 } == 2)
        }
    }

    @Test func aSequenceDeliversWithoutAWait() async throws {
        let runtime = try Runtime()
        let fired = AsyncGate()
        try await runtime.perform { runtime in
            try runtime.register("fire") { _ in
                fired.open()
                return []
            }
        }
        let loop = Task {
            var count = 0
            for await _ in runtime.wakes() {
                try runtime.drain()
                count += 1
            }
            return count
        }
        try await runtime.run("opscript.after(0.001, fire); opscript.OperationQueue.main:addOperation(fire)")
        for _ in 1...2 { await fired.wait() }
        runtime.close()
        // Closing ends the sequence.
        #expect(try await loop.value > 0)
        for await _ in runtime.wakes() { Issue.record("a closed runtime announced something") }
    }

    @Test(.endsWithin(seconds: 300)) func severalSequencesAndAHookHearOfTheSame() async throws {
        let runtime = try Runtime()
        let called = AsyncGate()
        var (first, second) = (runtime.wakes().makeAsyncIterator(), runtime.wakes().makeAsyncIterator())
        runtime.onWake = { called.open() }
        try await runtime.perform { runtime in _ = runtime.engine.mainInbox.post {} }
        await first.next()
        await second.next()
        await called.wait()
        runtime.close()
    }
}
