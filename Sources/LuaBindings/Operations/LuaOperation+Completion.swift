import CLua
@_spi(Subclassing) import OpEngine

/// The completion block that a script has set, and what else a state keeps until the operation has ended.
extension LuaOperation {
    /// `state` sets or removes the completion block, whose function is in its handle.
    func setCompletion(in state: LuaState, isPresent: Bool) throws {
        let isSealed = try changeCompletion(to: nil, in: isPresent ? state : nil)
        guard isPresent else { return }
        if !tellWhenFinished() {
            noteDue()
            // It may have told before.
            state.announceDue()
        }
        // Another state has added it, or may; its end, which may have come since, takes the pin away.
        if isInQueue || isFinished {
            try pin(in: state)
        } else if isSealed || !isHome(state) {
            try pin(in: state, isSealed: true)
        }
    }

    /// To a block of the host's, to what a state has, or to none. Returns whether the operation is sealed.
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

    /// The one before is not going to run: its state waits for it no more. Returns whether the operation is sealed.
    private func replaceCompletion(by state: LuaState?) -> Bool {
        let reference = if let state { reference(to: state) } else { nil as StateReference? }
        let (replaced, isSealed) = withFields { fields -> (Completion?, Bool) in
            if let completion = fields.completion, completion.state == reference { return (nil, fields.isSealed) }
            return (fields.replaceCompletion(by: reference), fields.isSealed)
        }
        guard let replaced else { return isSealed }
        if replaced.isAwaited { withState(replaced.state) { state in state.post { state.stopAwaitingCompletion() } } }
        // The call unpins the handle there. If the end has begun, `noteDue` may have put the operation into that state's list.
        if !tellWhenFinished() { withState(replaced.state) { $0.due.remove(self) } }
        return isSealed
    }

    /// From here on, whoever has seen that the operation has finished, and waits in the state that has set the completion block, waits for
    /// that, too.
    func noteDue() {
        let plain = inlineState.map { $0.hasCompletion ? StateReference.home : nil }
        guard let reference = plain ?? withFields({ $0.completion?.state }) else { return }
        withState(reference) { state in
            state.due.append(self)
            // Another state may replace the completion block at the same moment. Either it finds the operation in the list, or this sees the
            // new block.
            if !hasCompletion(at: reference) { state.due.remove(self) }
        }
    }

    /// Whether its completion block in `state` has still to run.
    func hasCompletion(in state: LuaState) -> Bool { hasCompletion(at: reference(to: state)) }

    @inline(__always)
    private func hasCompletion(at reference: StateReference) -> Bool {
        if let plain = inlineState { return plain.hasCompletion && reference == .home }
        return withFields { $0.completion?.state == reference }
    }

    /// What is to be done with one of those that are due in a state.
    enum Due {
        /// Nothing: it has got another completion block meanwhile, or none.
        case nothing
        /// It has not told yet that it has finished.
        case waits
        /// Its completion block, which nobody else has any more, is to be run.
        case completes(isPinned: Bool)
    }

    /// On the thread of `state`.
    @inline(__always)
    fileprivate func takeCompletion(in state: LuaState) -> Due {
        let reference = reference(to: state)
        let (due, isAwaited) = takeInlineCompletion() ?? withFields { $0.takeCompletion(in: reference) }
        if case .completes(isPinned: true) = due { state.unwatch(self) }
        if isAwaited { state.stopAwaitingCompletion() }
        return due
    }

    /// `state`, which keeps its handle, looks after that.
    private func postEnd(to state: LuaState) {
        // It captures nothing else, so that no memory is needed for it.
        state.post { [self] in unpinHere() }
    }

    /// On the thread of a state that keeps its handle: lets go of that, unless its completion block is there.
    private func unpinHere() {
        let isAtHome = withHome { $0.isOpenHere } ?? false
        guard let state = isAtHome ? withHome({ $0 }) : core.existingStateOfCurrentThread, !hasCompletion(in: state) else { return }
        let reference = reference(to: state)
        guard withFields({ $0.unpin(in: reference) }) else { return }
        state.unwatch(self)
        state.unpin(self)
    }

    /// What messages call its completion block.
    fileprivate var nameOfCompletion: String { "the completion block of \(displayName)" }

    /// It has finished: `state`, which keeps its handle, need not any more.
    func letGo(in state: LuaState) {
        // At once where that is possible: a script that starts many without a wait keeps none of them. The function of a completion block
        // may be on its way to the handle.
        if state.isOpenHere && !hasCompletion(in: state) { unpinHere() } else { postEnd(to: state) }
    }
}

extension LuaState {
    /// One of those that are due has finished, or the thread of the state is about to do something else. From any thread.
    @inline(__always)
    func announceDue() {
        if due.announce() { post { [self] in runDue() } }
    }

    /// Runs the completion blocks of those that are due now.
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

    /// Runs the completion block of `operation` for the host, which has asked for it.
    func runCompletion(of operation: LuaOperation) {
        guard !isClosed else { return }
        ranCompletionCount += 1
        runCallback(of: operation, named: operation.nameOfCompletion)
    }

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

/// One after the other of the completion blocks that are due in a state when it begins.
@safe private struct DueRun {
    // Safety: it runs on the state's thread, which keeps the state.
    unowned(unsafe) let state: LuaState
    /// What comes meanwhile waits for the next one.
    private(set) var left: Int
    /// Whose block runs, with the reference of the list.
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

    /// The block that runs has failed; or, if there was none, Lua could run nothing, and the next one fails.
    mutating func fail(_ failure: Failure) {
        var completion = unsafe clua_completion()
        if unsafe current == nil, unsafe next(&completion), unsafe completion.is_pinned {
            unsafe state.unpin(current!.takeUnretainedValue())
        }
        if let operation = unsafe current?.takeUnretainedValue() { unsafe state.report(failure, in: operation.nameOfCompletion) }
        endCurrent()
    }
}
