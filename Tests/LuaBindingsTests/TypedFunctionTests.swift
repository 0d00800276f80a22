import LuaBindings
import OpEngine
import TestSupport
import Testing

/// Host functions with typed parameters.
@Suite struct TypedFunctionTests {
    private struct Order: Codable, LuaConvertible {
        var item: String
        var count: Int
    }

    private struct Percent: LuaConvertible {
        let value: Double
        static func fromLua(_ value: LuaValue) throws -> Percent {
            guard let text = value.text, text.hasSuffix("%"), let number = Double(text.dropLast()) else {
                throw LuaError.mismatch(expected: "a percentage", found: value)
            }
            return Percent(value: number)
        }
        func toLua() -> LuaValue { .string("\(value)%") }
    }

    @Test func parametersAndResultsHaveTypes() throws {
        try withRuntime { runtime throws in
            try runtime.register("price") { (name: String, count: Int) in name == "apple" ? 3 * count : 4 * count }
            try runtime.register("half") { (x: Double) in x / 2 }
            try runtime.register("isEmpty") { (list: [Int]) in list.isEmpty }
            try runtime.register("greet") { (name: String?) in "hello \(name ?? "you")" }
            try runtime.register("order") { (order: Order) in Order(item: order.item + "s", count: order.count + 1) }
            try runtime.register("invert") { (names: [String: Int]) -> [Int: String] in
                [Int: String](uniqueKeysWithValues: names.map { ($0.value, $0.key) })
            }
            try runtime.register("double") { (percent: Percent) in Percent(value: percent.value * 2) }
            try runtime.register("nothing") { (_: Bool) in }
            try runtime.register("five") { 5 }
            try runtime.register("bytes") { (bytes: [UInt8]) in bytes.reversed() as [UInt8] }
            try runtime.register("any") { (value: LuaValue) in value["x"] }
            #expect(try runtime.run("return price('apple', 2), price('pear', 2.0), half(3)") == [6, 8, 1.5])
            #expect(
                try runtime.run("return isEmpty {}, isEmpty { 1 }, greet(), greet(nil), greet 'x'") == [
                    true, false, "hello you", "hello you", "hello x",
                ])
            #expect(try runtime.run("local o = order { item = 'pear', count = 1 }; return o.item, o.count") == ["pears", 2])
            #expect(
                try runtime.run("return invert { a = 1, b = 7 }, double '20%', five(), any { x = 'y' }") == [
                    [1: "a", 7: "b"], "40.0%", 5, "y",
                ])
            #expect(try runtime.run("return select('#', nothing(true)), bytes '\\1\\255'") == [0, .bytes([255, 1])])
        }
    }

    @Test func anArgumentThatDoesNotFitIsNamed() throws {
        try withRuntime { runtime throws in
            try runtime.register("price") { (_: String, count: Int) in count }
            try runtime.register("order") { (order: Order, _: [[Double]]?) in order.count }
            try runtime.register("double") { (percent: Percent) in percent }
            try runtime.register("small") { (byte: UInt8) in Int(byte) }
            for (call, message) in [
                ("price('a')", "bad argument #2 to 'price' (number expected, got no value)"),
                ("price('a', 'b')", "bad argument #2 to 'price' (number expected, got string)"),
                ("price('a', 1.5)", "bad argument #2 to 'price' (number has no integer representation)"),
                ("price('\\255', 1)", "bad argument #1 to 'price' (UTF-8 text expected)"),
                ("price(nil, 1)", "bad argument #1 to 'price' (string expected, got nil)"),
                ("order { item = 'x', count = 'y' }", "bad argument #1 to 'order' (count: expected a number, found \"y\")"),
                (
                    "order({ item = 'x', count = 1 }, { { 1 }, { 2, 'z' } })",
                    "bad argument #2 to 'order' ([2][2]: expected a number, found \"z\")"
                ),
                ("double '20'", "bad argument #1 to 'double' (expected a percentage, found \"20\")"),
                ("small(256)", "bad argument #1 to 'small' (expected an integer from 0 to 255, found 256)"),
            ] {
                #expect(try runtime.run("return select(2, pcall(function() return (\(call)) end))") == [.string("script:1: \(message)")])
            }
        }
    }

    @Test func workersCallThemAtOnce() throws {
        try withRuntime(workers: 4) { runtime throws in
            try runtime.register("add") { (a: Int, b: Int) in a + b }
            let values = try runtime.run(
                """
                local all = {}
                for i = 1, 50 do all[i] = queue:addOperation(function() local s = 0 for j = 1, 500 do s = add(s, j) end return s end) end
                queue:waitUntilAllOperationsAreFinished()
                for i = 1, 50 do assert(all[i].result == 125250) end
                return #all
                """)
            #expect(values == [50])
        }
    }

    @Test func aDirectFunctionReadsWhatItNeeds() throws {
        try withRuntime { runtime throws in
            try runtime.registerDirect("look") { call in
                try call.push(call.argumentCount)
                try call.push(call.elementCount(ofTableAt: 1))
                try call.push(call.element(2, ofTableAt: 1))
                try call.push(call.field("name", ofTableAt: 1))
                try call.push(unsafe call.withBytes(at: 2) { $0.count })
                try call.push(call.isNil(at: 3))
                try call.push(call.value(at: 99))
                try call.push(call.decode([Int].self, at: 4).count)
                try call.push(encoding: ["a": 1.5])
            }
            #expect(
                try runtime.run("return look({ 'a', 'b', name = 'n' }, 'four', nil, { 1, 2 })")
                    == [4, 2, "b", "n", 4, true, nil, 2, ["a": 1.5]])
            try runtime.registerDirect("many") { call in for index in 1...1000 { try call.push(index) } }
            #expect(try runtime.run("return select('#', many())") == [1000])
            try runtime.registerDirect("pushAndFail") { call in
                try call.push("x")
                _ = try call.integer(at: 5)
            }
            #expect(
                try runtime.run("return pcall(function() pushAndFail(1) end)")
                    == [false, "script:1: bad argument #5 to 'pushAndFail' (number expected, got no value)"])
        }
    }

    @Test func resultsAreNotReadAsArguments() throws {
        try withRuntime { runtime throws in
            try runtime.registerDirect("f") { call in
                try call.push(7)
                try call.push(call.value(at: 2))
            }
            #expect(try runtime.run("return f(1)") == [7, nil])
        }
    }
}
