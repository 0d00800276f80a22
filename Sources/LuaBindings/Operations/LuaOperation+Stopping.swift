import OpEngine
import OpPlatform

/// Stopping a body, whether it checks for that or not.
extension LuaOperation {
    /// How many bytes of live memory the body may add to what its state held when the body began; nil for no limit.
    var memoryLimit: Int? {
        get { ifOutOfLine { $0.rare?.memoryLimit } ?? nil }
        set { withFields { $0.rareInUse.memoryLimit = newValue } }
    }

    var timeLimit: TimeLimit? {
        get { ifOutOfLine { $0.rare?.timeLimit } ?? nil }
        set { withFields { $0.rareInUse.timeLimit = newValue } }
    }

    /// Why the operation was asked to stop; nil if it was not.
    var stopReason: StopReason? { ifOutOfLine { $0.rare?.stopReason } ?? nil }

    /// Ends the programs that a cancelled operation has started. Those of a finished operation keep running.
    ///
    /// - Parameter isAttempt: whether the attempt that has started them was stopped.
    func endProcesses(ofAttempt isAttempt: Bool = false) {
        if isCancelled || isAttempt { for process in ifOutOfLine({ $0.rare?.processes ?? [] }) ?? [] { process.end() } }
    }

    /// Records that the operation has started `process`.
    func adopt(_ process: ChildProcess) {
        withFields { $0.rareInUse.processes.append(process) }
        // The process may have ended before it was on the list.
        if !process.isRunning { disown(process) }
        endProcesses()
    }

    /// Forgets `process`, because it has ended.
    func disown(_ process: ChildProcess) { withFields { $0.rare?.processes.removeAll { $0 === process } } }

    /// Cancels the operation and stops its body, even if the body does not check `isCancelled`. Safe from every thread; does not wait for
    /// the body.
    ///
    /// A body inside a long call of a C function stops when that call returns. If the call lasts longer than a second, this is reported on
    /// stderr and another worker takes the place of the stuck one.
    public func interrupt() { stop(.interrupted) }

    func stop(_ reason: StopReason) {
        if let memberQueue { return stopGroup(memberQueue, reason) }
        announceStop(reason)
        cancel()
        goOnStopping(reason, in: core.states.withLock { requestStop(reason, in: $0) })
    }

    /// Records why the operation, which has no members, is about to be stopped. This comes before it is cancelled: a wait that ends because the
    /// operation is cancelled stops the body then, instead of telling it that it was cancelled.
    func announceStop(_ reason: StopReason) {
        withFields { if !$0.hasReturned, $0.rare?.stopReason == nil { $0.rareInUse.stopReason = reason } }
    }

    /// Asks those of `states` in which the operation runs to stop it, and returns these. The caller holds the lock of the runtime's states.
    func requestStop(_ reason: StopReason, in states: [LuaState]) -> [LuaState] {
        let running = states.filter { $0.runs(self) }
        for state in running { state.requestStop(of: self, reason) }
        return running
    }

    /// Sees to it that the operation ends, which was asked to stop in `states`.
    func goOnStopping(_ reason: StopReason, in states: [LuaState]) {
        if withFields({ $0.hasReturned }) { endStopped(reason) }
        if let ticket {
            ticket.interrupt()
            // A worker that cannot be reached must not keep a runtime from closing.
            if core.isClosing { core.io.after(Self.gracePeriod) { ticket.abandon() } }
        }
        let isFirst = !states.isEmpty && withFields { fields in !exchange(&fields.rareInUse.isBeingStopped, with: true) }
        guard isFirst else { return }
        core.io.after(Self.repetition) { self.repeatStop() }
        for state in states where !core.isMain(state) {
            core.io.after(Self.gracePeriod) { self.replaceWorkerIfStuck(in: state) }
        }
    }

    /// Seconds that a body has to notice a stop request before it is reported.
    private static let gracePeriod = 1.0

    /// Seconds between two signals to a body that has not ended.
    static let repetition = 0.05

    /// Lua may have overlooked the first signal (see `CLUA_STOP_EVENTS`), and each finalizer that does not end needs one of its own.
    private func repeatStop() {
        let running = core.states.withLock { states in states.filter { $0.runs(self) && $0.repeatStop(of: self) } }
        if running.isEmpty { return withFields { $0.rare?.isBeingStopped = false } }
        core.io.after(Self.repetition) { self.repeatStop() }
    }

    /// Nothing can stop a body that executes no Lua instruction, unless it runs in a process. A new worker lets the other operations go on.
    private func replaceWorkerIfStuck(in state: LuaState) {
        if let link = state.link, core.states.withLock({ states in states.contains { $0 === state } && state.runs(self) }) {
            if link.kill(computing: self) { return }
            // The host works for the body now. The process must not compute for ever after that.
            core.io.after(Self.gracePeriod) { self.replaceWorkerIfStuck(in: state) }
        }
        guard core.states.withLock({ states in states.contains { $0 === state } && state.giveUp(self) }) else { return }
        core.engine.beginReplacingWorker(with: state.inbox)
        core.report("\(displayName) was asked to stop, but is inside a C function that does not return; another worker does its work")
    }

    /// Called by a state when it begins to run a body. From here on the state could stop the body.
    ///
    /// - Returns: the memory limit, 0 for none.
    /// - Throws: an error if the operation was asked to stop before.
    func begin() throws(Failure) -> Int {
        if unsafe origin.group?._withUnsafeGuaranteedRef(\.isCancelled) ?? false {
            cancel()
            throw Failure(stop: .interrupted)
        }
        guard let limits = ifOutOfLine({ $0.rare.map { ($0.stopReason, $0.timeLimit, $0.memoryLimit) } }) ?? nil else {
            return core.operationMemoryLimit
        }
        if let reason = limits.0 {
            // Whoever interrupts it cancels it as well, but perhaps not yet. It must not finish before that.
            if reason == .interrupted { cancelItself() }
            throw Failure(stop: reason)
        }
        limits.1?.begin(for: self)
        let most = core.usage.limits.operationMemory ?? .max
        return limits.2.map { min($0, most) } ?? core.operationMemoryLimit
    }
}
