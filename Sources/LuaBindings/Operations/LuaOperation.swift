import CLua
public import OpEngine
import Synchronization

/// An operation whose body is a Lua function.
///
/// The function stays in the handle of the state that made the operation until the operation is added to a queue; then it is
/// copied, unless it will run in that same state. What `main` returns travels to every state that reads it.
///
/// - Concurrency: safe from every thread.
public final class LuaOperation: Operation, @unchecked Sendable {
    // Safety: `@unchecked Sendable` because what changes is behind `mutable`, and the engine protects its own part.
    let core: RuntimeCore
    /// The number of the state that made it.
    private let home: Int
    private let mutable = Mutex(Mutable())

    /// Where the function is.
    enum Body {
        /// There is none: the operation does nothing.
        case none
        /// In the handle of the state that made the operation.
        case handle
        case parcel(Parcel)
        /// It left its state by reference, and could not be copied then.
        case unsendable(String)
    }

    private struct Mutable {
        var body = Body.none
        var isSealed = false
        var results: Parcel?
        var storage: [String: Parcel] = [:]
        var observations: [Observation] = []
        var isReadyByItself = true
        /// The state that set the completion block.
        var completionState: LuaState?
        /// The states that keep their handles alive: its own, where it runs as it is, and that of the completion block.
        var pinningStates: [LuaState] = []
        /// The state that runs the body now, and so is not closed.
        var runningState: LuaState?
        var stopReason: StopReason?
        var memoryLimit: Int?
        var timeLimit: TimeLimit?
        /// That it has started, and that are running.
        var processes: [ChildProcess] = []
    }

    /// An operation that `state` makes; with `hasBody`, its handle there holds the function.
    init(in state: LuaState, hasBody: Bool) {
        core = state.core
        home = state.number
        super.init()
        if hasBody { mutable.withLock { $0.body = .handle } }
    }

    // MARK: running

    /// Runs the body on this thread, in the Lua state that belongs to it.
    public override func main() {
        guard let state = core.stateOfCurrentThread() else {
            let failure = Failure(message: "\(displayName) can run only in a queue, or on the thread that made its runtime")
            return fail(OperationFailure(failure, kind: .error, of: self))
        }
        do throws(Failure) {
            let body = mutable.withLock { $0.body }
            if case .handle = body, state.number != home {
                throw Failure(message: "\(displayName) was added by the host, but its function is still in a script: let that add it")
            }
            let results = try state.run(self, body: body)
            results?.letGo(of: self)
            mutable.withLock {
                $0.results = results
                $0.body = .none
            }
        } catch {
            mutable.withLock { $0.body = .none }
            let kind = error.stop?.failureKind ?? (error.isMemoryError ? .memory : .error)
            fail(OperationFailure(error, kind: kind, of: self))
        }
    }

    private func fail(_ failure: OperationFailure) {
        // Whoever interrupts knows: it is an ending like being cancelled.
        if failure.kind == .interrupted { return fail(with: failure, outcome: .cancelled) }
        fail(with: failure)
        core.record(failure)
    }

    /// What `main` returned; nil until it finished, and where it did not return.
    var results: Parcel? {
        guard isFinished, let outcome, outcome != .failed else { return nil }
        return mutable.withLock { $0.results } ?? (outcome == .succeeded ? .empty : nil)
    }

    /// Why it failed or was cancelled, with the mark that somebody looked. Nil when it ended well, or has not ended.
    var failure: OperationFailure? {
        guard isFinished, let error else { return nil }
        let failure = error as? OperationFailure ?? failure(for: error)
        failure.markRead()
        return failure
    }

    /// What the engine has recorded, in the words of scripts.
    private func failure(for error: any Error) -> OperationFailure {
        guard case .dependencyNotSucceeded? = error as? OperationError else {
            return OperationFailure(Failure(message: "\(error)"), kind: .error, of: self)
        }
        let culprit = dependencies.first { $0.outcome.map { $0 != .succeeded } ?? false }
        let name = culprit?.displayName ?? "an operation"
        let message = "\(displayName) was cancelled because \(name), which it depends on, did not succeed"
        return OperationFailure(Failure(message: message), kind: .dependency, of: self)
    }

    // MARK: stopping

    /// Live bytes that the body may hold above what its state held when it began; nil for no limit.
    var memoryLimit: Int? {
        get { mutable.withLock { $0.memoryLimit } }
        set { mutable.withLock { $0.memoryLimit = newValue } }
    }

    var timeLimit: TimeLimit? {
        get { mutable.withLock { $0.timeLimit } }
        set { mutable.withLock { $0.timeLimit = newValue } }
    }

    /// Why it has been asked to stop, if it was while it was running.
    var stopReason: StopReason? { mutable.withLock { $0.stopReason } }

    /// Cancels the operation, and wakes it when it waits.
    public override func cancel() {
        super.cancel()
        // What does not execute now never will: starting looks at the flag in the same step. What it captured may keep this operation.
        let neverRuns = !isExecuting
        let dropped = mutable.withLock { mutable in
            mutable.runningState?.inbox.wake()
            return neverRuns ? exchange(&mutable.body, with: .none) : .none
        }
        withExtendedLifetime(dropped) {}
        endProcesses()
    }

    /// Programs that a cancelled operation has started are ended; those of one that has finished go on.
    private func endProcesses() {
        if isCancelled { for process in mutable.withLock({ $0.processes }) { process.end() } }
    }

    /// It has started `process`.
    func adopt(_ process: ChildProcess) {
        mutable.withLock { $0.processes.append(process) }
        // Perhaps it ended before it was on the list.
        if !process.isRunning { disown(process) }
        endProcesses()
    }

    /// `process` has ended.
    func disown(_ process: ChildProcess) { mutable.withLock { $0.processes.removeAll { $0 === process } } }

    /// Cancels the operation, and stops its body also when that does not look. A body inside one long call of a C function is stopped
    /// when that call returns.
    public func interrupt() { stop(.interrupted) }

    func stop(_ reason: StopReason) {
        mutable.withLock { if $0.runningState != nil, $0.stopReason == nil { $0.stopReason = reason } }
        cancel()
        mutable.withLock { $0.runningState?.requestStop(of: self, reason) }
    }

    func begin(in state: LuaState) {
        let limit = mutable.withLock { mutable in
            mutable.runningState = state
            return mutable.timeLimit
        }
        limit?.begin(for: self)
    }

    func endRunning() { mutable.withLock { $0.runningState = nil } }

    // MARK: readiness

    /// Whether its dependencies allow it to start, and the script does.
    public override var isReady: Bool { super.isReady && (isReadyByItself || isCancelled) }

    /// The script's own part of `isReady`.
    var isReadyByItself: Bool {
        get { mutable.withLock { $0.isReadyByItself } }
        set {
            willChangeValue(forKey: "isReady")
            mutable.withLock { $0.isReadyByItself = newValue }
            didChangeValue(forKey: "isReady")
        }
    }

    // MARK: storage

    func stored(_ name: String) -> Parcel? { mutable.withLock { $0.storage[name] } }

    func store(_ value: Parcel?, as name: String) {
        value?.letGo(of: self)
        let replaced = mutable.withLock { mutable in
            let replaced = mutable.storage[name]
            mutable.storage[name] = value
            recordChange(forKey: Self.storageKey(name), old: replaced, new: value)
            return replaced
        }
        withExtendedLifetime(replaced) {}
        deliverRecordedChanges()
    }

    /// What the engine calls a name of the storage, which is no property of its own.
    static func storageKey(_ name: String) -> String { "storage.\(name)" }

    public override func value(forKey key: String) -> (any Sendable)? {
        key.hasPrefix("storage.") ? stored(String(key.dropFirst(8))) : super.value(forKey: key)
    }

    // MARK: observing

    /// Called by the state that observes it.
    func isObserved(by observation: Observation) {
        let isElsewhere = mutable.withLock { mutable in
            mutable.observations.append(observation)
            return mutable.isSealed
        }
        if isElsewhere || home != observation.state.number || queue != nil || isExecuting { observation.awaitEnd(of: self) }
    }

    func forget(_ observation: Observation) {
        mutable.withLock { mutable in mutable.observations.removeAll { $0 === observation } }
    }

    /// It may change outside of `state` from now on: what observes it there is kept.
    private func keepObservations(in state: LuaState) {
        for observation in mutable.withLock({ $0.observations }) where observation.state === state { observation.awaitEnd(of: self) }
    }

    // MARK: sending

    /// Makes it fit to run in `queue`: called by `state` before it adds it.
    ///
    /// - Throws: what in its function cannot be sent.
    func prepare(for queue: OperationQueue?, in state: LuaState) throws(Failure) {
        guard self.queue == nil, !isExecuting, !isFinished else { return }  // misuse, which the engine refuses
        let isHome = state.number == home
        let runsAtHome = queue == nil ? isHome : queue === core.engine.mainQueue && home == core.mainStateNumber
        let (body, hasCompletion) = mutable.withLock { ($0.body, $0.completionState === state) }
        var needsPin = hasCompletion
        switch body {
        case .none: break
        case _ where runsAtHome:
            mutable.withLock { $0.body = .handle }
            needsPin = needsPin || isHome  // elsewhere it has been pinned when it left
        case .unsendable(let message) where !isHome: throw Failure(message: message)
        case .handle, .parcel, .unsendable:
            guard isHome else { break }
            state.publishPaths()
            let parcel = try state.encodeBody(of: self)
            mutable.withLock { $0.body = .parcel(parcel) }
        }
        if needsPin { try pin(in: state) }
        keepObservations(in: state)
    }

    /// Keeps the handle in `state`, with the functions that are in it, until the operation has finished.
    private func pin(in state: LuaState) throws(Failure) {
        let isNew = mutable.withLock { mutable in
            if mutable.pinningStates.contains(where: { $0 === state }) { return false }
            mutable.pinningStates.append(state)
            return true
        }
        guard isNew else { return }
        try state.pin(self, .operation)
        if mutable.withLock({ $0.completionState === state }) { state.awaitCompletion(of: self) }
        whenFinished { [unowned self] in
            let operation = self
            state.post { operation.unpin(in: state) }
        }
    }

    /// Lets go of the handle, unless the completion block in it has still to run.
    private func unpin(in state: LuaState) {
        let isPinned = mutable.withLock { mutable in
            guard mutable.completionState !== state, let index = mutable.pinningStates.firstIndex(where: { $0 === state }) else {
                return false
            }
            mutable.pinningStates.remove(at: index)
            return true
        }
        if isPinned { state.unpin(self) }
    }

    /// Whether it leaves `state` by reference while its functions are still there.
    func needsSealing(from state: LuaState) -> Bool {
        guard !isFinished else { return false }
        return mutable.withLock {
            if $0.isSealed { return false }
            if case .handle = $0.body { return state.number == home }
            let isPinned = $0.pinningStates.contains { pinning in pinning === state }
            let isObserved = $0.observations.contains { observation in observation.state === state && !observation.isPinned }
            return isObserved || $0.completionState === state && !isPinned
        }
    }

    func seal(in state: LuaState) {
        let (hasCompletion, body) = mutable.withLock {
            $0.isSealed = true
            return ($0.completionState === state, $0.body)
        }
        var needsPin = hasCompletion
        if case .handle = body, queue == nil {
            let sealed: Body
            do throws(Failure) { sealed = .parcel(try state.encodeBody(of: self)) } catch { sealed = .unsendable(error.message) }
            mutable.withLock { $0.body = sealed }
            // Another state may add it to the main queue: then it runs here, as it is.
            needsPin = needsPin || core.isMain(state)
        }
        // Should this fail, memory has run out, and the next step of the script says so.
        if needsPin { try? pin(in: state) }
        keepObservations(in: state)
    }

    // MARK: completion

    /// `state` sets or removes the completion block, whose function is in its handle.
    func setCompletion(in state: LuaState, isPresent: Bool) throws {
        guard isPresent else {
            try trySetCompletionBlock(nil)
            mutable.withLock { $0.completionState = nil }
            return
        }
        // Unowned: the block belongs to the operation, and is called while that lives.
        try trySetCompletionBlock { [unowned self] in
            let operation = self
            state.post { operation.complete() }
        }
        mutable.withLock { $0.completionState = state }
        if queue != nil { try pin(in: state) }
    }

    private func complete() {
        guard let state = mutable.withLock({ $0.completionState.take() }) else { return }
        state.runCompletion(of: self)
        unpin(in: state)
    }
}
