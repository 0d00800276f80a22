/// A NATS server of the test's own, and workers. They end with this object, and with the process of the test.
final class LiveCluster {
    let url: String
    private let directory: ScratchDirectory
    private let server: RunningCommand
    private var workers: [RunningCommand] = []

    init() throws {
        directory = try ScratchDirectory()
        server = try Self.start("nats-server", ["-js", "-sd", directory.path, "-a", "127.0.0.1", "-p", "-1"])
        var port: Substring?
        var line = ""
        while !line.contains("Server is ready") {
            line = try server.errors.line()
            if let match = line.firstMatch(of: /client connections on 127\.0\.0\.1:(\d+)/) { port = match.1 }
        }
        guard let port else { throw CommandError(description: "nats-server does not say its port") }
        url = "nats://127.0.0.1:\(port)"
    }

    deinit {
        for worker in workers { _ = try? worker.wait() }
        _ = try? server.wait()
    }

    /// Starts a worker, and returns when it is connected.
    func addWorker(_ name: String, slots: Int) throws {
        let worker = try Self.start(
            Paths.opscript, ["worker", "--cluster", url, "--name", name, "--slots", "\(slots)"])
        workers.append(worker)
        let line = try worker.errors.line()
        if !line.contains("worker \(name) runs \(slots) operation") { throw CommandError(description: "no worker: \(line)") }
    }

    /// Ends all workers.
    func removeWorkers() throws {
        for worker in workers { _ = try worker.wait() }
        workers = []
    }

    /// A command that uses the cluster.
    func command(_ arguments: String...) -> Command {
        var command = Command.opscript("--cluster", url)
        command.arguments += arguments
        return command
    }

    /// Starts a program that ends with SIGTERM when its input is closed.
    private static func start(_ program: String, _ arguments: [String]) throws -> RunningCommand {
        let script = #""$@" & read line; kill "$!"; wait "$!""#
        return try RunningCommand(Command(program: "/bin/sh", name: "sh", arguments: ["-c", script, "sh", program] + arguments))
    }
}
