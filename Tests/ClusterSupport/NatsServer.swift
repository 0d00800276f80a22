public import Glibc
import TestSupport

/// A `nats-server` with a directory of its own. It ends with this object, and with this process.
public final class NatsServer: @unchecked Sendable {
    // Safety: `state` is locked, and the rest is constant.

    private struct State {
        var process: pid_t = 0
        /// Ends the process `guardian`, which ends the server when this process is gone.
        var guardianInput: Int32 = -1
        var guardian: pid_t = 0
        var port = 0
        var text = ""
    }

    /// Where the streams are.
    public let directory: String
    private let settings: String
    private let state = Locked(State())

    /// Writes the settings into a file and starts the server, on a free port.
    ///
    /// - Parameter settings: in the language of nats-server's configuration files. `DIRECTORY` is the server's directory.
    public init(_ settings: String = "jetstream { store_dir: \"DIRECTORY\" }") throws {
        var template = Array("/tmp/opscript-nats-XXXXXX".utf8CString)
        guard let path = mkdtemp(&template) else { throw Failure("there is no directory for nats-server") }
        directory = String(cString: path)
        self.settings = settings.replacing("DIRECTORY", with: directory + "/store")
        try start()
    }

    /// A failure of the server.
    public struct Failure: Error, CustomStringConvertible {
        /// The failure and its remedy.
        public let description: String
        init(_ description: String) { self.description = description }
    }

    deinit {
        end()
        var words: [UnsafeMutablePointer<CChar>?] = [strdup("rm"), strdup("-rf"), strdup(directory), nil]
        var process = pid_t()
        if posix_spawn(&process, "/bin/rm", nil, nil, &words, environ) == 0 { waitpid(process, nil, 0) }
        for word in words { free(word) }
    }

    /// How clients connect.
    public var url: String { "nats://127.0.0.1:\(port)" }
    /// The port for clients.
    public var port: Int { state.withLock { $0.port } }
    /// The server's process.
    public var process: pid_t { state.withLock { $0.process } }
    /// The output of the server.
    public var text: String { state.withLock { $0.text } }

    /// Starts the server again, on the same port.
    public func start() throws {
        let port = port
        let path = directory + "/nats.conf"
        let listen = "host: 127.0.0.1\nport: \(port == 0 ? -1 : port)\n"
        guard let file = fopen(path, "w") else { throw Failure("the file \(path) cannot be written") }
        fputs(listen + settings + "\n", file)
        fclose(file)
        let places: [String] = ["/usr/sbin/nats-server", "/usr/bin/nats-server", "/usr/local/bin/nats-server"]
        let program = places.first { access($0, X_OK) == 0 }
        guard let program else { throw Failure("there is no nats-server: run 'scripts/bootstrap --tests'") }
        // One at a time, so that no other child has a part of a pipe that is being made.
        let input = try Self.starting.withLock { _ in
            let ends = try Self.makePipe(), guardianEnds = try Self.makePipe()
            let process = try Self.spawn([program, "-c", path], output: ends.output)
            // Its pipe breaks with this process. Then it ends the server.
            let script = "read line || { kill -9 \(process); rm -rf \(directory); }"
            let guardian = try Self.spawn(["/bin/sh", "-c", script], input: guardianEnds.input)
            close(ends.output)
            close(guardianEnds.input)
            state.withLock { state in
                (state.process, state.guardian, state.guardianInput, state.text) = (process, guardian, guardianEnds.output, "")
            }
            return ends.input
        }
        guard let ready = read(from: input, until: "Server is ready") else {
            throw Failure("nats-server does not start: \(text)")
        }
        if port == 0, let found = ready.split(separator: "client connections on ").last?.split(separator: ":").dropFirst().first {
            let number = Int(found.prefix { $0.isNumber }) ?? 0
            state.withLock { $0.port = number }
        }
        // Later output must not fill the pipe.
        startThread { [weak self] in
            while let line = Self.readSome(input) { self?.state.withLock { $0.text += line } }
            close(input)
        }
    }

    /// Sends a signal to the server, such as SIGSTOP.
    public func send(_ signal: Int32) { kill(process, signal) }

    /// Ends the server at once, without asking it.
    public func end() {
        let (process, guardian, input) = state.withLock { state in
            defer { (state.process, state.guardian, state.guardianInput) = (0, 0, -1) }
            return (state.process, state.guardian, state.guardianInput)
        }
        if process == 0 { return }
        kill(process, SIGKILL)
        waitpid(process, nil, 0)
        _ = "\n".withCString { Glibc.write(input, $0, 1) }
        close(input)
        waitpid(guardian, nil, 0)
    }

    private func read(from input: Int32, until end: String) -> String? {
        while let some = Self.readSome(input) {
            let text = state.withLock { state in
                state.text += some
                return state.text
            }
            if text.contains(end) { return text }
        }
        return nil
    }

    private static let starting = Locked(false)

    private static func makePipe() throws -> (input: Int32, output: Int32) {
        var ends: [Int32] = [-1, -1]
        guard pipe(&ends) == 0 else { throw Failure("there is no pipe for nats-server") }
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        return (ends[0], ends[1])
    }

    private static func readSome(_ input: Int32) -> String? {
        var buffer = [UInt8](repeating: 0, count: 4096)
        let count = Glibc.read(input, &buffer, buffer.count)
        return count > 0 ? String(decoding: buffer.prefix(count), as: UTF8.self) : nil
    }

    private static func spawn(_ words: [String], input: Int32? = nil, output: Int32? = nil) throws -> pid_t {
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        if let input { posix_spawn_file_actions_adddup2(&actions, input, 0) }
        if let output {
            posix_spawn_file_actions_adddup2(&actions, output, 1)
            posix_spawn_file_actions_adddup2(&actions, output, 2)
        }
        var copies = words.map { strdup($0) } + [nil]
        defer { for copy in copies { free(copy) } }
        var process = pid_t()
        guard posix_spawn(&process, words[0], &actions, nil, &copies, environ) == 0 else {
            throw Failure("\(words[0]) cannot be started: run 'scripts/bootstrap --tests'")
        }
        return process
    }
}

extension NatsServer {
    /// Starts a program that ends when its stdin does, which is when this process ends.
    public static func spawnHelper(_ words: [String]) throws -> pid_t {
        try starting.withLock { _ in
            let ends = try makePipe()
            defer { close(ends.input) }
            return try spawn(words, input: ends.input)
        }
    }

    /// Seconds of processor time that a process has used.
    public static func processorSeconds(of process: pid_t) -> Double {
        guard let file = fopen("/proc/\(process)/stat", "r") else { return 0 }
        defer { fclose(file) }
        var buffer = [CChar](repeating: 0, count: 1024)
        guard fgets(&buffer, Int32(buffer.count), file) != nil else { return 0 }
        let text = String(decoding: buffer.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
        // After the name, which may contain blanks.
        let fields = text.split(separator: ")").last?.split(separator: " ").compactMap { Double($0) } ?? []
        return fields.count > 12 ? (fields[10] + fields[11]) / Double(sysconf(Int32(_SC_CLK_TCK))) : 0
    }
}

/// A port that was free just now.
public func freePort() -> Int {
    let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    defer { close(descriptor) }
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
    var size = socklen_t(MemoryLayout<sockaddr_in>.size)
    withUnsafeMutablePointer(to: &address) { pointer in
        pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { pointer in
            _ = bind(descriptor, pointer, size)
            _ = getsockname(descriptor, pointer, &size)
        }
    }
    return Int(UInt16(bigEndian: address.sin_port))
}
