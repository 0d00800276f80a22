import Glibc
import Synchronization

/// Keeps threads in step, so that what each does next happens at the same moment.
public final class Pace: Sendable {
    private let threads: Int
    private let arrived = Atomic<Int>(0)

    /// For this many threads.
    public init(threads: Int) { self.threads = threads }

    /// Returns when every thread has called it as often as this one has.
    public func step() {
        let number = arrived.wrappingAdd(1, ordering: .acquiringAndReleasing).oldValue
        let all = (number / threads + 1) * threads
        while arrived.load(ordering: .acquiring) < all { sched_yield() }
    }
}
