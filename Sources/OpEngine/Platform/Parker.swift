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

    private static let spins = 1000
    private static let isSomeoneSpinning = Atomic<Bool>(false)

    private let word = Atomic<UInt32>(empty)

    /// Wakes the thread. Lock-free and async-signal-safe.
    func unpark() {
        if word.exchange(Parker.notified, ordering: .acquiringAndReleasing) == Parker.parked { futexWake(word) }
    }

    /// Takes a wake-up that has already come.
    func consumeNotification() -> Bool {
        word.load(ordering: .relaxed) == Parker.notified && word.exchange(Parker.empty, ordering: .acquiringAndReleasing) == Parker.notified
    }

    /// Whether a wake-up has come that the owner has not taken yet.
    var isNotified: Bool { word.load(ordering: .acquiring) == Parker.notified }

    /// Looks for a wake-up without sleeping, for some microseconds: to be woken costs more. True: it has come, and was taken.
    ///
    /// One thread of the process at a time, since it takes a processor from those it waits for.
    func spin() -> Bool {
        guard Processors.available > 1, !Parker.isSomeoneSpinning.exchange(true, ordering: .relaxed) else { return false }
        defer { Parker.isSomeoneSpinning.store(false, ordering: .relaxed) }
        for _ in 0..<Parker.spins {
            if isNotified { return consumeNotification() }
            cplatform_relax()
        }
        return false
    }

    /// Sleeps until `unpark`, a signal, or the deadline, and takes the wake-up. Only the owning thread calls it.
    func park(until deadline: ContinuousClock.Instant? = nil) -> WakeReason {
        let reason = waitForNotification(until: deadline)
        // An exchange, not a store: a second wake-up that it takes along must be seen with what was written before it.
        if reason == .notified { _ = word.exchange(Parker.empty, ordering: .acquiringAndReleasing) }
        return reason
    }

    /// `park`, but leaves the wake-up for `consumeNotification`.
    func waitForNotification(until deadline: ContinuousClock.Instant? = nil) -> WakeReason {
        guard word.compareExchange(expected: Parker.empty, desired: Parker.parked, ordering: .acquiringAndReleasing).exchanged else {
            return .notified
        }
        while true {
            let result = futexWait(word, while: Parker.parked, until: deadline)
            if isNotified { return .notified }
            guard result == .interrupted || result == .timedOut else { continue }
            let isAwake = word.compareExchange(expected: Parker.parked, desired: Parker.empty, ordering: .acquiringAndReleasing).exchanged
            return !isAwake ? .notified : result == .interrupted ? .interrupted : .timedOut
        }
    }
}
