import CLua
@_spi(Subclassing) import OpEngine

/// The completion block that a script has set, and what else a state keeps until the operation has finished.
extension LuaOperation {
    /// Sets or removes the completion block for `state`. The function is in the handle there.
    func setCompletion(in state: LuaState, isPresent: Bool) throws {
        let isSealed = try changeCompletion(to: nil, in: isPresent ? state : nil)
        guard isPresent else { return }
        if !tellWhenFinished() {
            noteDue()
            // The operation may have announced its end already.
            state.announceDue()
        }
        // Another state has added the operation or may add it, so the handle must stay. The end, which may have come meanwhile, unpins it.
        if isInQueue || isFinished {
            try pin(in: state)
        } else if isSealed || !isHome(state) {
            try pin(in: state, isSealed: true)
        }
    }

    /// Replaces the completion block by the host's `block`, by the one in `state`, or by none. Returns whether the operation is sealed.
    @discardableResult
    func changeCompletion(to block: (@Sendable () -> Void)?, in state: LuaState?) throws -> Bool {
        if block != nil || state != nil { try checkCompletionBlockIsInTime() }
        let isObserved = isObserved
        let replaced = isObserved ? completionBlock : nil
        let released = try storeCompletionBlock(block)
        let isSealed = replaceCompletion(by: state)
        if isObserved { completionBlockHasChanged(from: replaced, to: completionBlock) }
        withExtendedLifetime(released) {}
        return isSealed
    }

    /// Replaces the script's completion block. The state of the old block no longer waits for it. Returns whether the operation is sealed.
    private func replaceCompletion(by state: LuaState?) -> Bool {
        let reference = if let state { reference(to: state) } else { nil as StateReference? }
        let (replaced, isSealed) = withFields { fields -> (Completion?, Bool) in
            if let completion = fields.completion, completion.state == reference { return (nil, fields.isSealed) }
            return (fields.replaceCompletion(by: reference), fields.isSealed)
        }
        guard let replaced else { return isSealed }
        if replaced.isAwaited { withState(replaced.state) { state in state.post { state.stopAwaitingCompletion() } } }
        // After `tellWhenFinished` the end unpins the handle there. If the end has begun, `noteDue` may have put the operation into that
        // state's list.
        if !tellWhenFinished() { removeFromDue(at: replaced.state) }
        return isSealed
    }

    /// Puts the operation into the list of due operations of the state that has set the completion block. Whoever waits in that state and
    /// has seen that the operation has finished then also waits for the completion block.
    func noteDue() {
        guard let reference = completion?.state else { return }
        withState(reference) { state in
            state.due.append(self)
            // Another state may replace the completion block at this moment. Either that state finds the operation in the list, or this
            // thread sees the new block.
            if !hasCompletion(at: reference) { removeFromDue(at: reference) }
        }
    }

    /// Takes the operation off the list of due operations of a state whose completion block was replaced.
    func removeFromDue(at reference: StateReference) {
        withState(reference) { state in
            state.due.remove(self)
            // The state may have set another block meanwhile. Then the entry that was removed may have been for that one. A second entry
            // does no harm.
            guard hasCompletion(at: reference) else { return }
            state.due.append(self)
            state.announceDue()
        }
    }

    /// Whether the operation's completion block in `state` still has to run.
    func hasCompletion(in state: LuaState) -> Bool { hasCompletion(at: reference(to: state)) }

    @inline(__always)
    private func hasCompletion(at reference: StateReference) -> Bool { completion?.state == reference }

    /// What to do with an operation in a state's list of due operations.
    enum Due {
        /// Nothing: the completion block was replaced or removed meanwhile.
        case nothing
        /// Wait: the operation has not yet told the state that it has finished.
        case waits
        /// Run the completion block. It has been taken out of the operation.
        case completes(isPinned: Bool)
    }

    /// Takes the completion block of `state`. On the thread of `state`.
    @inline(__always)
    func takeCompletion(in state: LuaState) -> Due {
        let (due, isAwaited) = takeCompletion(in: reference(to: state))
        if case .completes(isPinned: true) = due { state.unwatch(self) }
        if isAwaited { state.stopAwaitingCompletion() }
        return due
    }

    /// Asks `state` to unpin the handle.
    private func postEnd(to state: LuaState) {
        // The closure captures only one reference, so that it needs no allocation.
        state.post { [self] in unpinHere() }
    }

    /// Unpins the handle in this thread's state, unless a completion block there still has to run.
    private func unpinHere() {
        let isAtHome = withHome { $0.isOpenHere } ?? false
        guard let state = isAtHome ? withHome({ $0 }) : core.existingStateOfCurrentThread, !hasCompletion(in: state) else { return }
        let reference = reference(to: state)
        guard withFields({ $0.unpin(in: reference) }) else { return }
        state.unwatch(self)
        state.unpin(self)
    }

    /// What messages call the completion block.
    var nameOfCompletion: String { "the completion block of \(displayName)" }

    /// Unpins the handle in `state`, because the operation has finished.
    func unpin(in state: LuaState) {
        // At once if possible: a script that starts many operations without waiting then keeps none of them. While there is a completion
        // block, its function may not be in the handle yet, so that case goes through the inbox.
        if state.isOpenHere && !hasCompletion(in: state) { unpinHere() } else { postEnd(to: state) }
    }
}

extension LuaState {
    /// Runs the completion block of `operation` because the host has called it.
    func runCompletion(of operation: LuaOperation) {
        guard !isClosed else { return }
        ranCompletionCount += 1
        let group = unsafe operation.origin.group?.takeUnretainedValue()
        runCallback(of: operation, for: group, by: operation.budget, named: operation.nameOfCompletion)
    }

    /// Runs the completion blocks that this state has set on finished operations, and delivers the last changes to its observers. When this
    /// returns, they have run.
    ///
    /// - Returns: whether there were any.
    @discardableResult
    func runDueCompletions() throws(CallError) -> Bool {
        let before = ranCompletionCount
        // Most have arrived in the inbox. Checking each of them would take as long again.
        if inbox.hasJobs, !due.isEmpty { _ = try wait(deadline: nil) { true } }
        for operation in due.finished where operation.hasCompletion(in: self) {
            _ = try wait(deadline: nil) { !operation.hasCompletion(in: self) }
        }
        // No block has run if the waiting operation was cancelled.
        var hasRun = ranCompletionCount != before
        for observation in awaitedObservations.values where observation.isEnding {
            _ = try wait(deadline: nil) { !observation.isPinned || !observation.isEnding }
            if !observation.isPinned || !observation.isEnding { hasRun = true }
        }
        return hasRun
    }
}
