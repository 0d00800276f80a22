import CPlatform
import Synchronization

/// Where one thread sleeps. A wake-up that comes first is not lost: the next `park` returns at once.
final class Parker: Sendable {
    private static let empty: UInt32 = 0
    private static let notified: UInt32 = 1
    private static let parked: UInt32 = 2

    enum WakeReason {
        case notified, interrupted, timedOut
    }

    private let word = Atomic<UInt32>(empty)

    /// Wakes the thread. Lock-free and async-signal-safe.
    func unpark() {
        if word.exchange(Parker.notified, ordering: .acquiringAndReleasing) == Parker.parked { futexWake(word) }
    }

    /// Takes a wake-up that has already come.
    func consumeNotification() -> Bool {
        word.load(ordering: .relaxed) == Parker.notified && word.exchange(Parker.empty, ordering: .acquiringAndReleasing) == Parker.notified
    }

    /// Sleeps until `unpark`, a signal, or the deadline. Only the owning thread calls it.
    func park(until deadline: ContinuousClock.Instant? = nil) -> WakeReason {
        let (slept, _) = word.compareExchange(expected: Parker.empty, desired: Parker.parked, ordering: .acquiringAndReleasing)
        guard slept else {
            _ = word.exchange(Parker.empty, ordering: .acquiringAndReleasing)
            return .notified
        }
        while true {
            let result = futexWait(word, while: Parker.parked, until: deadline)
            if word.load(ordering: .relaxed) == Parker.notified {
                _ = word.exchange(Parker.empty, ordering: .acquiringAndReleasing)
                return .notified
            }
            guard result == .interrupted || result == .timedOut else { continue }
            let last = word.exchange(Parker.empty, ordering: .acquiringAndReleasing)
            return last == Parker.notified ? .notified : result == .interrupted ? .interrupted : .timedOut
        }
    }
}
