import CPlatform
import Synchronization

/// A lock of four bytes for sections of a few dozen instructions: it looks some times, less and less often, then sleeps in the kernel.
///
/// Written on `Atomic` instead of `Mutex` because the standard library's slow path is not instrumented, so that
/// ThreadSanitizer reports races that do not exist, and because its priority-inheriting futex hands the lock over
/// through the kernel each time it is contended.
@_spi(Locking) public struct Lock: ~Copyable, Sendable {
    private static let free: UInt32 = 0
    private static let held: UInt32 = 1
    private static let contended: UInt32 = 2
    /// How often who waits looks before it sleeps: for some 2 µs in all.
    private static let looks = 7

    private let word = Atomic<UInt32>(free)

    /// Held by nobody.
    public init() {}

    /// Takes it, once nobody holds it. A thread that holds it must not call this.
    @inline(__always)
    public func lock() {
        let (taken, _) = word.compareExchange(expected: Lock.free, desired: Lock.held, ordering: .acquiring)
        if !taken { lockSlowly() }
    }

    /// Lets it go; the thread that has taken it calls this.
    @inline(__always)
    public func unlock() {
        if word.exchange(Lock.free, ordering: .releasing) == Lock.contended { wakeOne() }
    }

    /// Runs `body` with the lock held. Nothing supplied by a user may run inside.
    @inline(__always)
    func withLock<Result: ~Copyable>(_ body: () -> Result) -> Result {
        lock()
        defer { unlock() }
        return body()
    }

    @inline(never)
    private func lockSlowly() {
        for look in 0..<Lock.looks {
            // Looking takes the line of memory from who holds the lock, and what the lock guards with it.
            for _ in 0..<min(1 << look, 16) { cplatform_relax() }
            if word.load(ordering: .relaxed) == Lock.free {
                let (taken, _) = word.compareExchange(expected: Lock.free, desired: Lock.held, ordering: .acquiring)
                if taken { return }
            }
        }
        ThreadContext.whileWaitingForLock {
            while word.exchange(Lock.contended, ordering: .acquiring) != Lock.free {
                futexWait(word, while: Lock.contended, until: nil)
            }
        }
    }

    @inline(never)
    private func wakeOne() { futexWake(word) }
}
