import CNats
import Glibc

/// Names the bytes of a blob by their XXH3 digest of 128 bits and their number. Only a member with the key could send other bytes with the same
/// digest, since each piece of a blob is sealed.
public struct BlobName: Hashable, Sendable {
    package static let digestCount = Int(CNATS_NAME_COUNT)

    /// 16 bytes.
    public let digest: [UInt8]
    /// The number of bytes.
    public let count: Int

    package init(digest: [UInt8], count: Int) { (self.digest, self.count) = (digest, count) }
}

/// Bytes that are too many for a message. A member asks for them in pieces, unless it has them.
@safe
public final class Blob: @unchecked Sendable {
    // Safety: `@unchecked Sendable` because the bytes do not change once the blob is made.

    /// The bytes.
    public let bytes: UnsafeRawBufferPointer
    /// The name of the bytes.
    public let name: BlobName
    private let release: () -> Void
    /// See `BlobMemory.room`; nil if there is none.
    package let room: UnsafeMutableRawPointer?

    /// Makes a blob of bytes that stay as they are until `release` is called.
    public convenience init(_ bytes: UnsafeRawBufferPointer, release: @escaping @Sendable () -> Void) {
        unsafe self.init(bytes, BlobName(digest: Self.digest(of: bytes), count: bytes.count), release: release)
    }

    private init(
        _ bytes: UnsafeRawBufferPointer, _ name: BlobName, room: UnsafeMutableRawPointer? = nil, release: @escaping @Sendable () -> Void
    ) {
        unsafe self.bytes = bytes
        unsafe self.room = room
        (self.name, self.release) = (name, release)
    }

    /// Makes a blob of the bytes that were written to memory.
    convenience init(_ memory: BlobMemory) {
        let bytes = unsafe UnsafeRawBufferPointer(memory.bytes)
        let name = unsafe BlobName(digest: Self.digest(of: bytes), count: bytes.count)
        unsafe self.init(bytes, name, room: memory.room) { withExtendedLifetime(memory) {} }
    }

    /// Makes a blob of a copy of bytes.
    public convenience init(copying bytes: [UInt8]) {
        let copy = UnsafeMutableRawBufferPointer.allocate(byteCount: max(bytes.count, 1), alignment: 8)
        unsafe copy.copyBytes(from: bytes)
        let (address, count) = (UInt(bitPattern: copy.baseAddress), bytes.count)
        unsafe self.init(UnsafeRawBufferPointer(start: copy.baseAddress, count: count)) {
            unsafe UnsafeMutableRawPointer(bitPattern: address)?.deallocate()
        }
    }

    deinit { release() }

    static func digest(of bytes: UnsafeRawBufferPointer) -> [UInt8] {
        unsafe [UInt8](unsafeUninitializedCapacity: BlobName.digestCount) { digest, count in
            unsafe cnats_name(bytes.baseAddress, bytes.count, digest.baseAddress)
            count = BlobName.digestCount
        }
    }

    /// A part of the bytes.
    func piece(at offset: Int, count: Int) -> [UInt8] {
        let start = min(max(offset, 0), name.count)
        return unsafe Array(UnsafeRawBufferPointer(rebasing: bytes[start..<min(start + max(count, 0), name.count)]))
    }
}

/// The blobs of a member: offered ones, as long as another object keeps them, and received ones, as long as the cache has room.
struct BlobShelf {
    private struct Weak { weak var blob: Blob? }

    /// Several blobs may have the same bytes. Each is offered as long as another object keeps it.
    private var offered: [BlobName: [Weak]] = [:]
    private var kept: [BlobName: (blob: Blob, lastUse: UInt64)] = [:]
    private var keptCount = 0
    private var useCount: UInt64 = 0
    let limit: Int

    /// - Parameter limit: the number of bytes of the blobs that only the cache keeps.
    init(limit: Int) { self.limit = limit }

    mutating func offer(_ blob: Blob) {
        if offered.count > 64, offered.count.nonzeroBitCount == 1 { offered = offered.filter { $0.value.contains { $0.blob != nil } } }
        var blobs = offered[blob.name]?.filter { $0.blob != nil } ?? []
        if !blobs.contains(where: { $0.blob === blob }) { blobs.append(Weak(blob: blob)) }
        offered[blob.name] = blobs
    }

    mutating func find(_ name: BlobName) -> Blob? {
        if let found = kept[name]?.blob {
            useCount += 1
            kept[name]?.lastUse = useCount
            return found
        }
        return offered[name]?.lazy.compactMap(\.blob).first
    }

    /// Adds a blob to the cache. Without room for all, the cache drops the least recently used ones.
    mutating func cache(_ blob: Blob) {
        guard kept[blob.name] == nil, blob.name.count <= limit else { return offer(blob) }
        useCount += 1
        kept[blob.name] = (blob, useCount)
        keptCount += blob.name.count
        while keptCount > limit, let oldest = kept.min(by: { $0.value.lastUse < $1.value.lastUse }) {
            kept[oldest.key] = nil
            keptCount -= oldest.key.count
            offer(oldest.value.blob)
        }
    }
}
