internal import CStore
import Glibc
import OpPlatform
import Synchronization

/// The contents of files, each read once as long as its signature stays the same.
final class FileStates: Sendable {
    private struct Known {
        var state: FileState
        /// `cstore_file_clock` before the first read of the file that gave this state.
        var moment: Int64
    }

    private let basePath: String
    private let openBase = Atomic<Int32>(-1)
    /// A file of this folder must not be opened: closing it would release the locks that SQLite has on it.
    private let ownFolder: String
    private let boot: UInt64
    private let shards: [Shard]
    private let patterns = SlowGuarded<[String: Pattern.Matches]>([:])
    private final class Shard: Sendable { let known = SlowGuarded<[String: Known]>([:]) }

    /// - Parameters:
    ///   - base: The folder that relative paths are relative to. It need not exist yet.
    ///   - ownFolder: The path of the database's folder, in the form that `Paths.recorded` returns.
    init(base: String, ownFolder: String) {
        basePath = base
        self.ownFolder = ownFolder + "/"
        boot = Self.bootNumber()
        shards = (0..<16).map { _ in Shard() }
    }

    deinit {
        let file = openBase.load(ordering: .relaxed)
        if file >= 0 { close(file) }
    }

    /// The open folder that relative paths are relative to; -1 while it does not exist.
    var base: Int32 {
        let known = openBase.load(ordering: .relaxed)
        if known >= 0 { return known }
        let file = unsafe open(basePath, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        if file < 0 { return -1 }
        let (isFirst, other) = openBase.compareExchange(expected: -1, desired: file, ordering: .relaxed)
        if isFirst { return file }
        close(file)
        return other
    }

    /// A number that differs after each start of the system. Without it, a file that has lost its bytes in a power failure could have the signature
    /// of the whole file.
    private static func bootNumber() -> UInt64 {
        var bytes = [UInt8](repeating: 0, count: 64)
        let file = unsafe open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC)
        guard file >= 0 else { return UInt64(truncatingIfNeeded: cstore_file_clock()) }
        defer { close(file) }
        let count = unsafe read(file, &bytes, bytes.count)
        return unsafe bytes.withUnsafeBytes { unsafe Hasher128.hash(UnsafeRawBufferPointer(rebasing: $0.prefix(max(0, count)))).low }
    }

    private func shard(of path: String) -> Shard { shards[path.hashValue & 15] }

    /// Asks the system, without reading the file.
    @unsafe func status(of path: UnsafePointer<CChar>) -> cstore_status {
        var status = cstore_status()
        unsafe cstore_ask(base, path, boot, &status)
        return status
    }

    func status(of path: String) -> cstore_status { unsafe path.withCString { unsafe status(of: $0) } }

    /// The present file at a path. Reads the file if its signature is new, or not settled.
    func state(of path: String) -> FileState {
        var status = status(of: path)
        if status.kind == CSTORE_ABSENT { return .absent }
        if let known = known(path), known.state.isSettled, known.state.signature == Digest(status.signature) { return known.state }
        // A process that writes the file meanwhile may have finished by the next attempt.
        for _ in 0..<3 where status.kind == CSTORE_FILE && !path.hasPrefix(ownFolder) {
            let moment = cstore_file_clock()
            guard let digest = digest(ofFile: path) else { break }
            let before = status
            status = self.status(of: path)
            guard Digest(before.signature) == Digest(status.signature) else { continue }
            let state = FileState(
                kind: .file, digest: digest, signature: Digest(status.signature), isSettled: Self.isSettled(status, at: moment))
            shard(of: path).known.withLock { known in
                var since = moment
                if let earlier = known[path], earlier.state.signature == state.signature, earlier.state.digest == state.digest {
                    since = earlier.moment
                }
                known[path] = Known(state: state, moment: since)
            }
            return state
        }
        return FileState(kind: .other, digest: Digest(high: 0, low: 0), signature: Digest(status.signature), isSettled: false)
    }

    private func known(_ path: String) -> Known? { shard(of: path).known.withLock { $0[path] } }

    /// The file at a path at a moment in the past; nil if that is unknown.
    func state(of path: String, at moment: Int64) -> FileState? {
        let known = known(path)
        let now = state(of: path)
        if now.kind == .absent { return nil }
        if status(of: path).changed < moment { return now }
        // The file was read before that moment, and is still the same.
        if let known, known.moment <= moment, known.state.signature == now.signature, known.state.hasContents(of: now) { return now }
        return nil
    }

    /// The present matches of a pattern. Many steps share a pattern, so it is expanded again only if a folder has changed.
    func matches(of pattern: String) -> [String] {
        if let known = patterns.withLock({ $0[pattern] }),
            known.folders.allSatisfy({ Digest($0.status.signature) == Digest(status(of: $0.path).signature) })
        {
            return known.paths
        }
        let moment = cstore_file_clock()
        let matches = Pattern(pattern).matches(in: self)
        if !matches.hasLinks, matches.folders.allSatisfy({ Self.isSettled($0.status, at: moment) }) {
            patterns.withLock { $0[pattern] = matches }
        }
        return matches.paths
    }

    /// Whether a change after `moment` gets another time. File systems count in ticks of the kernel, of 10 ms at most, and old ones in seconds.
    static func isSettled(_ status: cstore_status, at moment: Int64) -> Bool {
        let tick: Int64 = status.changed % 1_000_000_000 == 0 ? 2_000_000_000 : 20_000_000
        return status.changed + tick < moment
    }

    private func digest(ofFile path: String) -> Digest? {
        // Without O_NONBLOCK, a pipe that has taken the place of the file would block.
        let file = unsafe openat(base, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard file >= 0 else { return nil }
        defer { close(file) }
        var hasher = Hasher128()
        return unsafe withUnsafeTemporaryAllocation(byteCount: 256 << 10, alignment: 64) { buffer in
            while true {
                let count = unsafe read(file, buffer.baseAddress, buffer.count)
                if count == 0 { return hasher.finalize() }
                if count < 0 {
                    if errno == EINTR { continue }
                    return nil
                }
                unsafe hasher.combine(bytes: UnsafeRawBufferPointer(rebasing: buffer.prefix(count)))
            }
        }
    }

    /// The bytes of a file; nil if it cannot be read.
    func contents(of path: String) -> [UInt8]? {
        let file = unsafe openat(base, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard file >= 0 else { return nil }
        defer { close(file) }
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 16 << 10)
        while true {
            let count = unsafe read(file, &buffer, buffer.count)
            if count == 0 { return bytes }
            if count > 0 { bytes += buffer[..<count] } else if errno != EINTR { return nil }
        }
    }

    /// Removes a file, if it exists.
    func remove(_ path: String) { unsafe unlinkat(base, path, 0) }

    /// The names in a folder, without "." and "..", in the order of their bytes. Nil if it cannot be read.
    func names(in path: String) -> [String]? {
        let file = unsafe openat(base, path, O_RDONLY | O_CLOEXEC | O_DIRECTORY)
        guard file >= 0 else { return nil }
        guard let folder = unsafe fdopendir(file) else {
            close(file)
            return nil
        }
        defer { unsafe closedir(folder) }
        var names: [String] = []
        while let entry = unsafe readdir(folder) {
            let name = unsafe withUnsafePointer(to: &entry.pointee.d_name) {
                unsafe $0.withMemoryRebound(to: CChar.self, capacity: 256) { unsafe String(cString: $0) }
            }
            if name != ".", name != ".." { names.append(name) }
        }
        return names.sorted()
    }
}
