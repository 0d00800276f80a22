import Glibc
public import OpCluster
import OpEngine
import OpPlatform

/// Runs the bodies that a cluster sends. Each run of a script has a runtime of its own here, with the run's modules and preludes.
public final class ClusterRunner: ClusterWorker.Runner {
    private let slots: Int
    private let memoryLimit: Int?
    private let folder: WorkerFolder
    private let runs = Guarded<[String: ClusterRun]>([:])
    /// Held while a run is made or updated: several threads may begin tasks at once.
    private let preparing = Guarded(())
    private let ending = Guarded(Ending())

    /// The runs that have ended, while their bodies may still execute.
    private struct Ending {
        var count = 0
        var waiters: [Awaited<Void>] = []
    }

    /// Makes a runner.
    ///
    /// - Parameters:
    ///   - slots: the number of bodies that run at once.
    ///   - memoryLimit: the bytes that a body may use, whatever its own limit is; nil for no limit.
    ///   - directory: the place for the files of runs, if this machine does not see the coordinator's files.
    public init(slots: Int, memoryLimit: Int?, directory: String) {
        (self.slots, self.memoryLimit) = (slots, memoryLimit)
        folder = WorkerFolder(base: directory)
    }

    /// Makes a directory for the files of runs, unless it exists.
    ///
    /// - Returns: false, with `errno` set, if this process cannot make files there.
    public static func prepareDirectory(_ path: String) -> Bool {
        makeFolders(of: path + "/")
        return unsafe access(path, W_OK | X_OK) == 0
    }

    /// See `ClusterWorker.Runner`.
    public func run(_ task: WorkerTask) {
        do throws(Failure) {
            let run = try preparing.withLock { _ in Result { () throws(Failure) in try prepared(for: task) } }.get()
            try run.start(task)
        } catch {
            task.finish(ClusterOutcome.failure(error))
        }
    }

    private func prepared(for task: WorkerTask) throws(Failure) -> ClusterRun {
        if let known = runs.withLock({ $0[task.run] }) {
            try known.apply(task)
            return known
        }
        let made = try ClusterRun(slots: slots, memoryLimit: memoryLimit, folder, firstTask: task)
        try made.apply(task)
        runs.withLock { $0[task.run] = made }
        // The run may have ended before `runs` had it.
        if task.isOver { runHasEnded(task.run) }
        return made
    }

    /// See `ClusterWorker.Runner`.
    public func stop(_ task: WorkerTask, _ request: StopRequest) { runs.withLock { $0[task.run] }?.stop(task, request) }

    /// See `ClusterWorker.Runner`.
    public func detach(_ task: WorkerTask) { folder.leave(task) }

    /// See `ClusterWorker.Runner`.
    public func runHasEnded(_ run: String) {
        guard let ended = runs.withLock({ $0.removeValue(forKey: run) }) else { return }
        ending.withLock { $0.count += 1 }
        // Bodies may take long to end, so closing has a thread of its own.
        runApart { [self] in
            ended.close()
            let waiters = ending.withLock { ending in
                ending.count -= 1
                return ending.count == 0 ? exchange(&ending.waiters, with: []) : []
            }
            for waiter in waiters { waiter.give(()) }
        }
    }

    /// Waits until the runs that have ended are closed: their bodies have returned, and their files are removed.
    public func waitForEndedRuns() {
        let ended = Awaited<Void>()
        let isOver = ending.withLock { ending in
            if ending.count > 0 { ending.waiters.append(ended) }
            return ending.count == 0
        }
        if !isOver { ended.get() }
    }
}

/// A script's run at a worker.
final class ClusterRun: Sendable {
    private typealias ModuleSource = (text: [UInt8], chunkName: String)

    private struct State {
        /// The operations here, by their tasks. An operation may be here twice, if the coordinator believed that it was lost.
        var operations: [ObjectIdentifier: LuaOperation] = [:]
        /// The tasks, by their operations.
        var tasks: [ObjectIdentifier: RunningTask] = [:]
        /// The newest task. Questions to the coordinator name a task.
        var lastTask: WorkerTask
        var setup: BlobName?
        var preludeCount = 0
        /// The queues, by their names.
        var queues: [String?: OperationQueue] = [:]
        /// The sources of modules that the coordinator has sent.
        var modules: [String: ModuleSource] = [:]
    }

    private let runtime: Runtime
    private let memoryLimit: Int?
    private let folder: WorkerFolder
    /// The folder for the run's files, if this machine does not see the coordinator's.
    private let ownFolder: String
    /// The script's working directory, or the folder of the run if this machine has no such directory.
    private let directory: String
    private let frozenValues = FrozenValues()
    private let state: Guarded<State>

    /// Passes on the output of bodies. The runtime needs it before the run is complete.
    private final class Outlet: Sendable {
        private let run = Guarded<Weak>(Weak())

        private struct Weak { weak var run: ClusterRun? }

        func attach(_ run: ClusterRun) { self.run.withLock { $0.run = run } }
        var receiver: ClusterRun? { run.withLock { $0.run } }
    }

    init(slots: Int, memoryLimit: Int?, _ folder: WorkerFolder, firstTask: WorkerTask) throws(Failure) {
        guard let setup = firstTask.blobs.first else { throw WireReader.malformed }
        let outlet = Outlet()
        var configuration = Runtime.Configuration()
        configuration.workerCount = slots
        configuration.ignoresEnvironment = true
        configuration.hostMayAddOperations = true
        configuration.servesCluster = true
        configuration.output = { outlet.receiver?.write($0, to: 1) }
        configuration.errorOutput = { outlet.receiver?.write($0, to: 2) }
        let (settings, _) = try ClusterSetup.settings(in: setup)
        do throws(LuaError) {
            configuration.randomSeed = settings.randomSeed
            configuration.stateMemoryLimit = settings.stateMemoryLimit
            runtime = try Runtime(configuration)
            try runtime.add(ModuleLoader { name in try outlet.receiver?.source(ofModule: name) })
            if settings.showsWarnings { try runtime.enableWarnings() }
        } catch { throw Failure(message: "a worker cannot prepare for the run: \(error.message)") }
        (self.memoryLimit, self.folder) = (memoryLimit, folder)
        ownFolder = folder.newFolder(of: firstTask.run)
        directory = isFolder(settings.directory) ? settings.directory : ownFolder
        state = Guarded(State(lastTask: firstTask))
        outlet.attach(self)
    }

    /// Begins to run a task.
    func start(_ task: WorkerTask) throws(Failure) {
        let received = try ClusterOutcome.operation(of: task, core: runtime.core, memoryLimit: memoryLimit, frozenValues)
        let (operation, files, queue) = (received.operation, received.files, queue(named: received.queue))
        let before = operation.storage
        let sent = files.flatMap { $0.token.isSeen ? nil : $0 }
        let running = RunningTask(task)
        state.withLock { state in
            state.operations[ObjectIdentifier(task)] = operation
            state.tasks[ObjectIdentifier(operation)] = running
            state.lastTask = task
        }
        operation.whenFinished { [self, unowned operation] in
            var made: [SentFile] = []
            if let sent, operation.outcome == .succeeded { made = ClusterFiles.read(sent.outputs, below: ownFolder) }
            finish(operation, of: task, running) { others in
                ClusterOutcome.payload(of: operation, before: before, received.failures, others: others, files: made, frozenValues)
            }
        }
        // A request to stop the task may have arrived before the task.
        if let request = task.stopRequest { stop(task, request) }
        folder.enter(sent == nil ? directory : ownFolder, for: task) { [self] in
            guard let sent else { return add(operation, of: task, running, to: queue) }
            // Fetching the files waits for them, so it has a thread of its own.
            runApart { [self] in
                do throws(Failure) { try sent.fetch(for: task, into: ownFolder) } catch {
                    operation.fail(with: OperationFailure(error, kind: .error, of: operation))
                    operation.dropBodies()
                }
                add(operation, of: task, running, to: queue)
            }
        }
    }

    /// Adds an operation to its queue. If the run has ended meanwhile, the operation fails.
    private func add(_ operation: LuaOperation, of task: WorkerTask, _ running: RunningTask, to queue: OperationQueue) {
        do { try queue.tryAddOperation(operation) } catch {
            finish(operation, of: task, running) { _ in ClusterOutcome.failure(Failure(message: "the run has ended")) }
        }
    }

    /// Sends the outcome of a task that has ended or never begins.
    ///
    /// - Parameter payload: makes the outcome. It gets the failures of operations that bodies have made, and that no code has read.
    private func finish(
        _ operation: LuaOperation, of task: WorkerTask, _ running: RunningTask, with payload: ([OperationFailure]) -> Payload
    ) {
        // The outcome reports this failure. Mark it first, because other threads take unread failures.
        (operation.error as? OperationFailure)?.markRead()
        let others = state.withLock { state -> [OperationFailure] in
            state.operations[ObjectIdentifier(task)] = nil
            state.tasks[ObjectIdentifier(operation)] = nil
            // Another body may still read them.
            if !state.tasks.isEmpty { return [] }
            for sentence in runtime.takeFailedPrograms() { runtime.core.report("opscript: \(sentence)\n") }
            return runtime.takeUnreadFailures()
        }
        running.flush()
        folder.leave(task)
        task.finish(payload(others))
    }

    /// The queue with this name. All of its operations execute at once: the cluster's worker limits their number.
    private func queue(named name: String?) -> OperationQueue {
        state.withLock { state in
            if let known = state.queues[name] { return known }
            let queue = OperationQueue(engine: runtime.engine)
            queue.name = name
            queue.maxConcurrentOperationCount = .max
            state.queues[name] = queue
            return queue
        }
    }

    /// Applies the setup of a task, unless it is the present one.
    func apply(_ task: WorkerTask) throws(Failure) {
        guard let blob = task.blobs.first else { throw WireReader.malformed }
        let (known, preludeCount) = state.withLock { ($0.setup, $0.preludeCount) }
        if known == blob.name { return }
        let count = try ClusterSetup.apply(blob, to: runtime.core, skippingPreludes: preludeCount)
        state.withLock { state in (state.setup, state.preludeCount) = (blob.name, count) }
    }

    func stop(_ task: WorkerTask, _ request: StopRequest) {
        guard let operation = state.withLock({ $0.operations[ObjectIdentifier(task)] }) else { return }
        if request == .cancel { operation.cancel() } else { operation.interrupt() }
    }

    /// Closes the runtime, which ends its operations and waits for them, and removes the run's files.
    func close() {
        runtime.close(deadline: .seconds(10))
        folder.remove(ownFolder)
    }

    // MARK: what bodies need

    private func write(_ bytes: [UInt8], to stream: UInt8) {
        let current = LuaState.ofThread?.currentOperation
        let task = state.withLock { state in current.flatMap { state.tasks[ObjectIdentifier($0)] } ?? state.tasks.values.first }
        task?.write(bytes, to: stream)
    }

    private func source(ofModule name: String) throws -> ModuleSource? {
        let (known, task) = state.withLock { ($0.modules[name], $0.lastTask) }
        if let known { return known }
        let fetched = try ClusterModules.fetch(name, for: task)
        state.withLock { $0.modules[name] = fetched }
        return fetched
    }
}

/// A task that runs here, and its output since the last newline.
private final class RunningTask: Sendable {
    private let task: WorkerTask
    private let pending = Guarded<[[UInt8]]>([[], []])

    init(_ task: WorkerTask) { self.task = task }

    /// Passes on the whole lines of the output.
    func write(_ bytes: [UInt8], to stream: UInt8) {
        let lines = pending.withLock { pending -> [UInt8] in
            let index = Int(stream) - 1
            // Pending bytes have no newline.
            guard let end = bytes.lastIndex(of: UInt8(ascii: "\n")) else {
                pending[index] += bytes
                return []
            }
            defer { pending[index] = Array(bytes[(end + 1)...]) }
            return pending[index] + bytes[...end]
        }
        if !lines.isEmpty { task.write(lines, to: stream) }
    }

    /// Passes on the rest, as a line.
    func flush() {
        let rest = pending.withLock { pending in
            defer { pending = [[], []] }
            return pending
        }
        for (index, bytes) in rest.enumerated() where !bytes.isEmpty { task.write(bytes + [UInt8(ascii: "\n")], to: UInt8(index + 1)) }
    }
}
