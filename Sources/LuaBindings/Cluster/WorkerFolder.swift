import CIO
import Glibc
import OpCluster
import OpEngine
import OpPlatform
import Synchronization

/// The working directory of a worker's process: that of the script whose operations run, or a folder with the files of its run. A process
/// has only one, so operations that need different ones take turns.
final class WorkerFolder: Sendable {
    fileprivate typealias Waiter = (path: String, task: WorkerTask, body: @Sendable () -> Void)

    fileprivate struct State {
        var path: String
        /// The tasks that need the directory now.
        var tasks: Set<ObjectIdentifier> = []
        var waiters: [Waiter] = []
    }

    /// The directory in which the process began.
    private let home: String
    private let base: String
    private let state: Guarded<State>
    private let count = Atomic<Int>(0)

    /// - Parameter base: the place for the folders of runs.
    init(base: String) {
        self.base = base
        home = ClusterFiles.workingDirectory
        state = Guarded(State(path: home))
    }

    /// Names a new folder for the files of a run. A run that ends and returns gets another one.
    func newFolder(of run: String) -> String {
        "\(base)/opscript-\(getpid())-\(run)-\(count.wrappingAdd(1, ordering: .relaxed).newValue)"
    }

    /// Calls `body` when `path` is the working directory. The directory stays until the task leaves. Makes the folder if it is missing.
    func enter(_ path: String, for task: WorkerTask, _ body: @escaping @Sendable () -> Void) {
        let mayEnter = state.withLock { state in
            // Tasks that wait enter first. Otherwise they could wait forever.
            guard state.waiters.isEmpty, state.path == path || state.tasks.isEmpty else {
                state.waiters.append((path, task, body))
                return false
            }
            state.enter(path, for: task)
            return true
        }
        if mayEnter { body() }
    }

    /// Removes a task from those that need the directory. No effect if it has left already.
    func leave(_ task: WorkerTask) {
        let next = state.withLock { state -> [Waiter] in
            state.tasks.remove(ObjectIdentifier(task))
            guard state.tasks.isEmpty, let path = state.waiters.first?.path else { return [] }
            let next = state.waiters.filter { $0.path == path }
            state.waiters.removeAll { $0.path == path }
            for waiter in next { state.enter(path, for: waiter.task) }
            return next
        }
        for waiter in next { waiter.body() }
    }

    /// Removes the folder of a run.
    func remove(_ path: String) {
        state.withLock { state in
            if state.path == path, state.tasks.isEmpty { state.enter(home) }
        }
        unsafe cio_remove_folder(path)
    }
}

extension WorkerFolder.State {
    fileprivate mutating func enter(_ path: String, for task: WorkerTask) {
        enter(path)
        tasks.insert(ObjectIdentifier(task))
    }

    fileprivate mutating func enter(_ path: String) {
        if self.path == path { return }
        makeFolders(of: path + "/")
        unsafe _ = chdir(path)
        self.path = path
    }
}

extension ClusterFiles {
    /// Fetches the inputs of a task into the folder of its run. Waits for them.
    func fetch(for task: WorkerTask, into folder: String) throws(Failure) {
        if let path = (inputs + outputs).first(where: { !Self.isInside($0) }) {
            throw Failure(
                message:
                    "'\(path)' is not below the script's working directory, so a worker on a machine that does not see it cannot have it: "
                    + "use relative paths, or a file system that all machines see")
        }
        let answered = Awaited<[UInt8]?>()
        task.ask(ClusterQuestion.inputs(task: task.number).bytes) { answered.give($0) }
        let files: [ClusterQuestion.File]
        do {
            guard let answer = answered.get() else { throw WireReader.malformed }
            files = try ClusterQuestion.files(in: answer)
        } catch { throw Failure(message: "the coordinator does not answer for the inputs of the operation") }
        let fetched = Awaited<[Blob]?>()
        task.fetch(files.map(\.name)) { fetched.give($0) }
        guard let blobs = fetched.get() else { throw Failure(message: "the inputs of the operation did not come from the coordinator") }
        for (file, blob) in zip(files, blobs) where inputs.contains(file.path) {
            try SentFile(path: file.path, mode: file.mode, blob: blob).write(below: folder)
        }
        for path in outputs { makeFolders(of: "\(folder)/\(path)") }
    }
}
