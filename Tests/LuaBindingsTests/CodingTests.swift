import Foundation
import LuaBindings
import Testing

@Suite struct CodingTests {
    private enum Colour: String, Codable { case red, blue }
    private enum Shape: Codable, Equatable { case circle(radius: Double), point }
    private struct Everything: Codable, Equatable {
        var flag = true
        var text = "ü"
        var double = 0.1
        var float: Float = 0.5
        var numbers: [Int16] = [-1, 2]
        var big = UInt64(Int.max)
        var byInteger = [3: "c", 7: "g"]
        var byName = ["1": [1.5], "x": []]
        var bytes: [UInt8] = [0xff, 0, 1]
        var missing: String?
        var colour = Colour.blue
        var shapes = [Shape.circle(radius: 2), .point]
        var nested = [["a": Colour.red]]
        var date = Date(timeIntervalSinceReferenceDate: 1.5)
        var value: LuaValue = ["any": [1, true]]
    }

    @Test func whatIsEncodedIsDecodedAgain() throws {
        let value = try LuaEncoder().encode(Everything())
        #expect(try LuaDecoder().decode(Everything.self, from: value) == Everything())
        #expect(
            value["byName"] == ["1": [1.5], "x": []] && value["byInteger"] == [3: "c", 7: "g"] && value["bytes"] == .bytes([0xff, 0, 1]))
        #expect(value["numbers"] == [-1, 2] && value["missing"].isNil && value["colour"] == "blue")
    }

    @Test func itPassesThroughLua() throws {
        try withRuntime { runtime throws in
            let value = try LuaEncoder().encode(Everything())
            let back = try runtime.run("return ...", arguments: [value])
            #expect(try LuaDecoder().decode(Everything.self, from: back[0]) == Everything())
        }
    }

    private class Base: Codable { var a = 1 }
    private final class Derived: Base {
        var b = 2
        override init() { super.init() }
        enum CodingKeys: String, CodingKey { case b }
        required init(from decoder: any Decoder) throws {
            let container = try decoder.container(keyedBy: CodingKeys.self)
            b = try container.decode(Int.self, forKey: .b)
            try super.init(from: container.superDecoder())
        }
        override func encode(to encoder: any Encoder) throws {
            var container = encoder.container(keyedBy: CodingKeys.self)
            try container.encode(b, forKey: .b)
            try super.encode(to: container.superEncoder())
        }
    }

    @Test func superclassesHaveTheirOwnPart() throws {
        let object = Derived()
        (object.a, object.b) = (5, 6)
        let value = try LuaEncoder().encode(object)
        #expect(value == ["b": 6, "super": ["a": 5]])
        let back = try LuaDecoder().decode(Derived.self, from: value)
        #expect(back.a == 5 && back.b == 6)
    }

    @Test func nestedContainersAreDecoded() throws {
        struct Flat: Codable, Equatable {
            var x = 1
            var ys = [1, 2]
            enum Keys: String, CodingKey { case point, list }
            enum Inner: String, CodingKey { case x }
            init() {}
            init(from decoder: any Decoder) throws {
                let container = try decoder.container(keyedBy: Keys.self)
                x = try container.nestedContainer(keyedBy: Inner.self, forKey: .point).decode(Int.self, forKey: .x)
                var list = try container.nestedUnkeyedContainer(forKey: .list)
                ys = []
                while !list.isAtEnd {
                    var element = try list.nestedUnkeyedContainer()
                    ys.append(try element.decode(Int.self))
                }
            }
            func encode(to encoder: any Encoder) throws {
                var container = encoder.container(keyedBy: Keys.self)
                var inner = container.nestedContainer(keyedBy: Inner.self, forKey: .point)
                try inner.encode(x, forKey: .x)
                var list = container.nestedUnkeyedContainer(forKey: .list)
                for y in ys {
                    var element = list.nestedUnkeyedContainer()
                    try element.encode(y)
                }
            }
        }
        let value = try LuaEncoder().encode(Flat())
        #expect(value == ["point": ["x": 1], "list": [[1], [2]]])
        #expect(try LuaDecoder().decode(Flat.self, from: value) == Flat())
    }

    @Test func integersBeyondLuaAreAnError() throws {
        let error = #expect(throws: LuaError.self) { try LuaEncoder().encode(["a": [UInt64.max]]) }
        #expect(error?.message == "a[1]: 18446744073709551615 is more than the largest Lua integer, 9223372036854775807")
    }

    @Test func aTypesOwnErrorGetsThePath() throws {
        let error = #expect(throws: LuaError.self) { try LuaDecoder().decode([Colour].self, from: ["red", "green"]) }
        #expect(error?.kind == .conversion(path: "[2]") && error?.message.hasPrefix("[2]: ") == true, "\(error?.message ?? "")")
    }

    @Test func userInfoReachesTheType() throws {
        struct Reader: Decodable {
            static let key = CodingUserInfoKey(rawValue: "unit")!
            let unit: String?
            init(from decoder: any Decoder) throws { unit = decoder.userInfo[Self.key] as? String }
        }
        var decoder = LuaDecoder()
        decoder.userInfo[Reader.key] = "mm"
        #expect(try decoder.decode(Reader.self, from: nil).unit == "mm")
        #expect(try decoder.decode([Reader].self, from: [1]).first?.unit == "mm")
    }

    @Test func jsonBecomesLuaAndBack() throws {
        let json = Data(#"{"a":[1,2.5,null,true],"b":{"c":"x"}}"#.utf8)
        let value = try JSONDecoder().decode(LuaValue.self, from: json)
        #expect(value == ["a": [1, 2.5, nil, true], "b": ["c": "x"]])
        let encoder = JSONEncoder()
        encoder.outputFormatting = .sortedKeys
        #expect(
            String(decoding: try encoder.encode(["l": [1, "x"], "t": [3: true]] as LuaValue), as: UTF8.self)
                == #"{"l":[1,"x"],"t":{"3":true}}"#)
        #expect(throws: EncodingError.self) { try encoder.encode(LuaValue.other("function")) }
    }
}
