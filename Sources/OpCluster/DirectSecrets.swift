import CNats

/// How the two ends of a direct connection know each other, and what they seal their records with.
///
/// ```text
/// listener: greeting := magic nonce
/// client:   request  := nonce sealed(kind 24 bytes)
/// listener: answer   := sealed(whether it is granted) blob
/// blob     := bytes without a key; otherwise sealed records of `recordCount` bytes, the last one shorter
/// line     := (count sealed)*, in both directions after the answer; the count has two bytes, the high one first
/// sealed   := tag ciphertext
/// ```
///
/// The keys are made of the cluster's key, the listener's token and both nonces, so they are of one connection, and nothing can be repeated.
/// Without a cluster's key, the token is the secret, and the bytes pass only the loopback.
enum DirectSecrets {
    static let magic: [UInt8] = Array("opd".utf8) + [2]
    static let nonceCount = 32
    static let tagCount = Int(CNATS_CIPHER_TAG_COUNT)
    /// As many bytes as stay in a processor's cache while they are received, opened and digested.
    static let recordCount = 256 << 10

    static func nonce() -> [UInt8] { (0..<nonceCount).map { _ in .random(in: .min ... .max) } }

    /// What the client seals its request with, and the listener opens it.
    static func requests(_ key: ClusterKey?, _ secrets: [[UInt8]], seals: Bool) -> DirectRecords? {
        DirectRecords(Seal.code(of: secrets.flatMap(\.self)[...], on: "opscript direct request", with: key), seals: seals)
    }

    /// The same for the answer.
    static func answers(_ key: ClusterKey?, _ secrets: [[UInt8]], seals: Bool) -> DirectRecords? {
        DirectRecords(Seal.code(of: secrets.flatMap(\.self)[...], on: "opscript direct answer", with: key), seals: seals)
    }
}

/// What a client wants.
enum DirectRequest: Equatable {
    case blob(BlobName)
    /// A line for a session that a worker has of the listener's run.
    case line(worker: UInt64, session: UInt64)

    static let count = 1 + BlobName.digestCount + 8

    init?(_ bytes: [UInt8]) {
        guard bytes.count == Self.count else { return nil }
        let number = { (bytes: ArraySlice<UInt8>) in bytes.reduce(0 as UInt64) { $0 << 8 | UInt64($1) } }
        switch bytes[0] {
        case 0:
            guard let count = Int(exactly: number(bytes.suffix(8))) else { return nil }
            self = .blob(BlobName(digest: Array(bytes[1...BlobName.digestCount]), count: count))
        case 1: self = .line(worker: number(bytes[1...8]), session: number(bytes.suffix(8)))
        default: return nil
        }
    }

    var bytes: [UInt8] {
        let bytes = { (number: UInt64) in (0..<8).map { UInt8(truncatingIfNeeded: number >> (56 - 8 * $0)) } }
        switch self {
        case .blob(let name): return [0] + name.digest + bytes(UInt64(name.count))
        case .line(let worker, let session): return [1] + bytes(worker) + bytes(0) + bytes(session)
        }
    }
}

/// Seals records with a key, or opens them, in their order.
@safe
final class DirectRecords {
    private let cipher: OpaquePointer
    /// Numbers the records, so that none can be left out or repeated.
    private var count: UInt64 = 0

    init?(_ key: [UInt8], seals: Bool) {
        guard let cipher = unsafe cnats_cipher_make(key, seals) else { return nil }
        unsafe self.cipher = cipher
    }

    deinit { unsafe cnats_cipher_free(cipher) }

    /// Seals bytes. The result has room for the tag before them.
    func seal(_ bytes: UnsafeRawBufferPointer, to sealed: UnsafeMutableRawBufferPointer) -> Bool {
        guard sealed.count == DirectSecrets.tagCount + bytes.count, let tag = sealed.baseAddress else { return false }
        count += 1
        return unsafe cnats_cipher_seal(cipher, count, bytes.baseAddress, bytes.count, tag + DirectSecrets.tagCount, tag)
    }

    func seal(_ bytes: [UInt8]) -> [UInt8]? {
        var sealed = [UInt8](repeating: 0, count: DirectSecrets.tagCount + bytes.count)
        let isSealed = unsafe sealed.withUnsafeMutableBytes { sealed in
            unsafe bytes.withUnsafeBytes { unsafe seal($0, to: sealed) }
        }
        return isSealed ? sealed : nil
    }

    /// Opens a record where it is. Returns false if nobody with the key has sealed it as the next one.
    func open(_ bytes: UnsafeMutableRawBufferPointer, tag: [UInt8]) -> Bool {
        count += 1
        return unsafe cnats_cipher_open(cipher, count, bytes.baseAddress, bytes.count, tag)
    }

    func open(_ sealed: [UInt8]) -> [UInt8]? {
        guard sealed.count >= DirectSecrets.tagCount else { return nil }
        var bytes = Array(sealed.dropFirst(DirectSecrets.tagCount))
        let tag = Array(sealed.prefix(DirectSecrets.tagCount))
        return unsafe bytes.withUnsafeMutableBytes { unsafe open($0, tag: tag) } ? bytes : nil
    }
}
