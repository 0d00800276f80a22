import Synchronization

/// A thread of `startThread` that ends on its own and that other threads may wait for.
///
/// The system does not keep the thread for `pthread_join`. A kept thread that no thread joins would remain in the lists of sanitizers, which confuse it with a
/// later thread that gets its number.
public final class JoinableThread: Sendable {
    private let hasEnded = Atomic<UInt32>(0)

    /// Makes one for a thread that has not ended.
    public init() {}

    /// The thread's last action, or the system could not start the thread.
    func end() {
        hasEnded.store(1, ordering: .releasing)
        futexWake(hasEnded, count: .max)
    }

    /// Waits until the thread has run its body to the end, or until `deadline`. The thread releases what it has for itself, such as its stack, soon after.
    public func join(until deadline: ContinuousClock.Instant) {
        while hasEnded.load(ordering: .acquiring) == 0, ContinuousClock.now < deadline {
            futexWait(hasEnded, while: 0, until: deadline)
        }
    }
}
