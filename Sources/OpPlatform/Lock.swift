import CPlatform
public import Synchronization

/// A four-byte lock for critical sections of a few dozen instructions. A thread that finds it held spins for some microseconds and then
/// sleeps in the kernel.
///
/// Why not `Mutex`: the standard library's slow path is not instrumented, so ThreadSanitizer reports races that do not exist. Its
/// priority-inheriting futex also hands the lock over through the kernel whenever two threads compete.
///
/// Unlocking stores `state` and then loads `sleepers`. Before it sleeps, a thread stores `sleepers` and then tries once more to acquire the
/// lock. `AsymmetricFence` orders both pairs: either the thread finds the lock free, or the unlocking thread sees `sleepers`.
public struct Lock: ~Copyable, Sendable {
    /// How often a thread tries to acquire the lock before it sleeps. Takes about 8 µs, less than sleeping.
    private static let spins = 20
    // Computed, because other modules would have to load stored properties.
    @inlinable static var free: UInt8 { 0 }
    @inlinable static var held: UInt8 { 1 }
    /// The value of the whole word while the lock is held and a thread sleeps.
    private static let heldWithSleeper = UInt32(littleEndian: 0x0101)
    @inlinable static var noSleeper: UInt8 { 0 }
    @inlinable static var sleeper: UInt8 { 1 }

    /// Two bytes that change separately, and two that stay 0. They form one word, because the kernel compares a whole word.
    @usableFromInline let word = Atomic<UInt32>(0)

    /// Creates a free lock.
    @inlinable public init() {}

    /// Acquires the lock and waits for it if necessary. The calling thread must not hold it already.
    @inlinable @inline(__always)
    public func lock() {
        if !tryLock() { lockSlowly() }
    }

    @inlinable @inline(__always)
    func tryLock() -> Bool {
        unsafe state.pointee.compareExchange(expected: Lock.free, desired: Lock.held, ordering: .acquiring).exchanged
    }

    /// Releases the lock. Only the thread that holds the lock may call this method. The lock's memory must stay valid until the call
    /// returns.
    @inlinable @inline(__always)
    public func unlock() {
        let sleeping = unsafe AsymmetricFence.store(Lock.free, in: state.pointee, thenLoad: sleepers.pointee)
        if sleeping != Lock.noSleeper { wakeOne() }
    }

    /// Runs `body` with the lock held. `body` must not call code supplied by a user.
    @inlinable @inline(__always)
    public func withLock<Result: ~Copyable>(_ body: () -> Result) -> Result {
        lock()
        defer { unlock() }
        return body()
    }

    /// Acquires a lock that was held a moment ago.
    @usableFromInline @inline(never)
    func lockSlowly() { lockSlowly(spins: Lock.spins) }

    func lockSlowly(spins: Int) {
        for iteration in 0..<spins {
            // Back off: each attempt takes the cache line from the holder, together with the data that the lock guards.
            for _ in 0..<min(1 << iteration, 16) { cplatform_relax() }
            if unsafe state.pointee.load(ordering: .relaxed) == Lock.free && tryLock() { return }
        }
        LockWaits.during {
            while true {
                unsafe sleepers.pointee.store(Lock.sleeper, ordering: .relaxed)
                let isOrdered = AsymmetricFence.orderAllThreads()
                // `sleepers` stays set, because other threads may sleep as well. The unlock then wakes the next one.
                if tryLock() { return }
                // Without the order the unlock may overlook this thread.
                futexWait(word, while: Lock.heldWithSleeper, until: isOrdered ? nil : .now + .milliseconds(1))
            }
        }
    }

    @usableFromInline @inline(never)
    func wakeOne() {
        unsafe sleepers.pointee.store(Lock.noSleeper, ordering: .relaxed)
        futexWake(word)
    }

    // MARK: The two bytes

    /// `free` or `held`.
    @inlinable @inline(__always) var state: UnsafePointer<Atomic<UInt8>> { unsafe byte(0) }
    /// `sleeper` if a thread sleeps or is about to.
    @inlinable @inline(__always) var sleepers: UnsafePointer<Atomic<UInt8>> { unsafe byte(1) }

    @inlinable @inline(__always)
    func byte(_ offset: Int) -> UnsafePointer<Atomic<UInt8>> {
        // Safety: an atomic has the layout of its value.
        unsafe (address + offset).assumingMemoryBound(to: Atomic<UInt8>.self)
    }

    @inlinable @inline(__always) var address: UnsafeRawPointer {
        // Safety: a lock never moves, because it is in a class or in manually allocated memory.
        unsafe withUnsafePointer(to: word) { unsafe UnsafeRawPointer($0) }
    }
}
