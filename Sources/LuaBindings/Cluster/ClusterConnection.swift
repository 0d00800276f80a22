import CLua
import Glibc
import OpCluster
@_spi(Locking) import OpEngine

/// A runtime's part in a cluster: the coordinator, and what all operations that go to the workers share.
final class ClusterConnection: Sendable {
    private struct State {
        /// What workers need to know about the run, and the version of what it was made of.
        var setup: (blob: Blob, version: Int)?
        /// The templates by which `require` finds modules, as the setup has them.
        var modulePath = ""
        /// The sources that workers have asked for, as far as they are here.
        var modules: [String: ClusterModules.Source] = [:]
        var executors: [WeakExecutor] = []
        /// The file by which workers tell whether they see the same files. Made when the first operation has files.
        var token: ClusterFiles.Token?
        /// The inputs of the operations that are with workers, and the files that they have asked for.
        var inputs: [UInt64: Inputs] = [:]
    }

    private struct Inputs {
        let paths: [String]
        var files: [SentFile]?
        /// Whether somebody reads them now.
        var areBeingRead = false
    }

    private struct WeakExecutor { weak var executor: ClusterExecutor? }

    /// Events come before the connection is complete.
    private final class Receiver: Sendable {
        private let connection = Guarded<Weak>(Weak())

        private struct Weak { weak var connection: ClusterConnection? }

        func attach(_ connection: ClusterConnection) { self.connection.withLock { $0.connection = connection } }
        var receiver: ClusterConnection? { connection.withLock { $0.connection } }
    }

    /// The server, without passwords.
    let shownURL: String
    let tell: @Sendable (String) -> Void
    /// Whether a person is told that there are no workers.
    private let tellsOfAbsence: Bool
    let waiting = Guarded(Waiting())
    let start = Guarded(Start.underWay([]))
    let coordinator: Coordinator
    let marksOutput: Bool
    let frozenValues = FrozenValues()
    private unowned let core: RuntimeCore
    private let moduleLoader: (@Sendable (String) throws -> String?)?
    private let state = Guarded(State())
    /// A queue that no count, record or list includes, and whose operations closing the runtime does not cancel: others end only if they run.
    private let localQueue: OperationQueue

    /// Makes a connection that is not there yet.
    ///
    /// - Throws: an error if others could use the cluster to run code on the workers, or this process cannot connect to any.
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

    /// Runs what an operation needs a Lua state for, before it leaves and after it has come back: on a thread of the engine.
    func run(_ body: @escaping @Sendable () -> Void) {
        // An engine that was shut down refuses it. Nothing can be done for the operation then.
        try? localQueue.tryAddOperation(BlockOperation(block: body))
    }

    // MARK: queues

    /// A new executor for a queue. To be called when the connection has started.
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

    /// Whether operations could start if there were a worker, or have started and need one.
    var hasWaitingOperations: Bool { executors.contains { $0.hasOperations } }

    /// Operations could start if there were a worker.
    func operationsWait() { if tellsOfAbsence { noWorkerAnswers() } }

    // MARK: the setup

    /// What the workers need to know about the run. `state` is the calling thread's.
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
            // Where it cannot be made, workers get the files.
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
        // Reading files may take its time, and messages must not wait for that.
        case .module(let name): onNewThread { [self] in completion(answer(forModule: name)) }
        case .inputs(let number): answerForInputs(of: number, completion)
        case nil: break
        }
    }

    private func answerForInputs(of number: UInt64, _ completion: @escaping @Sendable ([UInt8]) -> Void) {
        let (paths, known) = state.withLock { state -> ([String]?, [SentFile]?) in
            guard let inputs = state.inputs[number], inputs.files == nil else { return (nil, state.inputs[number]?.files) }
            // Whoever asks again while they are being read asks once more later.
            if inputs.areBeingRead { return (nil, nil) }
            state.inputs[number]?.areBeingRead = true
            return (inputs.paths, nil)
        }
        if let known { return completion(ClusterQuestion.answer(known)) }
        guard let paths else { return }
        onNewThread { [self] in
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
            state.withLock { $0.modules[name] = source }
            coordinator.offer(source.blob)
        }
        return ClusterModules.answer(source)
    }
}
