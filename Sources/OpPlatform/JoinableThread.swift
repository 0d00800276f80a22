import Glibc
import Synchronization

/// A thread of `startThread` that ends on its own and that another thread may join.
public final class JoinableThread: Sendable {
    private struct State {
        var thread = pthread_t()
        /// Whether the thread will be joined and must not be detached.
        var isKept = false
    }

    private let state = Guarded(State())
    private let hasEnded = Atomic<UInt32>(0)

    /// Makes one for a thread that has not ended.
    public init() {}

    /// The thread's last action.
    func end() {
        state.withLock { state in
            state.thread = pthread_self()
            if !state.isKept { pthread_detach(state.thread) }
        }
        hasEnded.store(1, ordering: .releasing)
        futexWake(hasEnded)
    }

    /// Announces that the thread will be joined. Must be called before the thread can have ended.
    public func keep() { state.withLock { $0.isKept = true } }

    /// Waits until the thread has ended. Requires an earlier call of `keep`. If the thread has not ended by `deadline`, it is detached when
    /// it ends.
    public func join(until deadline: ContinuousClock.Instant) {
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
