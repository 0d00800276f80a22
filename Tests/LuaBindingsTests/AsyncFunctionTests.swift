import LuaBindings
import OpEngine
import TestSupport
import Testing

/// Asynchronous functions of the host.
@Suite struct AsyncFunctionTests {
    private struct Refusal: Error, CustomStringConvertible { let description = "refused" }

    @Test func scriptsCallThemLikeOthers() throws {
        try withRuntime { runtime throws in
            try runtime.register("later") { (text: String) async throws -> String in
                await Task.yield()
                return text + "!"
            }
            try runtime.register("refuse") { () async throws -> Int in
                await Task.yield()
                throw Refusal()
            }
            try runtime.register("quietly") { (_: Int) async throws -> Void in await Task.yield() }
            #expect(try runtime.run("return later 'a', select('#', quietly(1))") == ["a!", 0])
            #expect(try runtime.run("return pcall(refuse)") == [false, "refused"])
            let operation = try runtime.operation("return queue:addOperation(function() return later(later 'b') end)")
            #expect(try runtime.results(of: operation) == ["b!!"])
        }
    }

    /// Two bodies meet in functions that block no thread, so one worker is enough for both.
    @Test func anotherThreadTakesOverTheWorkersOtherWork() throws {
        try withRuntime(workers: 1) { runtime throws in
            let (stream, meeting) = AsyncStream.makeStream(of: Void.self)
            try runtime.register("wait") { () async throws -> Void in for await _ in stream { return } }
            try runtime.register("meet") { () async throws -> Void in meeting.yield() }
            try runtime.run("queue:addOperation(function() wait() end); queue:addOperation(function() meet() end)")
            let ending = try runtime.finish()
            #expect(ending.unreadFailures.isEmpty && ending.stuckOperations.isEmpty)
        }
    }

    @Test func cancellingTheOperationCancelsTheTask() throws {
        try withRuntime { runtime throws in
            let (began, ended) = (Gate(), Gate())
            let message = Locked("")
            try runtime.register("forever") { () async throws -> Void in
                began.open()
                while !Task.isCancelled { await Task.yield() }
                ended.open()
            }
            try runtime.register("tell") { (text: String) in message.withLock { $0 = text } }
            let operation = try runtime.operation("return queue:addOperation(function() tell(select(2, pcall(forever))) end)")
            began.wait()
            operation.cancel()
            ended.wait()
            _ = try runtime.finish()
            #expect(operation.isCancelled && message.withLock { $0 } == "CancellationError()")
        }
    }

    @Test func aTimeLimitEndsTheCall() throws {
        try withRuntime { runtime throws in
            try runtime.register("forever") { () async throws -> Void in while !Task.isCancelled { await Task.yield() } }
            let operation = try runtime.operation(
                "local o = Operation.new(function() pcall(forever) end); o.timeout = 0.05; queue:addOperation(o); return o")
            let failure = #expect(throws: OperationFailure.self) { try runtime.results(of: operation) }
            #expect(failure?.kind == .timeout)
        }
    }

    @Test func closingTheRuntimeEndsTheCall() throws {
        let began = Gate()
        try withRuntime { runtime throws in
            try runtime.register("forever") { () async throws -> Void in
                began.open()
                while !Task.isCancelled { await Task.yield() }
            }
            try runtime.run("queue:addOperation(function() forever() end)")
            began.wait()
        }
    }
}
