import CLua
import OpEngine

/// Ctrl-C and SIGTERM, in the state that catches them.
extension LuaState {
    /// Wakes the sleeping thread of an inbox. Async-signal-safe, for the signal handler.
    private static let wake: @convention(c) (UnsafeMutableRawPointer?) -> Void = { inbox in
        // Safety: `catchInterrupts` passes the inbox, which lives as long as the state.
        if let inbox = unsafe inbox { unsafe Unmanaged<Inbox>.fromOpaque(inbox)._withUnsafeGuaranteedRef { $0.wake() } }
    }

    func catchInterrupts() {
        // Safety: the inbox lives as long as the state.
        unsafe clua_catch_interrupts(running, Self.wake, Unmanaged.passUnretained(inbox).toOpaque())
        core.catchTerminate()
    }

    /// Makes Ctrl-C end a wait, in an interpreter that handles Ctrl-C itself while scripts run. Returns whether `clua_release_interrupts` must
    /// restore its handler after the wait.
    func beginWaitingOfInterpreter() -> Bool {
        guard clua_others_catch_interrupts() else { return false }
        catchInterrupts()
        return true
    }

    /// Whether Ctrl-C was pressed and has been raised or taken. Read this before running code that Ctrl-C could end unnoticed.
    var interruptWasRaised: Bool { unsafe clua_interrupt_was_raised(running) }

    /// Whether Ctrl-C was pressed and had not yet been raised when `wasRaised` was read. Takes the interrupt, even if it has been raised
    /// meanwhile.
    func takeInterrupt(unless wasRaised: Bool) -> Bool {
        guard !wasRaised, lastInterrupt != 0 else { return false }
        unsafe clua_take_interrupt(running)
        return true
    }

    /// Runs `body`, whose error will become a value. If Ctrl-C raised the error, renews the interrupt for the code that continues here.
    func keepingInterrupt<Result>(_ body: () throws(Failure) -> Result) throws(Failure) -> Result {
        let wasRaised = interruptWasRaised
        defer { if !wasRaised, interruptWasRaised { unsafe clua_renew_interrupt(running) } }
        return try body()
    }

    /// The most recent signal since this state began to catch them, or 0.
    var lastInterrupt: Int32 { unsafe clua_last_interrupt(running) }

    static var interrupted: CallError { .message("interrupted!") }
}
