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
        let inline = inlineState.map { $0.hasCompletion ? StateReference.home : nil }
        guard let reference = inline ?? withFields({ $0.completion?.state }) else { return }
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
    private func hasCompletion(at reference: StateReference) -> Bool {
        if let word = inlineState { return word.hasCompletion && reference == .home }
        return withFields { $0.completion?.state == reference }
    }

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
    fileprivate func takeCompletion(in state: LuaState) -> Due {
        let reference = reference(to: state)
        let (due, isAwaited) = takeInlineCompletion() ?? withFields { $0.takeCompletion(in: reference) }
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
    fileprivate var nameOfCompletion: String { "the completion block of \(displayName)" }

    /// Unpins the handle in `state`, because the operation has finished.
    func unpin(in state: LuaState) {
        // At once if possible: a script that starts many operations without waiting then keeps none of them. While there is a completion
        // block, its function may not be in the handle yet, so that case goes through the inbox.
        if state.isOpenHere && !hasCompletion(in: state) { unpinHere() } else { postEnd(to: state) }
    }
}

extension LuaState {
    /// Posts a job that runs the due completion blocks, unless one is on its way. Called when a due operation has finished, and before the
    /// state's thread does something else. From any thread.
    @inline(__always)
    func announceDue() {
        if due.announce() { post { [self] in runDue() } }
    }

    /// Runs the completion blocks that are due now.
    private func runDue() {
        var run = DueRun(state: self, left: due.fetch())
        while due.hasFetched && run.left > 0 {
            do throws(Failure) {
                try unsafe attempt { lua, failure in
                    unsafe withUnsafeMutablePointer(to: &run) { run in
                        unsafe clua_run_completions(
                            lua, { unsafe $0!.assumingMemoryBound(to: DueRun.self).pointee.next($1!) }, run, &failure)
                    }
                }
            } catch { run.fail(error) }
        }
        run.endCurrent()
    }

    /// Runs the completion block of `operation` because the host has called it.
    func runCompletion(of operation: LuaOperation) {
        guard !isClosed else { return }
        ranCompletionCount += 1
        runCallback(of: operation, named: operation.nameOfCompletion)
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

/// Runs the completion blocks that are due in a state at one moment, one after the other.
@safe private struct DueRun {
    // Safety: the run stays on the state's thread, which keeps the state alive.
    unowned(unsafe) let state: LuaState
    /// The number of operations left. Later arrivals wait for the next run.
    private(set) var left: Int
    /// The operation whose block runs, with the list's reference to it.
    private var current: Unmanaged<LuaOperation>?

    init(state: LuaState, left: Int) { (unsafe self.state, self.left) = (state, left) }

    /// See `clua_next_completion`.
    mutating func next(_ completion: UnsafeMutablePointer<clua_completion>) -> Bool {
        endCurrent()
        while left > 0, let operation = unsafe state.due.take() {
            left -= 1
            unsafe current = operation
            let (due, slot) = unsafe operation._withUnsafeGuaranteedRef { operation in
                unsafe (operation.takeCompletion(in: state), operation.isHome(state) ? operation.handleSlot : 0)
            }
            switch due {
            case .completes(let isPinned):
                unsafe state.ranCompletionCount += 1
                unsafe completion.pointee = clua_completion(object: operation.toOpaque(), is_pinned: isPinned, slot: slot)
                return true
            case .waits: unsafe operation._withUnsafeGuaranteedRef { unsafe state.due.append($0) }
            case .nothing: break
            }
            endCurrent()
        }
        return false
    }

    mutating func endCurrent() { unsafe current.take()?.release() }

    /// Reports that the current block failed. Without a current block Lua could run nothing, and the next block is the one that failed.
    mutating func fail(_ failure: Failure) {
        var completion = unsafe clua_completion()
        if unsafe current == nil, unsafe next(&completion), unsafe completion.is_pinned {
            unsafe state.unpin(current!.takeUnretainedValue())
        }
        if let operation = unsafe current?.takeUnretainedValue() { unsafe state.report(failure, in: operation.nameOfCompletion) }
        endCurrent()
    }
}
