import Glibc
import Synchronization

/// Finished work, keyed by everything that it depends on, in a database that several processes may use at once.
///
/// Nothing of it ever fails an operation: what cannot be read counts as not there, what cannot be written is done again in the next run, and
/// `Configuration.warn` hears of it once. All functions may be called from any thread.
public final class Store: Sendable {
    /// Where the database is, and how it is used.
    public struct Configuration: Sendable {
        /// The folder of the database. It is made when the first work is recorded.
        public var directory: String
        /// Paths below it are recorded relative to it, so that a project may move with its store. Nil: the folder that contains `directory`.
        public var base: String?
        /// What the database may take on the disk, in bytes. The work that was used least recently goes.
        public var limit = 2 << 30
        /// Whether nothing is written, and a step that would run is assumed to change its outputs.
        public var isDryRun = false
        /// Whether no work is found. What runs is recorded.
        public var runsAlways = false
        /// What relative paths are relative to: the process's working directory when this was made, without links.
        public let workingDirectory = Paths.workingDirectory
        /// Called on any thread with a sentence, such as what was set aside and where it is now.
        public var warn: @Sendable (String) -> Void

        /// Creates the configuration of a database with the usual limit.
        public init(directory: String, warn: @escaping @Sendable (String) -> Void) {
            self.directory = directory
            self.warn = warn
        }
    }

    /// What `lookUp` and `finish` have come to so far.
    public struct Counts: Hashable, Sendable {
        /// Work that was there.
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

    /// What the store was made with.
    public let configuration: Configuration
    let paths: Paths
    let files: FileStates
    let database: Database
    let claims = Claims()
    let hitCount = Atomic<Int>(0), missCount = Atomic<Int>(0), recordedCount = Atomic<Int>(0)
    private let uses = Guarded(Uses())
    /// In a dry run, what the steps that would run would make.
    private let remade = Guarded<Set<String>>([])

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

    /// Says that a step is to run, and claims its outputs: until all steps that were planned have ended, no other step may have them.
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

    /// What has happened so far.
    public var counts: Counts {
        Counts(
            hits: hitCount.load(ordering: .relaxed), misses: missCount.load(ordering: .relaxed),
            recorded: recordedCount.load(ordering: .relaxed))
    }

    /// Writes what is not yet written, and closes the database. The store finds and records nothing afterwards.
    public func close() {
        write(uses.withLock { $0.take() })
        if !configuration.isDryRun { database.shrink(to: configuration.limit) }
        database.close()
    }

    // MARK: Dry runs

    func wouldMake(_ outputs: [String]) { remade.withLock { $0.formUnion(outputs) } }

    func wouldBeMade(_ path: String) -> Bool { configuration.isDryRun && remade.withLock { $0.contains(path) } }

    // MARK: What was used

    /// Remembers that work was used, and its record if signatures in it have changed. Written now and then: whoever loses it reads files
    /// again, or loses the order in which work is evicted.
    func note(_ use: Uses.Use) {
        if configuration.isDryRun { return }
        write(uses.withLock { uses in uses.add(use) ? uses.take() : [] })
    }

    private func write(_ uses: [Uses.Use]) {
        if !uses.isEmpty { database.write { connection throws(SQLiteError) in try connection.note(uses) } }
    }
}

/// Which outputs are whose.
final class Claims: Sendable {
    private let names = Guarded<[String: String]>([:])
    /// How many steps have not ended. Those that end do not wait for those that are planned.
    private let unfinished = Atomic<Int>(0)

    /// Claims the outputs of a step and its depfile, all or none.
    func claim(for step: ResolvedStep, named name: String) throws(StoreError) {
        try names.withLock { names throws(StoreError) in
            for output in step.outputs { try Self.check(output, for: name, in: names) }
            if let depfile = step.depfile { try Self.check(depfile, for: name, in: names) }
            for output in step.outputs { names[output] = name }
            if let depfile = step.depfile { names[depfile] = name }
            unfinished.wrappingAdd(1, ordering: .relaxed)
        }
    }

    private static func check(_ output: String, for name: String, in names: [String: String]) throws(StoreError) {
        if let other = names[output] { throw .outputIsClaimed(output: output, by: other, and: name) }
    }

    /// When nothing is left to run, the next step begins another run, such as one that a change of a file has started.
    ///
    /// - Returns: whether nothing is left.
    func end() -> Bool {
        guard unfinished.wrappingSubtract(1, ordering: .relaxed).newValue == 0 else { return false }
        names.withLock { names in if unfinished.load(ordering: .relaxed) == 0 { names = [:] } }
        return true
    }
}
