import CPlatform
import Synchronization

/// A four-byte lock for critical sections of a few dozen instructions. A thread that finds it held spins for some microseconds and then
/// sleeps in the kernel.
///
/// Why not `Mutex`: the standard library's slow path is not instrumented, so ThreadSanitizer reports races that do not exist. Its
/// priority-inheriting futex also hands the lock over through the kernel whenever two threads compete.
@_spi(Locking) public struct Lock: ~Copyable, Sendable {
    /// How often a thread tries to acquire the lock before it sleeps. Takes about 8 µs, less than sleeping.
    static let spins = Spinning.isEnabled ? 20 : 0
    private static let free: UInt32 = 0
    private static let held: UInt32 = 1
    /// The lock is held, and a thread sleeps or is about to.
    private static let heldWithSleeper: UInt32 = 2

    private let word = Atomic<UInt32>(free)

    /// Creates a free lock.
    public init() {}

    /// Acquires the lock and waits for it if necessary. The calling thread must not hold it already.
    @inline(__always)
    public func lock() {
        if !tryLock() { lockSlowly() }
    }

    @inline(__always)
    private func tryLock() -> Bool { word.compareExchange(expected: Lock.free, desired: Lock.held, ordering: .acquiring).exchanged }

    /// Releases the lock. Only the thread that holds the lock may call this method. The lock's memory may be freed as soon as another
    /// thread can acquire the lock.
    @inline(__always)
    public func unlock() {
        if word.exchange(Lock.free, ordering: .releasing) == Lock.heldWithSleeper { wakeOne() }
    }

    /// Runs `body` with the lock held. `body` must not call code supplied by a user.
    @inline(__always)
    func withLock<Result: ~Copyable>(_ body: () -> Result) -> Result {
        lock()
        defer { unlock() }
        return body()
    }

    /// Acquires a lock that was held a moment ago.
    @inline(never)
    func lockSlowly(spins: Int = Lock.spins) {
        for iteration in 0..<spins {
            // Back off: each attempt takes the cache line from the holder, together with the data that the lock guards.
            for _ in 0..<min(1 << iteration, 16) { cplatform_relax() }
            if word.load(ordering: .relaxed) == Lock.free && tryLock() { return }
        }
        ThreadContext.whileWaitingForLock {
            // Other threads may sleep as well, so the lock is acquired as one with a sleeper. The unlock then wakes the next one.
            while word.exchange(Lock.heldWithSleeper, ordering: .acquiring) != Lock.free {
                futexWait(word, while: Lock.heldWithSleeper, until: nil)
            }
        }
    }

    @inline(never)
    private func wakeOne() { futexWake(word) }
}
