import Synchronization

extension Operation {
    /// Ends the operation: it leaves its queue, is finished, releases its dependents, and whoever waits is told. False when it had
    /// been ended before.
    ///
    /// - Parameter takesNext: the caller is the worker that ran it and takes from the same queue next.
    @discardableResult
    package func end(takesNext: Bool = false) -> Bool {
        switch transition({ $0.claimFinish() }) {
        case .lost: return false
        case .alone:
            if loadState().has(State.tellsSubclass) { willFinish() }
            let final = transition { state in
                state.publishFinish()
                return state
            }
            finished(final, takesNext: nil)
            if final.has(State.outlivesStart) { StartedByHand.end() }
        case .inQueue:
            // Safety: the core keeps itself until its operations have left.
            endInQueue(unsafe core.takeUnretainedValue(), takesNext: takesNext)
        }
        return true
    }

    /// The rest of `end`, when it has been claimed.
    private func endInQueue(_ core: OperationQueue.Core, takesNext isLaunched: Bool) {
        // Not on the thread of an executor or a main queue, whose waits tell nobody.
        let takesNext = isLaunched && ThreadContext.current.serves(core)
        let last = loadState()
        if last.unfinishedDependencyCount > 0 || last.has(State.dependencyFailed) { stopCounting() }
        if last.has(State.tellsSubclass) { willFinish() }
        // Leaving may let the queue go, and with it the engine.
        let engine = last.has(State.outlivesStart) ? unsafe core.engine : nil
        let final = core.leave(self, takesNext: takesNext)
        // Observers may take their time, or wait for what this releases.
        let isObserved = core.isObserved.load(ordering: .relaxed)
        finished(final, takesNext: takesNext && !isObserved && !final.has(State.toldAtEnd) ? core : nil)
        if isObserved { core.deliverChanges() }
        engine?.asynchronousOperationEnded()
        // Safety: balances the retain of `Core.join`; the caller holds the operation.
        unsafe Unmanaged.passUnretained(self).release()
    }

    /// `end`, of an operation that a worker took from `core` and that nobody else can end, together with taking the next one: under one
    /// lock, or under two when others depend on it.
    ///
    /// - Parameters:
    ///   - isBare: nothing but the state and its dependents is left of it, so that letting it go runs no code of anybody.
    ///   - group: the caller takes next, with these threads.
    /// - Returns: what it has taken already.
    @inline(__always)
    func endAndTake(from core: OperationQueue.Core, isBare: Bool, by group: ThreadGroup?) -> Unmanaged<Operation>? {
        let last = loadState()
        if last.unfinishedDependencyCount > 0 || last.has(State.dependencyFailed) { stopCounting() }
        let (final, next) = unsafe core.leaveAndTake(self, by: group, atOnce: isBare)
        if final.bits & (State.hasDependents | State.toldAtEnd) == 0 && !core.isObserved.load(ordering: .relaxed) {
            // Safety: balances the retain of `Core.join`.
            unsafe Unmanaged.passUnretained(self).release()
            return unsafe next
        }
        return unsafe endedWithConsequences(final, in: core, by: group)
    }

    /// The rest of `endAndTake`.
    @inline(never)
    private func endedWithConsequences(
        _ final: State, in core: OperationQueue.Core, by group: ThreadGroup?
    ) -> Unmanaged<Operation>? {
        let isObserved = core.isObserved.load(ordering: .relaxed)
        if isObserved || final.has(State.toldAtEnd) {
            finished(final, takesNext: nil)
            if isObserved { core.deliverChanges() }
            // Safety: as in `endAndTake`.
            unsafe Unmanaged.passUnretained(self).release()
            return nil
        }
        let taker = unsafe Unmanaged.passUnretained(core)
        return unsafe ReleasedDependents.release(of: self, succeeded: final.outcome == .succeeded, thenTakingFrom: taker, by: group) {
            // It may run code of a subclass. Safety: as in `endAndTake`.
            unsafe Unmanaged.passUnretained(self).release()
        }
    }

    /// What follows from an end, with no lock held.
    @inline(__always)
    private func finished(_ final: State, takesNext core: OperationQueue.Core?) {
        if final.has(State.hasDependents) {
            let taker = unsafe core.map { unsafe Unmanaged.passUnretained($0) }
            unsafe _ = ReleasedDependents.release(of: self, succeeded: final.outcome == .succeeded, thenTakingFrom: taker, by: nil)
        }
        if final.has(State.toldAtEnd) { runFinishHandlers() }
    }

    /// It ends although dependencies are unfinished: they must not find it when they end. From here on they do not touch it; one
    /// that has just failed and is about to cancel it holds it by then.
    @inline(never)
    private func stopCounting() {
        lock.withLock {
            var edges = dependencyList.makeIterator()
            while let edge = unsafe edges.next() {
                if unsafe edge.pointee.isCounted { unsafe DependentList.remove(edge) }
            }
        }
    }

    /// Its policy asks for it.
    func cancelBecauseOfDependency() {
        let culprit = dependencies.first { dependency in
            guard let outcome = dependency.outcome else { return false }
            return outcome != .succeeded
        }
        let name = culprit?.label ?? "an operation"
        fail(with: OperationError.dependencyNotSucceeded(operation: label, dependency: name), outcome: .cancelled)
        cancel()
        // An override that forgot its `super`.
        if !loadState().has(State.cancelled), transition({ $0.cancel() }) == .post { postToQueue() }
        deliverChanges()
    }

    // MARK: Who wants to know

    /// Puts it in the place of the one that there was, which it returns. Throws when the operation has finished, unless `block` is nil. Tells
    /// nobody.
    @discardableResult
    package func storeCompletionBlock(_ block: (@Sendable () -> Void)?) throws(OperationError) -> (@Sendable () -> Void)? {
        guard let block else {
            if !loadState().has(State.hasFinishHandlers) { return nil }
            return lock.withLock { extras?.completionBlock.take() }?.call
        }
        try checkCompletionBlockIsInTime()
        let made = Block(block)
        let (replaced, isTooLate) = lock.withLock { () -> (Block?, Bool) in
            let replaced = withExtras { exchange(&$0.completionBlock, with: made) }
            // The end looks for a block when it has been published: here it will find this one, or it has looked.
            let isTooLate = transition { state in
                state.set(State.hasFinishHandlers)
                return state.has(State.finished)
            }
            if isTooLate { withExtras { $0.completionBlock = replaced } }
            return (replaced, isTooLate)
        }
        if isTooLate { throw .completionBlockSetTooLate(operation: label) }
        return replaced?.call
    }

    package var isObserved: Bool { loadState().has(State.observed) }

    package func checkCompletionBlockIsInTime() throws(OperationError) {
        if isFinished { throw OperationError.completionBlockSetTooLate(operation: label) }
    }

    /// For who observes it.
    package func completionBlockHasChanged(from old: (@Sendable () -> Void)?, to new: (@Sendable () -> Void)?) {
        lock.withLock { observedMailbox?.record(.completionBlock, old: old, new: new) }
        deliverChanges()
    }

    /// Has `willFinish` and `didFinish` called when the operation finishes; the latter at once if it has finished.
    ///
    /// - Returns: false if its end has begun, so that `willFinish` has been called already, or will not be.
    @discardableResult
    @_spi(Subclassing) public func tellWhenFinished() -> Bool {
        let (hasFinished, isInTime) = transition { state in
            state.set(State.tellsSubclass)
            return (state.has(State.finished), !state.has(State.finishing))
        }
        if hasFinished { runFinishHandlers() }
        return isInTime
    }

    /// A handler was added: the end will run it, or, if that was before, this.
    func announceFinishHandler() {
        let hasFinished = transition { state in
            state.set(State.hasFinishHandlers)
            return state.has(State.finished)
        }
        if hasFinished { runFinishHandlers() }
    }

    /// Takes all there are, and calls them; the completion block after the others, then `didFinish`.
    private func runFinishHandlers() {
        let (completionBlock, others) = lock.withLock { takeFinishHandlers() }
        if let others { for waiter in others.waiters { waiter.unpark() } }
        deliverChanges()
        // Of two threads that come here, one tells.
        let tellsSubclass =
            loadState().has(State.tellsSubclass)
            && transition { state in
                defer { state.clear(State.tellsSubclass) }
                return state.has(State.tellsSubclass)
            }
        ThreadContext.whileNotRunning(self) {
            if let others { for handler in others.handlers { handler.block.call() } }
            completionBlock?.call()
            if tellsSubclass { didFinish() }
        }
    }

    /// With `lock` held. Most operations have a completion block, if anything.
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
