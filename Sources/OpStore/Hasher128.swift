internal import CStore

/// Computes the digest of bytes in pieces. The digest depends on the bytes together, not on the pieces.
@safe
public struct Hasher128: ~Copyable {
    private var hasher = unsafe cstore_hasher()

    /// Creates a hasher of no bytes.
    public init() {}

    deinit {
        // Safety: no other code uses the copy.
        var hasher = unsafe hasher
        unsafe cstore_hasher_free(&hasher)
    }

    /// Combines some bytes, but not their number.
    public mutating func combine(bytes: UnsafeRawBufferPointer) {
        guard let base = bytes.baseAddress else { return }
        guard unsafe cstore_hasher_add(&hasher, base, bytes.count) else { fatalError("out of memory") }
    }

    /// Combines the text and its length, so that "ab" and "c" differ from "a" and "bc".
    public mutating func combine(_ text: String) {
        var text = text
        text.withUTF8 { utf8 in
            combine(UInt64(utf8.count))
            unsafe combine(bytes: UnsafeRawBufferPointer(utf8))
        }
    }

    /// Combines a number, as eight bytes.
    public mutating func combine(_ number: UInt64) {
        unsafe withUnsafeBytes(of: number.littleEndian) { unsafe combine(bytes: $0) }
    }

    /// Combines another digest.
    public mutating func combine(_ digest: Digest) {
        unsafe withUnsafeBytes(of: (digest.high.littleEndian, digest.low.littleEndian)) { unsafe combine(bytes: $0) }
    }

    /// The digest of everything so far. More may be combined afterwards.
    public func finalize() -> Digest { unsafe withUnsafePointer(to: hasher) { unsafe Digest(cstore_hasher_digest($0)) } }

    /// The digest of some bytes. A hasher computes the same digest from their pieces.
    public static func hash(_ bytes: UnsafeRawBufferPointer) -> Digest {
        Digest(unsafe XXH3_128bits(bytes.baseAddress, bytes.count))
    }
}

extension Digest {
    init(_ hash: XXH128_hash_t) { self.init(high: hash.high64, low: hash.low64) }
}
