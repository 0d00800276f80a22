import Glibc
import OpPlatform
import Synchronization

/// Finished work, keyed by everything that it depends on, in a database that several processes may use at once.
///
/// The store never fails an operation. Data that cannot be read counts as missing. Work that cannot be written is done again in the next
/// run. `Configuration.warn` is called once. All functions may be called from any thread.
///
/// `plan` makes a `Work` for an operation and claims its outputs. Then follow `lookUp`, `begin`, the body, and `finish` or `fail`.
///
/// - **Keys and rows.** The key is the digest of all dependencies except the contents of files, so it is known at once. Rows with one key
///   differ in the contents of their inputs. Each row lists its inputs with digests and signatures. The inputs of a depfile are among them.
/// - **The fast path** allocates no memory for paths. `RecordReader` reads a row in SQLite's memory, and each file costs one `fstatat`.
///   `FileStates` reads a file again only if its signature is new, or was not settled.
/// - **Snapshots.** The look-ups of a connection share a snapshot for ten milliseconds at most, because each new one asks the system for
///   the size of the database. A snapshot ends when this process writes, before the last look-up of a step with outputs, and when no
///   step is left.
/// - **Between processes**, bytes of the file `lock` stand for outputs (`FileLocks`). Such locks end with the process.
/// - **Each record is a transaction.** In WAL mode this costs one write without synchronization, and a killed process loses nothing.
public final class Store: Sendable {
    /// Where the database is, and how it is used.
    public struct Configuration: Sendable {
        /// The folder of the database. It is made when the first work is recorded.
        public var directory: String
        /// Paths below it are recorded relative to it, so that a project may move with its store. Nil: the folder that contains `directory`.
        public var base: String?
        /// The size that the database may have on the disk, in bytes. The least recently used work is deleted.
        public var limit = 2 << 30
        /// Whether nothing is written, and a step that would run is assumed to change its outputs.
        public var isDryRun = false
        /// Whether look-ups find no work. The store records the work of all steps.
        public var runsAlways = false
        /// The folder that relative paths are relative to: the process's working directory when this was made, without links.
        public let workingDirectory = Paths.workingDirectory
        /// Called on any thread with a sentence, such as the name and the new place of a damaged database.
        public var warn: @Sendable (String) -> Void

        /// Creates the configuration of a database with the usual limit.
        public init(directory: String, warn: @escaping @Sendable (String) -> Void) {
            self.directory = directory
            self.warn = warn
        }
    }

    /// The numbers of the results of `lookUp` and `finish` so far.
    public struct Counts: Hashable, Sendable {
        /// Work that was recorded before.
        public var hits = 0
        /// Work that had to be done.
        public var misses = 0
        /// Work that was done and is in the database now.
        public var recorded = 0

        /// Creates counts.
        public init(hits: Int = 0, misses: Int = 0, recorded: Int = 0) {
            self.hits = hits
            self.misses = misses
            self.recorded = recorded
        }
    }

    /// The configuration of the store.
    public let configuration: Configuration
    let paths: Paths
    let files: FileStates
    let database: Database
    let claims = Claims()
    let hitCount = Atomic<Int>(0), missCount = Atomic<Int>(0), recordedCount = Atomic<Int>(0)
    private let uses = SlowGuarded(Uses())
    /// In a dry run, the outputs of the steps that would run.
    private let remade = SlowGuarded<Set<String>>([])

    /// Makes and opens nothing: a run without steps leaves no trace.
    public init(_ configuration: Configuration) {
        self.configuration = configuration
        let paths = Paths(
            base: configuration.base ?? Paths.parent(of: configuration.directory), in: configuration.workingDirectory)
        self.paths = paths
        let folder = paths.absolute(configuration.directory)
        files = FileStates(base: paths.base, ownFolder: paths.recorded(folder, in: nil))
        database = Database(folder: folder, warn: configuration.warn)
    }

    deinit { close() }

    /// Plans a step, and claims its outputs: no other step may have them until all planned steps have ended.
    public func plan(_ step: Step) throws(StoreError) -> Work {
        for path in step.inputs { try check(path, of: step) }
        for path in step.outputs { try check(path, of: step) }
        if let path = step.depfile { try check(path, of: step) }
        let resolved = ResolvedStep(step, paths)
        if let both = resolved.outputs.first(where: resolved.inputs.contains) { throw .outputIsInput(output: both, of: step.name) }
        try claims.claim(for: resolved, named: step.name)
        return Work(step, resolved, store: self)
    }

    private func check(_ path: String, of step: Step) throws(StoreError) {
        var utf8 = path
        let isPath = utf8.withUTF8 { unsafe !$0.isEmpty && memchr($0.baseAddress!, 0, $0.count) == nil }
        if !isPath { throw .invalidPath(path, of: step.name) }
    }

    /// The counts so far.
    public var counts: Counts {
        Counts(
            hits: hitCount.load(ordering: .relaxed), misses: missCount.load(ordering: .relaxed),
            recorded: recordedCount.load(ordering: .relaxed))
    }

    /// Writes the pending uses, and closes the database. The store finds and records nothing afterwards.
    public func close() {
        write(uses.withLock { $0.take() })
        if !configuration.isDryRun { database.shrink(to: configuration.limit) }
        database.close()
    }

    // MARK: Dry runs

    func wouldMake(_ outputs: [String]) { remade.withLock { $0.formUnion(outputs) } }

    func wouldBeMade(_ path: String) -> Bool { configuration.isDryRun && remade.withLock { $0.contains(path) } }

    // MARK: Uses

    /// Remembers that work was used, and its record if signatures in it have changed. The store writes these now and then. If they are
    /// lost, files are read again, and the order of eviction changes.
    func note(_ use: Uses.Use) {
        if configuration.isDryRun { return }
        write(uses.withLock { uses in uses.add(use) ? uses.take() : [] })
    }

    private func write(_ uses: [Uses.Use]) {
        if !uses.isEmpty { database.write { connection throws(SQLiteError) in try connection.note(uses) } }
    }
}

/// The owners of outputs.
final class Claims: Sendable {
    enum Progress {
        /// The owner has not made the output yet.
        case pending
        /// The owner has made the output in this run, or has found that it need not.
        case made
        /// The owner has ended without making the output.
        case failed
    }

    private struct Claim {
        let owner: String
        var progress = Progress.pending
        /// Whether all steps have ended since, so that another step may have the output.
        var isOver = false
    }

    private let claims = SlowGuarded<[String: Claim]>([:])
    /// The number of steps that have not ended. It is atomic, so that steps that end do not wait for the planning of others.
    private let unfinished = Atomic<Int>(0)

    /// Claims the outputs of a step and its depfile, all or none.
    func claim(for step: ResolvedStep, named name: String) throws(StoreError) {
        try claims.withLock { claims throws(StoreError) in
            for output in step.outputs { try Self.check(output, for: name, in: claims) }
            if let depfile = step.depfile { try Self.check(depfile, for: name, in: claims) }
            for output in step.outputs { claims[output] = Claim(owner: name) }
            if let depfile = step.depfile { claims[depfile] = Claim(owner: name) }
            unfinished.wrappingAdd(1, ordering: .relaxed)
        }
    }

    private static func check(_ output: String, for name: String, in claims: [String: Claim]) throws(StoreError) {
        if let other = claims[output], !other.isOver { throw .outputIsClaimed(output: output, by: other.owner, and: name) }
    }

    /// Records how far the outputs of a step and its depfile are.
    func set(_ progress: Progress, outputsOf step: ResolvedStep) {
        if step.outputs.isEmpty && step.depfile == nil { return }
        claims.withLock { claims in
            for output in step.outputs { claims[output]?.progress = progress }
            if let depfile = step.depfile { claims[depfile]?.progress = progress }
        }
    }

    /// Ends the claims of a step that were not made.
    func giveUp(outputsOf step: ResolvedStep) {
        if step.outputs.isEmpty && step.depfile == nil { return }
        claims.withLock { claims in
            for output in step.outputs + (step.depfile.map { [$0] } ?? []) where claims[output]?.progress == .pending {
                claims[output]?.progress = .failed
            }
        }
    }

    /// The first of the inputs that its owner has not made, as its index, and the owner. An optional input may lack because its owner has failed.
    func firstUnmade(of inputs: [String], isOptional: (Int) -> Bool) -> (index: Int, owner: String)? {
        claims.withLock { claims in
            if claims.isEmpty { return nil }
            for (index, input) in inputs.enumerated() {
                guard let claim = claims[input], claim.progress != .made else { continue }
                if claim.progress == .pending || !isOptional(index) { return (index, claim.owner) }
            }
            return nil
        }
    }

    /// Ends a step. When no planned step is left, all claims end: the next step begins another run, such as one after a change of a file. The outputs of
    /// failed steps stay known, until other steps claim them.
    ///
    /// - Returns: whether no planned step is left.
    func end() -> Bool {
        guard unfinished.wrappingSubtract(1, ordering: .relaxed).newValue == 0 else { return false }
        claims.withLock { claims in
            if unfinished.load(ordering: .relaxed) == 0 {
                claims = claims.filter { $0.value.progress == .failed }
                for output in claims.keys { claims[output]?.isOver = true }
            }
        }
        return true
    }
}
