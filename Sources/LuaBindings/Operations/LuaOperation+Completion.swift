@_spi(Subclassing) import OpEngine

/// The parts of an operation that Lua states keep until it has finished: the completion block that a script has set, observers, and the
/// handle with the functions in it.
extension LuaOperation {
    /// How this operation names `state`.
    @inline(__always)
    func place(of state: LuaState) -> Place { isHome(state) ? .home : .other(state) }

    /// Calls `body` with the state. Nil if `place` is the home state and the host made the operation.
    @inline(__always)
    func withState<Result>(at place: Place, _ body: (LuaState) -> Result) -> Result? {
        if case .other(let state) = place { return body(state) }
        return withHome(body)
    }

    // MARK: the completion block

    /// Sets or removes the completion block for `state`. The function is in the handle there.
    func setCompletion(in state: LuaState, isPresent: Bool) throws {
        let isSealed = try changeCompletion(to: nil, in: isPresent ? state : nil)
        guard isPresent else { return }
        if !tellWhenFinished() {
            enqueueDue()
            // The operation may have announced its end already.
            state.announceDue()
        }
        // Another state has added the operation or may add it, so the handle must stay. The end of the operation, which may already have
        // occurred, unpins it.
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
        let isSealed = replaceCompletion(by: state.map { place(of: $0) })
        if isObserved { completionBlockHasChanged(from: replaced, to: completionBlock) }
        withExtendedLifetime(released) {}
        return isSealed
    }

    /// Replaces the script's completion block. Returns whether the operation is sealed.
    private func replaceCompletion(by place: Place?) -> Bool {
        let (replaced, isSealed) = withFields { fields -> (Place?, Bool) in
            let old = fields.completion?.place
            if old == place { return (nil, fields.isSealed) }
            fields.completion = place.map { Completion(place: $0) }
            return (old, fields.isSealed)
        }
        // After `tellWhenFinished` the end unpins the old block's handle. If the end has begun, `enqueueDue` may have put the operation into
        // that state's list.
        if let replaced, !tellWhenFinished() { removeDue(at: replaced) }
        return isSealed
    }

    /// Puts the operation into the list of due operations of the state that has set the completion block. So a wait in that
    /// state ends only after the completion block has run.
    func enqueueDue() {
        guard let place = completion?.place else { return }
        withState(at: place) { state in
            state.due.append(self)
            // Another state may replace the completion block at this moment. Either that state finds the operation in the list, or this
            // thread sees the new block.
            if !hasCompletion(at: place) { removeDue(at: place) }
        }
    }

    /// Takes the operation off the list of due operations of a state whose completion block was replaced.
    func removeDue(at place: Place) {
        withState(at: place) { state in
            state.due.remove(self)
            // The state may have set another block meanwhile. Then the removed entry may have been for that block. A second entry is
            // harmless.
            guard hasCompletion(at: place) else { return }
            state.due.append(self)
            state.announceDue()
        }
    }

    /// Whether the operation's completion block in `state` still has to run.
    func hasCompletion(in state: LuaState) -> Bool { hasCompletion(at: place(of: state)) }

    @inline(__always)
    private func hasCompletion(at place: Place) -> Bool { completion?.place == place }

    /// The next step for an operation in a state's list of due operations.
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
        let due = takeCompletion(at: place(of: state))
        if case .completes(isPinned: true) = due {
            state.unwatch(self)
            state.hasUnpinned()
        }
        return due
    }

    /// The name of the completion block in messages.
    var nameOfCompletion: String { "the completion block of \(displayName)" }

    // MARK: pins

    /// Keeps the handle in `state`, and the functions in it, alive until the operation has finished. If `isSealed`, a garbage collection
    /// unpins the handle earlier, when nothing outside of `state` can reach the operation any more.
    func pin(in state: LuaState, isSealed: Bool = false, handleAt handle: Int32 = 0) throws(Failure) {
        let place = place(of: state)
        guard withFields({ $0.pin(at: place) }) else { return }
        do throws(Failure) { try state.pin(self, .operation, handleAt: handle) } catch {
            withFields { _ = $0.unpin(at: place) }
            throw error
        }
        // `tellWhenFinished` is called last: the operation may already have finished, and then the call unpins the handle.
        defer { tellWhenFinished() }
        if isSealed { try state.watch(self) }
    }

    /// Unpins the handle in `state`, because the operation has finished.
    func unpin(in state: LuaState) {
        // Unpins at once if possible, so that finished operations of a script that never waits do not pile up. While the operation has a
        // completion block, the function may not be in the handle yet, so a job in the inbox unpins the handle. The closure captures only one
        // reference, so that it needs no allocation.
        if state.isOpenHere && !hasCompletion(in: state) { unpinHere() } else { state.post { [self] in unpinHere() } }
    }

    /// Unpins the handle in this thread's state, unless a completion block there still has to run.
    private func unpinHere() {
        let isAtHome = withHome { $0.isOpenHere } ?? false
        guard let state = isAtHome ? withHome({ $0 }) : core.existingStateOfCurrentThread, !hasCompletion(in: state) else { return }
        let place = place(of: state)
        guard withFields({ $0.unpin(at: place) }) else { return }
        state.unwatch(self)
        state.unpin(self)
    }

    // MARK: observing

    /// Adds an observation. The state that observes calls this.
    func addObservation(_ observation: Observation) {
        let isElsewhere = withFields { fields in
            fields.rareInUse.observations.append(observation)
            return fields.isSealed
        }
        if isElsewhere || !isHome(observation.state) || isInQueue || isExecuting { observation.awaitEnd(of: self) }
    }

    func removeObservation(_ observation: Observation) {
        withFields { fields in fields.rare?.observations.removeAll { $0 === observation } }
    }

    /// Makes `state` keep its observations of this operation, which may change outside of `state` from now on.
    func keepObservations(in state: LuaState) {
        for observation in ifOutOfLine({ $0.observations }) ?? [] where observation.state === state { observation.awaitEnd(of: self) }
    }
}

extension LuaState {
    /// Runs the completion block of `operation` because the host has called it.
    func runCompletion(of operation: LuaOperation) {
        guard !isClosed else { return }
        ranCompletionCount += 1
        let group = unsafe operation.origin.group?.takeUnretainedValue()
        unsafe runCallback(of: operation, for: group, by: operation.budget, named: operation.nameOfCompletion)
    }

    /// Runs the completion blocks that this state has set on finished operations, and delivers the last changes to its observers. Returns when
    /// this is done, or when the waiting operation was cancelled. Does nothing inside the waits of so many callbacks that no further one may
    /// begin.
    ///
    /// - Returns: whether a block has run or a last change was delivered.
    @discardableResult
    func runDueCompletions() throws(CallError) -> Bool {
        guard inbox.mayNest else { return false }
        let before = ranCompletionCount
        // Most blocks have arrived in the inbox. Running the inbox first leaves few to check one by one.
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
