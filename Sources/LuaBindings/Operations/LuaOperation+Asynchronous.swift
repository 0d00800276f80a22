import OpEngine
import Synchronization

/// Asynchronous operations: they keep executing after their body has returned, until somebody ends them. Only the first end counts.
extension LuaOperation {
    /// Claims the right to end the operation. Returns true for the first caller only.
    func claimEnd() -> Bool {
        withFields { fields in
            defer { fields.isEnding = true }
            return !fields.isEnding
        }
    }

    /// Why nobody can end the operation now; nil if somebody can, or already has.
    func refusalToEnd(by method: String) -> String? {
        if kind == .group {
            return "\(displayName) is a group, so it cannot be ended by '\(method)': it finishes when its members have finished"
        }
        if !isAsynchronous {
            return "\(displayName) is not asynchronous, so it cannot be ended by '\(method)': it finishes when its main function returns"
        }
        // Between two attempts, nothing is ended.
        if isExecuting || isFinished || attempt > 0 { return nil }
        return "\(displayName) has not started, so it cannot be ended by '\(method)'; cancel it instead"
    }

    /// Ends the operation with `results`; nil means none. Does nothing if the operation has already been ended.
    func finish(with results: Parcel?) {
        guard claimEnd() else { return }
        results?.makeUnowned(referencesTo: self)
        registerReferences(of: results)
        let bodies = withFields { fields in
            defer { fields.setResults(.parcel(results ?? .empty), ofBodyAt: 0) }
            return fields.takeBodies()
        }
        withExtendedLifetime(bodies) {}
        end()
        ticket?.drop()
    }

    /// Records that the body has returned. The operation keeps executing, unless it has been asked to stop meanwhile.
    func bodyHasReturned() {
        let reason = withFields { fields in
            fields.hasReturned = true
            return fields.rare?.stopReason
        }
        if let reason { return endStopped(reason) }
        if core.isClosing && isCancelled { return endIfReturned() }
        // A queue keeps its operations alive; an operation that was started by hand needs the core for that.
        if !isInQueue && !isFinished { core.keepStartedByHand(self) }
    }

    /// Ends an operation that was stopped while it waited for `finish`.
    func endStopped(_ reason: StopReason) {
        guard isAsynchronous else { return }
        let failure = OperationFailure(Failure(stop: reason), kind: reason.failureKind, of: self)
        if !endsOnWorker(with: failure) { end(with: failure) }
    }

    /// Ends an operation whose body has returned. Called when the runtime closes, because nobody will call `finish` any more.
    func endIfReturned() {
        guard isAsynchronous, withFields({ $0.hasReturned }), claimEnd() else { return }
        end()
    }
}
