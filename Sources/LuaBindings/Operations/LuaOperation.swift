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

    /// The constants that this operation shares with all operations made in the same way.
    let origin: Origin
    /// The state of the operation, or the address of the block that has it. See `LuaOperation+State.swift`.
    let stateWord: Atomic<StateWord>
    /// The slot of the handle in the Lua state that made the operation. Only that state's thread uses it.
    @safe @exclusivity(unchecked) var handleSlot: UInt32 = 0

    /// The kind of an operation's bodies.
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

    /// Makes an operation in `state`. `bodyCount` is the number of functions in its handle there.
    convenience init(in state: borrowing LuaState, kind: Kind, bodyCount: Int, scriptClass: borrowing ScriptClass? = nil) {
        self.init(
            state.origin(of: kind, scriptClass), Fields(bodies: SmallArray(repeating: .handle, count: bodyCount)))
        if state.isRecorded, let place = state.currentPlace { recordPlace(place, isFinal: true) }
    }

    convenience init(_ origin: consuming Origin, _ fields: consuming Fields) {
        self.init(origin, unsafe StateWord(.passRetained(OutOfLineState(fields))))
    }

    @inline(__always)
    init(_ origin: consuming Origin, _ word: StateWord) {
        // Safety: the origin keeps the core alive.
        unsafe Unmanaged.passUnretained(origin.core)._withUnsafeGuaranteedRef {
            $0.expectWork()
            $0.ledger?.add(.operation)
        }
        let endsWithMain = !origin.isAsynchronous
        self.origin = consume origin
        stateWord = Atomic(word)
        super.init()
        let hasCompletion = completion != nil
        if endsWithMain { self.endsWithMain(tellsWhenFinished: hasCompletion) } else if hasCompletion { tellWhenFinished() }
    }

    deinit {
        if origin.kind == .group { memberQueue?.groupIsGone() }
        let word = stateWord.load(ordering: .acquiring)
        unsafe word.outOfLine?.release()
        unsafe word.body?.release()
        unsafe Unmanaged.passUnretained(origin.core)._withUnsafeGuaranteedRef { $0.ledger?.subtract(.operation) }
    }

    var core: RuntimeCore { origin.core }
    /// Whether `state` made the operation.
    @inline(__always)
    func isHome(_ state: LuaState) -> Bool { unsafe origin.home?.toOpaque() == Unmanaged.passUnretained(state).toOpaque() }
    /// Whether the main state made the operation.
    var isOfMainState: Bool { withHome { $0.isOfHost } ?? false }
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
        guard takeTicket() || isAsynchronous else { return super.start() }
        if memberQueue != nil, !isCancelled { timeLimit?.begin(for: self) }
        if let error = startOrRefuse(endsWithMain: false, members: memberQueue) { fatalError("\(error)") }
    }

    /// Always true: the operation's body, a script's call of `finish` or `fail`, or the cluster finishes the operation.
    @_spi(Subclassing) public override var endsFromWithin: Bool { true }

    /// Runs the bodies on this thread, in the thread's Lua state. Several bodies of an operation in a queue run on every free worker.
    public override func main() {
        if kind == .group { return }
        if let ticket { return leave(with: ticket) }
        // If the host has started the operation, its functions may be in the main state.
        if isInQueue || !core.enterMainState(runBodies) { runBodies() }
        if isAsynchronous { bodyHasReturned() }
    }

    private func runBodies() {
        // Safety: the origin keeps its body alive.
        if isUnchanged, let body = unsafe origin.bodyPointer { return unsafe runFunction(body) }
        if let body = takeInlineBody() {
            defer { withExtendedLifetime(body) {} }
            return unsafe runFunction(body.pointer)
        }
        let (bodies, step) = takeBodies()
        if let step, case .one(let body) = bodies { return runStep(step, body) }
        // If one body exists only in the handle here, all of them run in this thread's state, one after the other.
        if bodies.count > 1, isInQueue, !core.isInMainState, !bodies.contains(where: \.isOnlyInHandle) {
            return runConcurrently(bodies.enumerated().map { index, body in { [self] in runBody(body, at: index) } })
        }
        for (index, body) in bodies.enumerated() { runBody(body, at: index) }
    }

    /// Runs one of the bodies, wherever it is.
    func runBody(_ body: Body, at index: Int) {
        switch body {
        case .handle: unsafe runFunction(nil, at: index)
        case .parcel(let parcel), .copy(let parcel):
            unsafe runFunction(parcel.pointer, at: index)
            withExtendedLifetime(parcel) {}
        case .hostCall(let parcel, let arguments):
            unsafe runFunction(parcel.pointer, arguments, at: index)
            withExtendedLifetime(parcel) {}
        case .unsendable(let refusal): finish(with: OperationFailure(Failure(message: refusal.message), of: self))
        }
    }

    /// Runs a function in the Lua state of this thread. Stores its results or its failure.
    ///
    /// - Parameter parcel: nil if the body is in the handle.
    private func runFunction(_ parcel: UnsafePointer<clua_parcel>?, _ arguments: [LuaValue] = [], at index: Int = 0) {
        // Safety: the thread's state lives until this thread closes it, which it does not do while it runs a body.
        var state = unsafe LuaState.unmanagedOfThread
        if unsafe state.map({ unsafe $0._withUnsafeGuaranteedRef { $0.core !== origin.core } }) ?? true {
            unsafe state = core.stateOfCurrentThread().map { unsafe .passUnretained($0) }
        }
        guard let state = unsafe state else {
            let place = "only in a queue of its runtime's engine, or be started while no other thread is inside the runtime"
            return finish(with: OperationFailure(Failure(message: "\(displayName) can run \(place)"), of: self))
        }
        unsafe state._withUnsafeGuaranteedRef { state in
            do throws(Failure) {
                if unsafe parcel == nil, !isHome(state) { throw isElsewhere }
                let results = try unsafe state.runBody(of: self, parcel, arguments, number: number(ofBodyAt: index))
                guard !isAsynchronous else { return }
                try publishOutputs()
                if case .parcel(let parcel) = results { keep(parcel) }
                setResults(results, ofBodyAt: index)
            } catch {
                finish(with: OperationFailure(error, of: self))
                // The state itself may hold the missing memory for good, for example in a module.
                if error.failureKind == .memory && memoryLimit == nil && core.operationMemoryLimit == 0 { core.discard(state) }
            }
        }
    }

    /// The failure of a body that is in the handle of another state.
    var isElsewhere: Failure {
        Failure(message: "\(displayName) was added by the host, but its function is still in a script: let that add it")
    }

    // MARK: ending

    /// Records that a body has failed. Ends the operation if it is asynchronous.
    func finish(with failure: OperationFailure) {
        guard isAsynchronous else { return record(failure) }
        if claimEnd() {
            record(failure)
            end()
        } else if failure.kind == .error, isExecuting || isFinished {
            core.reportCallbackError("error in \(displayName) after it had been finished: \(failure.report)")
        }
    }

    /// No code will ask for the failure of this operation, whether it has finished or not.
    func dismissFailure() {
        withFields { $0.rareInUse.isFailureDismissed = true }
        _ = failure
    }

    private func recordInRuntime(_ failure: OperationFailure) {
        if rare({ $0.isFailureDismissed }) ?? false { failure.markRead() }
        core.record(failure)
    }
    func record(_ failure: OperationFailure) {
        discardOutputs()
        // A script that interrupts an operation knows that the operation ends, as with cancelling. So this failure needs no reader.
        if failure.kind == .interrupted { return fail(with: failure, outcome: .cancelled) }
        fail(with: failure)
        guard hasAttemptsLeft else { return recordInRuntime(failure) }
        // The failure counts only if no other attempt follows. Of the failures of several blocks, the first one counts.
        withFields { fields in if fields.rare?.failure == nil { fields.rareInUse.failure = failure } }
        tellWhenFinished()
    }

    /// Ends an asynchronous operation with `results`; nil means none. Does nothing if the operation has already been ended.
    func finish(with results: Parcel?) {
        guard claimEnd() else { return }
        do throws(Failure) { try publishOutputs() } catch {
            record(OperationFailure(error, kind: .error, of: self))
            end()
            return
        }
        keep(results)
        let bodies = withFields { fields in
            defer { fields.setResults(.parcel(results ?? .empty), ofBodyAt: 0) }
            return fields.takeBodies()
        }
        withExtendedLifetime(bodies) {}
        end()
        ticket?.drop()
    }

    /// Claims the right to end an asynchronous operation. Returns true for the first caller only: only the first end counts.
    func claimEnd() -> Bool { withFields { !exchange(&$0.isEnding, with: true) } }

    /// The reason why a script cannot end the operation now; nil if it can, or the operation has ended already.
    func refusalToEnd(by method: String) -> String? {
        if kind == .group {
            return "\(displayName) is a group, so it cannot be ended by '\(method)': it finishes when its members have finished"
        }
        if !isAsynchronous {
            return "\(displayName) is not asynchronous, so it cannot be ended by '\(method)': it finishes when its main function returns"
        }
        // Between two attempts, the call has no effect.
        if isExecuting || isFinished || attempt > 0 { return nil }
        return "\(displayName) has not started, so it cannot be ended by '\(method)'; cancel it instead"
    }

    /// Records that the body of an asynchronous operation has returned. The operation keeps executing, unless it has been asked to stop
    /// meanwhile.
    private func bodyHasReturned() {
        let reason = withFields { fields in
            fields.hasReturned = true
            return fields.rare?.stopReason
        }
        if let reason { return finishStopped(reason) }
        if core.isClosing && isCancelled { return finishIfReturned() }
        // A queue keeps its operations alive; an operation that was started by hand needs the core for that.
        if !isInQueue && !isFinished { core.keepStartedByHand(self) }
    }

    /// Ends an operation whose body has returned, because the runtime closes, and no script will call `finish` any more.
    func finishIfReturned() {
        if isAsynchronous, withFields({ $0.hasReturned }), claimEnd() { end() }
    }

    // MARK: results

    /// The results: one parcel for each block. Nil until the operation has finished, and nil for an operation that did not return.
    var results: [Parcel]? {
        guard isFinished, let outcome, outcome != .failed else { return nil }
        let results = storedResults
        if outcome != .succeeded && (results.isEmpty || results.contains { $0 == nil }) { return nil }
        return results.map { $0?.parcel ?? .empty }
    }

    /// Whether the body returned no value.
    var isVoid: Bool { results?.allSatisfy { unsafe $0.pointer.pointee.value_count == 0 } ?? false }

    /// The reason why the operation failed or was cancelled; nil if it succeeded or has not finished. Reading the property marks the
    /// failure as read.
    var failure: OperationFailure? {
        let failure = failureLeftUnread
        failure?.markRead()
        return failure
    }

    /// Like `failure`, without marking it as read.
    var failureLeftUnread: OperationFailure? {
        guard isFinished, let error else { return nil }
        return error as? OperationFailure ?? failure(for: error)
    }

    /// Turns an error of the engine into one with a message for scripts.
    private func failure(for error: any Error) -> OperationFailure {
        switch error as? OperationError {
        case .dependencyNotSucceeded(_, let label):
            // The label tells the dependency apart from others that have failed since.
            let culprit = dependencies.first { $0.label == label && $0.outcome.map { $0 != .succeeded } ?? false }
            let name = culprit?.displayName ?? "'\(label)'"
            let message = "\(displayName) was cancelled because \(name), which it depends on, did not succeed"
            return OperationFailure(Failure(message: message), kind: .dependency, of: self)
        case .conditionFailed(_, let condition, let reason):
            let message = "\(displayName) was cancelled because its condition \(condition) does not hold: \(reason)"
            return OperationFailure(Failure(message: message), kind: .condition, of: self)
        default: return OperationFailure(Failure(message: "\(error)"), of: self)
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
        // An operation that is not executing now will never execute: `start` checks the cancelled flag in the same atomic step. The captures
        // of the bodies may retain this operation, so this drops the bodies.
        if !isExecuting {
            dropBodies()
            if isFirst { clusterExecutor?.hasCancelled(self) }
        } else {
            core.states.withLock { states in for state in states where state.runs(self) { state.inbox.wake() } }
            ticket?.cancel()
        }
        endProcesses()
        if core.isClosing { finishIfReturned() }
    }

    /// The line that adds the operation.
    @_spi(Subclassing) public override var placeToRecord: (text: String, isFinal: Bool)? {
        core.existingStateOfCurrentThread?.currentPlace.map { ($0, isInline) }
    }

    // MARK: groups

    @_spi(Subclassing) public override var memberQueue: MemberQueue? {
        kind == .group ? rare { $0.memberQueue } : nil
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

    /// The values that scripts have stored, by name.
    var storage: [String: Parcel] { rare { $0.storage } ?? [:] }

    func store(_ value: Parcel?, as name: String) {
        keep(value)
        let replaced = withFields { fields in
            let replaced = exchange(&fields.rareInUse.storage[name], with: value)
            if (replaced == nil) != (value == nil), let ledger = core.ledger {
                fields.rareInUse.count(.field, name.utf8.count, adding: value != nil, in: ledger)
            }
            recordChange(forKey: Self.storageKey(name), old: replaced, new: value)
            return replaced
        }
        withExtendedLifetime(replaced) {}
        deliverRecordedChanges()
    }

    /// The engine's key for a name in the storage. The prefix keeps it apart from the keys of properties.
    static func storageKey(_ name: String) -> String { "storage.\(name)" }

    public override func value(forKey key: String) -> (any Sendable)? {
        key.hasPrefix("storage.") ? storage[String(key.dropFirst(8))] : super.value(forKey: key)
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

    /// The script's completion block, as a closure for the host. The closure runs the function that is in the handle by then.
    var scriptBlock: (@Sendable () -> Void)? {
        guard let completion, !completion.isPosted, let state = withState(at: completion.place, { $0 }) else { return nil }
        return { [unowned self] in
            let operation = self
            state.post { state.runCompletion(of: operation) }
        }
    }

    @_spi(Subclassing) public override func willFinish() {
        enqueueDue()
        guard let (failure, step) = rare({ ($0.failure, $0.step) }) else { return }
        if let failure { recordInRuntime(failure) }
        discardOutputs()
        // The step ends before the operation has finished: code that waits for the end may then make another operation with the same outputs.
        step?.end()
    }

    /// See `Operation.willBeTriedAgain`.
    @_spi(Subclassing) public override func willBeTriedAgain(after error: any Error) -> Bool { prepareAttempt(after: error) }

    /// Tells the states that keep a handle or a completion block for this operation that it has finished.
    @_spi(Subclassing) public override func didFinish() {
        let replaced = isObserved ? scriptBlock : nil
        dropFunctions()
        let (completing, others) = takeEnd()
        if completing != nil, let replaced { completionBlockHasChanged(from: replaced, to: nil) }
        if let completing { withState(at: completing) { $0.announceDue() } }
        for place in others { withState(at: place) { unpin(in: $0) } }
    }
}

extension LuaOperation {
    /// The constants of all operations that the same Lua state makes in the same way.
    @safe final class Origin: Sendable {
        // The thread that makes operations changes the reference count; other threads read the fields below. The gap keeps the two in
        // different cache lines.
        private let gap = InlineArray<6, UInt>(repeating: 0)
        let core: RuntimeCore
        /// The Lua state that makes the operations; nil if the host does. A Lua state keeps its origins until it is closed.
        private let homeState: LuaState?
        /// `homeState` without reference counting.
        // Safety: `homeState` keeps it alive.
        let home: Unmanaged<LuaState>?
        let kind: Kind
        let isAsynchronous: Bool
        /// The class, if a script has defined it.
        let scriptClass: ScriptClass?
        private let groupObject: Runtime.Group?
        /// The group of the operations, without reference counting.
        // Safety: `groupObject` keeps it alive.
        let group: Unmanaged<Runtime.Group>?
        /// The shared body of the operations, if the host makes them. The body is light, so it costs little to keep it as long as any
        /// operation.
        let body: Parcel?
        /// The part of `body` that C reads.
        // Safety: immutable, and `body` keeps it alive.
        nonisolated(unsafe) let bodyPointer: UnsafePointer<clua_parcel>?

        init(core: RuntimeCore, home: LuaState?, kind: Kind, scriptClass: ScriptClass? = nil, group: Runtime.Group?, body: Parcel? = nil) {
            self.core = core
            homeState = home
            unsafe self.home = home.map { unsafe Unmanaged.passUnretained($0) }
            self.kind = kind
            isAsynchronous = kind == .asynchronous || kind == .asynchronousInstance || kind == .group
            self.scriptClass = scriptClass
            groupObject = group
            unsafe self.group = group.map { unsafe Unmanaged.passUnretained($0) }
            self.body = body
            unsafe bodyPointer = body?.pointer
        }

        /// The initial bodies of an operation of this origin.
        var bodies: SmallArray<Body> { body.map { .one(.parcel($0)) } ?? .empty }
    }
}
