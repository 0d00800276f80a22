/// Sizes as people write them.
package enum ByteSize {
    /// The form of a size, for messages.
    package static let form = "a number of bytes, or one with K, M, G or T"

    private static let units: [Character: Int] = ["k": 1 << 10, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40]

    /// The number of bytes in a text such as `512M`: digits, and perhaps a unit, which is a power of 1024. Nil for any other text, for 0, and
    /// for a number that does not fit an `Int`.
    package static func parse(_ text: String) -> Int? {
        let unit = text.last.flatMap { units[$0] }
        let digits = unit == nil ? text[...] : text.dropLast()
        guard digits.allSatisfy({ $0.isASCII && $0.isNumber }), let count = Int(digits), count > 0 else { return nil }
        let (bytes, overflow) = count.multipliedReportingOverflow(by: unit ?? 1)
        return overflow ? nil : bytes
    }
}
