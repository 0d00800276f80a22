internal import CStore
import Glibc
import OpPlatform

/// Locks between processes: bytes of a file. They end with the process, however it ends.
final class FileLocks: Sendable {
    private let path: String
    private let file = SlowGuarded<Int32?>(nil)
    /// Keeps the threads of the process apart: the locks of the file belong to the process.
    private let administration = SlowGuarded(0)

    init(path: String) { self.path = path }

    deinit { file.withLock { if let file = $0 { close(file) } } }

    /// The open file; nil if it cannot be made.
    private var descriptor: Int32? {
        file.withLock { file in
            if file == nil {
                let opened = unsafe open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o666)
                if opened >= 0 { file = opened }
            }
            return file
        }
    }

    /// Calls `body` while no other thread or process is in this function. Without the file, only the threads are kept out.
    func exclusively<Result, Failure: Error>(_ body: () throws(Failure) -> Result) throws(Failure) -> Result {
        try administration.withLock { _ throws(Failure) in
            let file = descriptor
            if let file { cstore_lock_byte(file, 0) }
            defer { if let file { cstore_unlock_byte(file, 0) } }
            return try body()
        }
    }

    /// Locks the thing with this digest. No thread of this process may have locked it. Waits while another process has the lock. Returns false
    /// if `isStopped` has become true during the wait. The wait calls `isStopped` every 50 ms at least.
    func lock(_ digest: Digest, isStopped: () -> Bool) -> Bool {
        guard let file = descriptor else { return true }
        var pause = timespec(tv_sec: 0, tv_nsec: 500_000)
        while cstore_try_lock_byte(file, Self.offset(of: digest)) == EAGAIN {
            if isStopped() { return false }
            unsafe nanosleep(&pause, nil)
            pause.tv_nsec = min(2 * pause.tv_nsec, 50_000_000)
        }
        return true
    }

    func unlock(_ digest: Digest) {
        guard let file = descriptor else { return }
        cstore_unlock_byte(file, Self.offset(of: digest))
    }

    private static func offset(of digest: Digest) -> Int64 { 1 + Int64(digest.low >> 2) }
}
