import Glibc
import TestSupport

/// A server of NATS for one test, on this machine, with a store in a temporary directory.
final class NatsServer: Sendable {
    let port: Int
    private let options: [String]
    private let directory: ScratchDirectory
    private let daemon: Locked<Daemon>

    /// Starts a server.
    init(_ options: [String] = ["--jetstream"]) throws {
        self.options = options
        directory = try ScratchDirectory()
        // The server chooses a port that is free.
        let first = try Self.start(options, port: -1, directory)
        let listening = first.lines.first { $0.contains("Listening for client connections") }
        guard let port = listening?.split(separator: ":").last.flatMap({ Int($0) }) else {
            throw CommandError(description: "the server does not say where it listens: \(first.lines)")
        }
        self.port = port
        daemon = Locked(first)
    }

    /// Where Debian puts it, which is not on everybody's PATH; or else somewhere on the PATH.
    private static let program = unsafe access("/usr/sbin/nats-server", X_OK) == 0 ? "/usr/sbin/nats-server" : "nats-server"

    private static func start(_ options: [String], port: Int, _ directory: ScratchDirectory) throws -> Daemon {
        try Daemon(
            Command(
                program: program, name: "nats-server",
                arguments: ["--addr", "127.0.0.1", "--port", "\(port)", "--store_dir", directory.path] + options),
            readyWhen: "Server is ready")
    }

    var url: String { "nats://127.0.0.1:\(port)" }

    /// Ends the server as if its machine had failed.
    func kill() { daemon.withLock { $0 }.kill() }

    /// Starts it again, at the same port and with what it has stored.
    func start() throws {
        let next = try Self.start(options, port: port, directory)
        daemon.withLock { $0 = next }
    }

    /// Sends a signal to the server, such as SIGSTOP.
    func send(_ signal: Int32) { daemon.withLock { $0 }.send(signal) }
}
