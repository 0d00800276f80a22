/// 128 bits that stand for some bytes. Equal bytes have equal digests. Different bytes almost certainly have different digests.
///
/// The digest is that of XXH3. It is fast, and no protection against an attacker who looks for two texts with one digest.
public struct Digest: Hashable, Sendable {
    /// The first half of the digits.
    public let high: UInt64
    /// The second half of the digits.
    public let low: UInt64

    /// Creates a digest that was computed elsewhere.
    public init(high: UInt64, low: UInt64) {
        self.high = high
        self.low = low
    }
}

extension Digest: CustomStringConvertible {
    /// 32 hexadecimal digits.
    public var description: String { Self.hexadecimal(high) + Self.hexadecimal(low) }

    private static func hexadecimal(_ word: UInt64) -> String {
        let digits = String(word, radix: 16)
        return String(repeating: "0", count: 16 - digits.utf8.count) + digits
    }
}
