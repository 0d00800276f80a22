import CPlatform
import Synchronization

/// Block operations that have finished, and that a thread keeps for the blocks that are added next.
///
/// Each block that is passed to `addOperation` needs an operation. One thread makes it and another frees it, which is expensive: the memory comes
/// back through the locks of the C library's allocator. So a worker keeps what it would free, and passes it back through the queue,
/// `batchSize` operations at a time. It keeps only what nobody else refers to, so nobody can tell.
///
/// Saves up to a sixth of the time of a queue that runs one operation at a time (W6 of docs/performance.md), and a twentieth to a tenth of that of
/// other blocks (W1, W7, W13). Costs up to `batchSize` operations (3.5 KB) for each thread and each queue, which are freed when the thread
/// ends or the queue is deallocated.
@safe struct SpareOperations {
    // Safety: each member of the list has one reference, which is the list's.
    private nonisolated(unsafe) var first: Unmanaged<Operation>?
    private(set) var count = 0
    // Safety: `settle` passes the reference on.
    private nonisolated(unsafe) var ended: Unmanaged<Operation>?

    private static let batchSize = 32

    #if WITHOUT_SPARE_OPERATIONS
        private static let isEnabled = false
    #else
        private static let isEnabled = true
    #endif

    /// Takes over the reference to a block operation that has finished. The thread must call `settle` before the next one ends.
    @inline(__always)
    mutating func hold(_ operation: Unmanaged<Operation>) {
        unsafe assert(ended == nil)
        unsafe ended = operation
    }

    /// Keeps the operation that the thread holds, if it holds one, unless somebody else may know it, it refers to something, or there is no room.
    ///
    /// Apart from `hold`, because the caller of `hold` may still have references of its own, which end when it returns.
    ///
    /// - Returns: the operation if it is not kept. The caller must release it, which may run foreign code.
    @inline(__always)
    mutating func settle(from core: OperationQueue.Core) -> Unmanaged<Operation>? {
        guard let operation = unsafe ended.take() else { return nil }
        guard Self.isEnabled, count < Self.batchSize || core.spares.isEmpty && handOver(to: core), unsafe operation.isUnshared,
            unsafe operation.isBare
        else { return unsafe operation }
        unsafe keep(operation)
        return nil
    }

    @inline(__always)
    private mutating func keep(_ operation: Unmanaged<Operation>) {
        unsafe operation._withUnsafeGuaranteedRef {
            $0.renew()
            unsafe $0.links.next = first
        }
        unsafe first = operation
        count += 1
    }

    /// An operation that is as good as new, with the reference to it, for a block that will be added to `core`. Nil if there is none.
    @inline(__always)
    mutating func take(for core: OperationQueue.Core) -> Unmanaged<Operation>? {
        if unsafe first == nil && (core.spares.isEmpty || !fetch(from: core)) { return nil }
        let taken = unsafe first
        unsafe first = taken?._withUnsafeGuaranteedRef { unsafe $0.links.next }
        count -= 1
        // If a worker has left it at the queue, the next one is in that worker's cache.
        if let next = unsafe first?.toOpaque() {
            unsafe cplatform_prefetch(next)
            unsafe cplatform_prefetch(next + 64)
        }
        return unsafe taken
    }

    /// Leaves all at the queue, unless it still has some.
    @inline(never)
    private mutating func handOver(to core: OperationQueue.Core) -> Bool {
        guard let first = unsafe first, unsafe core.spares.put(first) else { return false }
        unsafe self.first = nil
        count = 0
        return true
    }

    /// Gets what a worker has left at the queue.
    @inline(never)
    private mutating func fetch(from core: OperationQueue.Core) -> Bool {
        guard let fetched = unsafe core.spares.take() else { return false }
        unsafe first = fetched
        count = Self.batchSize
        return true
    }

    /// Removes all, and returns them as a list, which the caller must release.
    mutating func removeAll() -> Unmanaged<Operation>? {
        defer { self = SpareOperations() }
        return unsafe first
    }

    /// Releases an operation and those that follow it on its list. May run foreign code, which may add operations.
    static func release(_ first: Unmanaged<Operation>?) {
        var next = unsafe first
        while let operation = unsafe next {
            unsafe next = operation._withUnsafeGuaranteedRef { unsafe $0.links.next }
            unsafe operation.release()
        }
    }

    /// Where the workers of a queue leave operations for the threads that add to it.
    @safe struct Exchange: ~Copyable {
        // Safety: whoever puts operations passes a reference to each on, and whoever takes them gets those.
        private let first = unsafe Atomic<UnsafeRawPointer?>(nil)

        /// Takes the cache line from nobody, unlike the other methods.
        @inline(__always) var isEmpty: Bool { unsafe first.load(ordering: .relaxed) == nil }

        /// Returns false if there are some already.
        func put(_ operations: Unmanaged<Operation>) -> Bool {
            let address = unsafe UnsafeRawPointer(operations.toOpaque())
            return unsafe first.compareExchange(expected: nil, desired: address, ordering: .acquiringAndReleasing).exchanged
        }

        func take() -> Unmanaged<Operation>? {
            // Safety: `put` has stored the reference.
            return unsafe first.exchange(nil, ordering: .acquiringAndReleasing).map { unsafe .fromOpaque($0) }
        }

        deinit { unsafe SpareOperations.release(take()) }
    }
}

extension Unmanaged<Operation> {
    /// Whether the caller has the only reference, and there are no weak or unowned ones.
    @inline(__always)
    fileprivate var isUnshared: Bool { unsafe cplatform_reference_counts(toOpaque()) == countsOfUnshared }

    /// Whether the operation, a `BlockOperation` of which only the caller knows, refers to nothing.
    @inline(__always)
    fileprivate var isBare: Bool { unsafe _withUnsafeGuaranteedRef { unsafe unsafeDowncast($0, to: BlockOperation.self).isBare } }
}

extension ThreadContext {
    /// Keeps the block operation that has just ended, or releases it. See `SpareOperations.settle`.
    @inline(__always)
    func settle(from core: OperationQueue.Core) {
        // Not while `spares` is being changed: what is released may add operations. Safety: see `settle`.
        unsafe spares.settle(from: core)?.release()
    }
}

/// The reference counts of an object to which there is one reference.
private let countsOfUnshared: UInt64 = {
    let object = unsafe Unmanaged<Operation>.passRetained(BlockOperation())
    // Safety: balances the retain above.
    defer { unsafe object.release() }
    return unsafe cplatform_reference_counts(object.toOpaque())
}()
