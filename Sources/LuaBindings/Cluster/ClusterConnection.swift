import Glibc
import OpCluster
import OpEngine
import OpPlatform

/// The connection of a runtime to a cluster: the coordinator, and the state that all operations on workers share.
final class ClusterConnection: Sendable {
    private struct State {
        /// The description of the run for workers, and the version of the published values that it was made from.
        var setup: (blob: Blob, version: Int)?
        /// The templates of the setup by which `require` finds modules.
        var modulePath = ""
        /// The sources that workers have asked for, if they were found here.
        var modules: [String: ClusterModules.Source] = [:]
        var executors: [WeakExecutor] = []
        /// The file by which workers find out whether they see the same files. The first operation with files makes it.
        var token: ClusterFiles.Token?
        /// The inputs of the operations that workers have, by task. The files are read when a worker asks for them.
        var inputs: [UInt64: Inputs] = [:]
    }

    private struct Inputs {
        let paths: [String]
        var files: [SentFile]?
        /// Whether a thread reads them now.
        var areBeingRead = false
    }

    private struct WeakExecutor { weak var executor: ClusterExecutor? }

    /// Passes on the coordinator's events, which may arrive before the connection is complete.
    private final class Receiver: Sendable {
        private let connection = Guarded<Weak>(Weak())

        private struct Weak { weak var connection: ClusterConnection? }

        func attach(_ connection: ClusterConnection) { self.connection.withLock { $0.connection = connection } }
        var receiver: ClusterConnection? { connection.withLock { $0.connection } }
    }

    /// The URL of the server, without passwords.
    let shownURL: String
    let tell: @Sendable (String) -> Void
    /// Whether a person is told that no worker answers.
    private let tellsOfAbsence: Bool
    let waiting = Guarded(Waiting())
    let start = Guarded(Start.underWay([]))
    let coordinator: Coordinator
    let marksOutput: Bool
    let frozenValues = FrozenValues()
    private unowned let core: RuntimeCore
    private let moduleLoader: (@Sendable (String) throws -> String?)?
    private let state = Guarded(State())
    /// Runs the functions of `run`. No count, record or list includes this queue. Closing the runtime does not cancel its operations,
    /// because other operations finish only if these run.
    private let localQueue: OperationQueue

    /// Makes a connection that `connect` starts.
    ///
    /// - Throws: an error if strangers could use the cluster to run code on the workers, or this process lacks the library that connects.
    init(_ settings: Runtime.Cluster, core: RuntimeCore, moduleLoader: (@Sendable (String) throws -> String?)?) throws(LuaError) {
        do throws(ClusterError) { try settings.checkSecurity() } catch { throw LuaError(message: error.description) }
        if let missing = NatsFabric.missing { throw LuaError(message: missing) }
        self.core = core
        self.moduleLoader = moduleLoader
        shownURL = settings.server.shownURL
        tellsOfAbsence = settings.tellsOfAbsence
        marksOutput = settings.marksOutput
        localQueue = core.engine.helperQueue
        let receiver = Receiver(), output = core.output
        var events = Coordinator.Events()
        tell = settings.notice ?? { output.report("opscript: \($0)\n") }
        events.notice = tell
        events.slotsHaveChanged = { receiver.receiver?.slotsHaveChanged(to: $0) }
        events.answer = { question, completion in receiver.receiver?.answer(question, completion) }
        coordinator = Coordinator(NatsFabric(settings.server), key: settings.key, version: Runtime.version, events: events)
        receiver.attach(self)
    }

    func close() {
        guard mayCloseNow() else { return }
        coordinator.close()
        if let token = state.withLock({ $0.token }) { unsafe unlink(token.path) }
    }

    /// Runs `body` on a thread of the engine, which has a Lua state. An operation needs a state before it leaves, and after it has returned.
    func run(_ body: @escaping @Sendable () -> Void) {
        // An engine that was shut down refuses the body. The operation cannot be finished then.
        try? localQueue.tryAddOperation(BlockOperation(block: body))
    }

    // MARK: queues

    /// A new executor for a queue. The connection must have started.
    ///
    /// - Throws: an error if there is no connection.
    func executor(named name: String, _ delivery: ClusterExecutor.Delivery) throws(LuaError) -> ClusterExecutor {
        if let startError { throw startError }
        let executor = ClusterExecutor(self, queue: name, delivery)
        state.withLock { state in
            state.executors.removeAll { $0.executor == nil }
            state.executors.append(WeakExecutor(executor: executor))
        }
        return executor
    }

    private var executors: [ClusterExecutor] { state.withLock { $0.executors.compactMap(\.executor) } }

    private func slotsHaveChanged(to count: Int) {
        if count > 0 { workersAnswer() } else if hasWaitingOperations { operationsWait() }
        for executor in executors { executor.startMore() }
    }

    /// Whether operations could start if a worker answered, or were sent and have not returned.
    var hasWaitingOperations: Bool { executors.contains { $0.hasOperations } }

    /// Notes that operations could start if a worker answered.
    func operationsWait() { if tellsOfAbsence { noWorkerAnswers() } }

    // MARK: the setup

    /// The description of the run for the workers. `state` is the calling thread's.
    func setup(in state: LuaState) throws(Failure) -> Blob {
        let version = core.publishedVersion
        if let known = self.state.withLock({ $0.setup }), known.version == version { return known.blob }
        let published = core.published
        try core.prepare(state)
        let path = try state.modulePath()
        let blob = try ClusterSetup.blob(of: core, published)
        self.state.withLock { state in
            state.setup = (blob, version)
            state.modulePath = path
        }
        return blob
    }

    // MARK: files

    /// The files of an operation; nil if it has none.
    func files(of step: StoredStep) -> ClusterFiles? {
        guard let (inputs, outputs) = step.files, !inputs.isEmpty || !outputs.isEmpty else { return nil }
        let directory = ClusterFiles.workingDirectory
        let token = state.withLock { state in
            if let token = state.token { return token }
            let contents = "opscript \(coordinator.run) \(UInt64.random(in: .min ... .max))\n"
            let token = ClusterFiles.Token(path: "\(directory)/.opscript-token-\(coordinator.run)", contents: contents)
            // If the file cannot be written, no worker finds it, and workers fetch the files.
            let blob = Blob(copying: Array(contents.utf8))
            try? SentFile(path: ".opscript-token-\(coordinator.run)", mode: 0o644, blob: blob).write(below: directory)
            state.token = token
            return token
        }
        return ClusterFiles(
            token: token, inputs: inputs.map { ClusterFiles.relative($0, to: directory) },
            outputs: outputs.map { ClusterFiles.relative($0, to: directory) })
    }

    /// Lets the worker of a task ask for these files.
    func setInputs(_ inputs: [String], of number: UInt64) { state.withLock { $0.inputs[number] = Inputs(paths: inputs) } }

    func releaseInputs(of number: UInt64) {
        let forgotten = state.withLock { $0.inputs.removeValue(forKey: number) }
        withExtendedLifetime(forgotten) {}
    }

    /// Answers the question of a worker.
    private func answer(_ question: [UInt8], _ completion: @escaping @Sendable ([UInt8]) -> Void) {
        switch ClusterQuestion(question) {
        // Reading files can take long, and messages must not wait for that.
        case .module(let name): runApart { [self] in completion(answer(forModule: name)) }
        case .inputs(let number): answerForInputs(of: number, completion)
        case nil: break
        }
    }

    private func answerForInputs(of number: UInt64, _ completion: @escaping @Sendable ([UInt8]) -> Void) {
        let (paths, known) = state.withLock { state -> ([String]?, [SentFile]?) in
            guard let inputs = state.inputs[number], inputs.files == nil else { return (nil, state.inputs[number]?.files) }
            // A worker that asks while a thread reads the files repeats its question later.
            if inputs.areBeingRead { return (nil, nil) }
            state.inputs[number]?.areBeingRead = true
            return (inputs.paths, nil)
        }
        if let known { return completion(ClusterQuestion.answer(known)) }
        guard let paths else { return }
        runApart { [self] in
            let files = ClusterFiles.read(paths, below: ClusterFiles.workingDirectory)
            for file in files { coordinator.offer(file.blob) }
            state.withLock { $0.inputs[number]?.files = files }
            completion(ClusterQuestion.answer(files))
        }
    }

    // MARK: modules

    private func answer(forModule name: String) -> [UInt8] {
        let (known, path) = state.withLock { ($0.modules[name], $0.modulePath) }
        let source = known ?? ClusterModules.find(name, path: path, loader: moduleLoader)
        if let source {
            // Functions of the module may return from a worker.
            if known == nil { unsafe SentCode.add(text: source.blob.bytes, chunkName: source.chunkName) }
            state.withLock { $0.modules[name] = source }
            coordinator.offer(source.blob)
        }
        return ClusterModules.answer(source)
    }
}
