import CLua
import OpEngine

/// Ctrl-C, and a polite request to end, in the state that catches them.
extension LuaState {
    /// Ends a sleep of the thread of an inbox; for a signal's handler.
    private static let wake: @convention(c) (UnsafeMutableRawPointer?) -> Void = { inbox in
        // Safety: see `catchInterrupts`.
        if let inbox = unsafe inbox { unsafe Unmanaged<Inbox>.fromOpaque(inbox)._withUnsafeGuaranteedRef { $0.wake() } }
    }

    func catchInterrupts() {
        // Safety: the inbox lives as long as the state.
        unsafe clua_catch_interrupts(running, Self.wake, Unmanaged.passUnretained(inbox).toOpaque())
        core.catchTerminate()
    }

    /// Whether Ctrl-C was pressed, and has been an error or was taken. Asked before this state runs something that may end by it unseen.
    var interruptWasRaised: Bool { unsafe clua_interrupt_was_raised(running) }

    /// Whether Ctrl-C was pressed, and `interruptWasRaised` was false before: takes it, or what has ended by it has.
    func takeInterrupt(unless wasRaised: Bool) -> Bool {
        guard !wasRaised, lastInterrupt != 0 else { return false }
        unsafe clua_take_interrupt(running)
        return true
    }

    /// Runs `body`, whose error will be a value: if Ctrl-C was that error, it is raised again in what goes on here.
    func keepingInterrupt<Result>(_ body: () throws(Failure) -> Result) throws(Failure) -> Result {
        let wasRaised = interruptWasRaised
        defer { if !wasRaised, interruptWasRaised { unsafe clua_renew_interrupt(running) } }
        return try body()
    }

    /// The signal that came last since they are caught for this state, or 0.
    var lastInterrupt: Int32 { unsafe clua_last_interrupt(running) }

    static var interrupted: CallError { .message("interrupted!") }
}
