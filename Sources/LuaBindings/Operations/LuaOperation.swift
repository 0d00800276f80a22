import CLua
@_spi(Locking) @_spi(Subclassing) public import OpEngine
import Synchronization

/// An operation whose body is a Lua function, or several.
///
/// The function stays in the handle of the Lua state that made the operation until the operation is added to a queue. Then it is copied,
/// unless it will run in that same state. What `main` returns can be read in every Lua state.
///
/// # States
///
/// What is known of an operation is kept in one of three forms. An operation moves down this list and never up:
///
/// | form | where the state is | who may change it |
/// |---|---|---|
/// | deferred | In the handle: the function, its arguments, the completion block. There is no `LuaOperation` yet. | The thread of the Lua state that made the handle. |
/// | inline | In `stateWord`: one body, or a few results, and whether there is a completion block. | Any thread, by exchanging the word (`changeInline`). |
/// | out of line | In a block of memory whose address is `stateWord`. | Any thread, with the block's lock (`withFields`). |
///
/// - Deferred becomes inline when a queue gets the operation (`addDeferredOperation`), and out of line when a script or the host asks for
///   anything else.
/// - Inline becomes out of line when somebody stores what the word has no room for (`moveOutOfLine`).
///
/// Most operations of a script are made, added, run and finished without ever needing the block of memory or its lock.
///
/// - Concurrency: safe from every thread.
@safe public final class LuaOperation: Operation, @unchecked Sendable {
    // Safety: `@unchecked Sendable` because a lock guards what changes, and the engine protects its own part.

    // With what `Operation` has this is 112 bytes.

    /// What it has in common with those that are made alike.
    let origin: Origin
    /// Its state: see `States`.
    let stateWord: Atomic<StateWord>
    /// Where the state that made it has its handle. That state's thread alone uses it.
    @safe @exclusivity(unchecked) var handleSlot: UInt32 = 0

    /// What its bodies are.
    enum Kind: Int, CaseIterable {
        /// One function at most, which is called with the operation.
        case function
        /// The same, and the operation goes on until `finish` or `fail` is called.
        case asynchronous
        /// Any number of functions, which run concurrently.
        case blocks
        /// One object and the name of its method.
        case invocation
        /// A class, whose method `main` is called with the operation.
        case instance
        /// The same with its method `start`, and the operation goes on until `finish` or `fail` is called.
        case asynchronousInstance
    }

    /// One of its bodies.
    struct Body {
        /// Where it is now.
        enum Form {
            /// In the handle of the state that made the operation.
            case handle
            case parcel(Parcel)
            case hostCall(HostCall)
            /// It left its state by reference, and could not be copied then.
            case unsendable(Refusal)
        }

        /// A function, and the values of the host's that it is called with.
        final class HostCall: Sendable {
            let parcel: Parcel
            let arguments: [LuaValue]

            init(_ parcel: Parcel, _ arguments: [LuaValue]) { (self.parcel, self.arguments) = (parcel, arguments) }
        }

        /// Why a body could not be copied. A class, so that a form is one pointer.
        final class Refusal: Sendable {
            let message: String

            init(message: String) { self.message = message }
        }

        var form: Form
        /// Whether the handle has it, too: it was not added by another state.
        var isInHandle = true
    }

    /// An operation that `state` makes. `bodyCount`: how many functions its handle there holds.
    convenience init(in state: borrowing LuaState, kind: Kind, bodyCount: Int, scriptClass: borrowing ScriptClass? = nil) {
        self.init(
            state.origin(of: kind, scriptClass), Fields(bodies: SmallArray(repeating: Body(form: .handle), count: bodyCount)))
    }

    convenience init(_ origin: consuming Origin, _ fields: consuming Fields) {
        let hasCompletion = fields.completion != nil
        self.init(origin, unsafe StateWord(OutOfLineState.make(fields)), hasCompletion: hasCompletion)
    }

    /// - Parameter hasCompletion: whether `word` has a completion block.
    @inline(__always)
    init(_ origin: consuming Origin, _ word: StateWord, hasCompletion: Bool = false) {
        // Safety: the origin keeps it.
        unsafe Unmanaged.passUnretained(origin.core)._withUnsafeGuaranteedRef { $0.expectWork() }
        let endsWithMain = !origin.isAsynchronous
        self.origin = consume origin
        stateWord = Atomic(word)
        super.init()
        if endsWithMain { self.endsWithMain(tellsWhenFinished: hasCompletion) } else if hasCompletion { tellWhenFinished() }
    }

    deinit {
        let word = stateWord.load(ordering: .acquiring)
        if let outOfLine = unsafe word.outOfLine { unsafe OutOfLineState.destroy(outOfLine) }
        if let body = unsafe word.body { unsafe body.release() }
    }

    /// Calls `body` with the state, out of line from now on, and its lock held.
    @inline(__always)
    func withFields<Result>(_ body: (inout Fields) -> Result) -> Result { unsafe with(outOfLine, body) }

    /// `withFields` if the state is out of line; nil if it is inline.
    @inline(__always)
    func ifOutOfLine<Result>(_ body: (inout Fields) -> Result) -> Result? {
        guard let outOfLine = unsafe stateWord.load(ordering: .acquiring).outOfLine else { return nil }
        return unsafe with(outOfLine, body)
    }

    @inline(__always)
    private func with<Result>(_ outOfLine: UnsafeMutablePointer<OutOfLineState>, _ body: (inout Fields) -> Result) -> Result {
        unsafe outOfLine.pointee.lock.lock()
        defer { unsafe outOfLine.pointee.lock.unlock() }
        return unsafe body(&outOfLine.pointee.fields)
    }

    @inline(__always)
    private var outOfLine: UnsafeMutablePointer<OutOfLineState> {
        unsafe stateWord.load(ordering: .acquiring).outOfLine ?? moveOutOfLine()
    }

    /// A body has returned.
    private func setResults(_ results: ReturnedValues, ofBodyAt index: Int) {
        if changeInline({ $0.setResults(results) }) ?? false { return }
        withFields { $0.setResults(results, ofBodyAt: index) }
    }

    var core: RuntimeCore { origin.core }
    /// The same for a path where a reference of one's own would cost.
    @inline(__always)
    func withCore<Result>(_ body: (RuntimeCore) -> Result) -> Result {
        // Safety: the origin keeps it.
        unsafe Unmanaged.passUnretained(origin.core)._withUnsafeGuaranteedRef(body)
    }
    /// Whether `state` made it.
    @inline(__always)
    func isHome(_ state: LuaState) -> Bool { unsafe origin.home?.toOpaque() == Unmanaged.passUnretained(state).toOpaque() }
    /// Whether the main state made it.
    var isOfMainState: Bool { withHome { $0.number == RuntimeCore.mainStateNumber } ?? false }
    /// The state that made it, for a path where a reference of one's own would cost; nil when the host did.
    @inline(__always)
    func withHome<Result>(_ body: (LuaState) -> Result) -> Result? {
        // Safety: the origin keeps it.
        unsafe origin.home?._withUnsafeGuaranteedRef(body)
    }
    var kind: Kind { origin.kind }
    /// The class that a script has defined, if it is of one.
    var scriptClass: ScriptClass? { origin.scriptClass }

    // MARK: running

    /// Whether it goes on after its body has returned.
    public override var isAsynchronous: Bool { origin.isAsynchronous }

    /// Starts the operation. See `Operation.start`.
    public override func start() {
        guard isAsynchronous else { return super.start() }
        if let error = startOrRefuse(endsWithMain: false, endsFromWithin: true) { fatalError("\(error)") }
    }

    /// Runs the bodies: on this thread, in the Lua state that belongs to it; several of a queue on every worker that is free.
    public override func main() {
        // Safety: the origin keeps it.
        if stateWord.load(ordering: .acquiring) == .nothing, let body = unsafe origin.bodyPointer {
            unsafe run(body, [], at: 0)
        } else if let body = takeInlineBody() {
            unsafe run(body.pointer, [], at: 0)
            withExtendedLifetime(body) {}
        } else {
            runOwnBodies()
        }
        if isAsynchronous { bodyHasReturned() }
    }

    private func runOwnBodies() {
        switch takeBodies() {
        case .empty: break
        case .one(let body): run(body, at: 0)
        case .several(let bodies) where isHere(bodies):
            for (index, body) in bodies.enumerated() { run(body, at: index) }
        case .several(let bodies):
            runConcurrently(
                bodies.enumerated().map { index, body in
                    { [self] in run(body, at: index) }
                })
        }
    }

    private func run(_ body: Body, at index: Int) {
        switch body.form {
        case .handle: unsafe run(nil, [], at: index)
        case .parcel(let parcel):
            unsafe run(parcel.pointer, [], at: index)
            withExtendedLifetime(parcel) {}
        case .hostCall(let call):
            unsafe run(call.parcel.pointer, call.arguments, at: index)
            withExtendedLifetime(call) {}
        case .unsendable(let refusal): fail(Failure(message: refusal.message))
        }
    }

    /// - Parameter parcel: nil: it is in the handle.
    private func run(_ parcel: UnsafePointer<clua_parcel>?, _ arguments: [LuaValue], at index: Int) {
        // The usual case. Safety: the thread's state lives until it is closed on this thread, which does not happen while it runs a body.
        if let state = unsafe LuaState.unmanagedOfThread, unsafe state._withUnsafeGuaranteedRef({ $0.core === origin.core }) {
            return unsafe state._withUnsafeGuaranteedRef { unsafe run(parcel, arguments, at: index, in: $0) }
        }
        guard let state = core.stateOfCurrentThread() else {
            return fail(
                Failure(
                    message: "\(displayName) can run only in a queue of its runtime's engine, or on the thread that made its runtime"))
        }
        unsafe run(parcel, arguments, at: index, in: state)
    }

    private func run(_ parcel: UnsafePointer<clua_parcel>?, _ arguments: [LuaValue], at index: Int, in state: LuaState) {
        do throws(Failure) {
            if unsafe parcel == nil, !isHome(state) {
                throw Failure(message: "\(displayName) was added by the host, but its function is still in a script: let that add it")
            }
            let results = try unsafe state.run(self, parcel, arguments, number: number(ofBodyAt: index))
            guard !isAsynchronous else { return }
            if case .parcel(let parcel) = results {
                parcel.letGo(of: self)
                note(parcel)
            }
            setResults(results, ofBodyAt: index)
        } catch {
            fail(error)
            // What lacks may be held by the state itself, for good: by a module, for one.
            if kind(of: error) == .memory && memoryLimit == nil { core.renew(state) }
        }
    }

    /// Records why a body did not return.
    private func fail(_ error: Failure) {
        end(with: OperationFailure(error, kind: kind(of: error), of: self))
    }

    private func kind(of error: Failure) -> OperationFailure.Kind {
        error.stop?.failureKind ?? (error.isMemoryError ? .memory : .error)
    }

    /// Records a failure; ends an asynchronous operation.
    func end(with failure: OperationFailure) {
        guard isAsynchronous else { return record(failure) }
        if claimEnd() {
            record(failure)
            end()
        } else if failure.kind == .error {
            core.reportCallbackError("error in \(displayName) after it had been finished: \(failure.report)")
        }
    }

    private func record(_ failure: OperationFailure) {
        // Whoever interrupts knows: it is an ending like being cancelled.
        if failure.kind == .interrupted { return fail(with: failure, outcome: .cancelled) }
        fail(with: failure)
        core.record(failure)
    }

    /// What it ended with; nil until it has finished, and where it did not return. Of blocks, one parcel for each.
    var results: [Parcel]? {
        guard isFinished, let outcome, outcome != .failed else { return nil }
        let results = stateWord.load(ordering: .acquiring).results.map { .one($0) } ?? ifOutOfLine { $0.results } ?? .empty
        if outcome != .succeeded && (results.isEmpty || results.contains { $0 == nil }) { return nil }
        return results.map { $0?.parcel ?? .empty }
    }

    /// Whether its method returned no value.
    var isVoid: Bool { results?.allSatisfy { unsafe $0.pointer.pointee.value_count == 0 } ?? false }

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

    /// Cancels the operation, and wakes it when it waits.
    public override func cancel() {
        super.cancel()
        // What does not execute now never will: starting looks at the flag in the same step. What it captured may keep this operation.
        if !isExecuting {
            let plain = takeInlineBody(), dropped = ifOutOfLine { exchange(&$0.bodies, with: .empty) }
            withExtendedLifetime((plain, dropped)) {}
        } else {
            core.states.withLock { states in for state in states where state.runs(self) { state.inbox.wake() } }
        }
        endProcesses()
        if core.isClosing { endIfReturned() }
    }

    // MARK: readiness

    /// Whether its dependencies allow it to start, and the script does.
    public override var isReady: Bool { super.isReady && (isReadyByItself || isCancelled) }

    /// The script's own part of `isReady`.
    @_spi(Subclassing) public override var isReadyByItself: Bool {
        get { ifOutOfLine { $0.isReadyByItself } ?? true }
        set {
            willChangeValue(forKey: "isReady")
            withFields { $0.isReadyByItself = newValue }
            didChangeValue(forKey: "isReady")
        }
    }

    // MARK: storage

    func stored(_ name: String) -> Parcel? { ifOutOfLine { $0.storage[name] } ?? nil }

    func store(_ value: Parcel?, as name: String) {
        value?.letGo(of: self)
        note(value)
        let replaced = withFields { fields in
            let replaced = fields.storage[name]
            fields.storage[name] = value
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
        let isElsewhere = withFields { fields in
            fields.observations.append(observation)
            return fields.isSealed
        }
        if isElsewhere || !isHome(observation.state) || isInQueue || isExecuting { observation.awaitEnd(of: self) }
    }

    func forget(_ observation: Observation) {
        withFields { fields in fields.observations.removeAll { $0 === observation } }
    }

    /// It may change outside of `state` from now on: what observes it there is kept.
    func keepObservations(in state: LuaState) {
        for observation in ifOutOfLine({ $0.observations }) ?? [] where observation.state === state { observation.awaitEnd(of: self) }
    }

    // MARK: what parcels keep

    /// It has got a parcel.
    func note(_ parcel: Parcel?) {
        guard let parcel, parcel.hasReferences else { return }
        keepsMore()
        guard parcel.keepsOperations else { return }
        let isFirst = withFields { !exchange(&$0.isKeeper, with: true) }
        if isFirst { core.note(keeper: self) }
    }

    /// The runtime has closed: nobody can read them any more.
    func dropParcels() {
        let dropped = ifOutOfLine { $0.dropParcels() }
        withExtendedLifetime(dropped) {}
    }

    // MARK: completion

    /// What the host has set, or a script: there is one at most.
    public override var completionBlock: (@Sendable () -> Void)? {
        get { super.completionBlock ?? scriptBlock }
        set { super.completionBlock = newValue }
    }

    /// See `Operation.replaceCompletionBlock`.
    @_spi(Subclassing) public override func replaceCompletionBlock(with block: (@Sendable () -> Void)?) throws {
        try changeCompletion(to: block, in: nil)
    }

    /// What a script has set, for the host: it runs the function that is in the handle then.
    var scriptBlock: (@Sendable () -> Void)? {
        let completion = inlineState.map { $0.hasCompletion ? Completion(state: .home, isPosted: $0.isPosted) : nil }
        guard let completion = completion ?? ifOutOfLine({ $0.completion }) ?? nil, !completion.isPosted else { return nil }
        guard let state = withState(completion.state, { $0 }) else { return nil }
        return { [unowned self] in
            let operation = self
            state.post { state.runCompletion(of: operation) }
        }
    }

    @_spi(Subclassing) public override func willFinish() { noteDue() }

    /// Has the states that keep something for it look after that.
    @_spi(Subclassing) public override func didFinish() {
        let replaced = isObserved ? scriptBlock : nil
        let (completing, others) = takeInlineEnd() ?? withFields { $0.takeEnd() }
        if completing != nil, let replaced { completionBlockHasChanged(from: replaced, to: nil) }
        if let completing { withState(completing) { $0.announceDue() } }
        for reference in others { withState(reference) { letGo(in: $0) } }
    }
}
