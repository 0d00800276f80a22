import LuaBindings
import OpEngine
import Testing

/// Values as Lua source.
@Suite struct LuaLiteralTests {
    @Test(
        arguments: [
            .nil, true, false, 0, -7, .integer(.max), .integer(.min), 1.5, -0.0, 1e100, .number(.leastNonzeroMagnitude), .number(.infinity),
            .number(-.infinity),
            "", "plain", "a \"quote\" and a \\", "lines\n\tand\0zero\u{7f}\u{1b}[0m", "ünïcödé 🙂", .bytes([0xff, 0, 0x22, 0xfe, 0x41]),
            [:], [1, 2, 3], ["a": 1, "b c": 2, "end": 3, "_x1": 4, "1x": 5], [1.5: "x", true: "y", -1: "z"],
            ["list": [1, ["deep": [true, "x"]]], "empty": []],
        ] as [LuaValue])
    func aDescriptionEvaluatesToTheValue(_ value: LuaValue) throws {
        try withRuntime { runtime throws in #expect(try runtime.evaluate(value.description) == value, "\(value)") }
    }

    @Test func theOrderIsFixedAndReadable() {
        let value: LuaValue = ["name": "x", 1: "first", 2: "second", "and": 1, 10: true, 1.5: false]
        #expect(value.description == #"{"first", "second", [1.5] = false, [10] = true, ["and"] = 1, name = "x"}"#)
    }

    @Test func whatIsNoLiteralIsNilWithAComment() throws {
        let operation = BlockOperation {}
        operation.name = "a ]] b"
        let value: LuaValue = [.operation(operation), .other("function")]
        #expect(value.description == "{nil --[['a | b']], nil --[[function]]}")
        try withRuntime { runtime throws in #expect(try runtime.evaluate(value.description) == LuaValue.table([:])) }
    }

    @Test func notANumberIsOneAgain() throws {
        try withRuntime { runtime throws in
            let value = try runtime.evaluate(LuaValue.number(.nan).description)
            #expect(value.number?.isNaN == true)
        }
    }

    @Test func tablesDeeperThanLuaAllowsAreCutOff() throws {
        var value: LuaValue = 1
        for _ in 0..<1000 { value = [value] }
        #expect(value.description.contains("{nil --[[a table, too deep to print]]}"))
        try withRuntime { runtime throws in #expect(try runtime.run("return #\(value)") == [1]) }
    }

    @Test func theDebugDescriptionOfALargeValueIsShort() {
        let rows = LuaValue.array((0..<100_000).map { .integer($0) })
        #expect(rows.debugDescription.hasPrefix("{0, 1, 2, 3") && rows.debugDescription.hasSuffix("…"))
        #expect(rows.debugDescription.utf8.count < 1100)
        #expect(LuaValue.string(String(repeating: "x", count: 1_000_000)).debugDescription.utf8.count < 1100)
        #expect(LuaValue.array([1, 2]).debugDescription == "{1, 2}")
    }
}
