import CNats
import Glibc

/// Memory for a blob that a member receives. A large blob is in a file without a name: when memory is scarce, the kernel writes it there, because a
/// value that is made from 1 GB needs another 1 GB of memory. Making the object takes neither memory nor disk yet, since any member may announce a
/// blob of any size.
@safe
final class BlobMemory: @unchecked Sendable {
    // Safety: `@unchecked Sendable` because each byte is written once, and the lock of `BlobTransfer` orders all writes before the reads.

    /// Blobs of at least this many bytes are in files. A smaller one is not worth the time.
    static let fewestFileBytes = 256 << 20

    let bytes: UnsafeMutableRawBufferPointer
    /// Points to a byte that is 1 while no Lua string uses the `roomCount` bytes before `bytes` and the byte after them. Nil in a file.
    let room: UnsafeMutableRawPointer?
    /// The byte at `room`, and the bytes that Lua needs before the contents of a string.
    private static let roomCount = 64
    /// The file; nil if `bytes` are not in a file.
    private let file: Int32?

    /// - Returns: nil without so much memory. An announcement of too many bytes must not crash the member.
    init?(count: Int) {
        if count >= Self.fewestFileBytes, let (descriptor, address) = unsafe Self.map(count) {
            unsafe bytes = UnsafeMutableRawBufferPointer(start: address, count: count)
            unsafe (file, room) = (descriptor, nil)
        } else if count < .max - Self.roomCount, let block = unsafe malloc(Self.roomCount + count + 1) {
            unsafe bytes = UnsafeMutableRawBufferPointer(start: block + Self.roomCount, count: count)
            unsafe block.storeBytes(of: 1, as: UInt8.self)
            unsafe (file, room) = (nil, block)
        } else {
            return nil
        }
    }

    deinit {
        if let file {
            unsafe munmap(bytes.baseAddress, bytes.count)
            close(file)
        } else {
            unsafe free(room)
        }
    }

    /// The folder of the files. The default is not /tmp, which may be in memory itself.
    static var folder: String { unsafe getenv("TMPDIR").map { unsafe String(cString: $0) } ?? "/var/tmp" }

    /// Makes a file of `count` zeros, which take no room yet, and maps it. Returns nil if that fails.
    private static func map(_ count: Int) -> (descriptor: Int32, address: UnsafeMutableRawPointer)? {
        let descriptor = unsafe cnats_open_nameless(folder)
        guard descriptor >= 0 else { return nil }
        // Nothing is reserved: if others fill the disk later, `write` fails.
        var disk = statvfs()
        let hasRoom = unsafe fstatvfs(descriptor, &disk) == 0 && UInt(count) / max(UInt(disk.f_frsize), 1) < UInt(disk.f_bavail)
        if hasRoom, ftruncate(descriptor, count) == 0, let address = unsafe mmap(nil, count, PROT_READ, MAP_SHARED, descriptor, 0),
            unsafe address != MAP_FAILED
        {
            return unsafe (descriptor, address)
        }
        close(descriptor)
        return nil
    }

    /// Writes a part of the blob. Returns false if the disk fails.
    func write(_ part: [UInt8], at offset: Int) -> Bool {
        unsafe part.withUnsafeBytes { part in
            if let file { return unsafe Self.write(part, to: file, at: offset) }
            unsafe UnsafeMutableRawBufferPointer(rebasing: bytes[offset...]).copyBytes(from: part)
            return true
        }
    }

    /// Uses `pwrite`, because the kernel would clear each page before a write to mapped memory.
    private static func write(_ part: UnsafeRawBufferPointer, to file: Int32, at offset: Int) -> Bool {
        var done = 0
        while done < part.count {
            let rest = unsafe UnsafeRawBufferPointer(rebasing: part[done...])
            let count = unsafe pwrite(file, rest.baseAddress, rest.count, offset + done)
            if count < 0 && errno != EINTR { return false }
            done += max(count, 0)
        }
        return true
    }
}
