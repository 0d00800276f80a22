import ClusterSupport
import Glibc
import TestSupport

/// A server with workers, all on this machine.
final class TestCluster: Sendable {
    let server: NatsServer
    /// The URL to which all members connect: that of the server, or of a proxy before it.
    let url: String
    let proxy: TCPProxy?
    /// The working directory of the workers, without the files of scripts.
    private let directory: ScratchDirectory
    private let workers = Locked<[Daemon]>([])
    private let workerCount = Locked(0)

    /// Starts a server and workers.
    init(workers: Int = 2, slots: Int = 2, isProxied: Bool = false) throws {
        server = try NatsServer()
        proxy = isProxied ? try TCPProxy(to: server.port) : nil
        url = proxy?.url ?? server.url
        directory = try ScratchDirectory()
        for _ in 0..<workers { try addWorker("--slots", "\(slots)") }
    }

    deinit { for worker in allWorkers { worker.kill() } }

    /// Runs `body` with a cluster, on a thread of its own, so that other tests may use the threads of the tasks' pool.
    static func run<Value: Sendable>(
        workers: Int = 2, slots: Int = 2, isProxied: Bool = false, _ body: @escaping @Sendable (TestCluster) throws -> Value
    ) async throws -> Value {
        try await onOwnThread {
            let cluster = try TestCluster(workers: workers, slots: slots, isProxied: isProxied)
            return try body(cluster)
        }
    }

    var allWorkers: [Daemon] { workers.withLock { $0 } }

    /// The command that makes a worker.
    func workerCommand(_ options: [String]) -> Command {
        var command = Command.opscript()
        command.arguments = ["worker", "--cluster", url] + options
        // With many arenas, free memory is fragmented and looks like memory in use.
        return command.directory(directory.path).environment(["MALLOC_ARENA_MAX": "1"])
    }

    /// Starts a worker, whose name is `w` and its number, from 1.
    ///
    /// - Parameter memory: the number of bytes that it may have for its data; nil for any.
    @discardableResult
    func addWorker(_ options: String..., memory: Int? = nil) throws -> Daemon {
        let number = workerCount.withLock { count in
            count += 1
            return count
        }
        let command = workerCommand(["--name", "w\(number)"] + options)
        let worker = try Daemon(memory.map { command.limited(toDataOf: $0) } ?? command, readyWhen: "at once")
        workers.withLock { $0.append(worker) }
        return worker
    }

    /// The command, with the cluster for all queues.
    func opscript(_ arguments: String...) -> Command {
        var command = Command.opscript("--cluster", url)
        command.arguments += arguments
        return command
    }

    /// A script, whose queues use the cluster.
    func command(_ script: String, _ options: String..., arguments: [String] = []) -> Command {
        var command = Command.opscript()
        command.arguments = ["--cluster", url] + options + ["-"] + arguments
        command.timeout = 120
        return command.input(script)
    }

    /// Runs a script, whose queues use the cluster.
    func run(_ script: String, arguments: [String] = []) throws -> Outcome { try command(script, arguments: arguments).run() }

    /// Starts a script that runs beside the test, and waits until it prints `ready`.
    func start(_ script: String, _ options: String..., arguments: [String] = [], directory: String? = nil) throws -> Daemon {
        var command = command(script, arguments: arguments)
        if let directory { command = command.directory(directory) }
        command.arguments = options + command.arguments
        return try Daemon(command, readyWhen: "ready")
    }
}

/// Runs `body` on a thread of its own.
func onOwnThread<Value: Sendable>(_ body: @escaping @Sendable () throws -> Value) async throws -> Value {
    try await withCheckedThrowingContinuation { done in startThread { done.resume(with: Result { try body() }) } }
}

/// Replaces a value, and returns the former one.
func exchange<Value>(_ value: inout Value, with other: Value) -> Value {
    let former = value
    value = other
    return former
}
