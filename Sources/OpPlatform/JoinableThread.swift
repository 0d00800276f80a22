import Glibc
import Synchronization

/// A thread of `startThread` that ends on its own and that another thread may join.
public final class JoinableThread: Sendable {
    private struct State {
        /// The thread, once it has ended, if it is kept.
        var thread: pthread_t?
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
            if state.isKept { state.thread = pthread_self() } else { pthread_detach(pthread_self()) }
            // With the lock: a `join` that ends its wait at this moment either joins the thread, or has it detached above.
            hasEnded.store(1, ordering: .releasing)
        }
        futexWake(hasEnded)
    }

    /// The system could not start the thread, so that `join` has nothing to wait for.
    func couldNotStart() {
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
            state.isKept = false
            return state.thread.take()
        }
        if let thread { pthread_join(thread, nil) }
    }
}
