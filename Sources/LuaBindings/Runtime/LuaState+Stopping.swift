import CLua
import OpEngine

/// Requests of other threads to stop code that runs in a state.
extension LuaState {
    /// Whether a body of `operation` runs or waits here. From any thread. The caller must keep the state from being closed, also for the
    /// functions below.
    func runs(_ operation: LuaOperation) -> Bool { unsafe clua_has_body(main, Unmanaged.passUnretained(operation).toOpaque()) }

    /// Stops the body of `operation` if it runs here now, and wakes it if it waits.
    func requestStop(of operation: LuaOperation, _ reason: StopReason) {
        unsafe clua_request_stop(main, Unmanaged.passUnretained(operation).toOpaque(), clua_stop_reason(rawValue: UInt32(reason.rawValue)))
        link?.requestStop(of: operation, reason)
        inbox.wake()
    }

    /// Repeats the request to stop `operation`, if its body still runs here. Returns whether it does.
    func repeatStop(of operation: LuaOperation) -> Bool {
        if let link, let reason = operation.stopReason { link.requestStop(of: operation, reason) }
        return unsafe clua_repeat_stop(main, Unmanaged.passUnretained(operation).toOpaque())
    }

    /// Whether `operation` was asked to stop, but is inside one call of a C function and has not noticed. If so, the caller must give the
    /// worker's work to another worker until the call returns.
    func giveUp(_ operation: LuaOperation) -> Bool { unsafe clua_give_up_body(main, Unmanaged.passUnretained(operation).toOpaque()) }

    /// Stops all code that runs here.
    func requestEnd() {
        unsafe clua_request_end(main)
        inbox.wake()
    }

    /// Withdraws a `requestEnd` that no code has noticed.
    func withdrawRequest() { unsafe clua_withdraw_request(main) }
}
