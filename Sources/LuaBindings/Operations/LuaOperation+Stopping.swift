@_spi(Locking) import OpEngine

/// Stopping a body, whether it looks or not.
extension LuaOperation {
    /// Live bytes that the body may hold above what its state held when it began; nil for no limit.
    var memoryLimit: Int? {
        get { ifOutOfLine { $0.memoryLimit } ?? nil }
        set { withFields { $0.memoryLimit = newValue } }
    }

    var timeLimit: TimeLimit? {
        get { ifOutOfLine { $0.timeLimit } ?? nil }
        set { withFields { $0.timeLimit = newValue } }
    }

    /// Why it has been asked to stop, if it was while it was running.
    var stopReason: StopReason? { ifOutOfLine { $0.stopReason } ?? nil }

    /// Programs that a cancelled operation has started are ended; those of one that has finished go on.
    func endProcesses() {
        if isCancelled { for process in ifOutOfLine({ $0.processes }) ?? [] { process.end() } }
    }

    /// It has started `process`.
    func adopt(_ process: ChildProcess) {
        withFields { $0.processes.append(process) }
        // Perhaps it ended before it was on the list.
        if !process.isRunning { disown(process) }
        endProcesses()
    }

    /// `process` has ended.
    func disown(_ process: ChildProcess) { withFields { $0.processes.removeAll { $0 === process } } }

    /// Cancels the operation, and stops its body also when that does not look. A body inside one long call of a C function is stopped
    /// when that call returns; when it has not after a second this is reported on stderr, and another worker takes the place of its.
    public func interrupt() { stop(.interrupted) }

    func stop(_ reason: StopReason) {
        withFields { if !$0.hasReturned, $0.stopReason == nil { $0.stopReason = reason } }
        cancel()
        let states = core.states.withLock { states in
            let running = states.filter { $0.runs(self) }
            for state in running { state.requestStop(of: self, reason) }
            return running
        }
        if withFields({ $0.hasReturned }) { endStopped(reason) }
        for state in states where !core.isMain(state) {
            core.io.after(Self.patience) { self.replaceWorkerIfStuck(in: state) }
        }
    }

    /// Seconds after which a body that has not noticed that it is to stop is reported.
    private static let patience = 1.0

    /// A body that executes no instruction of Lua cannot be stopped; then at least the other operations go on.
    private func replaceWorkerIfStuck(in state: LuaState) {
        guard core.states.withLock({ states in states.contains { $0 === state } && state.giveUp(self) }) else { return }
        core.engine.beginReplacingWorker(with: state.inbox)
        core.report("\(displayName) was asked to stop, but is inside a C function that does not return; another worker does its work")
    }

    /// A state has begun to run a body, and would stop it.
    ///
    /// - Returns: the memory limit, 0 for none.
    /// - Throws: when it has been asked to stop before.
    func begin() throws(Failure) -> Int {
        guard let limits = ifOutOfLine({ ($0.stopReason, $0.timeLimit, $0.memoryLimit) }) else { return 0 }
        if let reason = limits.0 { throw Failure(stop: reason) }
        limits.1?.begin(for: self)
        return limits.2 ?? 0
    }
}
