import OpPlatform
import Synchronization

/// How an operation finishes: by the worker that has run it, which takes the next one (`endAndTake`), or by any thread (`end`).
extension Operation {
    /// Finishes the operation: removes it from its queue, publishes the finished state, releases its dependents, and notifies all waiting
    /// threads. Returns false if the operation was already finishing.
    ///
    /// - Parameter takesNext: whether the caller is the worker that ran the operation and takes its next one from the same queue.
    @discardableResult
    package func end(takesNext: Bool = false) -> Bool {
        let (isEnding, closed) = endOnce(takesNext: takesNext)
        closed?.endGroup()
        return isEnding
    }

    /// `end`, except that the caller must end the group whose last member this was, if `closed` is not nil.
    func endOnce(takesNext isLaunched: Bool) -> (isEnding: Bool, closed: MemberQueue?) {
        if loadState().has(State.hasAdmission) {
            if isTriedAgain() { return (true, nil) }
            if lock.withLock({ isBetweenAttempts }) { return (false, nil) }
        }
        let claim = transition { $0.claimFinish() }
        if claim == .lost { return (false, nil) }
        let last = loadState()
        if last.isCounting { stopCounting() }
        if last.has(State.notifiesSubclass) { willFinish() }
        guard claim == .inQueue else {
            let final = transition { $0.publishFinish() }
            hasFinished(final)
            if final.has(State.outlivesStart) { ManuallyStartedOperations.end() }
            return (true, nil)
        }
        // Safety: the core retains itself until its operations have left.
        let core = unsafe self.core.takeUnretainedValue()
        // False on the thread of an executor or a main queue. Such a thread does not schedule the queue again when it blocks, so another must.
        let takesNext = isLaunched && ThreadContext.current.serves(core)
        // Leaving may release the queue, and with it the engine.
        let engine = last.has(State.outlivesStart | State.hasAdmission) ? unsafe core.engine : nil
        var (final, _, closed) = unsafe core.leave(self, takesNext: takesNext)
        unsafe _ = hasLeft(core, final, on: engine, takesNext: takesNext && closed == nil, by: nil)
        if last.has(State.outlivesStart) {
            // This precedes the moment when the engine can conclude that nothing happens any more.
            closed.take()?.endGroup()
            engine?.asynchronousOperationEnded()
        }
        return (true, closed)
    }

    /// Finishes an operation that only the worker which took it from `core` can finish, and takes the next one. Acquires the queue's lock once,
    /// or twice if dependents in that queue become ready.
    ///
    /// - Parameters:
    ///   - isBare: whether only the state and the dependents are left, so that releasing the operation runs no foreign code.
    ///   - group: the thread group with which the caller takes its next operation; nil if it does not take one.
    /// - Returns: the next operation, if this method has taken it already.
    @inline(__always)
    func endAndTake(from core: OperationQueue.Core, isBare: Bool, by group: ThreadGroup?) -> Unmanaged<Operation>? {
        let last = loadState()
        if last.isCounting { stopCounting() }
        // Leaving may release the queue, and with it the engine.
        let engine = last.has(State.hasAdmission) ? unsafe core.engine : nil
        let (final, next, closed) = unsafe core.leave(self, takesNext: group != nil, atOnceBy: isBare ? group : nil)
        // An operation that was taken is returned even if the queue or this operation has become special since.
        if unsafe next != nil
            || final.bits & (State.hasDependents | State.notifiesAtEnd | State.hasAdmission) == 0 && closed == nil && !core.has(.observed)
        {
            // Safety: balances the retain of `Core.add`.
            unsafe Unmanaged.passUnretained(self).release()
            return unsafe next
        }
        let taken = unsafe hasLeft(core, final, on: engine, takesNext: group != nil && closed == nil, by: group)
        closed?.endGroup()
        return unsafe taken
    }

    /// Performs the consequences of the end after the operation has left its queue, and releases it for the queue.
    ///
    /// - Parameters:
    ///   - engine: the engine, if the operation has an admission.
    ///   - takesNext, group: as for `Core.leave`.
    /// - Returns: the next operation, if this method has taken it.
    @inline(never)
    private func hasLeft(
        _ core: OperationQueue.Core, _ final: State, on engine: Engine?, takesNext: Bool, by group: ThreadGroup?
    ) -> Unmanaged<Operation>? {
        let isObserved = core.has(.observed)
        // Observers and handlers may run for long, or wait for an operation that this one releases. Other workers must take the released
        // operations then.
        let served = takesNext && !isObserved && !final.has(State.notifiesAtEnd) ? core : nil
        if final.has(State.hasAdmission), let engine { endAdmission(on: engine, thenTakingFrom: served) }
        if let group, served != nil, final.has(State.hasDependents) {
            return unsafe ReleasedDependents.release(
                of: self, succeeded: final.outcome == .succeeded, thenTakingFrom: Unmanaged.passUnretained(core), by: group
            ) {
                // Releasing the operation may run code of a subclass. Safety: balances the retain of `Core.add`.
                unsafe Unmanaged.passUnretained(self).release()
            }
        }
        hasFinished(final, thenTakingFrom: served)
        if isObserved { core.deliverChanges() }
        // Safety: balances the retain of `Core.add`.
        unsafe Unmanaged.passUnretained(self).release()
        return nil
    }

    /// Releases the dependents and runs the handlers of a finished operation. The caller holds no lock.
    private func hasFinished(_ final: State, thenTakingFrom core: OperationQueue.Core? = nil) {
        if final.has(State.hasDependents) {
            let served = unsafe core.map { unsafe Unmanaged.passUnretained($0) }
            unsafe _ = ReleasedDependents.release(of: self, succeeded: final.outcome == .succeeded, thenTakingFrom: served, by: nil)
        }
        if final.has(State.notifiesAtEnd) { runFinishHandlers() }
    }

    /// Takes the operation off the lists of its unfinished dependencies, because it finishes before them. After this call no
    /// dependency touches the operation. A dependency that has just failed and is about to cancel the operation has already retained it.
    @inline(never)
    private func stopCounting() {
        lock.withLock {
            var edges = dependencyList.makeIterator()
            while let edge = unsafe edges.next() {
                if unsafe edge.pointee.isCounted { unsafe DependentList.remove(edge) }
            }
        }
    }

    /// Cancels the operation because its policy requires its dependencies to succeed.
    func cancelBecauseOfDependency() {
        let culprit = dependencies.first { dependency in
            guard let outcome = dependency.outcome else { return false }
            return outcome != .succeeded
        }
        let name = culprit?.label ?? "an operation"
        queue?.engine.dropped.wrappingAdd(1, ordering: .relaxed)
        fail(with: OperationError.dependencyNotSucceeded(operation: label, dependency: name), outcome: .cancelled)
        cancel()
        // An override of `cancel` did not call `super`.
        if !loadState().has(State.cancelled), transition({ $0.cancel() }) == .post { postToQueue() }
        deliverChanges()
    }

    // MARK: Handlers

    /// Stores a completion block and returns the previous one. Throws if the operation has finished, unless `block` is nil.
    ///
    /// - Parameter isRecorded: whether to record the change for observers. The caller must call `deliverChanges` then.
    @discardableResult
    package func storeCompletionBlock(_ block: (@Sendable () -> Void)?, isRecorded: Bool = false) throws(OperationError) -> (
        @Sendable () -> Void
    )? {
        // The lock keeps the order of changes in the mailbox.
        func record(from old: Block?) { if isRecorded { observedMailbox?.record(.completionBlock, old: old?.call, new: block) } }
        guard let block else {
            if !loadState().has(State.hasFinishHandlers | State.observed) { return nil }
            return lock.withLock {
                let replaced = extras?.completionBlock.take()
                record(from: replaced)
                return replaced
            }?.call
        }
        try checkCompletionBlockIsInTime()
        let made = Block(block)
        let (replaced, isTooLate) = lock.withLock { () -> (Block?, Bool) in
            let replaced = withExtras { exchange(&$0.completionBlock, with: made) }
            // The finishing thread sets `finished` first and then looks for a block. If `finished` is not set yet, that thread will find
            // this block.
            let isTooLate = transition { $0.set(State.hasFinishHandlers) }.has(State.finished)
            if isTooLate { withExtras { $0.completionBlock = replaced } } else { record(from: replaced) }
            return (replaced, isTooLate)
        }
        if isTooLate { throw .completionBlockSetTooLate(operation: label) }
        return replaced?.call
    }

    package var isObserved: Bool { loadState().has(State.observed) }

    package func checkCompletionBlockIsInTime() throws(OperationError) {
        if isFinished { throw OperationError.completionBlockSetTooLate(operation: label) }
    }

    /// Records a change of the completion block for observers.
    package func completionBlockHasChanged(from old: (@Sendable () -> Void)?, to new: (@Sendable () -> Void)?) {
        lock.withLock { observedMailbox?.record(.completionBlock, old: old, new: new) }
        deliverChanges()
    }

    /// Requests calls of `willFinish` and `didFinish` when the operation finishes. Calls `didFinish` at once if the operation has finished.
    ///
    /// - Returns: false if the operation is already finishing: `willFinish` was called before, is called now, or is never called.
    @discardableResult
    @_spi(Subclassing) public func tellWhenFinished() -> Bool {
        let state = transition { $0.set(State.notifiesSubclass) }
        if state.has(State.finished) { runFinishHandlers() }
        return !state.has(State.finishing)
    }

    /// Marks the operation as having handlers. The finishing thread runs the new handler; if that thread has already passed, this method
    /// runs it.
    func announceFinishHandler() {
        if transition({ $0.set(State.hasFinishHandlers) }).has(State.finished) { runFinishHandlers() }
    }

    /// Takes all handlers and calls them: first those of `whenFinished`, then the completion block, then `didFinish`.
    private func runFinishHandlers() {
        let (completionBlock, others) = lock.withLock { takeFinishHandlers() }
        if let others { for waiter in others.waiters { waiter.unpark() } }
        deliverChanges()
        // Several threads may call this method. Only one of them calls `didFinish`.
        let notifiesSubclass =
            loadState().has(State.notifiesSubclass)
            && transition { state in
                defer { state.clear(State.notifiesSubclass) }
                return state.has(State.notifiesSubclass)
            }
        ThreadContext.whileNotRunning(self) {
            if let others { for handler in others.handlers { handler.block.call() } }
            completionBlock?.call()
            if notifiesSubclass { didFinish() }
        }
    }

    /// Takes the completion block, the handlers and the waiters. The caller holds `lock`. Checks for a completion block first, because most
    /// operations have nothing else.
    private func takeFinishHandlers() -> (completionBlock: Block?, others: (handlers: [FinishHandler], waiters: [Parker])?) {
        if extras == nil { return (nil, nil) }
        return withExtras { extras in
            let completionBlock = extras.completionBlock.take()
            guard let rare = extras.rare else { return (completionBlock, nil) }
            if let completionBlock {
                observedMailbox?.record(
                    .completionBlock, old: completionBlock.call as (@Sendable () -> Void)?, new: nil as (@Sendable () -> Void)?)
            }
            return (completionBlock, (exchange(&rare.finishHandlers, with: []), exchange(&rare.waiters, with: [])))
        }
    }
}
