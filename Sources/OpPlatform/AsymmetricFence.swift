public import CPlatform
public import Synchronization

/// Orders a store before a later load on each of two threads. One thread does both often, the other seldom.
///
/// The frequent thread calls `store(_:in:thenLoad:)`. The rare thread stores, calls `orderAllThreads` and loads what the frequent thread
/// stores. At least one of the two sees the other's store.
///
/// The fence saves the atomic exchange of an ordinary unlock, which waits for earlier stores to lines that other processors have. Several
/// producers at one queue (W12 of docs/performance.md) take 0.57 to 0.85 of the processor time that they take with the exchange, a flood (W1)
/// 0.74 to 1. The fence costs about 30 µs whenever a thread sleeps at a lock, because the kernel then interrupts the other processors that run
/// the process (`membarrier`).
/// Where the kernel lacks `membarrier`, the store is an exchange.
public enum AsymmetricFence {
    /// Whether the kernel has `membarrier`.
    @inlinable @inline(__always) static var isEnabled: Bool { unsafe cplatform_has_membarrier }

    /// Stores `value` in `stored` with release ordering, and returns the value that `loaded` has after that.
    @inlinable @inline(__always)
    public static func store(_ value: UInt8, in stored: borrowing Atomic<UInt8>, thenLoad loaded: borrowing Atomic<UInt8>) -> UInt8 {
        guard _fastPath(isEnabled) else {
            _ = stored.exchange(value, ordering: .sequentiallyConsistent)
            return loaded.load(ordering: .sequentiallyConsistent)
        }
        stored.store(value, ordering: .releasing)
        cplatform_compiler_barrier()
        return loaded.load(ordering: .relaxed)
    }

    /// Orders the caller's earlier stores before its later loads. Returns false if the kernel refuses, as it may after the process has
    /// entered a sandbox. The call then orders nothing.
    public static func orderAllThreads() -> Bool {
        if isEnabled { return cplatform_membarrier() }
        atomicMemoryFence(ordering: .sequentiallyConsistent)
        return true
    }
}
