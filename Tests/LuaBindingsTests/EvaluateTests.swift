import LuaBindings
import OpEngine
import Testing

/// Evaluating to Swift values, and calling functions of scripts with them.
@Suite struct EvaluateTests {
    private struct Row: Codable, Equatable {
        var name: String
        var price: Double
        var tags: [String]?
    }

    @Test func expressionsAndScriptsHaveValues() throws {
        try withRuntime { runtime throws in
            let n: Int = try runtime.evaluate("1 + 1")
            let prices: [String: [Double]] = try runtime.evaluate("return { apple = { 1, 2.5 } }")
            let rows: [Row] = try runtime.evaluate("{ { name = 'a', price = 1 }, { name = 'b', price = 2, tags = { 'x' }, more = 1 } }")
            #expect(n == 2 && prices == ["apple": [1, 2.5]])
            #expect(rows == [Row(name: "a", price: 1), Row(name: "b", price: 2, tags: ["x"])])
            #expect(try runtime.evaluate("local x = ...; return x * 2", arguments: [21]) == 42)
            #expect(try runtime.evaluate("nothing", as: Int?.self) == nil)
            let value = try runtime.evaluate("{ 1 }")
            #expect(value == [1])
        }
    }

    @Test func aValueThatDoesNotFitNamesTheWayToIt() throws {
        try withRuntime { runtime throws in
            struct Shop: Decodable { let rows: [Row] }
            let good = "{ name = 'a', price = 1 }"
            let error = #expect(throws: LuaError.self) {
                try runtime.evaluate("{ rows = { \(good), \(good), { name = 'c', price = 'abc' } } }", as: Shop.self)
            }
            #expect(error?.message == #"rows[3].price: expected a number, found "abc""#)
            #expect(error?.kind == .conversion(path: "rows[3].price"))
            let missing = #expect(throws: LuaError.self) { try runtime.evaluate("{ rows = { { price = 1 } } }", as: Shop.self) }
            #expect(missing?.message == "rows[1].name: expected a string, found nil")
            let cases: [(String, String)] = [
                ("{ a = 300 }", "a: expected an integer from 0 to 255, found 300"), ("{ a = 1.5 }", "a: expected an integer, found 1.5"),
                ("{ a = {} }", "a: expected a number, found a table"), ("{ a = print }", "a: expected a number, found a function"),
            ]
            for (source, message) in cases {
                let error = #expect(throws: LuaError.self) { try runtime.evaluate(source, as: [String: UInt8].self) }
                #expect(error?.message == message)
            }
            for (source, key) in [("{ x = 1 }", #""x""#), ("{ 1, 2, x = 1 }", #""x""#), ("{ 1, nil, 3 }", "3"), ("{ [0] = 1 }", "0")] {
                let list = #expect(throws: LuaError.self) { try runtime.evaluate(source, as: [Int].self) }
                #expect(list?.message == "expected an array, found a table with the key \(key)")
            }
        }
    }

    @Test func functionsOfScriptsAreCalledWithSwiftValues() throws {
        try withRuntime { runtime throws in
            try runtime.run(
                """
                shop = { tax = {} }
                function shop.tax.total(row, rate) return row.price * (1 + rate), row.name end
                function count(...) return select('#', ...) end
                """)
            let total: Double = try runtime.call("shop.tax.total", Row(name: "a", price: 100), 0.5)
            #expect(total == 150)
            #expect(try runtime.call("shop.tax.total", Row(name: "a", price: 1), 0) == [1.0, "a"] as [LuaValue])
            #expect(try runtime.call("string.format", "%d-%s", 7, "x", as: String.self) == "7-x")
            #expect(try runtime.call("count", as: Int.self) == 0)
            #expect(try runtime.call("count", Int?.none, true, as: Int.self) == 2)
            let queue = OperationQueue(engine: runtime.engine)
            #expect(try runtime.call("rawequal", LuaValue.queue(queue), LuaValue.queue(queue)) == [true] as [LuaValue])
        }
    }

    @Test func aFunctionThatIsNotThereIsAnError() throws {
        try withRuntime { runtime throws in
            let deep = #expect(throws: LuaError.self) { try runtime.call("nowhere.at.all") }
            #expect(deep?.message == "there is no 'nowhere.at.all'")
            let error = #expect(throws: LuaError.self) { try runtime.call("nothing", 1) }
            #expect(error?.message.hasPrefix("attempt to call a nil value") == true)
            #expect(try runtime.evaluate("1") == 1)
        }
    }
}
