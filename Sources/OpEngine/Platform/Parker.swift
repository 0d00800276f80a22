import CPlatform
import Synchronization

/// Parks and wakes one thread. A wake-up that arrives first is not lost: the next `park` returns immediately.
final class Parker: Sendable {
    private static let empty: UInt32 = 0
    private static let notified: UInt32 = 1
    private static let parked: UInt32 = 2

    enum WakeReason {
        case notified, interrupted, timedOut
    }

    /// The bounds of `spinLimit`: about 3 µs and 100 µs.
    private static let minSpins: UInt32 = 128
    private static let maxSpins: UInt32 = 4096
    /// A sleep up to this duration was too short to be worth a wake-up.
    private static let shortSleep = Duration.microseconds(200)
    private static let isAnyThreadSpinning = Atomic<Bool>(false)

    private let word = Atomic<UInt32>(empty)
    /// How many iterations the owner spins before it sleeps. Doubles after a short sleep, halves otherwise.
    private let spinLimit = Atomic<UInt32>(1024)
    /// The processor on which the last waker ran.
    private let wakersProcessor = Atomic<Int32>(-1)

    /// Wakes the owner. Lock-free and async-signal-safe.
    func unpark() {
        guard word.exchange(Parker.notified, ordering: .acquiringAndReleasing) == Parker.parked else { return }
        wakersProcessor.store(cplatform_processor(), ordering: .relaxed)
        futexWake(word)
    }

    /// Whether the owner runs on the processor of its last waker.
    var isOnWakersProcessor: Bool { wakersProcessor.load(ordering: .relaxed) == cplatform_processor() }

    /// Takes a notification that has already arrived. Returns false if there is none.
    func consumeNotification() -> Bool {
        word.load(ordering: .relaxed) == Parker.notified && word.exchange(Parker.empty, ordering: .acquiringAndReleasing) == Parker.notified
    }

    /// Whether there is a notification that the owner has not taken.
    var isNotified: Bool { word.load(ordering: .acquiring) == Parker.notified }

    /// Spins for a notification for some microseconds, because a wake-up costs more. Returns true if a notification arrived; it has been
    /// taken.
    ///
    /// Only one thread of the process spins here at a time, because it takes a processor from the threads it waits for.
    func spin() -> Bool {
        guard Processors.available > 1, !Parker.isAnyThreadSpinning.exchange(true, ordering: .relaxed) else { return false }
        defer { Parker.isAnyThreadSpinning.store(false, ordering: .relaxed) }
        return spin(until: { isNotified }) != nil && consumeNotification()
    }

    /// Spins until `condition` is true, for a number of iterations that depends on the duration of recent sleeps. Only the owner may call
    /// this method.
    ///
    /// - Returns: the number of iterations, or nil if the condition did not become true.
    @inline(__always)
    func spin(until condition: () -> Bool) -> Int? {
        for iteration in 0..<spinLimit.load(ordering: .relaxed) {
            if condition() { return Int(iteration) }
            cplatform_relax()
        }
        return nil
    }

    /// Adjusts `spinLimit` after a sleep.
    ///
    /// - Parameter processor: the processor on which the owner spun before it slept. A waker on the same processor cannot run until the
    ///   owner sleeps, so spinning for longer would not help.
    private func slept(since start: ContinuousClock.Instant, on processor: Int32) {
        let before = spinLimit.load(ordering: .relaxed)
        let isWorthIt = ContinuousClock.now - start < Parker.shortSleep && wakersProcessor.load(ordering: .relaxed) != processor
        let after = isWorthIt ? min(2 * before, Parker.maxSpins) : max(before / 2, Parker.minSpins)
        spinLimit.store(after, ordering: .relaxed)
    }

    /// Sleeps until `unpark`, a signal or the deadline, and takes the notification. Only the owner may call this method.
    func park(until deadline: ContinuousClock.Instant? = nil) -> WakeReason {
        let reason = waitForNotification(until: deadline)
        // An exchange instead of a store: if it absorbs a second notification, it must also acquire what was written before that one.
        if reason == .notified { _ = word.exchange(Parker.empty, ordering: .acquiringAndReleasing) }
        return reason
    }

    /// Like `park`, but leaves the notification to `consumeNotification`.
    func waitForNotification(until deadline: ContinuousClock.Instant? = nil) -> WakeReason {
        guard word.compareExchange(expected: Parker.empty, desired: Parker.parked, ordering: .acquiringAndReleasing).exchanged else {
            return .notified
        }
        let start = ContinuousClock.now, processor = cplatform_processor()
        while true {
            let result = futexWait(word, while: Parker.parked, until: deadline)
            if isNotified {
                slept(since: start, on: processor)
                return .notified
            }
            guard result == .interrupted || result == .timedOut else { continue }
            let isAwake = word.compareExchange(expected: Parker.parked, desired: Parker.empty, ordering: .acquiringAndReleasing).exchanged
            return !isAwake ? .notified : result == .interrupted ? .interrupted : .timedOut
        }
    }
}
