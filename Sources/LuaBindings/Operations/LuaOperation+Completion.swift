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
        } else if state.number != home || isSealed {
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
        let (replaced, isSealed) = withMutable { mutable -> (Completion?, Bool) in
            if let completion = mutable.completion, completion.state === state { return (nil, mutable.isSealed) }
            return (exchange(&mutable.completion, with: state.map { Completion(state: $0) }), mutable.isSealed)
        }
        guard let replaced else { return isSealed }
        if let place = replaced.place { replaced.state.due.remove(at: place) }
        guard replaced.isAwaited else { return isSealed }
        replaced.state.post { replaced.state.stopAwaitingCompletion() }
        tellWhenFinished()  // which unpins it there
        return isSealed
    }

    /// From here on, whoever has seen that the operation has finished, and waits in the state that has set the completion block, waits for
    /// that, too.
    func noteDue() {
        guard let due = withMutable({ $0.completion?.place == nil ? $0.completion?.state.due : nil }), let place = due.insert(self)
        else { return }
        let isNoted = withMutable { mutable in
            guard mutable.completion?.state.due === due, mutable.completion?.place == nil else { return false }
            mutable.completion?.place = place
            return true
        }
        if !isNoted { due.remove(at: place) }
    }

    /// Whether its completion block in `state` has still to run.
    func hasCompletion(in state: LuaState) -> Bool { withMutable { $0.completion?.state === state } }

    func postEnd(to inbox: Inbox) {
        // It captures nothing else, so that no memory is needed for it.
        inbox.post { [self] in endHere() }
    }

    /// On the thread of a state: lets go of the handle, and runs the completion block that this state has set.
    func endHere() {
        guard let state = withCore({ $0.existingStateOfCurrentThread }) else { return }
        let (completion, isPinned) = withMutable { mutable in
            let isPinned = mutable.pinningStates.remove(state)
            guard mutable.completion?.state === state else { return (nil as Completion?, isPinned) }
            return (exchange(&mutable.completion, with: nil), isPinned)
        }
        if isPinned { state.unwatch(self) }
        state.end(self, runsCompletion: completion != nil, isPinned: isPinned)
        guard let completion else { return }
        if let place = completion.place { state.due.remove(at: place) }
        if completion.isAwaited { state.stopAwaitingCompletion() }
    }
}
