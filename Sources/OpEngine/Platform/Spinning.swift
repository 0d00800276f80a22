import CPlatform
import Synchronization

/// How long a thread polls before it sleeps. Each `Parker` has its own limit, which adapts to the sleeps of its thread. A thread that waits
/// for a `Lock` spins for a fixed time.
///
/// Saves a wake-up through the kernel. Adding an operation and waiting for it (W5) takes 1.2 µs instead of 26 µs and a fifth of the
/// processor time; short operations (W13) take 0.4 of the time. Costs up to 100 µs of processor time before a thread sleeps. One waiting
/// thread of the process and one worker of each engine spin at a time. The workloads are those of docs/performance.md.
struct Spinning: ~Copyable, Sendable {
    /// The bounds of `limit`: about 3 µs and 100 µs.
    private static let minLimit: UInt32 = 128
    private static let maxLimit: UInt32 = 4096
    /// A sleep up to this duration was too short to be worth a wake-up.
    private static let shortSleep = Duration.microseconds(200)
    fileprivate static let isAnyWaiterSpinning = Atomic<Bool>(false)

    /// How many iterations the thread spins before it sleeps. Doubles after a short sleep, halves otherwise.
    private let limit = Atomic<UInt32>(1024)

    /// Spins until `condition` is true, or until the limit is reached. Returns false in the second case.
    @inline(__always)
    @discardableResult
    func spin(until condition: () -> Bool) -> Bool {
        for _ in 0..<limit.load(ordering: .relaxed) {
            if condition() { return true }
            cplatform_relax()
        }
        return false
    }

    /// Adjusts the limit after a sleep.
    ///
    /// - Parameter isWakerElsewhere: whether the waker ran on another processor than the one on which the thread spun. A waker on the same
    ///   processor cannot run until the thread sleeps, so spinning for longer would not help.
    func slept(for duration: Duration, isWakerElsewhere: Bool) {
        let before = limit.load(ordering: .relaxed)
        let isWorthIt = duration < Spinning.shortSleep && isWakerElsewhere
        limit.store(isWorthIt ? min(2 * before, Spinning.maxLimit) : max(before / 2, Spinning.minLimit), ordering: .relaxed)
    }
}

extension Parker {
    /// Spins for a notification from a worker of `engine`. Returns true if one arrived; it has been taken. Only the owner may call this
    /// method.
    ///
    /// Spins only while some worker is awake and a processor is left for the owner. Only one waiting thread of the process spins at a time,
    /// because it takes a processor from the threads it waits for.
    func spin(for engine: Engine?) -> Bool {
        guard let engine, engine.pool.withLock({ $0.awake > 0 && $0.awake < Processors.available }),
            !Spinning.isAnyWaiterSpinning.exchange(true, ordering: .relaxed)
        else { return false }
        defer { Spinning.isAnyWaiterSpinning.store(false, ordering: .relaxed) }
        return spinning.spin(until: { isNotified }) && consumeNotification()
    }
}
