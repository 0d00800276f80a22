import Glibc
import Synchronization

/// A thread that ends by itself, and that somebody may wait for.
final class JoinableThread: Sendable {
    private struct State {
        var thread = pthread_t()
        /// `join` waits for it, or will: it is not to be detached.
        var isKept = false
    }

    private let state = Guarded(State())
    private let hasEnded = Atomic<UInt32>(0)

    /// What the thread does last.
    func end() {
        state.withLock { state in
            state.thread = pthread_self()
            if !state.isKept { pthread_detach(state.thread) }
        }
        hasEnded.store(1, ordering: .releasing)
        futexWake(hasEnded)
    }

    /// Says, before the thread can have ended, that it will be joined.
    func keep() { state.withLock { $0.isKept = true } }

    /// Waits until the thread has ended, which was kept. One that has not at the deadline is left alone.
    func join(until deadline: ContinuousClock.Instant) {
        while hasEnded.load(ordering: .acquiring) == 0, ContinuousClock.now < deadline {
            futexWait(hasEnded, while: 0, until: deadline)
        }
        let thread = state.withLock { state -> pthread_t? in
            if hasEnded.load(ordering: .acquiring) != 0 { return state.thread }
            state.isKept = false
            return nil
        }
        if let thread { pthread_join(thread, nil) }
    }
}
