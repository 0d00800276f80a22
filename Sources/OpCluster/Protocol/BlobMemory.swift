import CNats
import Glibc

/// Memory for a blob that a member receives. A large one is in a file without a name, so that the kernel can write it there when memory is scarce:
/// the value that is made of 1 GB needs that much memory again. No memory or disk is used before bytes are written, since any member may announce
/// many.
@safe
final class BlobMemory: @unchecked Sendable {
    // Safety: `@unchecked Sendable` because each byte is written once, and read after whoever writes the last one has ordered that.

    /// Blobs of at least this many bytes are in files. A smaller one is not worth the time.
    static let fewestFileBytes = 256 << 20

    let bytes: UnsafeMutableRawBufferPointer
    /// One byte: 1, until the `roomCount` bytes before `bytes` and the one after them are in use. Nil in a file.
    let room: UnsafeMutableRawPointer?
    /// As many bytes as Lua needs to keep a string there, and the byte `room` before them.
    private static let roomCount = 64
    /// The file; nil if `bytes` are not a file's.
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

    /// Where the files are. Not in /tmp, which may be memory itself.
    static var folder: String { unsafe getenv("TMPDIR").map { unsafe String(cString: $0) } ?? "/var/tmp" }

    /// A new file of so many zeros, which take no room yet, and where they are in memory; nil if there is none.
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

    /// With `pwrite`: writing to mapped memory would have the kernel clear each page first.
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
