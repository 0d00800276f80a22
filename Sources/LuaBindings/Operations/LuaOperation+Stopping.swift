import CLua
@_spi(Subclassing) import OpEngine
import OpPlatform

/// Stopping a body, whether it checks for that or not.
extension LuaOperation {
    /// The bytes of live memory that the body may add to those of its state; nil for no limit.
    var memoryLimit: Int? {
        get { rare { $0.memoryLimit } }
        set { withFields { $0.rareInUse.memoryLimit = newValue } }
    }

    var timeLimit: TimeLimit? {
        get { rare { $0.timeLimit } }
        set { withFields { $0.rareInUse.timeLimit = newValue } }
    }

    /// The reason why the operation was asked to stop; nil if it was not.
    var stopReason: StopReason? { rare { $0.stopReason } }

    /// Ends the programs that a cancelled operation has started. Those of a finished operation keep running.
    ///
    /// - Parameter isAttempt: whether the attempt that has started them was stopped.
    func endProcesses(ofAttempt isAttempt: Bool = false) {
        if isCancelled || isAttempt { for process in rare({ $0.processes }) ?? [] { process.end() } }
    }

    /// Records that the operation has started `process`.
    func adopt(_ process: ChildProcess) {
        withFields { $0.rareInUse.processes.append(process) }
        // The process may have ended before it was on the list.
        if !process.isRunning { disown(process) }
        endProcesses()
    }

    /// Remembers how a program that the operation has started failed, for an error without a message.
    func noteFailedProgram(_ sentence: String) { withFields { $0.rareInUse.failedProgram = sentence } }

    /// Forgets `process`, because it has ended.
    func disown(_ process: ChildProcess) { withFields { $0.rare?.processes.removeAll { $0 === process } } }

    /// Cancels the operation and stops its body, even if the body does not check `isCancelled`. Safe from every thread; does not wait for
    /// the body.
    ///
    /// A body inside a long call of a C function stops when that call returns. If the call lasts longer than a second, the runtime reports that
    /// on stderr, and another worker takes the place of the stuck one.
    public func interrupt() { stop(.interrupted) }

    func stop(_ reason: StopReason) {
        if let memberQueue { return stopGroup(memberQueue, reason) }
        recordStop(reason)
        cancel()
        enforceStop(reason, in: core.states.withLock { requestStop(reason, in: $0) })
    }

    /// Records the reason why the operation, which has no members, is about to be stopped. Call it before `cancel`: a wait that the cancellation
    /// ends then stops the body, instead of returning.
    func recordStop(_ reason: StopReason) {
        withFields { if !$0.hasReturned, $0.rare?.stopReason == nil { $0.rareInUse.stopReason = reason } }
    }

    /// Asks each of `states` that runs the operation to stop its body, and returns those states. The caller holds the lock of the runtime's
    /// states.
    private func requestStop(_ reason: StopReason, in states: [LuaState]) -> [LuaState] {
        let running = states.filter { $0.runs(self) }
        for state in running { state.requestStop(of: self, reason) }
        return running
    }

    /// Makes sure that the operation ends. `states` have been asked to stop it.
    private func enforceStop(_ reason: StopReason, in states: [LuaState]) {
        if withFields({ $0.hasReturned }) { finishStopped(reason) }
        if let ticket {
            ticket.interrupt()
            // A worker that cannot be reached must not keep a runtime from closing.
            if core.isClosing { core.io.after(Self.gracePeriod) { ticket.abandon() } }
        }
        let isFirst = !states.isEmpty && withFields { fields in !exchange(&fields.rareInUse.isBeingStopped, with: true) }
        guard isFirst else { return }
        core.io.after(Self.repetition) { self.repeatStop() }
    }

    /// Seconds that a body has to react to a stop request before the runtime reports it.
    private static let gracePeriod = 1.0

    /// Seconds between two requests to stop a body that has not ended.
    static let repetition = 0.05

    /// Repeats the request, because Lua may have overlooked the first one (see `CLUA_STOP_EVENTS`), and each finalizer that does not end
    /// needs a request of its own.
    ///
    /// - Parameter number: how often the stop was repeated, including this time.
    private func repeatStop(_ number: Int = 1) {
        let running = core.states.withLock { states in states.filter { $0.runs(self) && $0.repeatStop(of: self) } }
        if running.isEmpty { return withFields { $0.rare?.isBeingStopped = false } }
        if number % Int(Self.gracePeriod / Self.repetition) == 0 {
            for state in running where !core.isMain(state) { replaceWorkerIfStuck(in: state) }
        }
        core.io.after(Self.repetition) { self.repeatStop(number + 1) }
    }

    /// Lets another worker take over, because no request can stop a body that executes no Lua instruction. If the body runs in a process, the
    /// process is killed instead.
    private func replaceWorkerIfStuck(in state: LuaState) {
        // The process is not killed while the host answers its request.
        if let link = state.link, core.states.withLock({ states in states.contains { $0 === state } && state.runs(self) }),
            link.kill(computing: self)
        {
            return
        }
        guard core.states.withLock({ states in states.contains { $0 === state } && state.giveUp(self) }) else { return }
        core.engine.beginReplacingWorker(with: state.inbox)
        core.report("\(displayName) was asked to stop, but is inside a C function that does not return; another worker does its work")
    }

    /// Called by a state before it runs a body, when a request can already stop the body there.
    ///
    /// - Returns: the memory limit, 0 for none.
    /// - Throws: an error if the operation was asked to stop before.
    func willRunBody() throws(Failure) -> Int {
        if unsafe origin.group?._withUnsafeGuaranteedRef(\.isCancelled) ?? false {
            cancel()
            throw Failure(stop: .interrupted)
        }
        guard let limits = rare({ ($0.stopReason, $0.timeLimit) }) else { return core.operationMemoryLimit }
        if let reason = limits.0 {
            // The thread that interrupts the operation cancels it as well, but perhaps not yet. The operation must not finish before that.
            if reason == .interrupted { cancelItself() }
            throw Failure(stop: reason)
        }
        limits.1?.begin(for: self)
        return memoryLimitInForce
    }

    /// The memory limit of the body with that of the host, in bytes; 0 for none.
    var memoryLimitInForce: Int {
        memoryLimit.map { min($0, core.usage.limits.operationMemory ?? .max) } ?? core.operationMemoryLimit
    }

    // MARK: groups

    /// Makes a group in `state`. The engine does the work with the queue inside.
    static func makeGroup(in state: LuaState, scriptClass: ScriptClass? = nil) -> LuaOperation {
        let group = LuaOperation(in: state, kind: .group, bodyCount: 0, scriptClass: scriptClass)
        let members = MemberQueue(engine: group.core.engine)
        group.withFields { $0.rareInUse.memberQueue = members }
        members.belongs(to: group)
        group.count(.queue, 0)
        return group
    }

    /// The first result of each member; empty for those that have returned nothing. Nil until the group has finished.
    var resultsOfMembers: [Parcel]? {
        guard isFinished, let memberQueue else { return nil }
        return memberQueue.members.map { ($0 as? LuaOperation)?.results?.first ?? .empty }
    }

    /// Cancels the group, stops the members that run, and records the reason. Not recursive, because groups may be nested deeply.
    private func stopGroup(_ members: MemberQueue, _ reason: StopReason) {
        if isExecuting { record(OperationFailure(Failure(stop: reason), of: self)) }
        // The group is cancelled first: the calls below can finish its members, and then the group.
        cancelItself()
        // Cancelling the group cancels all members at once.
        forEachMember(of: members) { if $0.memberQueue == nil { $0.recordStop(.interrupted) } else { $0.cancelItself() } }
        cancel()
        forEachMember(of: members) { if $0.memberQueue == nil { $0.stop(.interrupted) } }
    }

    /// Calls `body` with each member that is a `LuaOperation`, and with a group before its members.
    private func forEachMember(of members: MemberQueue, _ body: (LuaOperation) -> Void) {
        var pending = [members]
        while let queue = pending.popLast() {
            for case let member as LuaOperation in queue.operations {
                body(member)
                if let inner = member.memberQueue { pending.append(inner) }
            }
        }
    }

    // MARK: attempts

    /// Sets the policy by which the operation is tried again, and the function `when`, which must agree. The function was sent for this
    /// operation.
    func setRetryPolicy(_ policy: RetryPolicy?, when: Parcel?) {
        keep(when)
        let replaced = withFields { exchange(&$0.rareInUse.retriesWhen, with: when) }
        withExtendedLifetime(replaced) {}
        retryPolicy = policy
    }

    /// Asks `when`, and prepares another attempt. The engine has found that `retryPolicy` allows one.
    func prepareAttempt(after error: any Error) -> Bool {
        if core.isClosing || budget?.stopReason != nil { return false }
        resetStop()
        let failure = error as? OperationFailure ?? OperationFailure(Failure(thrown: error), of: self)
        // A policy that was set while the body ran is too late, because the body was released.
        guard isUnchanged || ifOutOfLine({ $0.rare?.bodies != nil || !$0.areBodiesTaken }) ?? false else { return false }
        if let when = rare({ $0.retriesWhen }) {
            do throws(Failure) { if !(try call(when, about: failure).first?.isTruthy ?? false) { return false } } catch {
                if error.stop == nil { core.reportCallbackError("error in the function 'when' of \(displayName): \(error.report)") }
                return false
            }
        }
        // A script must not get more work out of its operations than it may start.
        do { try core.usage.takeOperations(1) } catch { return false }
        resetStop()
        withFields { fields in
            fields.restoreBodies()
            fields.hasReturned = false
            fields.rare?.failure = nil
        }
        return true
    }

    /// Forgets that the operation was asked to stop, and lets its time begin again. A request to stop one attempt does not stop
    /// the next one.
    private func resetStop() {
        let limit = core.states.withLock { _ in
            rare { rare -> TimeLimit? in
                rare.stopReason = nil
                return exchange(&rare.timeLimit, with: rare.timeLimit.map { TimeLimit(seconds: $0.seconds) })
            }
        }
        limit?.end(for: self)
    }

    /// Fails an attempt that has used up its time, if the operation can be tried again. Otherwise stops the operation.
    func timeHasRunOut(_ limit: TimeLimit) {
        guard hasAttemptsLeft || rare({ $0.isTriedAgainElsewhere }) ?? false && !isCancelled else {
            if timeLimit === limit { stop(.timeout) }
            return
        }
        let stopped = core.states.withLock { states -> [LuaState]? in
            guard timeLimit === limit else { return nil }
            recordStop(.timeout)
            return requestStop(.timeout, in: states)
        }
        guard let stopped else { return }
        endProcesses(ofAttempt: true)
        enforceStop(.timeout, in: stopped)
    }

    /// Ends an operation that was stopped while it waited for `finish`.
    func finishStopped(_ reason: StopReason) {
        guard isAsynchronous else { return }
        let failure = OperationFailure(Failure(stop: reason), of: self)
        // The function `when` needs a Lua state.
        let needsWorker =
            rare { $0.retriesWhen } != nil && hasAttemptsLeft && core.existingStateOfCurrentThread == nil && Worker.current == nil
        let ending = needsWorker ? BlockOperation { [self] in finish(with: failure) } : nil
        if let ending, (try? OperationQueue(engine: core.engine).tryAddOperation(ending)) != nil { return }
        finish(with: failure)
    }

    // MARK: conditions

    /// Adds a function, which was sent for the operation, as a condition. The function runs in the state of the thread that asks.
    ///
    /// - Parameter label: the name of the condition in messages.
    func addCondition(_ function: Parcel, named label: String) {
        keep(function)
        countOne(.conditionFunction, label.utf8.count)
        let index = withFields { fields in
            fields.rareInUse.conditions.append(function)
            return fields.rareInUse.conditions.count - 1
        }
        addCondition(
            OperationPrecondition(name: label) { operation in
                unsafe operation.unmanagedOfScript.map { unsafe $0.with { $0.evaluateCondition(at: index) } } ?? .holds
            })
    }

    private func evaluateCondition(at index: Int) -> OperationPrecondition.Answer {
        let function = rare { index < $0.conditions.count ? exchange(&$0.conditions[index], with: .empty) : nil }
        // Without a function, the operation was cancelled meanwhile, or the runtime was closed.
        guard let function else { return .holds }
        // The call below starts the clock of `timeLimit`, but the operation's time begins only when the operation starts.
        defer { if !isCancelled { resetStop() } }
        do throws(Failure) {
            let values = try call(function)
            if values.first?.isTruthy ?? false { return .holds }
            return .failed(reason: kept(values.count > 1 ? values[1].text ?? values[1].description : "it returned false"))
        } catch {
            let failure = OperationFailure(error, of: self)
            record(failure)
            return .error(failure)
        }
    }

    /// The reason why a condition does not hold, which the operation keeps; the error of the ledger if there is no room for it.
    private func kept(_ reason: String) -> String {
        guard let ledger = core.ledger else { return reason }
        let reason = ledger.hasRoom(for: .failure, reason.utf8.count) ? reason : ledger.refusal
        countOne(.failure, reason.utf8.count)
        return reason
    }

    /// Calls a function that was sent for this operation: with the operation, or with `failure` if that is given.
    private func call(_ function: Parcel, about failure: OperationFailure? = nil) throws(Failure) -> [LuaValue] {
        guard let state = core.stateOfCurrentThread() else {
            throw Failure(message: "\(displayName) can ask its functions only in a queue of its runtime's engine")
        }
        return try state.call(function, for: self, about: failure)
    }
}

extension LuaValue {
    /// Whether a condition in Lua holds for the value.
    fileprivate var isTruthy: Bool { self != .nil && self != .boolean(false) }
}
