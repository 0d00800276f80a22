import OpEngine
import Synchronization

/// Asynchronous operations: they stay executing after their bodies have returned, until somebody ends them. The first end counts.
extension LuaOperation {
    /// Whether the caller is the one who ends it.
    func claimEnd() -> Bool {
        withFields { fields in
            defer { fields.isEnding = true }
            return !fields.isEnding
        }
    }

    /// Says why nobody can end it now; nil when somebody can, or has.
    func refusalToEnd(by method: String) -> String? {
        if !isAsynchronous {
            return "\(displayName) is not asynchronous, so it cannot be ended by '\(method)': it finishes when its main function returns"
        }
        if isExecuting || isFinished { return nil }
        return "\(displayName) has not started, so it cannot be ended by '\(method)'; cancel it instead"
    }

    /// Ends it with these results, nil for none; ignored when it has been ended before.
    func finish(with results: Parcel?) {
        guard claimEnd() else { return }
        results?.letGo(of: self)
        note(results)
        // Nearly always they have been taken.
        let bodies = withFields { fields in
            defer { fields.setResults(.parcel(results ?? .empty), ofBodyAt: 0) }
            return fields.takeBodies()
        }
        withExtendedLifetime(bodies) {}
        end()
    }

    /// The body has returned. The operation goes on, unless it has been asked to stop meanwhile.
    func bodyHasReturned() {
        let reason = withFields { fields in
            fields.hasReturned = true
            return fields.stopReason
        }
        if let reason { return endStopped(reason) }
        if core.isClosing && isCancelled { return endIfReturned() }
        // A queue keeps what is in it.
        if !isInQueue && !isFinished { core.keepStartedByHand(self) }
    }

    /// Ends what waits for `finish` and has been stopped.
    func endStopped(_ reason: StopReason) {
        guard isAsynchronous else { return }
        end(with: OperationFailure(Failure(stop: reason), kind: reason.failureKind, of: self))
    }

    /// The runtime closes, and nobody will come and finish it.
    func endIfReturned() {
        guard isAsynchronous, withFields({ $0.hasReturned }), claimEnd() else { return }
        end()
    }
}
