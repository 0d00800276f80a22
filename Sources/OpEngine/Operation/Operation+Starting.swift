import OpPlatform
import Synchronization

extension BeyondFoundation where Self: Operation {
    /// Like `start()`, but throws `OperationError.startedWhenNotReady`, `.startedWhenExecuting`, `.startedWhenFinished` or
    /// `.startedWhenInQueue` instead of trapping. Calls an override of `start` only after these checks have passed.
    public func tryStart() throws {
        let before = loadState()
        typealias State = Operation.State
        if before.has(State.claimed) { throw error(for: before.has(State.finished) ? .finished : .inQueue) }
        if isFinished { throw error(for: .finished) }
        if isExecuting || before.has(State.started) { throw error(for: .executing) }
        if before.mustCancel { cancelBecauseOfDependency() }
        if !isReady { throw notReady }
        start()
        // Needed for an override of `start`. The base class's `start` has already done this.
        if isExecuting { manualStartHasReturned() }
    }
}

extension Operation {
    /// `startOrRefuse` for callers that cannot throw. Starting a finished operation has no effect, as Apple's documentation says. Other
    /// mistakes trap.
    func startAsDocumented(endsWithMain: Bool = true) {
        guard let error = startOrRefuse(endsWithMain: endsWithMain) else { return }
        if case .startedWhenFinished = error { return }
        trap(error)
    }

    /// The base class's `start`. Returns the caller's mistake, if any.
    ///
    /// - Parameters:
    ///   - endsWithMain: whether the operation has finished when `main` returns; otherwise `end()` must be called.
    ///   - endsFromWithin: whether only operations, inbox jobs and callers of `Engine.hold` can call `end()`. If true, a wait for the operation fails when
    ///     none of them is left. If false, it lasts, because code outside the engine may call `end()`.
    ///   - members: the queue inside, if the operation is a group. It ends the operation.
    package func startOrRefuse(
        endsWithMain: Bool = true, endsFromWithin: Bool = false, members: MemberQueue? = nil
    ) -> OperationError? {
        let before = loadState()
        let launched = before.has(State.claimed) && ThreadContext.isLaunching(self)
        if !launched && !before.has(State.claimed | State.executing | State.finishing | State.finished) {
            if before.mustCancel { cancelBecauseOfDependency() }
            if !isReady { return notReady }
        }
        switch transition({ $0.start(launched: launched) }) {
        case .run:
            if endsFromWithin { transition { $0.set(State.endedFromWithin) } }
            if !launched, let admission { lock.withLock { admission.attempt += 1 } }
            deliverChanges()
            members?.open(for: self)
            if launched { main() } else { ThreadContext.current.whileRunning(self, in: nil) { main() } }
            if let members {
                members.mainHasReturned()
            } else if endsWithMain && isFinishedAfterMain {
                end(takesNext: launched)
            } else if !launched {
                manualStartHasReturned()
            }
        case .finishCancelled:
            guard let members else {
                end(takesNext: launched)
                break
            }
            // The members finish first, and none of them runs, even if the thread that has cancelled the group has not come to them yet.
            transition { $0.set(State.endedFromWithin) }
            members.cancelDirectMembers()
            members.open(for: self)
            members.mainHasReturned()
        case .refuse(let refusal): return error(for: refusal)
        case .ignore: break
        }
        return nil
    }

    /// Whether the operation is finished after `main` has returned. False if a subclass's `isFinished` is false: its work continues, and it
    /// will announce the end.
    private var isFinishedAfterMain: Bool {
        if !hasOwnGetters || OverriddenMethods.isPlain(self) { return true }
        // An override may combine its own state with `super.isFinished`. The base class's getter therefore returns true here, but only on
        // this thread: other threads must not see the operation as finished yet.
        transition { $0.set(State.isAskedAfterMain) }
        let context = ThreadContext.current
        let outer = unsafe context.asked
        unsafe context.asked = .passUnretained(self)
        let isFinishedHere = isFinished
        unsafe context.asked = outer
        if isFinishedHere { return true }
        transition { $0.set(State.continuesAfterMain) }
        // The subclass may have announced the end in the meantime, when `super.isFinished` was still false. Ask again.
        return isFinished
    }

    /// Whether the calling thread is asking a subclass's `isFinished` after `main`. See `isFinishedAfterMain`.
    @inline(never)
    var isAskedHere: Bool {
        // Safety: the pointer is only compared.
        unsafe ThreadContext.current.asked?.toOpaque() == Unmanaged.passUnretained(self).toOpaque()
    }

    /// Declares that the class does not override `start`, that only `start` finishes the operation, and that releasing it runs no foreign
    /// code until `keepsMore` is called. For final classes. Must be called before any other thread knows the operation.
    ///
    /// - Parameter tellsWhenFinished: whether to act as if `tellWhenFinished()` had been called.
    package func endsWithMain(tellsWhenFinished: Bool = false) {
        state.store(State.endsWithMain | State.isInert | (tellsWhenFinished ? State.notifiesSubclass : 0), ordering: .relaxed)
    }

    /// Declares that releasing the operation may run foreign code from now on.
    package func keepsMore() {
        if loadState().has(State.isInert) { transition { $0.clear(State.isInert) } }
    }

    fileprivate var notReady: OperationError {
        .startedWhenNotReady(operation: label, dependencies: dependencies.filter { !$0.isFinished }.map(\.label))
    }

    fileprivate func error(for refusal: State.Refusal) -> OperationError {
        switch refusal {
        case .inQueue: .startedWhenInQueue(operation: label)
        case .executing: .startedWhenExecuting(operation: label)
        case .finished: .startedWhenFinished(operation: label)
        }
    }

    /// Whether the class is `BlockOperation` itself.
    @inline(__always) var isExactlyBlockOperation: Bool { type(of: self) == BlockOperation.self }

    /// Whether only the worker that has taken the operation can finish it.
    @inline(__always) var isEndedByWorker: Bool { isExactlyBlockOperation || loadState().has(State.endsWithMain) }

    /// Runs an operation that a worker has taken. Evaluates a subclass's getters first.
    ///
    /// - Parameter group: the thread group with which the caller takes its next operation from the same queue; nil if it does not.
    /// - Returns: the next operation, if this method has taken it already.
    @inline(__always)
    func run(on context: ThreadContext, from core: OperationQueue.Core, thenTakingBy group: ThreadGroup?) -> Unmanaged<Operation>? {
        if isExactlyBlockOperation {
            if transition({ $0.launchUnobserved() }) { return unsafe runBlocks(on: context, from: core, thenTakingBy: group) }
        } else if loadState().has(State.endsWithMain) {
            if isReady && transition({ $0.launchUnobserved() }) { return unsafe runMain(on: context, from: core, thenTakingBy: group) }
        }
        if let admission, isEndedByWorker {
            return unsafe run(admission, on: context, from: core, thenTakingBy: group)
        }
        runByStarting(on: context, from: core)
        return nil
    }

    /// Runs an operation that only the worker which has taken it can finish, if it gets what it needs. Without another attempt it is run like one
    /// that needs nothing.
    @inline(never)
    private func run(
        _ admission: Admission, on context: ThreadContext, from core: OperationQueue.Core, thenTakingBy group: ThreadGroup?
    ) -> Unmanaged<Operation>? {
        // Safety: the queue has operations, so its engine lives. Retained, because leaving may release the queue, and with it the engine.
        let engine: Engine = unsafe core.engine
        let kept = unsafe Unmanaged.passRetained(self)
        // Safety: balances the retain above. The queue retains the operation up to here.
        defer { withExtendedLifetime(engine) { unsafe kept.release() } }
        guard isReadyAndAdmitted(admission, on: context, by: core, engine) else { return nil }
        if beginOnlyAttempt(admission) {
            if isExactlyBlockOperation { return unsafe runBlocks(on: context, from: core, thenTakingBy: group) }
            return unsafe runMain(on: context, from: core, thenTakingBy: group)
        }
        launch(on: context, from: core)
        return nil
    }

    /// Runs an operation that a worker has taken by calling its `start`.
    @inline(never)
    func runByStarting(on context: ThreadContext, from core: OperationQueue.Core) {
        let kept = unsafe Unmanaged.passUnretained(self)
        // Safety: balanced below. The queue retains the operation up to here.
        if isEndedByWorker { _ = unsafe kept.retain() }
        runAnyKind(on: context, from: core)
        // Safety: balances the retain above, or the one in `OperationQueue.State.take`.
        unsafe kept.release()
    }

    /// Runs the blocks of a plain block operation and finishes it. No foreign code runs between the end of the blocks and the end of the
    /// operation.
    @inline(__always)
    private func runBlocks(
        on context: ThreadContext, from core: OperationQueue.Core, thenTakingBy group: ThreadGroup?
    ) -> Unmanaged<Operation>? {
        // Safety: the caller has checked the type.
        context.whileRunning(self, in: core) { unsafe unsafeDowncast(self, to: BlockOperation.self).runBlocks() }
        return unsafe endAndTake(from: core, isBare: false, by: context.hasJobs ? nil : group)
    }

    /// Runs `main` of an operation that finishes with it, and finishes the operation.
    @inline(__always)
    private func runMain(
        on context: ThreadContext, from core: OperationQueue.Core, thenTakingBy group: ThreadGroup?
    ) -> Unmanaged<Operation>? {
        context.whileRunning(self, in: core) { main() }
        // An operation of a plain class has no `willFinish` to call.
        var last = loadState()
        if !last.has(State.isOfPlainClass) {
            last = transition { state in
                state.beginEnd()
                return state
            }
            if last.has(State.notifiesSubclass) { willFinish() }
        }
        let isBare = last.has(State.isInert) && lock.withLock { extras == nil && dependencyList.isEmpty }
        return unsafe endAndTake(from: core, isBare: isBare, by: context.hasJobs ? nil : group)
    }

    private func runAnyKind(on context: ThreadContext, from core: OperationQueue.Core) {
        // Safety: the queue has operations, so its engine lives.
        if unsafe isReadyAndAdmitted(admission, on: context, by: core, core.engine) { launch(on: context, from: core) }
    }

    /// Whether the operation is ready and has got what it needs, if anything. If not, it is back in its queue.
    @inline(__always)
    private func isReadyAndAdmitted(
        _ admission: Admission?, on context: ThreadContext, by core: OperationQueue.Core, _ engine: @autoclosure () -> Engine
    ) -> Bool {
        if !loadState().has(State.cancelled) && !isReady {
            if admission != nil { endAdmission(on: engine()) }
            postponeUntilReady(core)
            return false
        }
        guard let admission else { return true }
        var isAdmitted = false
        context.whileRunning(self, in: core) { isAdmitted = self.isAdmitted(by: core, on: engine(), admission) }
        if !isAdmitted { context.refusals += 1 }
        return isAdmitted
    }

    /// Starts an operation that is admitted, and finishes it if it has ended.
    private func launch(on context: ThreadContext, from core: OperationQueue.Core) {
        let hasAdmission = loadState().has(State.hasAdmission)
        switch transition({ $0.launch() }) {
        case .start: break
        case .notReady:
            if hasAdmission { unsafe endAdmission(on: core.engine) }
            return postponeUntilReady(core)
        case .ended:
            if hasAdmission { unsafe endAdmission(on: core.engine) }
            return
        }
        if hasAdmission { beginAttempt() }
        deliverChanges()
        context.whileRunning(self, in: core) { start() }
        // The usual case: the base class's `start` has finished the operation.
        let last = loadState()
        if last.has(State.finished) { return }
        if hasAdmission && hasEndedInStart {
            _ = startHasReturned()
            end(takesNext: false)
            return
        }
        if last.has(State.recorded) { recordReturn() }
        if isFinished {
            end(takesNext: false)
        } else if transition({ $0.startReturned() }) {
            core.operationOutlivesStart()
        }
        if hasAdmission && startHasReturned() { end(takesNext: false) }
    }

    /// Returns an operation that is not ready to its queue. Either the subclass's `isReady` is false, in which case the operation waits
    /// until `isReady` is announced, or a dependency was added after the worker took the operation.
    @inline(never)
    private func postponeUntilReady(_ core: OperationQueue.Core) {
        guard core.giveBack(self) else { return }
        // A thread that made the operation ready or cancelled it before it was marked as postponed had nothing to post. This fence pairs
        // with the one in `becomeReady`: both threads write first and then read what the other wrote, so at least one of them sees the
        // other's write.
        atomicMemoryFence(ordering: .sequentiallyConsistent)
        if loadState().has(State.cancelled) || isReady { retryPostponed() }
    }

    /// Posts the operation again if it is postponed.
    func retryPostponed() {
        if transition({ $0.resumePostponed() }) { postToQueue() }
    }
}
