import CLua
import OpEngine
import Synchronization

/// Waiting in a state, which meanwhile runs what others have posted to it.
extension LuaState {
    /// Runs callbacks, and in the main state main-queue operations, until `predicate` holds, and then those that are already there. Ends
    /// early if the waiting operation is stopped or, if `endsWhenCancelled`, cancelled.
    ///
    /// - Throws: an error if the waiting operation was stopped, if the script is to exit, or if Ctrl-C was pressed.
    func wait(
        deadline: ContinuousClock.Instant?, endsWhenCancelled: Bool = true, until predicate: () -> Bool
    ) throws(CallError) -> Inbox.Outcome {
        let waiting = currentOperation as? LuaOperation
        let isMain = core.isMain(self)
        let catchesInterrupts = unsafe isMain && core.adoption != nil && beginWaitingOfInterpreter()
        defer { if catchesInterrupts { clua_release_interrupts() } }
        // Neither concerns what runs meanwhile.
        let (call, limit) = (stoppableCall, drainLimit)
        (stoppableCall, drainLimit) = (nil, nil)
        defer { (stoppableCall, drainLimit) = (call, limit) }
        let run = waiting == nil ? currentRun : nil
        // An interrupt that stopped a callback also ends the wait.
        let wasRaised = interruptWasRaised
        // What runs meanwhile is not part of the waiting operation.
        let outcome = suspended(by: nil) {
            let outcome = inbox.run(
                until: {
                    if run?.stopReason != nil { return true }
                    if takeInterrupt(unless: wasRaised) || isMain && core.requestedExitStatus != nil || predicate() { return true }
                    if isMain, core.mainStateMustEnd.load(ordering: .acquiring) { return true }
                    if let call, call.isStopped { return true }
                    guard let waiting, waiting.isCancelled else { return false }
                    return endsWhenCancelled || waiting.stopReason != nil
                }, deadline: deadline)
            // The wait ends below, so the request must not stop a completion block. Reading the cause waits until the request is made.
            if isMain, core.requestedExitStatus != nil, core.exitCause != nil { unsafe clua_withdraw_request(running) }
            // Deliver what has arrived even if there is nothing to wait for.
            _ = inbox.drain()
            return outcome
        }
        if let reason = waiting?.stopReason ?? run?.stopReason { throw .stop(reason) }
        if let call, call.isStopped { throw .stop(.interrupted) }
        if isMain, let adoption = unsafe core.adoption { adoption.exitIfRequested() }
        if isMain, core.requestedExitStatus != nil || core.mainStateMustEnd.load(ordering: .acquiring) { throw .stop(.interrupted) }
        if takeInterrupt(unless: wasRaised) { throw Self.interrupted }
        return outcome
    }
}
