import CTerminal
import Glibc
import LuaBindings
import OpPlatform

/// Lets prompts of other processes look into this run and change it. Each prompt has a thread here, which answers commands with a colon even
/// if the main state hangs. The main state evaluates all other lines, when it waits.
final class AttachServer: Sendable {
    private static let mostConnections = 16
    /// The path of the socket, which is removed when the process exits.
    private static let path = Guarded<String?>(nil)

    private let title: String
    private let runtime: Runtime
    private let listener: Int32
    private let connections = Guarded<[AttachConnection]>([])

    /// Begins to listen.
    init(_ runtime: Runtime, title: String) throws(AttachError) {
        self.title = title
        self.runtime = runtime
        let (listener, path) = try AttachSocket.listen()
        self.listener = listener
        Self.path.withLock { $0 = path }
        // A script may end the process with `os.exit`.
        atexit { if !ForkedProcess.isCurrent { AttachServer.removeSocket() } }
        if !tryStartThread({ [self] in accept() }) {
            finish()
            throw AttachError(message: "the system starts no more threads")
        }
    }

    deinit { close(listener) }

    /// Ends all connections.
    func finish() {
        Self.removeSocket()
        shutdown(listener, Int32(SHUT_RDWR))
        for connection in connections.withLock({ $0 }) {
            connection.send(AttachConnection.Reply(kind: .left, text: "the run has ended\n"))
            connection.disconnect()
        }
    }

    private static func removeSocket() {
        if let path = path.withLock({ exchange(&$0, with: nil) }) { unsafe unlink(path) }
    }

    // MARK: on the threads

    private func accept() {
        while true {
            let descriptor = ct_accept(listener)
            if descriptor < 0 {
                if errno == EINTR || errno == ECONNABORTED { continue }
                // The system has no descriptors or memory left. Another program must return some first.
                if [EMFILE, ENFILE, ENOBUFS, ENOMEM].contains(errno) {
                    usleep(100_000)
                    continue
                }
                return
            }
            let connection = AttachConnection(descriptor)
            guard keep(connection) else {
                connection.send(AttachConnection.Reply(kind: .left, text: "\(Self.mostConnections) prompts are attached already\n"))
                continue
            }
            if !tryStartThread({ [self] in serve(connection) }) { drop(connection) }
        }
    }

    private func keep(_ connection: AttachConnection) -> Bool {
        connections.withLock { connections in
            if connections.count == Self.mostConnections { return false }
            connections.append(connection)
            return true
        }
    }

    private func drop(_ connection: AttachConnection) {
        connections.withLock { $0.removeAll { $0 === connection } }
        connection.disconnect()
    }

    /// Answers the lines of a connection until it ends.
    private func serve(_ connection: AttachConnection) {
        var evaluation: AttachEvaluation?
        connection.send(AttachConnection.Reply(kind: .done, text: greeting))
        while let line = connection.readLine() {
            if line == AttachConnection.interrupt {
                evaluation?.interrupt()
            } else if line.hasPrefix(":"), !line.hasPrefix("::") {
                connection.send(AttachConnection.Reply(kind: .done, text: reply(toCommand: line)))
            } else {
                // The peer sends an incomplete text again, with the next line.
                evaluation = AttachEvaluation(AttachConnection.decode(line), for: connection)
                evaluation?.begin(in: runtime)
            }
        }
        evaluation?.interrupt()
        drop(connection)
    }

    private var greeting: String {
        let count = runtime.monitor.unfinishedOperations().count
        return
            "attached to process \(getpid()), \(title): \(count) unfinished operation\(count == 1 ? "" : "s"); :help shows the commands\n"
    }

    /// The commands of an attached prompt.
    static let commands =
        [(":help", "", "shows this")] + RunCommand.names + [(":detach", "", "leaves the process running, as Ctrl-D does")]

    private func reply(toCommand line: String) -> String {
        if let command = RunCommand(line) { return command.perform(on: runtime.monitor) }
        if line != ":help" { return PromptCommand.unknown(line, among: Self.commands) }
        return PromptCommand.help(of: Self.commands)
            + "Anything else is evaluated in the main state, as soon as that waits. Ctrl-C gives it up.\n"
    }
}
