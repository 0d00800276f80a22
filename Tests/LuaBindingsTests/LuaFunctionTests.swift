import LuaBindings
import OpEngine
import TestSupport
import Testing

/// Operations that a host makes from Lua functions.
@Suite struct LuaFunctionTests {
    @Test func operationsCallItWithThemselvesAndTheirArguments() throws {
        try withRuntime { runtime throws in
            let function = try runtime.function(
                "local prefix = ... return function(op, a, b) return prefix .. op.name .. a .. b.key, opscript.Operation.current == op end",
                arguments: ["<"])
            let queue = OperationQueue(engine: runtime.engine)
            let operations = (1...50).map { number in
                let operation = LuaOperation(function, arguments: [.integer(number), .table(["key": ">"])])
                operation.name = "op"
                return operation
            }
            queue.addOperations(operations, waitUntilFinished: true)
            for (index, operation) in operations.enumerated() {
                #expect(try runtime.results(of: operation) == [.string("<op\(index + 1)>"), true])
            }
        }
    }

    /// Neither another call nor the main state sees what a call changes.
    @Test func everyCallHasWhatTheFunctionCapturedAsItWas() throws {
        try withRuntime { runtime throws in
            try runtime.run("n, t = 1, { 1 }")
            let function = try runtime.function(
                "local u = 1; return function() n = n + 1; t[1] = t[1] + 1; u = u + 1; return n, t[1], u end")
            try runtime.run("n, t = 10, { 10 }")
            let queue = OperationQueue(engine: runtime.engine)
            let operations = (1...20).map { _ in LuaOperation(function) }
            queue.addOperations(operations, waitUntilFinished: true)
            for operation in operations { #expect(try runtime.results(of: operation) == [2, 2, 2]) }
            #expect(try runtime.run("return n, t[1]") == [10, 10])
        }
    }

    @Test func whatRunsInsideOfACallDoesNotChangeWhatThatHasCaptured() throws {
        try withRuntime(workers: 1) { runtime throws in
            let function = try runtime.function(
                "local n = 0; return function(op, by, other) n = n + by; if other then other:start() end; return n end")
            let inner = LuaOperation(function, arguments: [5])
            let middle = LuaOperation(function, arguments: [7, .operation(inner)])
            let outer = LuaOperation(function, arguments: [9, .operation(middle)])
            let last = LuaOperation(function, arguments: [11])
            OperationQueue(engine: runtime.engine).addOperations([outer, last], waitUntilFinished: true)
            for (operation, result) in [(last, 11), (outer, 9), (middle, 7), (inner, 5)] {
                #expect(try runtime.results(of: operation) == [.integer(result)])
            }
        }
    }

    /// Functions that a body leaves in the state share the variables that the body captured.
    @Test func whatACallHasLeftBehindKeepsWhatThatHasCaptured() throws {
        try withRuntime(workers: 1) { runtime throws in
            let function = try runtime.function(
                """
                local n = 0
                return function(op, by, other)
                    n = n + by
                    other.completionBlock = function() other.seen = n end
                end
                """)
            let queue = OperationQueue(engine: runtime.engine)
            let others = try (1...4).map { _ in try runtime.operation("return Operation.new(function() end)") }
            let calls = others.enumerated().map { LuaOperation(function, arguments: [.integer($0 + 1), .operation($1)]) }
            queue.addOperations(calls, waitUntilFinished: true)
            queue.addOperations(others, waitUntilFinished: true)
            for (index, other) in others.enumerated() {
                let read = LuaOperation(
                    try runtime.function("return function(op, other) other:waitUntilFinished() return other.seen end"),
                    arguments: [.operation(other)])
                queue.addOperation(read)
                #expect(try runtime.results(of: read) == [.integer(index + 1)])
            }
        }
    }

    /// Lua keeps a second copy of a variadic function on the stack, where `debug.getlocal` finds it.
    @Test func whoKeepsTheFunctionThatRunsKeepsWhatItHasCaptured() throws {
        try script(
            workers: 1,
            """
            local function run(body)
                local o = queue:addOperation(body)
                o:waitUntilFinished()
                return o.result
            end
            opscript.prelude(function()
                local kept
                local function keep(f) if type(f) == 'function' and debug.getupvalue(f, 1) == 'n' then kept = kept or f end end
                function string.look() for l = 1, 9 do for i = 1, 9 do keep(select(3, pcall(debug.getlocal, l, i))) end end end
                function string.seen() return select(2, debug.getupvalue(kept, 1)) end
            end)
            local function make(n) return function(...) (''):look() return n end end
            assert(run(make(10)) == 10 and run(make(20)) == 20)
            assert(run(function() return (''):seen() end) == 10)
            """)
    }

    @Test func operationsMayBeMadeOnAnyThread() throws {
        try withRuntime { runtime throws in
            let function = try runtime.function("return function(_, i) return i * i end")
            let made = Log<(Int, LuaOperation)>()
            let queue = OperationQueue(engine: runtime.engine)
            let threads = (1...4).map { thread in
                TestThread {
                    for number in 0..<100 {
                        let operation = LuaOperation(function, arguments: [.integer(thread * 1000 + number)])
                        made.append((thread * 1000 + number, operation))
                        queue.addOperation(operation)
                    }
                }
            }
            for thread in threads { thread.join() }
            for (number, operation) in made.entries { #expect(try runtime.results(of: operation) == [.integer(number * number)]) }
        }
    }

    @Test func whatARaisedErrorSaysIsTheOperations() throws {
        try withRuntime { runtime throws in
            let function = try runtime.function("return function(_, text) error(text) end", name: "=host")
            let operation = LuaOperation(function, arguments: ["bang"])
            OperationQueue(engine: runtime.engine).addOperation(operation)
            let error = #expect(throws: OperationFailure.self) { try runtime.results(of: operation) }
            #expect(error?.message == "host:1: bang")
        }
    }

    @Test func itRunsOnTheMainQueueAndByHandToo() throws {
        try withRuntime { runtime throws in
            let function = try runtime.function("return function(_, x) return x end")
            let (queued, started) = (LuaOperation(function, arguments: [1]), LuaOperation(function, arguments: [2]))
            runtime.engine.mainQueue.addOperation(queued)
            started.start()
            #expect(try runtime.results(of: queued) == [1])
            #expect(try runtime.results(of: started) == [2])
        }
    }

    /// A script receives the operation like any other.
    @Test func scriptsMayAddThemAndReadWhatTheyReturn() throws {
        try withRuntime { runtime throws in
            let function = try runtime.function("return function(_, x) return x + 1 end")
            try runtime.register("make") { arguments in [.operation(LuaOperation(function, arguments: arguments))] }
            let source = "local o = make(41); queue:addOperation(o); o:waitUntilFinished(); return o.result"
            #expect(try runtime.run(source) == [42])
            let inside = try runtime.operation("return queue:addOperation(function() \(source) end)")
            #expect(try runtime.results(of: inside) == [42])
        }
    }

    @Test func whatCannotBeAFunctionIsRefused() throws {
        try withRuntime { runtime throws in
            for source in ["return 1", "", "return print, print"] {
                let error = #expect(throws: LuaError.self) { try runtime.function(source, name: "=test") }
                #expect(error?.message == "'test' must return one function")
            }
            let unnamed = #expect(throws: LuaError.self) { try runtime.function("return 1", name: "return 1") }
            #expect(unnamed?.message == "'script' must return one function")
            let coroutine = "local c = coroutine.create(print) return function() return c end"
            let error = #expect(throws: LuaError.self) { try runtime.function(coroutine) }
            #expect(error?.message.hasPrefix("cannot send upvalue 'c' (a coroutine) of function") == true)
            #expect(throws: LuaError.self) { try runtime.function("return function(") }
            // A C function can be sent when it has a name.
            let operation = LuaOperation(try runtime.function("return math.type"), arguments: [])
            OperationQueue(engine: runtime.engine).addOperation(operation)
            #expect(try runtime.results(of: operation) == [.nil])
        }
    }

    @Test func argumentsAreLetGoOfWhenTheBodyHasRun() throws {
        try withRuntime(workers: 1) { runtime throws in
            let function = try runtime.function("return function() end")
            let queue = OperationQueue(engine: runtime.engine)
            weak var circle: LuaOperation?
            do {
                let first = LuaOperation(function)
                let second = LuaOperation(function, arguments: [.operation(first)])
                first.addDependency(second)
                circle = first
                queue.addOperations([first, second], waitUntilFinished: true)
            }
            // The worker's state had a handle of the operation.
            let collect = LuaOperation(try runtime.function("return function() collectgarbage() collectgarbage() end"))
            queue.addOperations([collect], waitUntilFinished: true)
            #expect(circle == nil)
        }
    }

    @Test func onAQueueOfAnotherEngineItSaysWhereItCanRun() throws {
        try withRuntime { runtime throws in
            let operation = LuaOperation(try runtime.function("return function() end"))
            OperationQueue().addOperation(operation)
            operation.waitUntilFinished()
            let error = #expect(throws: OperationFailure.self) { try runtime.results(of: operation) }
            #expect(
                error?.message.hasSuffix(
                    "can run only in a queue of its runtime's engine, or be started while no other thread is inside the runtime") == true)
        }
    }

    @Test func nothingOfItIsLeftWhenTheRuntimeHasClosed() throws {
        weak var operation: LuaOperation?
        try withRuntime { runtime throws in
            let function = try runtime.function("local q = opscript.OperationQueue.new(); return function(op) return op, q end")
            let made = LuaOperation(function, arguments: [.table([1: .operation(LuaOperation(function))])])
            OperationQueue(engine: runtime.engine).addOperation(made)
            _ = try runtime.results(of: made)
            operation = made
        }
        #expect(operation == nil)
    }
}
