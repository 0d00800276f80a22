import Dispatch
import Glibc
import LuaBindings
import OpEngine
import TestSupport
import Testing

/// One thread at a time is inside the main state; which one does not matter.
struct EnteringTests {
    /// A script with everything that the thread inside has to deliver. Returns twice the number of its runs.
    private static let work = """
        count = (count or 0) + 1
        local queue, main = opscript.OperationQueue.new(), opscript.OperationQueue.main
        local body = opscript.Operation.new(function(op, n) return 2 * n end, count)
        local delivered
        body.completionBlock = function() delivered = true end
        queue:addOperation(body)
        local onMain = opscript.Operation.new(function() return body.result end)
        onMain:addDependency(body)
        main:addOperation(onMain)
        onMain:waitUntilFinished()
        opscript.sleep(0)
        local timed
        opscript.after(0, function() timed = true end)
        while not (timed and delivered) do opscript.sleep(0.001) end
        assert(opscript.OperationQueue.current == main)
        return onMain.result
        """

    @Test func threadsTakeTurns() throws {
        let runtime = try Runtime()
        for number in 1...8 {
            TestThread {
                do { #expect(try runtime.run(Self.work) == [.integer(2 * number)]) } catch { Issue.record(error) }
            }.join()
        }
        TestThread { #expect(runtime.close() == []) }.join()
        #expect(throws: LuaError.self) { try runtime.run("return 1") }
    }

    /// The objects of a script live on when another thread enters: timers, completion blocks, observers, a suspended main queue.
    @Test func whatOneThreadStartedAnotherFinishes() throws {
        let runtime = try Runtime()
        defer { runtime.close() }
        TestThread {
            do {
                try runtime.run(
                    """
                    local queue = opscript.OperationQueue.new()
                    log = {}
                    opscript.OperationQueue.main:addOperation(function() log[#log + 1] = 'main' end)
                    local last = opscript.Operation.new(function() end)
                    last:observe('isFinished', function() log[#log + 1] = 'observed' end)
                    last.completionBlock = function() log[#log + 1] = 'completed' end
                    queue:addOperation(last)
                    opscript.after(0.001, function() log[#log + 1] = 'timer' end)
                    """)
            } catch { Issue.record(error) }
        }.join()
        let ending = try runtime.finish()
        #expect(ending.stuckOperations == [] && ending.callbackErrorCount == 0)
        #expect(try runtime.run("table.sort(log) return table.concat(log, ' ')") == ["completed main observed timer"])
    }

    private actor Host {
        private let runtime: Runtime

        init() throws { runtime = try Runtime() }

        func run(_ source: String) throws -> [LuaValue] { try runtime.enter { try runtime.run(source) } }
        func close() -> [String] { runtime.close() }
    }

    @Test func anActorUsesARuntime() async throws {
        let host = try Host()
        for number in 1...20 {
            #expect(try await host.run(Self.work) == [.integer(2 * number)])
            await Task.yield()
        }
        #expect(await host.close() == [])
        #expect(await host.close() == [])
    }

    @MainActor @Test func theMainActorUsesARuntime() async throws {
        let runtime = try Runtime()
        for number in 1...20 {
            #expect(try runtime.enter { try runtime.run(Self.work) } == [.integer(2 * number)])
            await Task.yield()
        }
        #expect(runtime.close() == [])
    }

    @Test func aSerialDispatchQueueUsesARuntime() throws {
        let queue = DispatchQueue(label: "scripts")
        let runtime = try queue.sync { try Runtime() }
        let ended = Gate()
        for number in 1...20 {
            queue.async {
                do { #expect(try runtime.run(Self.work) == [.integer(2 * number)]) } catch { Issue.record(error) }
                ended.open()
            }
        }
        ended.wait(20)
        #expect(queue.sync { runtime.close() } == [])
    }

    /// A signal finds no thread to stop, and a request for an end neither.
    @Test func whatComesWhileNobodyIsInsideConcernsTheNextCall() async {
        await #expect(processExitsWith: .success) {
            let runtime = try Runtime()
            try runtime.catchInterrupts()
            kill(getpid(), SIGINT)
            runtime.enter {
                while runtime.lastInterrupt == nil {}
                let error = #expect(throws: LuaError.self) { try runtime.run("while true do end") }
                #expect(error?.message.hasSuffix("interrupted!") == true)
            }
            runtime.requestExit(3, after: 0)
            while runtime.requestedExitStatus == nil {}
            runtime.enter {
                let error = #expect(throws: LuaError.self) { try runtime.run("while true do end") }
                #expect(error?.message.hasSuffix("interrupted") == true)
            }
            runtime.close()
        }
    }

    @Test func aHostFunctionCallsTheRuntimeAgain() throws {
        try withRuntime { runtime throws in
            try runtime.register("again") { arguments in
                try runtime.enter { try runtime.run("return ... + 1", arguments: arguments) }
            }
            #expect(try runtime.run("return again(again(1))") == [3])
        }
    }

    @Test func twoRuntimesNestOnOneThread() throws {
        try withRuntime { outer throws in
            try withRuntime { inner throws in
                try outer.register("inner") { try inner.run("return outer(...)", arguments: $0) }
                try outer.run("function wait(o) o:waitUntilFinished() return o.result end")
                try inner.register("outer") { arguments in
                    try outer.run("return (...) + wait(queue:addOperation(function() return 1 end))", arguments: arguments)
                }
                #expect(try outer.run("return inner(41)") == [42])
            }
        }
    }

    /// The host starts an operation whose function is still in the script.
    @Test func anOperationThatTheHostStartsEntersTheMainState() throws {
        try withRuntime { runtime throws in
            let operation = try runtime.operation(
                "seen = {}; return Operation.new(function() seen[1] = OperationQueue.current == nil; return 7 end)")
            TestThread { operation.start() }.join()
            #expect(try runtime.results(of: operation) == [7])
        }
    }

    @Test func anOperationThatTheHostStartsFailsWhileAnotherThreadIsInside() throws {
        try withRuntime { runtime throws in
            let operation = try runtime.operation("return Operation.new(function() return 7 end)")
            runtime.enter { TestThread { operation.start() }.join() }
            let failure = #expect(throws: OperationFailure.self) { try runtime.results(of: operation) }
            #expect(failure?.message.contains("while no other thread is inside the runtime") == true)
        }
    }

    @Test func theInboxOfARuntimeIsEnteredToo() throws {
        try withRuntime { runtime throws in
            try runtime.run("OperationQueue.main:addOperation(function() ran = true end)")
            TestThread { _ = runtime.engine.mainInbox.drain() }.join()
            #expect(try runtime.run("return ran") == [true])
        }
    }

    // MARK: misuse

    @Test func twoThreadsAtOnceAreRefused() async throws {
        let outcome = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            let runtime = try Runtime()
            let (inside, never) = (Gate(), Gate(seconds: 600))
            try runtime.enter {
                try runtime.register("stay") { _ in
                    inside.open()
                    never.wait()
                    return []
                }
            }
            let stays = TestThread { _ = try? runtime.run("stay()") }
            inside.wait()
            TestThread { _ = try? runtime.setGlobal("x", to: 1) }.join()
            stays.join()
        }
        let message = String(decoding: try #require(outcome).standardErrorContent, as: UTF8.self)
        #expect(message.contains("calls run(_:name:arguments:) while thread"), "\(message)")
        #expect(message.contains("is inside run(_:name:arguments:): one thread at a time may use a Runtime"), "\(message)")
        #expect(message.contains("Use it in one actor or serial queue, or guard it with a lock"), "\(message)")
    }

    @Test func aDrainDuringACallIsRefused() async throws {
        let outcome = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            let runtime = try Runtime()
            runtime.enter { TestThread { _ = try? runtime.drain() }.join() }
        }
        let message = String(decoding: try #require(outcome).standardErrorContent, as: UTF8.self)
        #expect(message.contains("calls drain(limit:for:) while thread"), "\(message)")
        #expect(message.contains("is inside enter(_:)"), "\(message)")
    }

    @Test func aCallDuringAnAwaitedOneIsRefused() async throws {
        let outcome = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            let (runtime, begun, never) = (try Runtime(), AsyncGate(), Gate(seconds: 600))
            async let result: Void = runtime.perform { _ in
                begun.open()
                never.wait()
            }
            await begun.wait()
            try runtime.enter { try runtime.setGlobal("x", to: 1) }
            try await result
        }
        let message = String(decoding: try #require(outcome).standardErrorContent, as: UTF8.self)
        #expect(message.contains("is inside perform(_:)"), "\(message)")
        #expect(message.contains("while a call is awaited, await the others as well"), "\(message)")
    }

    @Test func anOperationThatCallsItsRuntimeIsRefused() async throws {
        let outcome = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            let runtime = try Runtime()
            let called = Gate()
            try runtime.enter {
                try runtime.register("call") { _ in
                    called.open()
                    return try runtime.enter { try runtime.run("return 1") }
                }
                try runtime.run("opscript.OperationQueue.new():addOperation(function() call() end)")
            }
            called.wait()
            // The process ends before this gate opens.
            Gate(seconds: 60).wait()
        }
        let message = String(decoding: try #require(outcome).standardErrorContent, as: UTF8.self)
        #expect(message.contains("an operation calls the Runtime that runs it"), "\(message)")
    }

    // MARK: closing

    @Test func closingInsideACallIsRefused() async throws {
        let outcome = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            let runtime = try Runtime()
            try runtime.enter {
                try runtime.register("close") { _ in
                    runtime.close()
                    return []
                }
                try runtime.run("close()")
            }
        }
        let message = String(decoding: try #require(outcome).standardErrorContent, as: UTF8.self)
        #expect(message.contains("a call closes the Runtime that it is inside: close it when the call has returned"), "\(message)")
    }

    /// A runtime that a first `close` has not closed, because a thread is inside until `leave` is called.
    private func runtimeWithThreadInside() throws -> (runtime: Runtime, leave: () -> Void, thread: TestThread) {
        let runtime = try Runtime()
        let (inside, goOn) = (Gate(), Gate())
        let thread = TestThread {
            runtime.enter {
                inside.open()
                goOn.wait()
            }
        }
        inside.wait()
        #expect(runtime.close(deadline: .zero) == ["a call of enter(_:)"])
        return (runtime, { goOn.open() }, thread)
    }

    @Test func closingWaitsForTheThreadInside() throws {
        let (runtime, leave, thread) = try runtimeWithThreadInside()
        leave()
        #expect(runtime.close() == [])
        thread.join()
    }

    @Test func aRuntimeThatCouldNotBeClosedTakesAwaitedCalls() async throws {
        let (runtime, leave, thread) = try runtimeWithThreadInside()
        leave()
        thread.join()
        try await runtime.run("x = 1")
        #expect(runtime.close() == [])
    }

    @Test func timesInThePastAreOver() throws {
        let runtime = try Runtime()
        try runtime.run("opscript.every(1000, print); q = opscript.OperationQueue.new() q:addOperation(function() while true do end end)")
        runtime.requestExit(3, after: -1)
        #expect(runtime.close(deadline: .zero).count <= 1)
        #expect(try Runtime().close(deadline: .seconds(-1)) == [])
    }

    @Test func severalThreadsMayCloseAtOnce() throws {
        for _ in 1...20 {
            let runtime = try Runtime()
            try runtime.run("opscript.every(1000, print); opscript.OperationQueue.new():addOperation(function() end)")
            let threads = (1...4).map { _ in TestThread { #expect(runtime.close() == []) } }
            for thread in threads { thread.join() }
        }
    }

    /// The last reference may go on any thread.
    @Test func aRuntimeThatNobodyHoldsIsClosedOnAnyThread() throws {
        let (collected, last) = (Locked(0), Locked<Runtime?>(nil))
        TestThread {
            do {
                let runtime = try Runtime()
                try runtime.register("count") { _ in
                    collected.withLock { $0 += 1 }
                    return []
                }
                try runtime.run("kept = setmetatable({}, { __gc = function() count() end })")
                last.withLock { $0 = runtime }
            } catch { Issue.record(error) }
        }.join()
        TestThread { withExtendedLifetime(last.withLock { $0.take() }) {} }.join()
        #expect(collected.withLock { $0 } == 1)
    }
}
