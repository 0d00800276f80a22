import CLua
@_spi(Subclassing) public import OpEngine
import OpPlatform
import Synchronization

/// An operation whose body is one Lua function or several.
///
/// The function stays in the handle of the Lua state that made the operation until the operation is added to a queue. Adding the operation
/// copies the function, unless the function will run in that same state. Every Lua state can read the results of `main`.
///
/// - Concurrency: safe from every thread.
@safe public final class LuaOperation: Operation, @unchecked Sendable {
    // Safety: `@unchecked Sendable` because `stateWord` is atomic, the out-of-line state has a lock, `handleSlot` belongs to one thread,
    // and the engine protects its own part.

    // 112 bytes, together with the fields of `Operation`.

    /// What this operation shares with all operations made in the same way.
    let origin: Origin
    /// The state of the operation, or the address of the block that has it. See `LuaOperation+State.swift`.
    let stateWord: Atomic<StateWord>
    /// The slot of the handle in the Lua state that made the operation. Only that state's thread uses it.
    @safe @exclusivity(unchecked) var handleSlot: UInt32 = 0

    /// What the bodies of an operation are.
    enum Kind: Int, CaseIterable {
        /// At most one function. It is called with the operation.
        case function
        /// Like `function`, but the operation keeps executing until `finish` or `fail` is called.
        case asynchronous
        /// Any number of functions, which run concurrently.
        case blocks
        /// An object and the name of one of its methods.
        case invocation
        /// A class. Its method `main` is called with the operation.
        case instance
        /// Like `instance` with the method `start`; the operation keeps executing until `finish` or `fail` is called.
        case asynchronousInstance
        /// No body: a queue of other operations.
        case group
    }

    /// One body of an operation.
    struct Body {
        /// Where the body is now.
        enum Form {
            /// In the handle of the state that made the operation.
            case handle
            case parcel(Parcel)
            case hostCall(HostCall)
            /// The operation left its state by reference, but the body could not be copied.
            case unsendable(Refusal)
        }

        /// A function and the host's values that are its arguments.
        final class HostCall: Sendable {
            let parcel: Parcel
            let arguments: [LuaValue]

            init(_ parcel: Parcel, _ arguments: [LuaValue]) { (self.parcel, self.arguments) = (parcel, arguments) }
        }

        /// Why a body could not be copied. A class, so that `Form` is one pointer wide.
        final class Refusal: Sendable {
            let message: String

            init(message: String) { self.message = message }
        }

        var form: Form
        /// Whether the handle also holds the body. False if another state added it.
        var isInHandle = true
    }

    /// Makes an operation in `state`. `bodyCount` is the number of functions in its handle there.
    convenience init(in state: borrowing LuaState, kind: Kind, bodyCount: Int, scriptClass: borrowing ScriptClass? = nil) {
        self.init(
            state.origin(of: kind, scriptClass), Fields(bodies: SmallArray(repeating: Body(form: .handle), count: bodyCount)))
        if state.isRecorded, let place = state.currentPlace { recordPlace(place, isFinal: true) }
    }

    convenience init(_ origin: consuming Origin, _ fields: consuming Fields) {
        let hasCompletion = fields.completion != nil
        self.init(origin, unsafe StateWord(OutOfLineState.make(fields)), hasCompletion: hasCompletion)
    }

    /// - Parameter hasCompletion: whether `word` says that there is a completion block.
    @inline(__always)
    init(_ origin: consuming Origin, _ word: StateWord, hasCompletion: Bool = false) {
        // Safety: the origin keeps the core alive.
        unsafe Unmanaged.passUnretained(origin.core)._withUnsafeGuaranteedRef { $0.expectWork() }
        let endsWithMain = !origin.isAsynchronous
        self.origin = consume origin
        stateWord = Atomic(word)
        super.init()
        if endsWithMain { self.endsWithMain(tellsWhenFinished: hasCompletion) } else if hasCompletion { tellWhenFinished() }
    }

    deinit {
        if origin.kind == .group { memberQueue?.groupIsGone() }
        let word = stateWord.load(ordering: .acquiring)
        if let outOfLine = unsafe word.outOfLine { unsafe OutOfLineState.destroy(outOfLine) }
        if let body = unsafe word.body { unsafe body.release() }
    }

    var core: RuntimeCore { origin.core }
    /// Gives `body` the core without retaining it, for hot paths.
    @inline(__always)
    func withCore<Result>(_ body: (RuntimeCore) -> Result) -> Result {
        // Safety: the origin keeps the core alive.
        unsafe Unmanaged.passUnretained(origin.core)._withUnsafeGuaranteedRef(body)
    }
    /// Whether `state` made the operation.
    @inline(__always)
    func isHome(_ state: LuaState) -> Bool { unsafe origin.home?.toOpaque() == Unmanaged.passUnretained(state).toOpaque() }
    /// Whether the main state made the operation.
    var isOfMainState: Bool { withHome { $0.number == RuntimeCore.mainStateNumber } ?? false }
    /// Gives `body` the state that made the operation without retaining it, for hot paths. Nil if the host made the operation.
    @inline(__always)
    func withHome<Result>(_ body: (LuaState) -> Result) -> Result? {
        // Safety: the origin keeps its home state alive.
        unsafe origin.home?._withUnsafeGuaranteedRef(body)
    }
    var kind: Kind { origin.kind }
    /// The script's class of this operation, if it has one.
    var scriptClass: ScriptClass? { origin.scriptClass }

    // MARK: running

    /// Whether the operation keeps executing after its body has returned, until it is finished or fails.
    public override var isAsynchronous: Bool { origin.isAsynchronous }

    /// Starts the operation. See `Operation.start`.
    public override func start() {
        if let memberQueue { return startGroup(memberQueue) }
        if let clusterExecutor { return start(by: clusterExecutor) }
        guard isAsynchronous else { return super.start() }
        if let error = startOrRefuse(endsWithMain: false) { fatalError("\(error)") }
    }

    /// The body, a finishing call of a script or the cluster finishes the operation.
    @_spi(Subclassing) public override var endsFromWithin: Bool { true }

    /// Runs the bodies on this thread, in the thread's Lua state. Several bodies of an operation in a queue run on every free worker.
    public override func main() {
        if kind == .group { return }
        // Safety: the origin keeps its body alive.
        if isUnchanged, let body = unsafe origin.bodyPointer {
            unsafe runInStateOfThread(body, [], at: 0)
        } else if let body = takeInlineBody() {
            unsafe runInStateOfThread(body.pointer, [], at: 0)
            withExtendedLifetime(body) {}
        } else if let ticket {
            return leave(with: ticket)
        } else {
            runOwnBodies()
        }
        if isAsynchronous { bodyHasReturned() }
    }

    private func runOwnBodies() {
        // If the host has started the operation, its functions may be in the main state.
        if isInQueue || !core.enterMainState(runBodies) { runBodies() }
    }

    private func runBodies() {
        let (bodies, step) = takeBodies()
        switch bodies {
        case .empty: break
        case .one(let body): if let step { runStep(step, body) } else { runBody(body, at: 0) }
        case .several(let bodies) where runsSequentially(bodies):
            for (index, body) in bodies.enumerated() { runBody(body, at: index) }
        case .several(let bodies):
            runConcurrently(
                bodies.enumerated().map { index, body in
                    { [self] in runBody(body, at: index) }
                })
        }
    }

    /// Runs one of the bodies, wherever it is.
    func runBody(_ body: Body, at index: Int) {
        switch body.form {
        case .handle: unsafe runInStateOfThread(nil, [], at: index)
        case .parcel(let parcel):
            unsafe runInStateOfThread(parcel.pointer, [], at: index)
            withExtendedLifetime(parcel) {}
        case .hostCall(let call):
            unsafe runInStateOfThread(call.parcel.pointer, call.arguments, at: index)
            withExtendedLifetime(call) {}
        case .unsendable(let refusal): fail(Failure(message: refusal.message))
        }
    }

    /// Runs a function in the Lua state of this thread, or in the main state if this thread may enter it.
    ///
    /// - Parameter parcel: nil if the body is in the handle.
    private func runInStateOfThread(_ parcel: UnsafePointer<clua_parcel>?, _ arguments: [LuaValue], at index: Int) {
        // The usual case. Safety: the thread's state lives until this thread closes it, which it does not do while it runs a body.
        if let state = unsafe LuaState.unmanagedOfThread, unsafe state._withUnsafeGuaranteedRef({ $0.core === origin.core }) {
            return unsafe state._withUnsafeGuaranteedRef { unsafe runFunction(parcel, arguments, at: index, in: $0) }
        }
        if let state = core.stateOfCurrentThread() { return unsafe runFunction(parcel, arguments, at: index, in: state) }
        if !isInQueue, core.enterMainState({ unsafe runInStateOfThread(parcel, arguments, at: index) }) { return }
        fail(
            Failure(
                message:
                    "\(displayName) can run only in a queue of its runtime's engine, or be started while no other thread is inside the runtime"
            )
        )
    }

    /// Runs a function in `state`, and stores its results or its failure.
    private func runFunction(_ parcel: UnsafePointer<clua_parcel>?, _ arguments: [LuaValue], at index: Int, in state: LuaState) {
        do throws(Failure) {
            if unsafe parcel == nil, !isHome(state) {
                throw Failure(message: "\(displayName) was added by the host, but its function is still in a script: let that add it")
            }
            let results = try unsafe state.runBody(of: self, parcel, arguments, number: number(ofBodyAt: index))
            guard !isAsynchronous else { return }
            if case .parcel(let parcel) = results {
                parcel.makeUnowned(referencesTo: self)
                registerReferences(of: parcel)
            }
            setResults(results, ofBodyAt: index)
        } catch {
            fail(error)
            // The state itself may hold the missing memory for good, for example in a module.
            if kind(of: error) == .memory && memoryLimit == nil && core.operationMemoryLimit == 0 { core.discard(state) }
        }
    }

    /// Records that a body failed.
    private func fail(_ error: Failure) {
        end(with: OperationFailure(error, kind: kind(of: error), of: self))
    }

    func kind(of error: Failure) -> OperationFailure.Kind {
        error.stop?.failureKind ?? (error.isMemoryError ? .memory : error.isProcessLost ? .process : .error)
    }

    /// Records a failure. Ends the operation if it is asynchronous.
    func end(with failure: OperationFailure) {
        guard isAsynchronous else { return record(failure) }
        if claimEnd() {
            record(failure)
            end()
        } else if failure.kind == .error, isExecuting || isFinished {
            core.reportCallbackError("error in \(displayName) after it had been finished: \(failure.report)")
        }
    }

    func record(_ failure: OperationFailure) {
        // Whoever interrupts an operation knows that it ends, as with cancelling. So nobody has to read this failure.
        if failure.kind == .interrupted { return fail(with: failure, outcome: .cancelled) }
        fail(with: failure)
        guard hasAttemptsLeft else { return core.record(failure) }
        // It counts only if there is no other attempt. Of the failures of several blocks, the first does.
        withFields { fields in if fields.rare?.failure == nil { fields.rareInUse.failure = failure } }
        tellWhenFinished()
    }

    /// The results: one parcel for each block. Nil until the operation has finished, and nil for an operation that did not return.
    var results: [Parcel]? {
        guard isFinished, let outcome, outcome != .failed else { return nil }
        let results = storedResults
        if outcome != .succeeded && (results.isEmpty || results.contains { $0 == nil }) { return nil }
        return results.map { $0?.parcel ?? .empty }
    }

    /// Whether the body returned no value.
    var isVoid: Bool { results?.allSatisfy { unsafe $0.pointer.pointee.value_count == 0 } ?? false }

    /// Why the operation failed or was cancelled; nil if it succeeded or has not finished. Reading the property marks the failure as read.
    var failure: OperationFailure? {
        let failure = failureLeftUnread
        failure?.markRead()
        return failure
    }

    /// The same, without marking it as read.
    var failureLeftUnread: OperationFailure? {
        guard isFinished, let error else { return nil }
        return error as? OperationFailure ?? failure(for: error)
    }

    /// Turns an error of the engine into one with a message for scripts.
    private func failure(for error: any Error) -> OperationFailure {
        switch error as? OperationError {
        case .dependencyNotSucceeded(_, let label):
            // Not any that has failed since.
            let culprit = dependencies.first { $0.label == label && $0.outcome.map { $0 != .succeeded } ?? false }
            let name = culprit?.displayName ?? "'\(label)'"
            let message = "\(displayName) was cancelled because \(name), which it depends on, did not succeed"
            return OperationFailure(Failure(message: message), kind: .dependency, of: self)
        case .conditionFailed(_, let condition, let reason):
            let message = "\(displayName) was cancelled because its condition \(condition) does not hold: \(reason)"
            return OperationFailure(Failure(message: message), kind: .condition, of: self)
        default: return OperationFailure(Failure(message: "\(error)"), kind: .error, of: self)
        }
    }

    /// Cancels the operation, and wakes it if it waits. Cancels the members of a group.
    public override func cancel() {
        cancelItself()
        memberQueue?.cancelMembers()
    }

    func cancelItself() {
        let isFirst = !isCancelled
        super.cancel()
        // An operation that is not executing now never will: `start` checks the cancelled flag in the same atomic step. What the bodies
        // capture may retain this operation, so they are dropped here.
        if !isExecuting {
            dropBodies()
            if isFirst { clusterExecutor?.hasCancelled(self) }
        } else {
            core.states.withLock { states in for state in states where state.runs(self) { state.inbox.wake() } }
            ticket?.cancel()
        }
        endProcesses()
        if core.isClosing { endIfReturned() }
    }

    /// The line that adds the operation.
    @_spi(Subclassing) public override var placeToRecord: (text: String, isFinal: Bool)? {
        core.existingStateOfCurrentThread?.currentPlace.map { ($0, isInline) }
    }

    // MARK: groups

    @_spi(Subclassing) public override var memberQueue: MemberQueue? {
        kind == .group ? ifOutOfLine { $0.rare?.memberQueue } ?? nil : nil
    }

    @_spi(Subclassing) public override func cancelWithoutMembers() -> MemberQueue? {
        guard let memberQueue else { return nil }
        cancelItself()
        return memberQueue
    }

    @_spi(Subclassing) public override func membersHaveFinished(firstFailure member: Operation?) {
        guard let member, let failure = OperationFailure(of: member, inGroup: self) else { return }
        fail(with: failure)
    }

    // MARK: readiness

    /// Whether the dependencies and the script allow the operation to start.
    public override var isReady: Bool { super.isReady && (isReadyByItself || isCancelled) }

    /// The script's own part of `isReady`. Setting it sends change notices for `isReady`.
    @_spi(Subclassing) public override var isReadyByItself: Bool {
        get { ifOutOfLine { $0.isReadyByItself } ?? true }
        set {
            willChangeValue(forKey: "isReady")
            withFields { $0.isReadyByItself = newValue }
            didChangeValue(forKey: "isReady")
        }
    }

    // MARK: storage

    func stored(_ name: String) -> Parcel? { ifOutOfLine { $0.rare?.storage[name] } ?? nil }

    /// The number of names that have a value.
    var storedCount: Int { ifOutOfLine { $0.rare?.storage.count ?? 0 } ?? 0 }

    func store(_ value: Parcel?, as name: String) {
        value?.makeUnowned(referencesTo: self)
        registerReferences(of: value)
        let replaced = withFields { fields in
            let replaced = fields.rare?.storage[name]
            fields.rareInUse.storage[name] = value
            recordChange(forKey: Self.storageKey(name), old: replaced, new: value)
            return replaced
        }
        withExtendedLifetime(replaced) {}
        deliverRecordedChanges()
    }

    /// The engine's key for a name in the storage. The prefix keeps it apart from the keys of properties.
    static func storageKey(_ name: String) -> String { "storage.\(name)" }

    public override func value(forKey key: String) -> (any Sendable)? {
        key.hasPrefix("storage.") ? stored(String(key.dropFirst(8))) : super.value(forKey: key)
    }

    // MARK: observing

    /// Adds an observation. The state that observes calls this.
    func isObserved(by observation: Observation) {
        let isElsewhere = withFields { fields in
            fields.observations.append(observation)
            return fields.isSealed
        }
        if isElsewhere || !isHome(observation.state) || isInQueue || isExecuting { observation.awaitEnd(of: self) }
    }

    func forget(_ observation: Observation) {
        withFields { fields in fields.observations.removeAll { $0 === observation } }
    }

    /// The operation may change outside of `state` from now on, so `state` keeps its observations of it.
    func keepObservations(in state: LuaState) {
        for observation in ifOutOfLine({ $0.observations }) ?? [] where observation.state === state { observation.awaitEnd(of: self) }
    }

    // MARK: what parcels keep

    /// Records that this operation keeps `parcel`. The engine must know that releasing the operation may run arbitrary code, and the
    /// runtime that there may be a reference cycle.
    func registerReferences(of parcel: Parcel?) {
        guard let parcel, parcel.hasReferences else { return }
        keepsMore()
        guard parcel.keepsOperations else { return }
        let isFirst = withFields { !exchange(&$0.isKeeper, with: true) }
        if isFirst { core.note(keeper: self) }
    }

    /// Drops all parcels. The runtime calls this when it has closed: nobody can read them any more.
    func dropParcels() {
        let dropped = ifOutOfLine { $0.dropParcels() }
        withExtendedLifetime(dropped) {}
    }

    // MARK: completion

    /// The completion block, set by the host or by a script. There is at most one.
    public override var completionBlock: (@Sendable () -> Void)? {
        get { super.completionBlock ?? scriptBlock }
        set { super.completionBlock = newValue }
    }

    /// See `Operation.replaceCompletionBlock`.
    @_spi(Subclassing) public override func replaceCompletionBlock(with block: (@Sendable () -> Void)?) throws {
        try changeCompletion(to: block, in: nil)
    }

    /// The script's completion block, as a closure for the host. The closure runs whatever function is in the handle by then.
    var scriptBlock: (@Sendable () -> Void)? {
        guard let completion, !completion.isPosted, let state = withState(completion.state, { $0 }) else { return nil }
        return { [unowned self] in
            let operation = self
            state.post { state.runCompletion(of: operation) }
        }
    }

    @_spi(Subclassing) public override func willFinish() {
        noteDue()
        guard let (failure, step) = ifOutOfLine({ ($0.rare?.failure, $0.rare?.step) }) else { return }
        if let failure { core.record(failure) }
        // Not later: whoever waits for the operation may then make the next one with its outputs.
        step?.end()
    }

    /// See `Operation.willBeTriedAgain`.
    @_spi(Subclassing) public override func willBeTriedAgain(after error: any Error) -> Bool { isWorthAnotherAttempt(after: error) }

    /// Tells the states that keep something for this operation that it has finished.
    @_spi(Subclassing) public override func didFinish() {
        let replaced = isObserved ? scriptBlock : nil
        dropFunctions()
        let (completing, others) = takeEnd()
        if completing != nil, let replaced { completionBlockHasChanged(from: replaced, to: nil) }
        if let completing { withState(completing) { $0.announceDue() } }
        for reference in others { withState(reference) { unpin(in: $0) } }
    }
}
