import CPlatform
import Synchronization

/// A lock of four bytes for sections of a few dozen instructions. A thread that finds it held looks again for some microseconds, then
/// sleeps in the kernel.
///
/// Why not `Mutex`: the standard library's slow path is not instrumented, so that ThreadSanitizer reports races that do not exist; and
/// its priority-inheriting futex hands the lock over through the kernel whenever two threads want it.
///
/// Unlocking is a plain store followed by a load, because an atomic exchange would cost as much as the rest of a short section. The
/// processor may perform the load first and miss a thread that is just going to sleep. So a thread that goes to sleep first sets
/// `sleepers`, then makes the kernel issue a memory barrier on every processor that runs this process (`membarrier`, some 30 µs), then
/// looks once more. Either it finds the lock free, or the thread that unlocks sees `sleepers`.
@_spi(Locking) public struct Lock: ~Copyable, Sendable {
    /// How often a waiting thread looks before it sleeps: some 8 µs. Sleeping costs more.
    static let spins = 20
    private static let free: UInt8 = 0
    private static let held: UInt8 = 1
    /// All of it, when it is held, and somebody sleeps.
    private static let slept = UInt32(littleEndian: 0x0101)
    private static let nobody: UInt8 = 0
    private static let somebody: UInt8 = 1

    /// Two bytes that change separately, and two that stay 0. One word, because the kernel compares it as such.
    private let word = Atomic<UInt32>(0)

    /// Held by nobody.
    public init() {}

    /// Takes it, once nobody holds it. A thread that holds it must not call this.
    @inline(__always)
    public func lock() {
        if !tryLock() { lockSlowly() }
    }

    @inline(__always)
    private func tryLock() -> Bool {
        unsafe state.pointee.compareExchange(expected: Lock.free, desired: Lock.held, ordering: .acquiring).exchanged
    }

    /// Releases the lock; only the thread that holds it may call this. The lock's memory must stay valid until the call returns.
    @inline(__always)
    public func unlock() {
        unsafe state.pointee.store(Lock.free, ordering: .releasing)
        cplatform_light_barrier()
        if unsafe sleepers.pointee.load(ordering: .relaxed) != Lock.nobody { wakeOne() }
    }

    /// Runs `body` with the lock held. Nothing supplied by a user may run inside.
    @inline(__always)
    func withLock<Result: ~Copyable>(_ body: () -> Result) -> Result {
        lock()
        defer { unlock() }
        return body()
    }

    /// `lock`, of one that was held a moment ago.
    @inline(never)
    func lockSlowly(spins: Int = Lock.spins) {
        for iteration in 0..<spins {
            // Looking takes the line of memory from who holds the lock, and what the lock guards with it.
            for _ in 0..<min(1 << iteration, 16) { cplatform_relax() }
            if unsafe state.pointee.load(ordering: .relaxed) == Lock.free && tryLock() { return }
        }
        ThreadContext.whileWaitingForLock {
            while true {
                unsafe sleepers.pointee.store(Lock.somebody, ordering: .relaxed)
                cplatform_heavy_barrier()
                // `sleepers` stays set: others may sleep as well, and unlocking then wakes the next one.
                if tryLock() { return }
                // Safety: as for `futexWait`.
                _ = unsafe cplatform_futex_wait(address, Lock.slept, nil)
            }
        }
    }

    @inline(never)
    private func wakeOne() {
        unsafe sleepers.pointee.store(Lock.nobody, ordering: .relaxed)
        // Safety: as for `futexWake`.
        unsafe cplatform_futex_wake(address, 1)
    }

    // MARK: The two bytes

    /// `free` or `held`.
    @inline(__always) private var state: UnsafePointer<Atomic<UInt8>> { unsafe byte(0) }
    /// Whether somebody sleeps, or is about to.
    @inline(__always) private var sleepers: UnsafePointer<Atomic<UInt8>> { unsafe byte(1) }

    @inline(__always)
    private func byte(_ offset: Int) -> UnsafePointer<Atomic<UInt8>> {
        // Safety: an atomic has the layout of its value.
        unsafe (address + offset).assumingMemoryBound(to: Atomic<UInt8>.self)
    }

    @inline(__always) private var address: UnsafeRawPointer {
        // Safety: a lock never moves, because it lives in a class or in memory of our own.
        unsafe withUnsafePointer(to: word) { unsafe UnsafeRawPointer($0) }
    }
}
