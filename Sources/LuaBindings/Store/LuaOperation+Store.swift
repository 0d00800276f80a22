import Glibc
@_spi(Subclassing) import OpEngine
import OpStore
import Synchronization

/// Operations that ask the store. Other operations have no `StoredStep`, and pay nothing.
extension LuaOperation {
    var step: StoredStep? { rare { $0.step } }

    /// Whether the body did not run, because the store had its results.
    public var isSkipped: Bool { step?.isSkipped ?? false }

    /// The reason why the body has run although the operation asks the store, such as `input 'a.h' changed`. Nil if the body was skipped, or if
    /// the operation has not asked the store.
    public var reasonToRun: String? { step?.reason }

    func setStep(_ options: StepOptions) { withFields { $0.rareInUse.step = StoredStep(options) } }

    /// Claims the outputs of a step when the operation is added.
    func plan(_ step: StoredStep) throws(Failure) {
        guard let store = core.store else { throw Failure(message: "\(displayName) asks a store, and this runtime has none") }
        _ = try step.plan(for: self, in: store)
        store.plannedCount.wrappingAdd(1, ordering: .relaxed)
        tellWhenFinished()
    }

    /// Asks the store, and runs the body unless the store has its results.
    func runStep(_ step: StoredStep, _ body: Body) {
        guard let finish = begin(body, of: step) else { return }
        runBody(body, at: 0)
        finish()
    }

    /// Asks the store. Returns nil if the body must not run: the store has its results, the run is a dry one, or the operation fails or was
    /// stopped.
    ///
    /// - Returns: the function to call when the body has run.
    func begin(_ body: Body, of step: StoredStep) -> (@Sendable () -> Void)? {
        guard let store = core.store, let state = core.stateOfCurrentThread() else { return {} }
        let work: Work, beginning: StoredStep.Beginning
        do throws(Failure) {
            if let known = step.beginning {
                beginning = known
            } else {
                beginning = try self.beginning(with: body, of: step, in: state, store)
                step.beginning = beginning
            }
            work = try step.plan(for: self, in: store)
            if let (path, maker) = work.unmadeInput {
                let advice =
                    "A step must depend on those that make its inputs (addDependency, dependencies); "
                    + "with dependencyPolicy = \"succeeded\" it is cancelled if they fail"
                throw Failure(message: "\(displayName) did not run: '\(maker)' makes its input '\(path)', and has not. \(advice)")
            }
        } catch {
            finish(with: OperationFailure(error, of: self))
            return nil
        }
        let reason: String, isUseless: Bool
        switch work.lookUp(adding: beginning.components) {
        case .hit(let hit):
            guard let why = refusal(of: hit, step, store) else { return nil }
            (reason, isUseless) = (why, true)
        case .miss(let why): (reason, isUseless) = ("\(why)", false)
        }
        // In a dry run, the operations that would make the inputs have not run.
        if store.mode != .dryRun, let missing = MissingInputs(of: work) {
            finish(with: OperationFailure(Failure(message: "\(displayName) did not run: \(missing.sentence)"), of: self))
            return nil
        }
        step.run(because: reason, isDry: store.mode == .dryRun)
        store.tell(.runs(reason), about: self, named: step.name)
        if store.mode == .dryRun { return nil }
        // Another process may have done the work meanwhile.
        switch begin(work, unlessDone: !isUseless) {
        case .begun: break
        case .done(let hit):
            if refusal(of: hit, step, store) == nil { return nil }
            if case .stopped = begin(work, unlessDone: false) { return nil }
        case .stopped: return nil
        }
        let storage = beginning.storage
        return { [self] in finish(work, of: step, from: storage, store) }
    }

    /// Begins the work. If the operation is stopped while another process makes its outputs, it fails with the reason of the stop.
    private func begin(_ work: Work, unlessDone: Bool) -> Work.Beginning {
        timeLimit?.begin(for: self)
        let beginning = work.begin(unlessDone: unlessDone) { isCancelled || stopReason != nil }
        if case .stopped = beginning, let reason = stopReason {
            finish(with: OperationFailure(Failure(stop: reason), of: self))
        }
        return beginning
    }

    private func beginning(
        with body: Body, of step: StoredStep, in state: LuaState, _ store: WorkStore
    ) throws(Failure) -> StoredStep.Beginning {
        let parcel = try parcel(of: body), storage = storage
        try core.prepare(state)
        let key = try StepKey(of: parcel, for: self, storage, step.options, in: state, store)
        return StoredStep.Beginning(components: key.components, storage: storage)
    }

    /// Takes the results from the store, in place of running the body. Returns the reason why that is not possible; nil if it is done.
    private func refusal(of hit: Work.Hit, _ step: StoredStep, _ store: WorkStore) -> String? {
        let damage = "its value in the store is damaged"
        guard let stored = StoredResults(hit.value ?? []) else { return damage }
        if let refusal = stored.refusal { return refusal }
        var values: [(name: String, value: Parcel?)] = []
        for (name, bytes) in stored.values {
            let parcel = unsafe bytes.flatMap { unsafe StoredResults.parcel(in: $0) }
            if bytes != nil, unsafe parcel == nil { return damage }
            let value = unsafe parcel.map { unsafe Parcel($0) }
            value?.count(in: core.ledger)
            values.append((name, value))
        }
        guard var results = unsafe StoredResults.parcel(in: stored.results) else { return damage }
        let returned = unsafe ReturnedValues(taking: &results)
        if case .parcel(let parcel) = returned { parcel.count(in: core.ledger) }
        do throws(Failure) { try core.ledger?.check() } catch { return error.message }
        for (name, value) in values { self.store(value, as: name) }
        setResults(returned, ofBodyAt: 0)
        step.skip()
        recordSkip()
        store.tell(.isSkipped, about: self, named: step.name)
        return nil
    }

    /// Records the results of the body, and the values that the body has stored in the operation.
    private func finish(_ work: Work, of step: StoredStep, from before: [String: Parcel], _ store: WorkStore) {
        let results = storedResults
        guard !isCancelled, let returned = results.first ?? nil else { return work.fail() }
        let stored = StoredResults(returned.parcel, from: before, to: storage)
        let recorded = unsafe stored.bytes.withUnsafeBytes { unsafe work.finish(value: $0) }
        if let refusal = stored.refusal { store.tell(.isNotRecorded(refusal), about: self, named: step.name) }
        if case .notRecorded(let why?) = recorded { store.tell(.isNotRecorded(why), about: self, named: step.name) }
    }
}
