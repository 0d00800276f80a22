import CNats
import Glibc

/// The secret that the members of a cluster share. Members ignore messages that are not sealed with it, so an intruder at the server cannot make
/// workers run anything.
public struct ClusterKey: Sendable {
    private static let fewestBytes = 16
    let bytes: [UInt8]

    /// Reads the key in a file, without white space around it.
    ///
    /// - Throws: an error if the file cannot be read, has fewer than 16 bytes, everybody may read it, or others may change it.
    public init(file path: String) throws(ClusterError) {
        let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else {
            throw ClusterError("the key file '\(path)' cannot be opened: \(unsafe String(cString: strerror(errno)))")
        }
        defer { Glibc.close(descriptor) }
        var status = stat()
        guard unsafe fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG else {
            throw ClusterError("the key file '\(path)' is not a file")
        }
        guard status.st_mode & 0o027 == 0 else {
            throw ClusterError("the key file '\(path)' may be read by everybody, or changed by others: run 'chmod 600 \(path)'")
        }
        var buffer = [UInt8](repeating: 0, count: 4096)
        let count = unsafe buffer.withUnsafeMutableBytes { unsafe read(descriptor, $0.baseAddress, $0.count) }
        guard count >= 0 else {
            throw ClusterError("the key file '\(path)' cannot be read: \(unsafe String(cString: strerror(errno)))")
        }
        guard count < buffer.count else {
            throw ClusterError("the key file '\(path)' has \(buffer.count) bytes or more: use a shorter key")
        }
        let isSpace = { (byte: UInt8) in byte == 0x20 || (0x09...0x0d).contains(byte) }
        let key = buffer.prefix(count).drop(while: isSpace).reversed().drop(while: isSpace)
        guard key.count >= Self.fewestBytes else {
            throw ClusterError(
                "the key file '\(path)' has fewer than \(Self.fewestBytes) bytes: make one with 'head -c 32 /dev/urandom | base64 > \(path)'"
            )
        }
        bytes = key.reversed()
    }

    /// Makes a key of bytes.
    public init(_ bytes: [UInt8]) { self.bytes = bytes }
}

/// Seals messages, and opens those that were sealed with the same key.
struct Seal: Sendable {
    /// The version of the messages. Members with different versions do not understand each other.
    static let version: UInt8 = 5
    private static let magic: [UInt8] = Array("opc".utf8) + [version]
    private static let codeCount = Int(CNATS_DIGEST_COUNT)

    let key: ClusterKey?

    /// sealed := magic is-sealed code message
    ///
    /// The code also depends on the subject and on the reply subject. Each request has a reply subject of its own, which names the asker and counts
    /// the asker's requests. So a server without the key cannot have a request answered for another one, and an answer counts for its request only.
    func seal(_ message: [UInt8], for subject: String, reply: String) -> [UInt8] {
        var sealed = Self.magic
        sealed.reserveCapacity(sealed.count + 1 + Self.codeCount + message.count)
        sealed.append(key == nil ? 0 : 1)
        if let key { sealed.append(contentsOf: Self.code(of: message[...], on: Self.address(subject, reply), with: key)) }
        sealed.append(contentsOf: message)
        return sealed
    }

    enum Opened {
        case message(ArraySlice<UInt8>)
        /// The sender has another key, or only one of the two members has a key.
        case foreign
        /// The sender has another version of the messages.
        case otherVersion
        case malformed
    }

    func open(_ bytes: [UInt8], from subject: String, reply: String) -> Opened {
        let headerCount = Self.magic.count + 1
        guard bytes.count > headerCount, bytes.starts(with: Self.magic.dropLast()) else { return .malformed }
        guard bytes[headerCount - 2] == Self.version else { return .otherVersion }
        guard (bytes[headerCount - 1] != 0) == (key != nil) else { return .foreign }
        guard let key else { return .message(bytes[headerCount...]) }
        guard bytes.count > headerCount + Self.codeCount else { return .malformed }
        let code = bytes[headerCount..<headerCount + Self.codeCount]
        let message = bytes[(headerCount + Self.codeCount)...]
        // The comparison takes the same time for each wrong code.
        let expected = Self.code(of: message, on: Self.address(subject, reply), with: key)
        let difference = zip(code, expected).reduce(0 as UInt8) { $0 | ($1.0 ^ $1.1) }
        return difference == 0 ? .message(message) : .foreign
    }

    /// Both subjects. The stream delivers a job with another reply subject than that of its sender.
    private static func address(_ subject: String, _ reply: String) -> String {
        subject.hasPrefix(Subject.jobPrefix) ? subject : "\(subject)\0\(reply)"
    }

    /// Sixteen hexadecimal digits that depend on the key and on `text`, and tell nothing about the key.
    func fingerprint(of text: String) -> String {
        // Without libcrypto no fabric is made, so the result does not matter.
        guard Self.canSeal else { return Subject.identifier(0) }
        let code = Self.code(of: [], on: text, with: key)
        return Subject.identifier(code.prefix(8).reduce(0) { $0 << 8 | UInt64($1) })
    }

    private static var canSeal: Bool {
        var digest = [UInt8](repeating: 0, count: codeCount)
        return unsafe cnats_digest("", 0, &digest)
    }

    /// A code that only members with the key can compute.
    static func code(of message: ArraySlice<UInt8>, on subject: String, with key: ClusterKey?) -> [UInt8] {
        var subject = subject
        let key = key ?? ClusterKey([])
        return unsafe [UInt8](unsafeUninitializedCapacity: codeCount) { code, count in
            let isMade = unsafe message.withUnsafeBytes { message in
                unsafe key.bytes.withUnsafeBytes { key in
                    subject.withUTF8 { subject in
                        unsafe cnats_authenticate(
                            key.baseAddress, key.count, subject.baseAddress, subject.count, message.baseAddress, message.count,
                            code.baseAddress)
                    }
                }
            }
            // Without libcrypto no fabric is made.
            guard isMade else { fatalError("opscript bug: a message cannot be sealed") }
            count = codeCount
        }
    }
}
