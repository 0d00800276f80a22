import OpEngine

/// The completion block that a script has set, and what else a state keeps until the operation has ended.
extension LuaOperation {
    /// `state` sets or removes the completion block, whose function is in its handle.
    func setCompletion(in state: LuaState, isPresent: Bool) throws {
        let isSealed = try changeCompletion(to: nil, in: isPresent ? state : nil)
        guard isPresent else { return }
        if !tellWhenFinished() { noteDue() }
        // Another state has added it, or may.
        if isInQueue {
            try pin(in: state)
        } else if isSealed || !isHome(state) {
            try pin(in: state, isSealed: true)
        }
    }

    /// To a block of the host's, to what a state has, or to none. Returns whether the operation is sealed.
    @discardableResult
    func changeCompletion(to block: (@Sendable () -> Void)?, in state: LuaState?) throws -> Bool {
        try checkCompletionBlockIsInTime()
        let isObserved = isObserved
        let replaced = isObserved ? completionBlock : nil
        let released = storeCompletionBlock(block)
        let isSealed = replaceCompletion(by: state)
        if isObserved { completionBlockHasChanged(from: replaced, to: completionBlock) }
        withExtendedLifetime(released) {}
        return isSealed
    }

    /// The one before is not going to run: its state waits for it no more. Returns whether the operation is sealed.
    private func replaceCompletion(by state: LuaState?) -> Bool {
        let reference = if let state { reference(to: state) } else { nil as StateReference? }
        let (replaced, isSealed) = withMutable { mutable -> (Completion?, Bool) in
            if let completion = mutable.completion, completion.state == reference { return (nil, mutable.isSealed) }
            return (mutable.replaceCompletion(by: reference), mutable.isSealed)
        }
        guard let replaced else { return isSealed }
        withState(replaced.state) { state in
            if let place = replaced.place { state.due.remove(at: place) }
            if replaced.isAwaited { state.post { state.stopAwaitingCompletion() } }
        }
        if replaced.isAwaited { tellWhenFinished() }  // which unpins it there
        return isSealed
    }

    /// From here on, whoever has seen that the operation has finished, and waits in the state that has set the completion block, waits for
    /// that, too.
    func noteDue() {
        let plain = plainContent.map { $0.hasCompletion && !$0.isNoted ? StateReference.home : nil }
        guard let reference = plain ?? withMutable({ $0.completion?.place == nil ? $0.completion?.state : nil }) else { return }
        withState(reference) { state in
            guard let place = state.due.insert(self) else { return }
            let isNoted =
                notePlain(at: place)
                ?? withMutable { mutable in
                    guard mutable.completion?.state == reference, mutable.completion?.place == nil else { return false }
                    mutable.completion?.place = place
                    return true
                }
            if !isNoted { state.due.remove(at: place) }
        }
    }

    /// Whether its completion block in `state` has still to run.
    func hasCompletion(in state: LuaState) -> Bool {
        let reference = reference(to: state)
        if let plain = plainContent { return plain.hasCompletion && reference == .home }
        return withMutable { $0.completion?.state == reference }
    }

    func postEnd(to state: LuaState) {
        // It captures nothing else, so that no memory is needed for it.
        state.post { [self] in endHere() }
    }

    /// On the thread of a state: lets go of the handle, and runs the completion block that this state has set.
    func endHere() {
        // Nearly always the home; else there are references to it.
        let isAtHome = withHome { $0.isOpenHere } ?? false
        guard let reference = isAtHome ? .home : core.existingStateOfCurrentThread.map({ reference(to: $0) }) else { return }
        let (completion, isPinned) =
            (isAtHome ? takePlainCompletion() : nil)
            ?? withMutable { mutable in
                let isPinned = mutable.unpin(in: reference)
                guard mutable.completion?.state == reference else { return (nil as Completion?, isPinned) }
                return (mutable.replaceCompletion(by: nil), isPinned)
            }
        withState(reference) { state in
            if isPinned { state.unwatch(self) }
            state.end(self, runsCompletion: completion != nil, isPinned: isPinned)
            guard let completion else { return }
            if let place = completion.place { state.due.remove(at: place) }
            if completion.isAwaited { state.stopAwaitingCompletion() }
        }
    }
}

extension LuaState {
    /// Runs the completion blocks that this state has set on operations that have finished, and tells its observers of their last
    /// changes: after a wait they have run.
    ///
    /// - Returns: whether there were any.
    @discardableResult
    func runDueCompletions() throws(CallError) -> Bool {
        let before = ranCompletionCount
        // Most have arrived: to look at each of them would take as long again.
        if inbox.hasJobs, !due.isEmpty { _ = try wait(deadline: nil) { true } }
        for operation in due.finished where operation.hasCompletion(in: self) {
            _ = try wait(deadline: nil) { !operation.hasCompletion(in: self) }
        }
        // None where the operation that waits was cancelled.
        var hasRun = ranCompletionCount != before
        for observation in awaitedObservations.values where observation.isEnding {
            _ = try wait(deadline: nil) { !observation.isPinned || !observation.isEnding }
            if !observation.isPinned || !observation.isEnding { hasRun = true }
        }
        return hasRun
    }
}
