@_spi(Subclassing) import OpEngine
import OpPlatform

/// Operations that are tried again. The engine decides that by `retryPolicy`; here are the body, which runs once more, and the function
/// `when`, which a script may give.
extension LuaOperation {
    /// Has the operation tried again by `policy`, as long as the function `when`, which was sent for it, says so.
    func setRetryPolicy(_ policy: RetryPolicy?, when: Parcel?) {
        when?.makeUnowned(referencesTo: self)
        registerReferences(of: when)
        let replaced = withFields { exchange(&$0.rareInUse.retriesWhen, with: when) }
        withExtendedLifetime(replaced) {}
        retryPolicy = policy
    }

    /// Takes the bodies, which are about to run. An operation that may be tried again keeps them.
    func takeBodiesOfAttempt(_ fields: inout Fields, keeping keepsThem: Bool) -> SmallArray<Body> {
        // Until here, only the former attempt could have been ended.
        if fields.rare?.bodies != nil { fields.isEnding = false }
        let bodies = fields.takeBodies()
        if keepsThem { fields.rareInUse.bodies = bodies } else { fields.rare?.bodies = nil }
        return bodies
    }

    /// Asks `when`, and prepares another attempt.
    func isWorthAnotherAttempt(after error: any Error) -> Bool {
        if core.isClosing || budget?.stopReason != nil { return false }
        beginAgain()
        let failure = error as? OperationFailure ?? OperationFailure(Failure(thrown: error), kind: .error, of: self)
        // A policy that was set while the body ran comes too late: the body is gone.
        guard isUnchanged || ifOutOfLine({ $0.rare?.bodies != nil || !$0.areBodiesTaken }) ?? false else { return false }
        guard says(whenToRetry, about: failure) else { return false }
        // A script must not get more work out of its operations than it may start.
        do { try core.usage.takeOperations(1) } catch { return false }
        beginAgain()
        withFields { fields in
            fields.restoreBodies()
            fields.hasReturned = false
            fields.rare?.failure = nil
        }
        return true
    }

    private var whenToRetry: Parcel? { ifOutOfLine { $0.rare?.retriesWhen } ?? nil }

    private func says(_ when: Parcel?, about failure: OperationFailure) -> Bool {
        guard let when else { return true }
        do throws(Failure) { return try call(when, about: failure).first?.isTruthy ?? false } catch {
            if error.stop == nil { core.reportCallbackError("error in the function 'when' of \(displayName): \(error.report)") }
            return false
        }
    }

    /// Forgets that the operation was asked to stop, and lets its time begin again. What was asked of a former attempt is not meant for what
    /// runs next.
    func beginAgain() {
        let limit = core.states.withLock { _ in
            ifOutOfLine { fields -> TimeLimit? in
                guard let rare = fields.rare else { return nil }
                rare.stopReason = nil
                let limit = rare.timeLimit
                rare.timeLimit = limit.map { TimeLimit(seconds: $0.seconds) }
                return limit
            }
        }
        (limit ?? nil)?.end(for: self)
    }

    /// An attempt has used up its time. It fails, and the operation is tried again if that is possible; otherwise the operation is stopped.
    func timeHasRunOut(_ limit: TimeLimit) {
        let isTriedAgainElsewhere = (ifOutOfLine { $0.rare?.isTriedAgainElsewhere } ?? nil) ?? false
        guard hasAttemptsLeft || isTriedAgainElsewhere && !isCancelled else {
            if timeLimit === limit { stop(.timeout) }
            return
        }
        let (isInTime, states) = core.states.withLock { states -> (Bool, [LuaState]) in
            let isInTime = withFields { fields in
                guard fields.rare?.timeLimit === limit else { return false }
                if !fields.hasReturned, fields.rare?.stopReason == nil { fields.rareInUse.stopReason = .timeout }
                return true
            }
            return (isInTime, isInTime ? requestStop(.timeout, in: states) : [])
        }
        guard isInTime else { return }
        endProcesses(ofAttempt: true)
        goOnStopping(.timeout, in: states)
    }

    /// Ends the attempt of an asynchronous operation on a worker, because the function `when` needs a Lua state. Returns false if that is not
    /// necessary.
    func endsOnWorker(with failure: OperationFailure) -> Bool {
        guard whenToRetry != nil, hasAttemptsLeft, core.existingStateOfCurrentThread == nil, Worker.current == nil else { return false }
        let ending = BlockOperation { [self] in end(with: failure) }
        return (try? OperationQueue(engine: core.engine).tryAddOperation(ending)) != nil
    }
}
