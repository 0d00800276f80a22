import LuaBindings
import OpEngine
import Testing

/// How Swift code makes values and looks into them.
@Suite struct LuaValueAccessTests {
    @Test func literalsMakeTables() {
        #expect([1, "two", nil, 4] as LuaValue == .table([1: 1, 2: "two", 4: 4]))
        #expect(["a": 1, "b": nil, 3: true] as LuaValue == .table(["a": 1, 3: true]))
        #expect(nil as LuaValue == .nil)
        let name = "x"
        #expect("is \(name)" as LuaValue == .string("is x"))
        #expect(["twice": 1, "twice": 2] as LuaValue == .table(["twice": 2]))
    }

    @Test func accessorsReturnNilForOtherValues() {
        #expect(LuaValue.integer(3).number == 3.0 && LuaValue.number(3).integer == nil)
        #expect(LuaValue.string("é").bytes == [0xc3, 0xa9] && LuaValue.bytes([0xff]).text == nil && LuaValue.nil.bytes == nil)
        #expect(LuaValue.boolean(true).boolean == true && LuaValue.integer(1).boolean == nil)
        #expect(([1, 2] as LuaValue).array == [1, 2] && ([1: 1, 3: 3] as LuaValue).array == nil && LuaValue.nil.array == nil)
        #expect((["a": 1] as LuaValue).dictionary == ["a": 1] && ([1] as LuaValue).dictionary == nil)
        #expect((["a": 1, "b": 2] as LuaValue).count == 2 && LuaValue.nil.count == 0)
        let queue = OperationQueue()
        #expect(LuaValue.queue(queue).queue === queue && LuaValue.queue(queue).operation == nil && LuaValue.queue(queue).object == nil)
    }

    @Test func subscriptsReadAndWriteFields() {
        var value: LuaValue = nil
        value["list"] = [1, 2]
        value["list"][2] = "two"
        value["new"]["inner"] = true
        #expect(value == ["list": [1, "two"], "new": ["inner": true]])
        value["list"] = nil
        #expect(value.count == 1 && value["list"].isNil && value["new"]["inner"] == true && value["new"]["inner"]["deeper"].isNil)
    }

    @Test func assigningAFieldOfANumberTraps() async {
        await #expect(processExitsWith: .failure) {
            var value: LuaValue = 1
            value["x"] = 2
        }
    }
}
