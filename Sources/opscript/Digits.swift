extension String {
    /// The digits of a number that is not negative, with zeros before them up to `count`.
    init(_ number: some BinaryInteger, radix: Int = 10, digits count: Int) {
        let digits = String(number, radix: radix)
        self = String(repeating: "0", count: Swift.max(0, count - digits.utf8.count)) + digits
    }

    /// Nanoseconds as seconds with up to nine decimals. Further digits are cut off, so the text never shows more time than has passed.
    init(seconds nanoseconds: UInt64, decimals: Int) {
        self = "\(nanoseconds / 1_000_000_000).\(String(nanoseconds % 1_000_000_000, digits: 9).prefix(decimals))"
    }
}
