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

    /// What `wasInterrupted(since:)` compares with, before this state runs something that may end by Ctrl-C unseen.
    ///
    /// - Throws: when Ctrl-C was pressed and nothing has ended by it yet: it would be that something, and nobody would know.
    func interruptionsUntilNow() throws(CallError) -> Int32 {
        let last = lastInterrupt
        if takeInterrupt() { throw Self.interrupted }
        return last
    }

    /// Whether Ctrl-C was pressed since `interruptionsUntilNow()` returned `earlier`: takes it.
    func wasInterrupted(since earlier: Int32) -> Bool { takeInterrupt() || lastInterrupt != earlier }

    /// Runs `body`, whose error will be a value: if Ctrl-C was that error, it is raised again in what goes on here.
    func keepingInterrupt<Result>(_ body: () throws(Failure) -> Result) throws(Failure) -> Result {
        let wasRaised = unsafe clua_interrupt_was_raised(running)
        defer { if !wasRaised, unsafe clua_interrupt_was_raised(running) { unsafe clua_renew_interrupt(running) } }
        return try body()
    }

    /// The signal that came last since they are caught for this state, or 0.
    var lastInterrupt: Int32 { unsafe clua_last_interrupt(running) }

    private func takeInterrupt() -> Bool { unsafe clua_take_interrupt(running) != 0 }

    static var interrupted: CallError { .message("interrupted!") }
}
