import LuaBindings
import OpEngine
import TestSupport
import Testing

/// Calls that a task awaits.
struct AwaitingTests {
    /// Makes a runtime with the function `pass`, which tells that a script has come here, and closes it afterwards.
    private func withRuntime(_ body: (Runtime, AsyncGate) async throws -> Void) async throws {
        let (runtime, passed) = (try Runtime(), AsyncGate())
        try await runtime.perform { runtime in
            try runtime.register("pass") { _ in
                passed.open()
                return []
            }
        }
        try await body(runtime, passed)
        #expect(runtime.close(deadline: .seconds(30)) == [])
    }

    @Test func callsReturnWhatTheOnesThatBlockReturn() async throws {
        try await withRuntime { runtime, _ async throws in
            #expect(try await runtime.run("return ..., 2", arguments: [1]) == [1, 2])
            let operation = try #require(
                try await runtime.run("return opscript.OperationQueue.new():addOperation(function() return 6 * 7 end)")[0].operation)
            #expect(try await runtime.results(of: operation) == [42])
            #expect(try await runtime.evaluate("6 * 7", as: Int.self) == 42)
            #expect(try await runtime.evaluate("{ 1, x = 2 }")["x"] == 2)
            #expect(try await runtime.perform { try $0.global("nothing") } == .nil)
            #expect(try await runtime.finish().stuckOperations == [])
            let error = await #expect(throws: LuaError.self) { try await runtime.run("error('no', 0)") }
            #expect(error?.message == "no")
            await #expect(throws: LuaError.self) { try await runtime.run(file: "/no/such/file") }
        }
    }

    private actor Host {
        private(set) var isOpen = false
        func open() { isOpen = true }

        /// Suspends in a script that ends only when this actor runs something else.
        func run(_ runtime: Runtime) async throws -> Bool {
            isOpen = false
            try await runtime.run("wait()")
            return isOpen
        }
    }

    @Test func anAwaitedCallLeavesItsActorFree() async throws {
        try await withRuntime { runtime, _ async throws in
            let (host, begun, goOn) = (Host(), AsyncGate(), Gate())
            try await runtime.perform { runtime in
                try runtime.register("wait") { _ in
                    begun.open()
                    goOn.wait()
                    return []
                }
            }
            async let wasOpen = host.run(runtime)
            await begun.wait()
            await host.open()
            goOn.open()
            #expect(try await wasOpen)
        }
    }

    /// The calls of many tasks are made one after the other.
    @Test func callsWaitForTheirTurn() async throws {
        try await withRuntime { runtime, _ async throws in
            try await runtime.run("n, inside = 0, false")
            try await withThrowingTaskGroup { group in
                for _ in 1...50 {
                    group.addTask {
                        try await runtime.run("assert(not inside); inside = true; opscript.sleep(0); n = n + 1; inside = false")
                    }
                }
                try await group.waitForAll()
            }
            #expect(try await runtime.run("return n") == [50])
        }
    }

    @Test func anAwaitedCallWaitsForTheThreadInside() async throws {
        try await withRuntime { runtime, _ async throws in
            let (inside, goOn, added) = (AsyncGate(), Gate(), Locked(false))
            let thread = TestThread {
                runtime.enter {
                    inside.open()
                    goOn.wait()
                    added.withLock { $0 = true }
                }
            }
            await inside.wait()
            async let values = runtime.perform { _ in added.withLock { $0 } }
            goOn.open()
            #expect(try await values)
            thread.join()
        }
    }

    /// A host whose loop is told that there is something to drain does not disturb the call, which drains itself.
    @Test func aDrainDuringAnAwaitedCallDoesNothing() async throws {
        try await withRuntime { runtime, _ async throws in
            let (begun, goOn) = (AsyncGate(), Gate())
            try await runtime.perform { runtime in
                try runtime.register("wait") { _ in
                    begun.open()
                    goOn.wait()
                    return []
                }
            }
            var wakes = runtime.wakes().makeAsyncIterator()
            async let values = runtime.run("opscript.OperationQueue.main:addOperation(function() ran = true end); wait(); return ran")
            await begun.wait()
            await wakes.next()
            #expect(try !runtime.drain())
            goOn.open()
            #expect(try await values == [.nil])
            // Announced again when the call had left.
            await wakes.next()
            try runtime.drain()
            #expect(try await runtime.run("return ran") == [true])
        }
    }

    // MARK: cancelling

    private static let endless = [
        "a loop": "pass() while true do end",
        "a protected loop": "while true do pcall(function() pass() while true do end end) end",
        "a sleep": "pass() opscript.sleep(1e6)",
        "a wait":
            "opscript.after(1e6, pass); local o = opscript.Operation.new { asynchronous = true, main = function() pass() end }; o:start(); o:waitUntilFinished()",
        "a wait in a coroutine": "coroutine.wrap(function() pass() opscript.sleep(1e6) end)()",
        "an operation started by hand": "opscript.Operation.new(function() pass() while not stop() do end end):start() while true do end",
        "a program": "local p = opscript.process { 'sleep', '1000' }; pass(); p:wait()",
    ]

    @Test("Cancelling a task stops its script", arguments: endless.keys.sorted())
    func cancelling(name: String) async throws {
        try await withRuntime { runtime, passed async throws in
            let stops = Locked(false)
            try await runtime.perform { runtime in
                try runtime.register("stop") { _ in [.boolean(stops.withLock { $0 })] }
            }
            let source = Self.endless[name]!
            let task = Task { try await runtime.run(source) }
            await passed.wait()
            task.cancel()
            stops.withLock { $0 = true }
            await #expect(throws: CancellationError.self) { try await task.value }
            // The runtime can be used as before.
            #expect(try await runtime.run("return 1 + 1") == [2])
            #expect(try await runtime.run("opscript.sleep(0); return opscript.OperationQueue.current ~= nil") == [true])
        }
    }

    @Test func aCancelledTaskMakesNoCall() async throws {
        try await withRuntime { runtime, _ async throws in
            let task = Task {
                unsafe withUnsafeCurrentTask { unsafe $0?.cancel() }
                try await runtime.run("ran = true")
            }
            await #expect(throws: CancellationError.self) { try await task.value }
            #expect(try await runtime.run("return ran") == [.nil])
        }
    }

    @Test func aCallThatWaitsForItsTurnIsCancelled() async throws {
        try await withRuntime { runtime, passed async throws in
            let first = Task { try await runtime.run("pass() opscript.sleep(1e6)") }
            await passed.wait()
            let second = Task { try await runtime.run("ran = true") }
            second.cancel()
            await #expect(throws: CancellationError.self) { try await second.value }
            first.cancel()
            await #expect(throws: CancellationError.self) { try await first.value }
            #expect(try await runtime.run("return ran") == [.nil])
        }
    }

    /// Operations of other code on the main queue are not stopped with the call that happens to wait there.
    @Test func cancellingACallSparesWhatRunsMeanwhile() async throws {
        try await withRuntime { runtime, passed async throws in
            let goOn = Gate()
            try await runtime.perform { runtime in
                try runtime.register("goOn") { _ in
                    goOn.wait()
                    return []
                }
            }
            let task = Task {
                try await runtime.run(
                    """
                    local o = opscript.Operation.new(function() pass() goOn() for i = 1, 1e5 do end opscript.sleep(0) done = true end)
                    opscript.OperationQueue.main:addOperation(o)
                    opscript.sleep(1e6)
                    """)
            }
            await passed.wait()
            task.cancel()
            goOn.open()
            await #expect(throws: CancellationError.self) { try await task.value }
            #expect(try await runtime.run("return done") == [true])
        }
    }

    /// Neither is what the call drains. A drain that would not end does.
    @Test func cancellingADrainSparesWhatRunsInIt() async throws {
        try await withRuntime { runtime, passed async throws in
            try await runtime.run(
                """
                ran = 0
                local function again()
                    pass()
                    for i = 1, 1e4 do end
                    ran = ran + 1
                    opscript.OperationQueue.main:addOperation(again)
                end
                opscript.OperationQueue.main:addOperation(again)
                """)
            let task = Task { try await runtime.perform { try $0.drain() } }
            await passed.wait()
            task.cancel()
            #expect(try await task.value)
            #expect(try await runtime.run("return ran > 0") == [true])
            #expect(runtime.takeUnreadFailures().isEmpty)
        }
    }

    @Test func cancellingAWaitLeavesTheOperation() async throws {
        try await withRuntime { runtime, passed async throws in
            // Without the timer, nothing could end the wait but cancelling, and that would be the error.
            let values = try await runtime.run(
                """
                timer = opscript.after(1e6, pass)
                o = opscript.Operation.new { asynchronous = true, main = function() pass() end }
                opscript.OperationQueue.new():addOperation(o)
                return o
                """)
            let operation = try #require(values[0].operation)
            await passed.wait()
            let wait = Task { try await runtime.results(of: operation) }
            wait.cancel()
            await #expect(throws: CancellationError.self) { try await wait.value }
            #expect(!operation.isFinished && !operation.isCancelled)
            try await runtime.run("o:finish(5)")
            #expect(try await runtime.results(of: operation) == [5])
        }
    }

    /// An awaited script may catch the lack of memory, as others may.
    @Test func aLackOfMemoryIsAnErrorAsInOtherScripts() async throws {
        var configuration = Runtime.Configuration()
        configuration.stateMemoryLimit = 8 << 20
        let runtime = try Runtime(configuration)
        #expect(try await runtime.run("return pcall(string.rep, 'x', 1 << 26)") == [false, "not enough memory"])
        runtime.close()
    }

    // MARK: closing

    @Test func closingStopsAwaitedCalls() async throws {
        let (runtime, passed) = (try Runtime(), AsyncGate())
        try await runtime.perform { runtime in
            try runtime.register("pass") { _ in
                passed.open()
                return []
            }
        }
        let running = Task { try await runtime.run("pass() while true do end") }
        await passed.wait()
        let waiting = Task { try await runtime.run("return 1") }
        #expect(await Task.detached { runtime.close() }.value == [])
        for task in [running, waiting] {
            let error = await #expect(throws: LuaError.self) { try await task.value }
            #expect(error?.message == "the runtime is closed")
        }
        let error = await #expect(throws: LuaError.self) { try await runtime.run("return 1") }
        #expect(error?.message == "the runtime is closed")
    }
}
