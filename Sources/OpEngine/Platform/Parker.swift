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

    /// How often a thread looks at least and at most before it sleeps: for some 3 and 100 µs.
    private static let minSpins: UInt32 = 128
    private static let maxSpins: UInt32 = 4096
    /// To have slept no longer was not worth the wake-up.
    private static let shortSleep = Duration.microseconds(200)
    private static let isSomeoneSpinning = Atomic<Bool>(false)

    private let word = Atomic<UInt32>(empty)
    /// How often the owner looks before it sleeps. Grows with short sleeps, shrinks with others.
    private let spinLimit = Atomic<UInt32>(1024)
    /// The processor from which the owner was woken last.
    private let wakersProcessor = Atomic<Int32>(-1)

    /// Wakes the thread. Lock-free and async-signal-safe.
    func unpark() {
        guard word.exchange(Parker.notified, ordering: .acquiringAndReleasing) == Parker.parked else { return }
        wakersProcessor.store(cplatform_processor(), ordering: .relaxed)
        futexWake(word)
    }

    /// Whether the owner runs on the processor from which it was woken last.
    var isOnWakersProcessor: Bool { wakersProcessor.load(ordering: .relaxed) == cplatform_processor() }

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
        return spin(until: { isNotified }) != nil && consumeNotification()
    }

    /// Looks whether there is something to do, for a while that depends on how long the last sleeps were. Only the owning thread calls it.
    ///
    /// - Returns: how often it looked in vain; nil: always.
    @inline(__always)
    func spin(until condition: () -> Bool) -> Int? {
        for iteration in 0..<spinLimit.load(ordering: .relaxed) {
            if condition() { return Int(iteration) }
            cplatform_relax()
        }
        return nil
    }

    /// - Parameter processor: on which the owner looked before it slept. Who runs there, too, can do nothing until the owner sleeps: to look
    ///   longer would not help.
    private func slept(since start: ContinuousClock.Instant, on processor: Int32) {
        let before = spinLimit.load(ordering: .relaxed)
        let isWorthIt = ContinuousClock.now - start < Parker.shortSleep && wakersProcessor.load(ordering: .relaxed) != processor
        let after = isWorthIt ? min(2 * before, Parker.maxSpins) : max(before / 2, Parker.minSpins)
        spinLimit.store(after, ordering: .relaxed)
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
