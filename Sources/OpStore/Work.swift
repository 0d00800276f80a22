internal import CStore
import Glibc
import OpPlatform
import Synchronization

/// The work of one operation, from the question whether it is done to the record of its results. One thread at a time may use it.
///
/// The order of calls is `lookUp`; after a miss `begin`, the body, and `finish` or `fail`. Another attempt begins with `lookUp` again. `end`, or
/// releasing the object, ends the work.
public final class Work: Sendable {
    /// Recorded work.
    public struct Hit: Sendable {
        /// The value that `finish` has recorded.
        public let value: [UInt8]?
    }

    /// The result of `lookUp`.
    public enum LookUp: Sendable {
        /// All dependencies are unchanged and the outputs exist, so the body need not run.
        case hit(Hit)
        case miss(Reason)
    }

    /// The result of `finish`.
    public enum Finish: Hashable, Sendable {
        case recorded
        /// The work will be done again, with the reason: "input 'a.h' changed while it ran". Nil: the store cannot be written, and has
        /// warned.
        case notRecorded(String?)
    }

    struct State {
        /// The components of the last `lookUp`.
        var components: [Step.Component] = []
        var key = Digest(high: 0, low: 0)
        /// The files when the body began; nil unless it runs.
        var start: Start?
        var hasEnded = false
    }

    /// The step that the work was planned for.
    public let step: Step
    let resolved: ResolvedStep
    let store: Store
    private let state = SlowGuarded(State())

    init(_ step: Step, _ resolved: ResolvedStep, store: Store) {
        self.step = step
        self.resolved = resolved
        self.store = store
    }

    deinit { end() }

    /// Looks for finished work. Reads the inputs and outputs that have changed since they were last read.
    ///
    /// - Parameter components: More components, which are known only now, such as results of dependencies. They are part of the key.
    public func lookUp(adding components: [Step.Component] = []) -> LookUp {
        let key = resolved.key(adding: components)
        state.withLock { state in (state.components, state.key) = (components, key) }
        let found = store.configuration.runsAlways ? .miss(Reason([.runsAlways])) : store.find(resolved, key, components)
        switch found {
        case .hit:
            store.claims.set(.made, outputsOf: resolved)
            store.hitCount.wrappingAdd(1, ordering: .relaxed)
        case .miss:
            store.missCount.wrappingAdd(1, ordering: .relaxed)
            store.claims.set(store.configuration.isDryRun ? .made : .pending, outputsOf: resolved)
            if store.configuration.isDryRun { store.wouldMake(resolved.outputs) }
        }
        return found
    }

    /// An input that another step makes, and has not made: the step runs too early, or the other one has failed. Nil if each input is the final one of
    /// this run. Matches of patterns are not looked at.
    public var unmadeInput: (path: String, maker: String)? {
        store.claims.firstUnmade(of: resolved.inputs, isOptional: { step.optionalInputs.contains(step.inputs[$0]) })
            .map { (step.inputs[$0.index], $0.owner) }
    }

    /// The files that the body may read and those that it should make, the depfile included, as absolute paths. Expands patterns now. An
    /// input need not exist.
    public var files: (inputs: [String], outputs: [String]) {
        let inputs = resolved.inputs + resolved.patterns.flatMap { resolved.matches(of: $0, in: store.files) }
        let outputs = resolved.outputs + (resolved.depfile.map { [$0] } ?? [])
        return (Array(Set(inputs.map(store.paths.absolute(recorded:)))).sorted(), outputs.map(store.paths.absolute(recorded:)))
    }

    /// An input that must exist: no file has the path, or matches the pattern.
    public struct MissingInput: Sendable {
        /// As the step has it.
        public let path: String
        /// Whether it is a pattern that no file matches.
        public let isPattern: Bool
    }

    /// The inputs that must exist and do not. Asks the system for each.
    public var missingInputs: [MissingInput] { resolved.missingInputs(in: store.files) }

    /// The names in the folder of `path`, which is relative to the step's directory. Empty if that is no folder that can be read.
    public func names(nextTo path: String) -> [String] {
        let recorded = store.paths.recorded(path, in: step.directory)
        let folder = recorded.lastIndex(of: "/").map { $0 == recorded.startIndex ? "/" : String(recorded[..<$0]) } ?? "."
        return store.files.names(in: folder) ?? []
    }

    /// The result of `begin`.
    public enum Beginning {
        /// The body must run.
        case begun
        /// Another process has done the work.
        case done(Hit)
        /// The wait for another process was ended. The body must not run.
        case stopped

        /// The work of another process.
        public var hit: Hit? { if case .done(let hit) = self { hit } else { nil } }
    }

    /// Prepares for the body: looks at the inputs, makes the folders of the outputs, and removes a depfile of an earlier run.
    ///
    /// If another process makes one of the outputs at this moment, `begin` waits for it, in a blocking call. If another process has done
    /// the same work since `lookUp`, the result is that work, and the body need not run.
    ///
    /// - Parameters:
    ///   - unlessDone: False if the body must run even then, because the recorded work is of no use.
    ///   - isStopped: Returns whether the wait must end. Called every 50 ms at least.
    public func begin(unlessDone: Bool = true, isStopped: () -> Bool = { false }) -> Beginning {
        guard lockOutputs(isStopped) else { return .stopped }
        if !resolved.outputs.isEmpty, unlessDone, !store.configuration.runsAlways, let hit = store.hit(resolved, state.withLock(\.key)) {
            unlockOutputs()
            store.claims.set(.made, outputsOf: resolved)
            return .done(hit)
        }
        if let depfile = resolved.depfile { store.files.remove(depfile) }
        for output in resolved.outputs where output.contains("/") {
            Paths.makeFolder(Paths.parent(of: store.paths.absolute(recorded: output)))
        }
        let start = Start(resolved, store.files)
        state.withLock { $0.start = start }
        store.database.bodyBegins()
        store.claims.set(.pending, outputsOf: resolved)
        return .begun
    }

    /// Records that the body has returned, with its value. A process that is killed after this function has returned need not do the work again.
    public func finish(value: UnsafeRawBufferPointer?) -> Finish {
        let (start, key, components) = state.withLock { state in (state.start.take(), state.key, state.components) }
        guard let start else { fatalError("opscript bug: work that has not begun has finished") }
        store.database.bodyEnds()
        store.claims.set(.made, outputsOf: resolved)
        defer { unlockOutputs() }
        do throws(NotRecorded) {
            let files = try start.examine(resolved, store)
            let record = Record(
                key: key, identity: resolved.identity, components: resolved.components(adding: components), files: files)
            guard try unsafe store.record(record, value: value) else { return .notRecorded(nil) }
            store.recordedCount.wrappingAdd(1, ordering: .relaxed)
            return .recorded
        } catch {
            return .notRecorded(error.reason)
        }
    }

    /// Removes the outputs that the body has made or changed, unless the step keeps them: the body has failed, or was stopped. Does nothing if
    /// it had not begun.
    public func fail() {
        guard let start = state.withLock({ $0.start.take() }) else { return }
        store.database.bodyEnds()
        store.claims.set(step.keepsOutputsOnFailure ? .made : .failed, outputsOf: resolved)
        if !step.keepsOutputsOnFailure {
            for output in resolved.outputs where !start.hasUnchanged(output, store.files) { store.files.remove(output) }
            if let depfile = resolved.depfile { store.files.remove(depfile) }
        }
        unlockOutputs()
    }

    /// Ends the work. Once all planned work has ended, other steps may claim its outputs. A body that still runs counts as failed.
    public func end() {
        fail()
        let isFirst = state.withLock { state in
            defer { state.hasEnded = true }
            return !state.hasEnded
        }
        if isFirst {
            store.claims.giveUp(outputsOf: resolved)
            if store.claims.end() { store.database.endReading() }
        }
    }

    // MARK: Other processes

    /// In the same order in each process, so that no two processes wait for each other.
    private var outputDigests: [Digest] {
        resolved.outputs.map { output in
            var hasher = Hasher128()
            hasher.combine(output)
            return hasher.finalize()
        }.sorted { $0.low < $1.low }
    }

    /// Returns false, and locks none, if the wait was ended.
    private func lockOutputs(_ isStopped: () -> Bool) -> Bool {
        if resolved.outputs.isEmpty { return true }
        store.database.prepareToWrite()
        let locks = store.database.locks
        var locked: [Digest] = []
        for digest in outputDigests {
            guard locks.lock(digest, isStopped: isStopped) else {
                for digest in locked { locks.unlock(digest) }
                return false
            }
            locked.append(digest)
        }
        return true
    }

    private func unlockOutputs() {
        for digest in outputDigests { store.database.locks.unlock(digest) }
    }
}

/// The reason why finished work is not recorded.
struct NotRecorded: Error {
    let reason: String
}
