import LuaBindings
import OpEngine
import Testing

/// When an operation may start.
@Suite struct ReadinessTests {
    @Test func notReadyHoldsAnOperationAndReadyReleasesIt() throws {
        try withRuntime { runtime throws in
            let operation = try runtime.operation(
                """
                held = Operation.new(function() return 'ran' end)
                held.isReady = false
                assert(held.isReady == false)
                queue:addOperation(held)
                queue:addOperation(function() end):waitUntilFinished()
                assert(not held.isFinished and not held.isExecuting)
                return held
                """)
            #expect(!operation.isReady)
            try runtime.run("held.isReady = true")
            #expect(try runtime.results(of: operation) == ["ran"])
        }
    }

    @Test func aWorkerMayReleaseIt() throws {
        try script(
            """
            local held = Operation.new(function() return 'ran' end)
            held.isReady = false
            queue:addOperation(held)
            queue:addOperation(function() held.isReady = true end)
            held:waitUntilFinished()
            assert(held.result == 'ran')
            """)
    }

    @Test func aDependencyThatFailedCancelsWhatNeedsItsSuccess() throws {
        try script(
            """
            local first = Operation.new(function() error 'x' end)
            local second = Operation.new(function() return 'ran' end)
            local third = Operation.new(function() return 'ran' end)
            second.dependencyPolicy = 'succeeded'
            second:addDependency(first)
            third:addDependency(second)
            queue:addOperations({ first, second, third }, true)
            assert(first.error.kind == 'error')
            assert(second.isCancelled and second.error.kind == 'dependency' and second.result == nil, second.error)
            assert(third.result == 'ran' and third.error == nil)
            """)
    }

    @Test("The error names the dependency that has cancelled the operation, whatever fails later")
    func theErrorStays() throws {
        try script(
            """
            local gate = opscript.channel()
            local late = Operation.new { name = 'late', main = function() gate:receive() error 'late' end }
            local early = Operation.new { name = 'early', main = function() error 'early' end }
            local strict = Operation.new { name = 'strict', main = print, dependencies = { late, early }, dependencyPolicy = 'succeeded' }
            queue:addOperations({ late, early, strict }, false)
            strict:waitUntilFinished()
            local message = "'strict' was cancelled because 'early', which it depends on, did not succeed"
            assert(strict.error.message == message, strict.error)
            gate:send(1)
            late:waitUntilFinished()
            assert(late.error.kind == 'error' and early.error.kind == 'error' and strict.error.message == message, strict.error)
            """)
    }

    @Test func aDependencyThatSucceededDoesNot() throws {
        try script(
            """
            local first = Operation.new(function() return 1 end)
            local second = Operation.new { main = function() return first.result + 1 end, dependencies = { first }, dependencyPolicy = 'succeeded' }
            queue:addOperations({ second, first }, true)
            assert(second.result == 2)
            """)
    }

    @Test func aCycleIsAnErrorThatNamesIt() throws {
        try withRuntime { runtime throws in
            let error = #expect(throws: LuaError.self) {
                try runtime.run(
                    """
                    local a, b = Operation.new(print), Operation.new(print)
                    a.name, b.name = 'a', 'b'
                    a:addDependency(b)
                    b:addDependency(a)
                    """)
            }
            #expect(error?.message.contains("dependency cycle") == true)
        }
    }

    @Test func aSecondAddIsAnErrorThatLeavesTheOperation() throws {
        try script(
            """
            local o = Operation.new(function() return 1 end)
            queue:addOperation(o)
            local ok, message = pcall(queue.addOperation, queue, o)
            assert(not ok, message)
            o:waitUntilFinished()
            assert(not pcall(queue.addOperation, queue, o) and o.result == 1)
            assert(not pcall(o.start, o))
            """)
    }
}
