import Glibc
import Reports

/// Why attaching is impossible.
struct AttachError: Error {
    let message: String
}

/// The sockets of attachable processes. Each process has one, in a directory of the user.
enum AttachSocket {
    /// The directories in which sockets may be. A process listens in the first. A prompt looks in all, because the user's processes may have
    /// different environments.
    private static var directories: [String] {
        let own = Environment.value("XDG_RUNTIME_DIR").flatMap { $0.hasPrefix("/") ? $0 : nil }
        let all = (own.map { [$0] } ?? []) + ["/run/user/\(geteuid())"]
        return all.map { $0 + "/opscript" } + ["/tmp/opscript-\(geteuid())"]
    }

    /// The socket of this process, and its path, in a directory that only this user may use.
    static func listen() throws(AttachError) -> (descriptor: Int32, path: String) {
        guard let directory = directories.first(where: { unsafe mkdir($0, 0o700) == 0 || errno == EEXIST }) else {
            throw AttachError(message: "cannot make the directory '\(directories.last ?? "")': \(reason())")
        }
        guard belongsToUserAlone(directory) else {
            throw AttachError(message: "'\(directory)' must be a directory that only its owner, you, may use")
        }
        let path = "\(directory)/\(getpid())"
        unsafe unlink(path)
        let descriptor = try open()
        let isBound = try unsafe withAddress(of: path) { address, length in unsafe bind(descriptor, address, length) == 0 }
        guard isBound, Glibc.listen(descriptor, 8) == 0 else {
            defer { close(descriptor) }
            throw AttachError(message: "cannot listen at '\(path)': \(reason())")
        }
        return (descriptor, path)
    }

    /// Connects to a process.
    static func connect(to process: pid_t) throws(AttachError) -> Int32 {
        for directory in directories where belongsToUserAlone(directory) {
            if let descriptor = try connect(to: "\(directory)/\(process)") { return descriptor }
        }
        let exists = kill(process, 0) == 0 || errno == EPERM
        throw AttachError(
            message: exists
                ? "process \(process) cannot be attached to: it was not started by you with 'opscript --attach'"
                : "there is no process \(process)")
    }

    /// The processes that can be attached to. Removes the sockets of processes that were killed.
    static func processes() throws(AttachError) -> [pid_t] {
        var found: Set<pid_t> = []
        for directory in directories where belongsToUserAlone(directory) {
            for name in names(in: directory) {
                guard let process = pid_t(name) else { continue }
                if let descriptor = try connect(to: "\(directory)/\(name)") {
                    close(descriptor)
                    found.insert(process)
                } else if errno == ECONNREFUSED {
                    unsafe unlink("\(directory)/\(name)")
                }
            }
        }
        return found.sorted()
    }

    private static func open() throws(AttachError) -> Int32 {
        let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        if descriptor < 0 { throw AttachError(message: "cannot make a socket: \(reason())") }
        return descriptor
    }

    private static func connect(to path: String) throws(AttachError) -> Int32? {
        let descriptor = try open()
        let isConnected = try unsafe withAddress(of: path) { address, length in unsafe Glibc.connect(descriptor, address, length) == 0 }
        if isConnected { return descriptor }
        let error = errno
        close(descriptor)
        errno = error
        return nil
    }

    private static func withAddress<Result>(
        of path: String, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Result
    ) throws(AttachError) -> Result {
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        let capacity = MemoryLayout.size(ofValue: address.sun_path)
        guard path.utf8.count < capacity else { throw AttachError(message: "the path '\(path)' is too long for a socket") }
        // Safety: the path and its terminator fit.
        unsafe withUnsafeMutablePointer(to: &address.sun_path) {
            unsafe _ = strcpy(UnsafeMutableRawPointer($0).assumingMemoryBound(to: CChar.self), path)
        }
        return unsafe withUnsafePointer(to: &address) { pointer in
            unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { unsafe body($0, socklen_t(MemoryLayout<sockaddr_un>.size)) }
        }
    }

    private static func belongsToUserAlone(_ directory: String) -> Bool {
        var about = stat()
        return unsafe lstat(directory, &about) == 0 && about.st_mode & S_IFMT == S_IFDIR && about.st_uid == geteuid()
            && about.st_mode & 0o077 == 0
    }

    private static func names(in directory: String) -> [String] {
        guard let list = unsafe opendir(directory) else { return [] }
        defer { unsafe closedir(list) }
        var names: [String] = []
        while let entry = unsafe readdir(list) {
            names.append(
                unsafe withUnsafePointer(to: &entry.pointee.d_name) {
                    unsafe $0.withMemoryRebound(to: CChar.self, capacity: 256) { unsafe String(cString: $0) }
                })
        }
        return names
    }

    private static func reason() -> String { unsafe String(cString: strerror(errno)) }
}
