import CLua
public import OpEngine
import Synchronization

/// An operation whose body is a Lua function.
///
/// The function stays in the handle of the state that made the operation until the operation is added to a queue; then it is
/// copied, unless it will run in that same state. What `main` returns travels to every state that reads it.
///
/// - Concurrency: safe from every thread.
// Safety: what changes is behind `mutable`; the engine protects its own part.
public final class LuaOperation: Operation, @unchecked Sendable {
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
        var isReadyByItself = true
        /// The state that set the completion block.
        var completionState: LuaState?
        /// The state that keeps the handle alive.
        var pinningState: LuaState?
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
            if case .handle = body, state.number != home { throw Failure(message: "\(displayName) was not sent to the state that runs it") }
            let results = try state.run(self, body: body)
            mutable.withLock {
                $0.results = results
                $0.body = .none
            }
        } catch {
            mutable.withLock { $0.body = .none }
            fail(OperationFailure(error, kind: error.isMemoryError ? .memory : .error, of: self))
        }
        finishedRunning()
    }

    private func fail(_ failure: OperationFailure) {
        fail(with: failure)
        core.record(failure)
    }

    /// Without a completion block nobody else lets go of the handle.
    private func finishedRunning() {
        let state = mutable.withLock { $0.completionState == nil ? $0.pinningState.take() : nil }
        guard let state else { return }
        state.inbox.post { state.unpin(self) }
    }

    /// What `main` returned; nil until it finished, and where it did not return.
    var results: Parcel? {
        guard isFinished, let outcome, outcome != .failed else { return nil }
        return mutable.withLock { $0.results } ?? (outcome == .succeeded ? .empty : nil)
    }

    /// Why it failed or was cancelled, with the mark that somebody looked. Nil when it ended well, or has not ended.
    var failure: OperationFailure? {
        guard isFinished, let error else { return nil }
        let failure = error as? OperationFailure ?? OperationFailure(Failure(message: "\(error)"), kind: error.failureKind, of: self)
        failure.markRead()
        return failure
    }

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

    func store(_ value: Parcel?, as name: String) { mutable.withLock { $0.storage[name] = value } }

    // MARK: sending

    /// Makes it fit to run in `queue`: called by `state` before it adds it.
    ///
    /// - Throws: what in its function cannot be sent.
    func prepare(for queue: OperationQueue?, in state: LuaState) throws(Failure) {
        guard self.queue == nil, !isExecuting, !isFinished else { return }  // misuse, which the engine refuses
        let isHome = state.number == home
        let staysHome = isHome && (queue == nil || (queue === core.engine.mainQueue && core.isMain(state)))
        let (body, isSealed, hasCompletion) = mutable.withLock { ($0.body, $0.isSealed, $0.completionState === state) }
        var isPinned = hasCompletion
        switch body {
        case .none: break
        case .handle where staysHome: isPinned = true
        case .parcel where isHome && isSealed && staysHome:
            mutable.withLock { $0.body = .handle }
            isPinned = true
        case .handle, .parcel, .unsendable:
            if isHome {
                state.publishPaths()
                let parcel = try state.encodeBody(of: self)
                mutable.withLock { $0.body = .parcel(parcel) }
            } else if case .unsendable(let message) = body {
                throw Failure(message: message)
            }
        }
        if isPinned { try pin(in: state) }
    }

    private func pin(in state: LuaState) throws(Failure) {
        try state.pin(self)
        mutable.withLock { $0.pinningState = state }
    }

    /// Whether it leaves `state` by reference while its functions are still there.
    func needsSealing(from state: LuaState) -> Bool {
        guard !isFinished else { return false }
        return mutable.withLock {
            if $0.isSealed { return false }
            if case .handle = $0.body { return state.number == home }
            return $0.completionState === state && $0.pinningState == nil
        }
    }

    func seal(in state: LuaState) {
        let (hasCompletion, body) = mutable.withLock {
            $0.isSealed = true
            return ($0.completionState === state, $0.body)
        }
        if case .handle = body, queue == nil {
            let sealed: Body
            do throws(Failure) { sealed = .parcel(try state.encodeBody(of: self)) } catch { sealed = .unsendable(error.message) }
            mutable.withLock { $0.body = sealed }
        }
        // Should this fail, memory has run out, and the next step of the script says so.
        if hasCompletion { try? pin(in: state) }
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
            state.inbox.post { operation.complete() }
        }
        let hadCompletion = mutable.withLock { mutable in
            defer { mutable.completionState = state }
            return mutable.completionState === state
        }
        if !hadCompletion { state.promisedCallbackCount += 1 }
        if queue != nil { try pin(in: state) }
    }

    private func complete() {
        let (completionState, pinningState) = mutable.withLock { ($0.completionState.take(), $0.pinningState.take()) }
        guard let state = completionState else { return }
        state.promisedCallbackCount -= 1
        state.runCompletion(of: self)
        if pinningState === state { state.unpin(self) }
    }
}

extension Error {
    /// How scripts call an error that the engine recorded.
    fileprivate var failureKind: OperationFailure.Kind {
        if case .dependencyNotSucceeded? = self as? OperationError { .dependency } else { .error }
    }
}
