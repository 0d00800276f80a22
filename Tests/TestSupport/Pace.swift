import Glibc
import Synchronization

/// Keeps threads in step, so that their next actions happen at the same moment.
public final class Pace: Sendable {
    private let threads: Int
    private let arrived = Atomic<Int>(0)

    /// Creates a pace for this number of threads.
    public init(threads: Int) { self.threads = threads }

    /// Returns when every thread has called `step` as often as this one.
    public func step() {
        let number = arrived.wrappingAdd(1, ordering: .acquiringAndReleasing).oldValue
        let all = (number / threads + 1) * threads
        while arrived.load(ordering: .acquiring) < all { sched_yield() }
    }
}
