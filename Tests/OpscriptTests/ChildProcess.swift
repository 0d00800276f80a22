import Glibc
import Synchronization

/// A program started with `posix_spawn`.
struct ChildProcess: Sendable {
    let identifier: pid_t
    /// The reading end of a pipe. It reports the end of the file when the program and its descendants have ended.
    private let life: Int32

    /// Held from creating a pipe until the program has started, so that no other program inherits the pipe.
    private static let starting = Mutex(())

    /// Starts `program` with `arguments`. The first one is its name. `streams` are the descriptors of its standard streams.
    init(program: String, arguments: [String], environment: [String], streams: [Int32]) throws {
        self = try Self.starting.withLock { _ in
            let life = try Self.openPipe()
            defer { close(life.write) }
            do {
                let identifier = try Self.spawn(
                    program: program, arguments: arguments, environment: environment, streams: streams + [life.write])
                return ChildProcess(identifier: identifier, life: life.read)
            } catch {
                close(life.read)
                throw error
            }
        }
    }

    private init(identifier: pid_t, life: Int32) {
        self.identifier = identifier
        self.life = life
    }

    /// A pipe that no program inherits.
    static func makePipe() throws -> (read: Int32, write: Int32) { try starting.withLock { _ in try openPipe() } }

    private static func openPipe() throws -> (read: Int32, write: Int32) {
        var ends: [Int32] = [-1, -1]
        guard unsafe pipe(&ends) == 0 else { throw CommandError(description: "pipe: errno \(errno)") }
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        return (ends[0], ends[1])
    }

    /// Starts the program with the descriptors of `streams` as 0, 1, 2 and so on.
    private static func spawn(program: String, arguments: [String], environment: [String], streams: [Int32]) throws -> pid_t {
        var actions = unsafe posix_spawn_file_actions_t()
        unsafe posix_spawn_file_actions_init(&actions)
        defer { unsafe posix_spawn_file_actions_destroy(&actions) }
        for (number, stream) in streams.enumerated() {
            unsafe posix_spawn_file_actions_adddup2(&actions, stream, Int32(number))
        }

        // This process may ignore or block signals that a shell would not.
        var attributes = posix_spawnattr_t()
        unsafe posix_spawnattr_init(&attributes)
        defer { unsafe posix_spawnattr_destroy(&attributes) }
        var none = sigset_t()
        var all = sigset_t()
        unsafe sigemptyset(&none)
        unsafe sigfillset(&all)
        unsafe posix_spawnattr_setsigmask(&attributes, &none)
        unsafe posix_spawnattr_setsigdefault(&attributes, &all)
        unsafe posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF))

        var identifier: pid_t = 0
        let status = unsafe withCStrings(arguments) { arguments in
            unsafe withCStrings(environment) { environment in
                unsafe posix_spawnp(&identifier, program, &actions, &attributes, arguments, environment)
            }
        }
        guard status == 0 else {
            let reason = unsafe String(cString: strerror(status))
            throw CommandError(description: "cannot start \(program): \(reason); build it with scripts/build")
        }
        return identifier
    }

    /// Waits at most so many seconds. Returns whether the program and its descendants have ended.
    func hasEnded(within seconds: Double) -> Bool {
        var event = pollfd(fd: life, events: 0, revents: 0)
        return unsafe poll(&event, 1, Int32(seconds * 1000)) == 1
    }

    /// Waits for the end and returns the status, or 128 + n when signal n ended the program. Kills it after `seconds` and returns nil.
    func wait(seconds: Int) throws -> Int32? {
        defer { close(life) }
        var event = pollfd(fd: life, events: 0, revents: 0)
        let ended = unsafe poll(&event, 1, Int32(seconds * 1000)) == 1
        if !ended { kill(identifier, SIGKILL) }
        var status: Int32 = 0
        while unsafe waitpid(identifier, &status, 0) < 0 && errno == EINTR {}
        guard ended else { return nil }
        let signal = status & 0x7f
        return signal == 0 ? (status >> 8) & 0xff : 128 + signal
    }
}

/// Calls `body` with a null-terminated array of C strings.
private func withCStrings<Result>(
    _ strings: [String], _ body: (UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>) -> Result
) -> Result {
    var pointers = unsafe strings.map { unsafe strdup($0) } + [nil]
    defer {
        unsafe pointers.forEach { unsafe free($0) }
    }
    return unsafe pointers.withUnsafeMutableBufferPointer { buffer in
        guard let start = buffer.baseAddress else { preconditionFailure("there is a null at least") }
        return unsafe body(start)
    }
}
