import CTerminal
import Glibc
import LuaBindings
import OpCluster
import OpEngine
import OpPlatform
import Reports

/// `opscript worker`: runs operations of other processes, on this machine.
enum WorkerCommand {
    /// The options after the word `worker`.
    private struct Settings {
        var cluster = ClusterOptions()
        var slots: Int?
        var name: String?
        var directory: String?
        var memoryLimit: Int?
        var cacheSize = 256 << 20

        init(_ words: [String]) throws(UsageError) {
            var index = 0
            while index < words.count {
                let word = words[index]
                index += 1
                if try cluster.read(word, from: words, &index) { continue }
                let parts = word.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
                var value = parts.count > 1 ? parts[1] : ""
                if parts.count == 1, index < words.count, ["--slots", "--name", "--memory-limit", "--cache", "--directory"].contains(word) {
                    value = words[index]
                    index += 1
                }
                switch parts[0] {
                case "--slots":
                    guard let count = Int(value), (1...WorkerDescription.mostSlots).contains(count) else {
                        throw UsageError(message: "'--slots' needs a number from 1 to 1000, and not '\(value)'")
                    }
                    slots = count
                case "--name":
                    if value.isEmpty { throw UsageError(message: "'--name' needs a name") }
                    name = value
                case "--directory":
                    if !value.hasPrefix("/") { throw UsageError(message: "'--directory' needs an absolute path, and not '\(value)'") }
                    directory = value
                case "--memory-limit": memoryLimit = try Self.size(value, parts[0])
                case "--cache": cacheSize = try Self.size(value, parts[0])
                default: throw UsageError(message: "unrecognized option '\(word)'")
                }
            }
            if cluster.url == nil { throw UsageError(message: "a worker needs '--cluster' and the URL of a NATS server") }
        }

        private static func size(_ text: String, _ option: String) throws(UsageError) -> Int {
            guard let size = ByteSize.parse(text), size > 0 else {
                throw UsageError(message: "'\(option)' needs a size: \(ByteSize.form), such as 512M, and not '\(text)'")
            }
            return size
        }
    }

    static let usage = """
        usage: opscript worker --cluster URL [options]
        Runs the operations of scripts that use the cluster, until SIGINT or SIGTERM; a second one does not wait for those that run.
          --slots N             run at most N operations at once (default: the processors this process may use)
          --name NAME           how others call this worker (default: the machine's name and the process's number)
          --memory-limit SIZE   limit the memory of each operation; SIZE is bytes, or has a suffix k, M, G or T
          --cache SIZE          keep so many bytes of large values for later operations (default: 256M)
          --directory DIR       put the files of runs that are not seen on this machine into DIR (default: TMPDIR, or /tmp)
        \(ClusterOptions.usage)

        """

    /// Runs until a signal ends it. Returns the exit status.
    static func run(_ words: [String], name: String) -> Int32 {
        if words == ["--help"] {
            Message.output(usage)
            return 0
        }
        do {
            let settings = try Settings(words)
            guard let cluster = try settings.cluster.cluster() else { return 1 }
            return try run(settings, cluster, name)
        } catch let error as UsageError {
            Message.write("\(name): \(error.message)\n\(usage)")
        } catch { Message.write("\(name): \(error)\n") }
        return 1
    }

    private static func run(_ settings: Settings, _ cluster: Runtime.Cluster, _ name: String) throws -> Int32 {
        // No other thread exists yet, so all threads will block the signals, and only `sigwait` gets them.
        let signals = SignalSet()
        // A body that writes to a command that has ended gets an error, and does not end the worker.
        signal(SIGPIPE, SIG_IGN)
        if let missing = NatsFabric.missing { throw ClusterError(missing) }
        let slots = settings.slots ?? Engine.processorCount
        let notice: @Sendable (String) -> Void = { Message.write("\(name): \($0)\n") }
        let directory = settings.directory ?? Environment.value("TMPDIR") ?? "/tmp"
        guard ClusterRunner.prepareDirectory(directory) else {
            throw ClusterError("no files can be put into '\(directory)' (--directory): \(unsafe String(cString: strerror(errno)))")
        }
        let runner = ClusterRunner(slots: slots, memoryLimit: settings.memoryLimit, directory: directory)
        var events = ClusterWorker.Events()
        events.notice = notice
        events.load = { MachineLoad.now }
        let host = MachineLoad.hostName
        let description = WorkerDescription(
            name: settings.name ?? "\(host)-\(getpid())", host: host, process: Int(getpid()), version: Runtime.version)
        let worker = ClusterWorker(
            NatsFabric(cluster.server), key: cluster.key, description: description, slots: slots, keptBytes: settings.cacheSize,
            runner: runner, events: events)
        let started = Awaited<ClusterError?>()
        runApart { worker.start { started.give($0) } }
        if let error = signals.ending({ started.get() }) { throw error }
        // Bodies do not need the password.
        unsafe unsetenv("OPSCRIPT_CLUSTER_PASSWORD")
        notice("worker \(description.name) runs \(slots) operation\(slots == 1 ? "" : "s") at once")
        signals.wait()
        notice("worker \(description.name) ends when its operations have")
        let drained = Awaited<Bool>()
        worker.drain { drained.give(true) }
        startThread {
            signals.wait()
            drained.give(false)
        }
        let isDrained = drained.get()
        worker.close()
        if !isDrained { _exit(1) }
        runner.waitForEndedRuns()
        return 0
    }
}

/// The signals that end a worker.
private struct SignalSet: Sendable {
    private let signals: sigset_t

    init() {
        var signals = sigset_t()
        unsafe sigemptyset(&signals)
        for signal in [SIGINT, SIGTERM] { unsafe sigaddset(&signals, signal) }
        unsafe pthread_sigmask(SIG_BLOCK, &signals, nil)
        self.signals = signals
    }

    /// Calls `body` with the signals unblocked: they may end this process, because it has no work yet.
    func ending<Result>(_ body: () -> Result) -> Result {
        var signals = signals
        unsafe pthread_sigmask(SIG_UNBLOCK, &signals, nil)
        defer { unsafe pthread_sigmask(SIG_BLOCK, &signals, nil) }
        return body()
    }

    func wait() {
        var signals = signals, signal: Int32 = 0
        while unsafe sigwait(&signals, &signal) != 0 {}
    }
}

/// The facts about its machine that a worker reports.
enum MachineLoad {
    static var now: Double {
        var load = 0.0
        return unsafe getloadavg(&load, 1) == 1 ? load : 0
    }

    static var hostName: String {
        var name = [CChar](repeating: 0, count: 256)
        guard unsafe gethostname(&name, name.count - 1) == 0 else { return "unknown" }
        return String(decoding: name.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }
}
