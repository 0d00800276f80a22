import LuaBindings
import OpEngine
import Testing

@Suite struct LuaValueTests {
    @Test(
        arguments: [
            .nil, true, false, 0, .integer(.max), .integer(.min), 1.5, .number(-.infinity), "", "text\0with zero", "ünïcödé",
            .bytes([0xff, 0, 0xfe]),
            .table([:]), .array([1, "two", true]), .table(["a": .table(["b": .array([])]), 1.5: 2, true: false]),
        ] as [LuaValue])
    func valuesGoInAndOutAsTheyAre(_ value: LuaValue) throws {
        try withRuntime { runtime throws in
            #expect(try runtime.run("return ...", arguments: [value]) == [value])
            #expect(try runtime.run("return { ... }", arguments: [value]) == [value == .nil ? .table([:]) : .array([value])])
        }
    }

    @Test func integersAndFloatsStayApart() throws {
        try withRuntime { runtime throws in
            #expect(try runtime.run("return 1, 1.0, math.type(...)", arguments: [.number(2)]) == [.integer(1), .number(1), "float"])
        }
    }

    @Test func notANumberArrives() throws {
        try withRuntime { runtime throws in
            #expect(try runtime.run("return ... ~= ..., math.type(...)", arguments: [.number(.nan)]) == [true, "float"])
            let value = try #require(try runtime.run("return 0/0").first)
            #expect(value != value)
        }
    }

    @Test func keysThatLuaHasNotAreLeftOut() throws {
        try withRuntime { runtime throws in
            #expect(try runtime.run("return next(...)", arguments: [.table([.nil: 1, .number(.nan): 2])]) == [.nil])
        }
    }

    @Test func functionsAndUserdataAreNamed() throws {
        try withRuntime { runtime throws in
            #expect(
                try runtime.run("return print, io.stdout, coroutine.create(print)") == [
                    .other("function"), .other("userdata"), .other("thread"),
                ])
        }
    }

    @Test func operationsAndQueuesAreThemselves() throws {
        try withRuntime { runtime throws in
            let queue = OperationQueue(engine: runtime.engine)
            queue.name = "host's"
            let operation = BlockOperation {}
            let values = try runtime.run(
                "local q, o = ...; return q, o, q.name, o.isFinished", arguments: [.queue(queue), .operation(operation)])
            #expect(values == [.queue(queue), .operation(operation), "host's", false])
        }
    }

    @Test func aTableThatContainsItselfIsAnError() throws {
        try withRuntime { runtime throws in
            let error = #expect(throws: LuaError.self) { try runtime.run("local t = {}; t.t = t; return t") }
            #expect(error?.message == "a table for the host is nested more than 100 deep, or contains itself")
            #expect(try runtime.run("return 1") == [1])
        }
    }

    @Test func manyValuesGoInAndOut() throws {
        try withRuntime { runtime throws in
            let values = (0..<5000).map { LuaValue.integer($0) }
            #expect(try runtime.run("return ...", arguments: values) == values)
        }
    }
}
