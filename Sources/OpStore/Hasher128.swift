internal import CStore

/// Computes the digest of bytes that come in pieces. The pieces do not matter: only what they are together does.
@safe
public struct Hasher128: ~Copyable {
    private let state: OpaquePointer

    /// Creates a hasher of no bytes.
    public init() {
        // It is half a kilobyte, and wants to begin at a multiple of 64 bytes.
        guard let state = unsafe XXH3_createState() else { fatalError("out of memory") }
        unsafe XXH3_128bits_reset(state)
        unsafe self.state = state
    }

    deinit { unsafe XXH3_freeState(state) }

    /// Combines some bytes, but not how many they are.
    public mutating func combine(bytes: UnsafeRawBufferPointer) {
        guard let base = bytes.baseAddress else { return }
        unsafe XXH3_128bits_update(state, base, bytes.count)
    }

    /// Combines the text and its length, so that "ab" and "c" are not "a" and "bc".
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
        combine(digest.high)
        combine(digest.low)
    }

    /// The digest of everything so far. More may be combined afterwards.
    public func finalize() -> Digest { Digest(unsafe XXH3_128bits_digest(state)) }

    /// The digest of some bytes, the same as if they came in pieces.
    public static func hash(_ bytes: UnsafeRawBufferPointer) -> Digest {
        Digest(unsafe XXH3_128bits(bytes.baseAddress, bytes.count))
    }
}

extension Digest {
    init(_ hash: XXH128_hash_t) { self.init(high: hash.high64, low: hash.low64) }
}
