import LuaBindings
import OpEngine
import Synchronization
import TestSupport
import Testing

/// A host ends one run, or all that one user does.
@Suite struct GroupTests {
    /// Calls `cancel` as soon as the script that `body` runs has called `begun`.
    private func cancelling(_ group: Runtime.Group, of runtime: Runtime, during body: () throws -> Void) throws {
        let begun = Gate()
        try runtime.register("begun") { _ in
            begun.open()
            return []
        }
        let thread = TestThread {
            begun.wait()
            group.cancel()
        }
        try body()
        thread.join()
    }

    @Test(arguments: [
        "begun() while true do end",
        "begun() while true do pcall(function() while true do end end) end",
        "begun() opscript.sleep(1000)",
        "local op = opscript.Operation.new(); begun() op:waitUntilFinished(1000)",
        "opscript.Operation.new(function() begun() while true do end end):start() while true do end",
        "local op = opscript.Operation.new(function() begun() opscript.sleep(1000) end); op:start() while true do end",
        "OperationQueue.main:addOperation(function() begun() while true do end end):waitUntilFinished()",
        "opscript.after(0, function() begun() while true do end end); opscript.sleep(1000)",
        """
        local op = opscript.Operation.new(function() end)
        op.completionBlock = function() begun() while true do end end
        queue:addOperation(op)
        queue:waitUntilAllOperationsAreFinished()
        """,
        """
        local op = opscript.Operation.new(function() end)
        op:observe("isFinished", function() begun() while true do end end)
        queue:addOperation(op):waitUntilFinished()
        opscript.sleep(1000)
        """,
        "queue:addOperation(function() begun() while true do end end):waitUntilFinished()",
        "coroutine.wrap(function() begun() while true do end end)()",
    ]) func cancellingStopsWhateverTheScriptDoes(script: String) throws {
        try withRuntime { runtime throws in
            let group = Runtime.Group(of: runtime)
            try cancelling(group, of: runtime) {
                #expect(throws: CancellationError.self) { try runtime.enter(in: group) { try runtime.run(script) } }
            }
            #expect(group.isCancelled)
            // The runtime itself goes on.
            #expect(
                try runtime.run("local op = queue:addOperation(function() return 7 end); op:waitUntilFinished(); return op.result") == [7])
            #expect(try runtime.finish().callbackErrorCount == 0)
        }
    }

    /// Each of these starts something that would start more for ever.
    @Test(arguments: [
        "function again() queue:addOperation(function() count() again() end) end again()",
        "opscript.every(0.001, count)",
        "function again() opscript.after(0.001, function() count() again() end) end again()",
        """
        function again()
            local op = opscript.Operation.new(function() end)
            op.completionBlock = function() count() again() end
            queue:addOperation(op)
        end
        again()
        """,
        "function again() OperationQueue.main:addOperation(function() count() again() end) end again()",
        "function again() opscript.process { '/bin/true', onExit = function() count() again() end } end again()",
        "queue:addOperation(function() for _ = 1, 5 do count() end opscript.every(0.001, count) while true do end end)",
        "queue:addOperation(function() opscript.every(0.001, count) opscript.process { '/bin/sleep', '1000' } end)",
    ]) func cancellingEndsWhatTheRunHasStarted(script: String) throws {
        try withRuntime { runtime throws in
            let counted = Gate()
            try runtime.register("count") { _ in
                counted.open()
                return []
            }
            let user = Runtime.Group(of: runtime), run = Runtime.Group(in: user)
            let thread = TestThread {
                counted.wait(5)
                user.cancel()
            }
            #expect(throws: CancellationError.self) {
                try runtime.enter(in: run) {
                    try runtime.run("OperationQueue = opscript.OperationQueue " + script + " opscript.sleep(1000)")
                }
            }
            thread.join()
            // Ends only if nothing is left.
            let ending = try runtime.finish()
            #expect(ending.stuckOperations.isEmpty && ending.unreadFailures.isEmpty && ending.callbackErrorCount == 0)
            #expect(run.isCancelled && run.unfinishedOperations().isEmpty)
        }
    }

    @Test func onlyTheGroupEnds() throws {
        try withRuntime(workers: 3) { runtime throws in
            let alice = Runtime.Group(of: runtime), first = Runtime.Group(in: alice), second = Runtime.Group(in: alice)
            let bob = Runtime.Group(of: runtime)
            let script = """
                local name = ...
                _G[name] = queue:addOperation(function(op) while not op.isCancelled and not done() do end return name end)
                """
            let done = Locked(false)
            try runtime.register("done") { _ in [.boolean(done.withLock { $0 })] }
            for (group, name) in [(first, "first"), (second, "second"), (bob, "bob")] as [(Runtime.Group, LuaValue)] {
                try runtime.enter(in: group) { try runtime.run(script, arguments: [name]) }
                #expect(group.unfinishedOperations().count == 1)
            }
            #expect(alice.unfinishedOperations().count == 2)
            first.cancel()
            #expect(
                try runtime.run("first:waitUntilFinished() return first.isCancelled, second.isCancelled, bob.isCancelled")
                    == [true, false, false])
            #expect(!alice.isCancelled && !second.isCancelled)
            alice.cancel()
            #expect(try runtime.run("second:waitUntilFinished() return second.isCancelled, bob.isCancelled") == [true, false])
            done.withLock { $0 = true }
            #expect(try runtime.run("bob:waitUntilFinished() return bob.result") == ["bob"])
        }
    }

    @Test func whatStartsLaterEndsAtOnce() async throws {
        let runtime = try Runtime()
        let group = Runtime.Group(of: runtime)
        let function = try await runtime.perform(in: group) { try $0.function("return function() return 1 end") }
        let before = LuaOperation(function)
        group.cancel()
        OperationQueue(engine: runtime.engine).addOperation(before)
        try? await before.finished()
        #expect(before.isCancelled && before.outcome == .cancelled)
        await #expect(throws: CancellationError.self) { try await runtime.perform(in: group) { try $0.run("return 1") } }
        #expect(try await runtime.run("return 1") == [1])
        #expect(runtime.close().isEmpty)
    }

    /// The task and the group may each stop a call.
    @Test func cancellingTheTaskStopsACallInAGroup() async throws {
        let runtime = try Runtime()
        for script in ["begun() while true do end", "begun() opscript.sleep(1000)"] {
            let begun = Gate()
            try await runtime.perform { runtime in
                try runtime.register("begun") { _ in
                    begun.open()
                    return []
                }
            }
            let group = Runtime.Group(of: runtime)
            let task = Task { try await runtime.perform(in: group) { try $0.run(script) } }
            await Task.detached { begun.wait() }.value
            task.cancel()
            await #expect(throws: CancellationError.self) { try await task.value }
            #expect(!group.isCancelled)
        }
        #expect(runtime.close().isEmpty)
    }

    // MARK: closing

    @Test(arguments: ["while true do end", "opscript.sleep(1000)", "opscript.Operation.new():waitUntilFinished(1000)"])
    func closingStopsAScriptThatIsInside(script: String) throws {
        let runtime = try Runtime()
        let begun = Gate()
        try runtime.register("begun") { _ in
            begun.open()
            return []
        }
        let thread = TestThread {
            let error = #expect(throws: LuaError.self) { try runtime.run("begun() " + script) }
            #expect(error?.message.hasSuffix("interrupted") == true, "\(error?.message ?? "")")
        }
        begun.wait()
        #expect(runtime.close(deadline: .seconds(2)) == [])
        thread.join()
    }

    @Test func closingStopsBodiesThatDoNotCheck() throws {
        let runtime = try Runtime()
        let begun = Gate()
        try runtime.register("begun") { _ in
            begun.open()
            return []
        }
        let operation = try runtime.operation(
            """
            local queue = opscript.OperationQueue.new()
            local op = queue:addOperation(function() begun() while true do end end)
            queue:addOperation(function() begun() opscript.sleep(1000) end)
            return op
            """)
        begun.wait(2)
        #expect(runtime.close(deadline: .seconds(2)) == [])
        #expect(operation.isFinished && operation.outcome == .cancelled)
    }

    @Test func closingStopsCallbacksOnWorkersAndEndsTheirThreads() throws {
        let runtime = try Runtime()
        let begun = Gate(), isStateClosed = Atomic(false)
        try runtime.register("begun") { _ in
            begun.open()
            return []
        }
        try runtime.register("closed") { _ in
            isStateClosed.store(true, ordering: .releasing)
            return []
        }
        try runtime.run(
            """
            opscript.OperationQueue.new():addOperation(function()
                kept = setmetatable({}, { __gc = closed })
                local inner = opscript.Operation.new(function() end)
                inner.completionBlock = function() begun() while true do pcall(error) end end
                opscript.OperationQueue.new():addOperation(inner)
            end)
            """)
        begun.wait()
        #expect(runtime.close(deadline: .seconds(4)) == [])
        let isClosed = isStateClosed.load(ordering: .acquiring)
        #expect(isClosed)
    }

    @Test("Closing stops callbacks in the main state", arguments: [nil, 0.1])
    func closingStopsCallbacksInTheMainState(runSeconds: Double?) throws {
        let reports = Log<String>()
        var configuration = Runtime.Configuration()
        configuration.limits.runSeconds = runSeconds
        configuration.errorOutput = { reports.append(String(decoding: $0, as: UTF8.self)) }
        let runtime = try Runtime(configuration)
        // They run when `close` looks for the last time what has come.
        for _ in 0..<2 {
            try runtime.run(
                """
                local op = opscript.Operation.new(function() end)
                op.completionBlock = function() while true do pcall(string.rep, 'x', 10) end end
                local other = opscript.Operation.new(function() end)
                other.completionBlock = function() while true do string.find(('a'):rep(100), ('a*'):rep(30) .. 'b') end end
                opscript.OperationQueue.new():addOperations({ op, other }, false)
                """)
        }
        #expect(runtime.close(deadline: .seconds(2)) == [])
        #expect(!reports.entries.isEmpty)
    }
}
