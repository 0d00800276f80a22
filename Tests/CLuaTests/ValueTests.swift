import CLua
import Testing

@Suite struct ValueTests {
    @Test func nothingNilAndBooleansArriveAsTheyAre() throws {
        try roundTrip("return", check: "assert(select('#', ...) == 0)")
        try roundTrip(
            "return nil, false, true, nil",
            check: "local a, b, c, d = ...; assert(select('#', ...) == 4 and a == nil and b == false and c == true and d == nil)")
    }

    @Test(arguments: [
        "0", "1", "-1", "63", "64", "-64", "-65", "127", "128", "1 << 31", "1 << 53", "math.maxinteger", "math.mininteger", "-1 << 62",
    ])
    func integersStayIntegers(_ value: String) throws {
        try roundTrip("return \(value)", check: "assert(... == (\(value)) and math.type(...) == 'integer')")
    }

    @Test(arguments: ["0.0", "1.0", "0.1", "-1e308", "5e-324", "2^53", "math.huge", "-math.huge", "math.pi"])
    func floatsStayFloats(_ value: String) throws {
        try roundTrip("return \(value)", check: "assert(... == (\(value)) and math.type(...) == 'float')")
    }

    @Test func negativeZeroAndNaNKeepTheirBits() throws {
        try roundTrip("return -0.0", check: "assert(string.pack('d', ...) == string.pack('d', -0.0))")
        try roundTrip("return 0/0, -(0/0)", check: "local a, b = ...; assert(a ~= a and b ~= b)")
        try roundTrip(
            "return (string.unpack('d', '\\1\\2\\3\\4\\5\\6\\xf8\\x7f'))",
            check: "assert(string.pack('d', ...) == '\\1\\2\\3\\4\\5\\6\\xf8\\x7f')")
    }

    @Test func stringsAreBytes() throws {
        try roundTrip("return ''", check: "assert(... == '')")
        try roundTrip("return 'a\\0b\\xff\\0'", check: "assert(... == 'a\\0b\\xff\\0')")
        try roundTrip(
            "local all = {} for i = 0, 255 do all[#all + 1] = string.char(i) end return table.concat(all)",
            check: """
                assert(#... == 256)
                for i = 0, 255 do assert((...):byte(i + 1) == i) end
                """)
        try roundTrip("return ('0123456789abcdef'):rep(1 << 16)", check: "assert(... == ('0123456789abcdef'):rep(1 << 16))")
    }

    @Test(arguments: [39, 40, 41, 127, 128, 16383, 16384])
    func stringsOfEveryLengthOfLengthArrive(_ length: Int) throws {
        try roundTrip("return ('x'):rep(\(length))", check: "assert(... == ('x'):rep(\(length)))")
    }

    @Test func manyValuesArriveInOrder() throws {
        try roundTrip(
            "return table.unpack(setmetatable({}, {__index = function(_, i) return i end}), 1, 5000)",
            check: """
                assert(select('#', ...) == 5000)
                for i, value in ipairs { ... } do assert(i == value) end
                """)
    }
}
