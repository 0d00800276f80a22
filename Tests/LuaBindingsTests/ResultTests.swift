import LuaBindings
import OpEngine
import TestSupport
import Testing

/// The results of an operation, as a host reads them.
@Suite struct ResultTests {
    @Test func valuesOfEveryTypeArrive() throws {
        try withRuntime { runtime throws in
            let operation = try runtime.operation(
                "return queue:addOperation(function(op, x) return x, nil, 1.5, { a = { true } }, 'text', op end, 'argument')")
            #expect(
                try runtime.results(of: operation) == ["argument", .nil, 1.5, .table(["a": .array([true])]), "text", .operation(operation)])
        }
    }

    /// Short results are stored differently until the operation has to store something else.
    @Test(arguments: [
        "", "nil", "true", "1", "-1", "(1 << 27) - 1", "1 << 27", "1 << 62", "1.5", "''", "'abc'", "'abcd'", "1, 2", "1, 2, 3", "nil, nil",
        "nil, nil, nil, nil, nil, nil", "{ 1 }", "('x'):rep(100)",
    ])
    func resultsOfAnyLengthStay(_ values: String) throws {
        try withRuntime { runtime throws in
            let operation = LuaOperation(try runtime.function("return function() return \(values) end"))
            OperationQueue(engine: runtime.engine).addOperation(operation)
            let expected = try runtime.run("return \(values)")
            #expect(try runtime.results(of: operation) == expected)
            try runtime.run("local operation = ...; operation.note = 1", arguments: [.operation(operation)])
            #expect(try runtime.results(of: operation) == expected)
        }
    }

    @Test func aFailureIsThrownWithAllItsParts() throws {
        try withRuntime { runtime throws in
            let operation = try runtime.operation(
                """
                local operation = Operation.new(function() error { code = 7 } end)
                operation.name = 'broken'
                queue:addOperation(operation)
                return operation
                """)
            let failure = try #require(#expect(throws: OperationFailure.self) { try runtime.results(of: operation) })
            #expect(failure.message == "(error object is a table value)" && failure.kind == .error && failure.operationName == "broken")
            #expect(failure.operation === operation && failure.isRead)
            #expect(
                failure.traceback.hasPrefix("stack traceback:\n\t[C]: in function 'error'\n\tscript:1: in function <script:1>"),
                "\(failure.traceback)")
            #expect(!failure.traceback.contains("in ?"))
        }
    }

    @Test func anOperationCancelledBeforeItStartedHasNone() throws {
        try withRuntime { runtime throws in
            let operation = try runtime.operation(
                "local o = Operation.new(function() return 1 end); o:cancel(); queue:addOperation(o); return o")
            #expect(try runtime.results(of: operation) == [])
        }
    }

    @Test func aWaitThatNothingCanEndIsAnError() throws {
        try withRuntime { runtime throws in
            let operation = try runtime.operation("local o = Operation.new(function() end); o.name = 'lonely'; return o")
            let error = #expect(throws: LuaError.self) { try runtime.results(of: operation) }
            #expect(error?.message == "this wait can never end: 'lonely' was never added to a queue")
        }
    }

    @Test func operationsOfTheHostAreAwaited() throws {
        try withRuntime { runtime throws in
            struct Refusal: Error {}
            let queue = OperationQueue(engine: runtime.engine)
            let log = Log<String>()
            let first = BlockOperation { log.append("first") }
            let second = BlockOperation { throw Refusal() }
            queue.addOperations([first, second], waitUntilFinished: false)
            #expect(try runtime.results(of: first) == [] && log.entries == ["first"])
            #expect(throws: Refusal.self) { try runtime.results(of: second) }
        }
    }

    @Test func whatCannotBeSentBackIsTheOperationsError() throws {
        try withRuntime { runtime throws in
            let operation = try runtime.operation("return queue:addOperation(function() return 1, { handle = io.tmpfile() } end)")
            let failure = #expect(throws: OperationFailure.self) { try runtime.results(of: operation) }
            #expect(failure?.message == "cannot send result 2.handle (a userdata); open it inside the body")
        }
    }

    @Test func scriptsReadOneTableAgainAndAgain() throws {
        try script(
            """
            local o = queue:addOperation(function() return { 1 }, nil, 'three', nil end)
            assert(o.result == nil or o.isFinished)
            o:waitUntilFinished()
            assert(o.result == o.result and o.result == o.results[1] and o.result[1] == 1)
            assert(o.results.n == 4 and o.results[3] == 'three' and o.results == o.results)
            local void = queue:addOperation(function() end)
            void:waitUntilFinished()
            assert(void.result == nil and void.results.n == 0)
            """)
    }

    @Test func functionsComeBackAndKeepTheirUpvalues() throws {
        try script(
            """
            local o = queue:addOperation(function() local n = 0; return function() n = n + 1; return n end end)
            o:waitUntilFinished()
            assert(o.result() == 1 and o.result() == 2)
            """)
    }

    /// The operation stores a few bytes itself; a parcel holds longer results.
    @Test func resultsOfEverySizeArriveAndCanBeReadMoreThanOnce() throws {
        try withRuntime { runtime throws in
            let text = try runtime.function("return function(_, n) return ('x'):rep(n) end")
            let nils = try runtime.function("return function(_, n) return table.unpack({}, 1, n) end")
            let queue = OperationQueue(engine: runtime.engine)
            let operations = (0...40).map {
                [LuaOperation(text, arguments: [.integer($0)]), LuaOperation(nils, arguments: [.integer($0)])]
            }
            queue.addOperations(operations.joined().map { $0 }, waitUntilFinished: true)
            for (count, operations) in operations.enumerated() {
                for _ in 1...2 {
                    #expect(try runtime.results(of: operations[0]) == [.string(String(repeating: "x", count: count))])
                    #expect(try runtime.results(of: operations[1]) == Array(repeating: .nil, count: count))
                }
            }
        }
    }
}
