import Glibc

/// Memory for a blob that is on its way. A large one is in a file that has no name, so that the kernel can write it there when memory is scarce:
/// what is made of a value of 1 GB needs that much memory again.
@safe
final class BlobMemory: @unchecked Sendable {
    // Safety: `@unchecked Sendable` because whoever writes to it sees to it that nobody else does.

    /// Blobs of at least this many bytes are in files. A smaller one is not worth the time.
    static let fewestFileBytes = 256 << 20

    let bytes: UnsafeMutableRawBufferPointer
    private let isMapped: Bool

    /// - Returns: nil if there is not so much memory. Whoever announces too much gets no crash.
    init?(count: Int) {
        let mapped = unsafe count < Self.fewestFileBytes ? nil : Self.map(count)
        guard let block = unsafe mapped ?? malloc(max(count, 1)) else { return nil }
        unsafe bytes = UnsafeMutableRawBufferPointer(start: block, count: count)
        isMapped = unsafe mapped != nil
    }

    deinit {
        if isMapped { unsafe munmap(bytes.baseAddress, bytes.count) } else { unsafe free(bytes.baseAddress) }
    }

    /// A new file's contents; nil if there is no room for it.
    private static func map(_ count: Int) -> UnsafeMutableRawPointer? {
        // Not /tmp, which may be memory itself.
        let folder = unsafe getenv("TMPDIR").map { unsafe String(cString: $0) } ?? "/var/tmp"
        var path = Array("\(folder)/opscript-blob-XXXXXX".utf8CString)
        let descriptor = unsafe mkstemp(&path)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        unsafe unlink(path)
        _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
        // A write to a page that has no room on the disk would be a signal, so the room is taken now.
        guard posix_fallocate(descriptor, 0, count) == 0 else { return nil }
        let address = unsafe mmap(nil, count, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0)
        return unsafe address == MAP_FAILED ? nil : address
    }
}
