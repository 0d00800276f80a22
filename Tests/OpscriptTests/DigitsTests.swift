import Testing

@testable import opscript

@Suite struct DigitsTests {
    @Test("Seconds have as many decimals as asked for, and are never rounded up")
    func seconds() {
        #expect(String(seconds: 12_000_000_034, decimals: 9) == "12.000000034")
        #expect(String(seconds: 999_999_999, decimals: 6) == "0.999999")
        #expect(String(seconds: .max, decimals: 6) == "18446744073.709551")
        #expect(String(UInt64(0xABC), radix: 16, digits: 16) == "0000000000000abc")
        #expect(String(12345, digits: 3) == "12345")
    }

    @Test("A file has the digits of numbers of any length, and microseconds with three decimals")
    func numbersInFile() {
        var numbers: [UInt64] = [0, .max]
        var power: UInt64 = 1
        for _ in 0..<19 {
            power *= 10
            numbers += [power - 1, power, power + 1]
        }
        let file = OutputFile()
        var expected = ""
        for number in numbers {
            file.append(number)
            file.append(" ")
            file.append(microseconds: number)
            file.append(" ")
            expected += "\(number) \(number / 1000).\(String(number % 1000, digits: 3)) "
        }
        file.append(Int.min)
        file.flush()
        #expect(String(decoding: file.bytes, as: UTF8.self) == expected + "-9223372036854775808")
    }

    @Test("A text of JSON has its quotes, control characters and < escaped, and nothing else")
    func json() {
        #expect(JSONText("plain ü 🙂 text").escaped == "plain ü 🙂 text")
        #expect(JSONText("\"\\\n\u{1}\u{1F}\u{7F}</b>ü").escaped == #"\"\\\n\u0001\u001f\u007f\u003c/b>ü"#)
    }
}
