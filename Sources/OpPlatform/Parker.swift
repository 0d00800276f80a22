import CPlatform
public import Synchronization

/// Parks and wakes one thread. A wake-up that arrives before the thread parks is not lost: the next `park` returns immediately.
public final class Parker: Sendable {
    // Computed, because other modules would have to load stored properties.
    @inlinable static var empty: UInt32 { 0 }
    @inlinable static var notified: UInt32 { 1 }
    @inlinable static var parked: UInt32 { 2 }

    /// Why a thread has woken.
    public enum WakeReason: Sendable {
        case notified, interrupted, timedOut
    }

    @usableFromInline let word = Atomic<UInt32>(0)
    /// How long the owner spins before it parks.
    public let spinning = Spinning()
    /// The processor on which the last waker ran.
    private let wakersProcessor = Atomic<Int32>(-1)

    /// Makes one without a notification.
    public init() {}

    /// Wakes the owner. Lock-free and async-signal-safe.
    public func unpark() {
        guard word.exchange(Parker.notified, ordering: .acquiringAndReleasing) == Parker.parked else { return }
        wakersProcessor.store(cplatform_processor(), ordering: .relaxed)
        futexWake(word)
    }

    /// Takes a notification that has already arrived. Returns false if there is none.
    @inlinable public func consumeNotification() -> Bool {
        word.load(ordering: .relaxed) == Parker.notified && word.exchange(Parker.empty, ordering: .acquiringAndReleasing) == Parker.notified
    }

    /// Whether there is a notification that the owner has not taken.
    @inlinable public var isNotified: Bool { word.load(ordering: .acquiring) == Parker.notified }

    /// Sleeps until `unpark`, a signal or the deadline, and takes the notification. Only the owner may call this method.
    public func park(until deadline: ContinuousClock.Instant? = nil) -> WakeReason {
        let reason = waitForNotification(until: deadline)
        // An exchange instead of a store: if it absorbs a second notification, it must also acquire the writes before that one.
        if reason == .notified { _ = word.exchange(Parker.empty, ordering: .acquiringAndReleasing) }
        return reason
    }

    /// Like `park`, but leaves the notification to `consumeNotification`.
    public func waitForNotification(until deadline: ContinuousClock.Instant? = nil) -> WakeReason {
        guard word.compareExchange(expected: Parker.empty, desired: Parker.parked, ordering: .acquiringAndReleasing).exchanged else {
            return .notified
        }
        let start = ContinuousClock.now, processor = cplatform_processor()
        while true {
            let result = futexWait(word, while: Parker.parked, until: deadline)
            if isNotified {
                let isWakerElsewhere = wakersProcessor.load(ordering: .relaxed) != processor
                spinning.slept(for: ContinuousClock.now - start, isWakerElsewhere: isWakerElsewhere)
                return .notified
            }
            guard result == .interrupted || result == .timedOut else { continue }
            let isAwake = word.compareExchange(expected: Parker.parked, desired: Parker.empty, ordering: .acquiringAndReleasing).exchanged
            return !isAwake ? .notified : result == .interrupted ? .interrupted : .timedOut
        }
    }
}
