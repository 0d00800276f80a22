public import CPlatform
public import Synchronization

/// How long a thread polls before it sleeps. Each `Parker` has its own limit, which adapts to the sleeps of its thread. A thread that waits
/// for a `Lock` spins for a fixed time.
///
/// Saves a wake-up through the kernel. Adding an operation and waiting for it (W5) takes 1.2 µs instead of 26 µs and a fifth of the
/// processor time; short operations (W13) take 0.4 of the time. Costs up to 100 µs of processor time before a thread sleeps. At most
/// one waiting thread of the process and one worker of each engine spin at a time. The workloads are those of docs/performance.md.
public struct Spinning: ~Copyable, Sendable {
    /// The bounds of `limit`: about 3 µs and 100 µs.
    private static let minLimit: UInt32 = 128
    private static let maxLimit: UInt32 = 4096
    /// A shorter sleep is not worth a wake-up.
    private static let shortSleep = Duration.microseconds(200)

    /// How many iterations the thread spins before it sleeps. Doubles after a short sleep that another processor has ended, halves after others.
    @usableFromInline let limit = Atomic<UInt32>(1024)

    /// Begins with about 25 µs.
    public init() {}

    /// Spins until `condition` is true, or until the limit is reached. Returns false in the second case.
    @inlinable @inline(__always)
    @discardableResult
    public func spin(until condition: () -> Bool) -> Bool {
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
