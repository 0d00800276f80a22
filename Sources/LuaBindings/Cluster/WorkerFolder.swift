import CIO
import Glibc
import OpCluster
@_spi(Locking) import OpEngine

/// The working directory of a worker's process. While operations of a run need files that the worker does not see, it is a folder with that
/// run's files. There is only one, so those of other runs wait.
final class WorkerFolder: Sendable {
    fileprivate struct State {
        var run: String?
        /// The operations that need the folder now.
        var count = 0
        var waiters: [(run: String, body: @Sendable () -> Void)] = []
    }

    /// Where the process began.
    private let home = ClusterFiles.workingDirectory
    private let base: String
    private let state = Guarded(State())

    /// - Parameter base: the folder to put those of the runs into.
    init(base: String) { self.base = base }

    private func path(of run: String) -> String { "\(base)/opscript-\(getpid())-\(run)" }

    /// Calls `body` with the run's folder as the working directory, which stays until `leave`.
    func enter(_ run: String, _ body: @escaping @Sendable () -> Void) {
        let mayEnter = state.withLock { state in
            guard state.run == nil || state.run == run || state.count == 0 && state.waiters.isEmpty else {
                state.waiters.append((run, body))
                return false
            }
            state.enter(run, path(of: run))
            return true
        }
        if mayEnter { body() }
    }

    func leave() {
        let next = state.withLock { state -> [@Sendable () -> Void] in
            state.count -= 1
            guard state.count == 0, let first = state.waiters.first else { return [] }
            let bodies = state.waiters.filter { $0.run == first.run }.map(\.body)
            state.waiters.removeAll { $0.run == first.run }
            for _ in bodies { state.enter(first.run, path(of: first.run)) }
            return bodies
        }
        for body in next { body() }
    }

    /// The folder of a run.
    func folder(of run: String) -> String { path(of: run) }

    /// Removes the files of a run.
    func remove(_ run: String) {
        state.withLock { state in
            guard state.run == run, state.count == 0 else { return }
            state.run = nil
            unsafe _ = chdir(home)
        }
        unsafe cio_remove_folder(path(of: run))
    }
}

extension WorkerFolder.State {
    fileprivate mutating func enter(_ run: String, _ path: String) {
        if self.run != run {
            self.run = run
            makeFolders(of: path + "/")
            unsafe _ = chdir(path)
        }
        count += 1
    }
}

extension ClusterFiles {
    /// Gets the inputs of a task into the folder of its run. Waits for them.
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
