/// The known facts of finished work, besides its value: one row of the database.
struct Record {
    var key: Digest
    var identity: Digest
    var components: [Step.Component]
    var files: [File]
    /// The length and the digest of the value; nil without one.
    var value: Value?

    struct File {
        var role: Role
        var path: String
        var state: FileState
    }

    enum Role: UInt8 {
        case input, output
        /// The digest of its state is that of the paths that match.
        case pattern
    }

    struct Value: Equatable {
        /// The digest of the stored bytes.
        var digest: Digest
        /// The number of bytes before compression.
        var count: Int
        var isCompressed: Bool
    }

    /// The digest of the inputs' contents, by which records with one key differ.
    var variant: Digest {
        var hasher = Hasher128()
        for file in files where file.role != .output {
            hasher.combine(file.path)
            hasher.combine(UInt64(file.state.kind.rawValue))
            hasher.combine(file.state.digest)
        }
        return hasher.finalize()
    }

    /// A record begins with a digest of so many bytes, by which the reader finds that a row is damaged.
    static let headerCount = 16

    func encoded() -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: Self.headerCount)
        bytes.reserveCapacity(256 + files.count * 80)
        bytes.append(key)
        bytes.append(identity)
        bytes.append(UInt64(value.map { $0.count + 1 } ?? 0))
        bytes.append(value?.digest ?? Digest(high: 0, low: 0))
        bytes.append(UInt32(value?.isCompressed == true ? 1 : 0))
        bytes.append(UInt32(components.count))
        bytes.append(UInt32(files.count))
        for component in components {
            bytes.append(component.label)
            bytes.append(component.digest)
            bytes.append(UInt32(component.lines.count))
            for line in component.lines { bytes.append(line.digest) }
        }
        for file in files {
            bytes += [file.role.rawValue, file.state.kind.rawValue, file.state.isSettled ? 1 : 0, 0]
            bytes.append(file.state.digest)
            bytes.append(file.state.signature)
            bytes.append(file.path)
        }
        Self.seal(&bytes)
        return bytes
    }

    /// Writes the digest of the bytes after the header into the header.
    static func seal(_ bytes: inout [UInt8]) {
        unsafe bytes.withUnsafeMutableBytes { buffer in
            let digest = unsafe Hasher128.hash(UnsafeRawBufferPointer(rebasing: buffer[headerCount...]))
            unsafe buffer.storeBytes(of: digest.high.littleEndian, as: UInt64.self)
            unsafe buffer.storeBytes(of: digest.low.littleEndian, toByteOffset: 8, as: UInt64.self)
        }
    }
}

extension [UInt8] {
    fileprivate mutating func append<Number: FixedWidthInteger>(_ number: Number) {
        unsafe Swift.withUnsafeBytes(of: number.littleEndian) { unsafe append(contentsOf: $0) }
    }

    fileprivate mutating func append(_ digest: Digest) {
        append(digest.high)
        append(digest.low)
    }

    /// The length, the bytes, and a zero.
    fileprivate mutating func append(_ text: String) {
        append(UInt32(text.utf8.count))
        append(contentsOf: text.utf8)
        append(0 as UInt8)
    }
}

/// Reads a record in place, without a copy.
@safe
struct RecordReader {
    private let bytes: UnsafeRawBufferPointer
    private static let componentsOffset = Record.headerCount + 32 + 8 + 16 + 12

    /// Nil if the bytes are not those that were written.
    init?(_ bytes: UnsafeRawBufferPointer) {
        unsafe self.bytes = unsafe bytes
        guard bytes.count >= Self.componentsOffset else { return nil }
        let rest = unsafe UnsafeRawBufferPointer(rebasing: bytes[Record.headerCount...])
        guard unsafe digest(at: 0) == Hasher128.hash(rest) else { return nil }
    }

    private func number<Number: FixedWidthInteger & BitwiseCopyable>(at offset: Int, as type: Number.Type) -> Number {
        unsafe Number(littleEndian: bytes.loadUnaligned(fromByteOffset: offset, as: type))
    }

    private func digest(at offset: Int) -> Digest {
        Digest(high: number(at: offset, as: UInt64.self), low: number(at: offset + 8, as: UInt64.self))
    }

    var key: Digest { digest(at: Record.headerCount) }
    var identity: Digest { digest(at: Record.headerCount + 16) }

    var value: Record.Value? {
        let offset = Record.headerCount + 32
        let count = number(at: offset, as: UInt64.self)
        if count == 0 { return nil }
        return Record.Value(
            digest: digest(at: offset + 8), count: Int(count - 1), isCompressed: number(at: offset + 24, as: UInt32.self) != 0)
    }

    private var componentCount: Int { Int(number(at: Self.componentsOffset - 8, as: UInt32.self)) }
    private var fileCount: Int { Int(number(at: Self.componentsOffset - 4, as: UInt32.self)) }

    /// A text and the offset after it.
    private func text(at offset: Int) -> (utf8: UnsafeRawBufferPointer, end: Int) {
        let end = offset + 4 + Int(number(at: offset, as: UInt32.self))
        return unsafe (UnsafeRawBufferPointer(rebasing: bytes[offset + 4..<end]), end + 1)
    }

    /// A component as it was: the digests of its lines, without their numbers.
    struct Component {
        let label: String
        let digest: Digest
        let lines: [UInt64]
    }

    var components: [Component] {
        var offset = Self.componentsOffset
        return (0..<componentCount).map { _ in
            let (label, end) = unsafe text(at: offset)
            offset = endOfComponent(digestAt: end)
            let lines = stride(from: end + 20, to: offset, by: 8).map { number(at: $0, as: UInt64.self) }
            return unsafe Component(label: String(decoding: label, as: UTF8.self), digest: digest(at: end), lines: lines)
        }
    }

    private func endOfComponent(digestAt offset: Int) -> Int { offset + 20 + 8 * Int(number(at: offset + 16, as: UInt32.self)) }

    /// A file, whose path ends with a zero byte.
    @safe
    struct File {
        let role: Record.Role
        let state: FileState
        let utf8: UnsafeRawBufferPointer
        /// Where the file is in the record.
        let offset: Int

        var path: String { unsafe String(decoding: utf8, as: UTF8.self) }

        func withPath<Result>(_ body: (UnsafePointer<CChar>) -> Result) -> Result {
            unsafe body(utf8.assumingMemoryBound(to: CChar.self).baseAddress!)
        }
    }

    /// Calls `body` with each file, as long as it returns true.
    func forEachFile(_ body: (File) -> Bool) {
        var offset = Self.componentsOffset
        for _ in 0..<componentCount { offset = unsafe endOfComponent(digestAt: text(at: offset).end) }
        for _ in 0..<fileCount {
            let (utf8, end) = unsafe text(at: offset + 36)
            let state = FileState(
                kind: FileState.Kind(rawValue: number(at: offset + 1, as: UInt8.self)) ?? .other, digest: digest(at: offset + 4),
                signature: digest(at: offset + 20), isSettled: number(at: offset + 2, as: UInt8.self) != 0)
            let role = Record.Role(rawValue: number(at: offset, as: UInt8.self)) ?? .input
            if unsafe !body(File(role: role, state: state, utf8: utf8, offset: offset)) { return }
            offset = end
        }
    }

    /// A copy with the present signatures of files whose contents are as they were.
    func refreshed(_ states: [(offset: Int, state: FileState)]) -> [UInt8] {
        var copy = unsafe [UInt8](bytes)
        for (offset, state) in states {
            copy[offset + 2] = state.isSettled ? 1 : 0
            copy.replaceSubrange(offset + 20..<offset + 36, with: [state.signature.high, state.signature.low].flatMap(\.bytes))
        }
        Record.seal(&copy)
        return copy
    }
}

extension UInt64 {
    fileprivate var bytes: [UInt8] { unsafe withUnsafeBytes(of: littleEndian) { unsafe Array($0) } }
}
