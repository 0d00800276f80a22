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

/// How an operation starts:
///
/// - A worker runs the body (`runBody`), if only that worker can finish the operation.
/// - A worker calls `start` (`launch`) of any other operation. The base class's `start` is `startOrRefuse`.
/// - A caller calls `start` or `tryStart` by hand, of an operation that is in no queue.
///
/// Some operations need more before a worker runs them: `runSpecially` asks a subclass's getters, and takes what the admission needs.
extension Operation {
    /// `startOrRefuse` for callers that cannot throw. Starting a finished operation has no effect, as Apple's documentation says. Other
    /// mistakes trap.
    func startAsDocumented(endsWithMain: Bool = true, members: MemberQueue? = nil) {
        guard let error = startOrRefuse(endsWithMain: endsWithMain, members: members) else { return }
        if case .startedWhenFinished = error { return }
        trap(error)
    }

    /// The base class's `start`. Returns the caller's mistake, if any.
    ///
    /// - Parameters:
    ///   - endsWithMain: whether the operation has finished when `main` returns; otherwise `end()` must be called.
    ///   - members: the queue inside, if the operation is a group. It ends the operation.
    package func startOrRefuse(endsWithMain: Bool = true, members: MemberQueue? = nil) -> OperationError? {
        let before = loadState()
        let launched = before.has(State.claimed) && ThreadContext.isLaunching(self)
        if !launched && !before.has(State.claimed | State.executing | State.finishing | State.finished) {
            if before.mustCancel { cancelBecauseOfDependency() }
            if !isReady { return notReady }
        }
        switch transition({ $0.start(launched: launched) }) {
        case .run:
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
            // The members finish first, and none of them runs, even if the thread that has cancelled the group has not cancelled them yet.
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
        if OverriddenMethods.isPlain(self) { return true }
        // An override may combine its own state with `super.isFinished`. The base class's getter therefore returns true here, but only on
        // this thread: other threads must not see the operation as finished yet.
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
        ThreadContext.withCurrent { unsafe $0.asked?.toOpaque() == Unmanaged.passUnretained(self).toOpaque() }
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

    /// Whether only the worker that has taken the operation can finish it.
    @inline(__always) var isEndedByWorker: Bool { loadState().has(State.endsWithMain) }

    /// Runs an operation that a worker has taken. Evaluates a subclass's getters first.
    ///
    /// - Parameter group: the thread group with which the caller takes its next operation from the same queue; nil if it does not.
    /// - Returns: the next operation, if this method has taken it already.
    @inline(__always)
    func run(on context: ThreadContext, from core: OperationQueue.Core, thenTakingBy group: ThreadGroup?) -> Unmanaged<Operation>? {
        if isEndedByWorker && isReady && transition({ $0.startBody() }) {
            return unsafe runBody(on: context, from: core, thenTakingBy: group)
        }
        return unsafe runSpecially(on: context, from: core, thenTakingBy: group)
    }

    /// Runs `main` of an operation that finishes with it, and finishes the operation. If the operation is a block, no foreign code runs between
    /// the end of the block and the end of the operation.
    @inline(__always)
    private func runBody(
        on context: ThreadContext, from core: OperationQueue.Core, thenTakingBy group: ThreadGroup?
    ) -> Unmanaged<Operation>? {
        context.whileRunning(self, in: core) { main() }
        var isBare = false
        // A plain class has no `willFinish` to call.
        if !OverriddenMethods.isPlain(self) {
            let last = transition { $0.set(State.finishing) }
            if last.has(State.notifiesSubclass) { willFinish() }
            isBare = last.has(State.isInert) && lock.withLock { extras == nil && dependencyList.isEmpty }
        }
        return unsafe endAndTake(from: core, isBare: isBare, by: context.hasJobs ? nil : group)
    }

    /// Runs an operation whose class decides how it starts or finishes, or that was cancelled, is watched, or needs something. Returns it to its
    /// queue if it is not ready or does not get what it needs.
    ///
    /// - Parameter runsBody: whether to run the body of an operation that only this worker can finish. Otherwise its `start` is called.
    @inline(never)
    func runSpecially(
        on context: ThreadContext, from core: OperationQueue.Core, runsBody: Bool = true, thenTakingBy group: ThreadGroup?
    ) -> Unmanaged<Operation>? {
        let kept = unsafe Unmanaged.passUnretained(self)
        // Safety: balanced below. The queue retains the operation up to here. `take` has retained an operation that others can finish.
        if isEndedByWorker { _ = unsafe kept.retain() }
        let admission = admission
        // Leaving may release the queue, and with it the engine.
        let engine = admission == nil ? nil : unsafe core.engine
        // Safety: balances the retain above, or that of `OperationQueue.State.take`.
        defer { withExtendedLifetime(engine) { unsafe kept.release() } }
        if !loadState().has(State.cancelled) && !isReady {
            if let engine { endAdmission(on: engine) }
            postponeUntilReady(core)
            return nil
        }
        if let admission, let engine {
            var isAdmitted = false
            context.whileRunning(self, in: core) { isAdmitted = self.isAdmitted(by: core, on: engine, admission) }
            if !isAdmitted {
                context.refusals += 1
                return nil
            }
            // An operation without a retry policy runs like one that needs nothing.
            if runsBody && isEndedByWorker && beginOnlyAttempt(admission) {
                return unsafe runBody(on: context, from: core, thenTakingBy: group)
            }
        }
        launch(on: context, from: core)
        return nil
    }

    /// Calls `start` of an operation that is admitted, and finishes the operation if it has ended.
    private func launch(on context: ThreadContext, from core: OperationQueue.Core) {
        let hasAdmission = loadState().has(State.hasAdmission)
        let action = transition { $0.launch() }
        if action != .start {
            if hasAdmission { unsafe endAdmission(on: core.engine) }
            if action == .notReady { postponeUntilReady(core) }
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
            end()
            return
        }
        if last.has(State.recorded) { recordReturn() }
        if isFinished {
            end()
        } else if !endsFromWithin, transition({ $0.startReturned() }) {
            unsafe core.engine.operationOutlivesStart()
        }
        if hasAdmission && startHasReturned() { end() }
    }

    /// Gives an operation that is not ready back to its queue. Either the subclass's `isReady` is false, in which case the operation waits
    /// until `isReady` is announced, or a dependency was added after the worker took the operation.
    @inline(never)
    private func postponeUntilReady(_ core: OperationQueue.Core) {
        guard core.giveBack(self) else { return }
        // A thread that made the operation ready or cancelled it before it was back in its queue could not post it. This fence pairs
        // with the one in `becomeReady`: both threads write first and then read what the other wrote, so at least one of them sees the
        // other's write.
        atomicMemoryFence(ordering: .sequentiallyConsistent)
        if loadState().has(State.cancelled) || isReady { retryPostponed() }
    }

    /// Posts an operation that is back in its queue, if nothing but its own condition keeps it there.
    func retryPostponed() {
        if transition({ $0.post() }) { postToQueue() }
    }
}
