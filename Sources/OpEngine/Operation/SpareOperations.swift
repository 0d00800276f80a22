import CPlatform
import Synchronization

/// Block operations that have finished, and that a thread keeps for the blocks that are added next.
///
/// Each block that is passed to `addOperation` needs an operation, which the thread that adds it makes and a worker frees. The allocator of
/// the C library takes about as long to bring that memory back as the queue takes for all the rest. So a worker keeps what it would free, and
/// passes it back through the queue, `batchSize` operations at a time. It keeps only what nobody else refers to, so nobody can tell.
///
/// Saves a sixth of the time of a queue that runs one operation at a time (W6 of docs/performance.md), and a tenth of that of other blocks
/// (W1, W7, W13). Costs up to `batchSize` operations (3.5 KB) for each thread and each queue, which go with it.
@safe struct SpareOperations {
    // Safety: each member of the list has one reference, which is the list's.
    private nonisolated(unsafe) var first: Unmanaged<Operation>?
    private(set) var count = 0
    /// See `add`.
    private nonisolated(unsafe) var ended: Unmanaged<Operation>?

    private static let batchSize = 32

    #if WITHOUT_SPARE_OPERATIONS
        private static let isEnabled = false
    #else
        private static let isEnabled = true
    #endif

    /// Takes over the reference to an operation that has finished, until `settle` is called.
    @inline(__always)
    mutating func add(_ operation: Unmanaged<Operation>) { unsafe ended = operation }

    /// Keeps the operation that was added last, if there is one, or releases it: if somebody else may know it, if it refers to anything, or if
    /// there are enough.
    ///
    /// Apart from `add`, because whoever ends an operation may hold more references to it than its own, above all in code that is not optimized.
    @inline(__always)
    mutating func settle(from core: OperationQueue.Core) {
        guard let operation = unsafe ended.take() else { return }
        guard Self.isEnabled, count < Self.batchSize || core.spares.isEmpty && handOver(to: core), unsafe operation.isUnshared,
            unsafe operation.isBare
        else {
            // Safety: `add` has taken over the reference.
            return unsafe operation.release()
        }
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
        // The next one is in the cache of a worker.
        if let next = unsafe first?.toOpaque() {
            unsafe cplatform_prefetch(next)
            unsafe cplatform_prefetch(next + 64)
        }
        return unsafe taken
    }

    /// Leaves all at the queue, unless there are some.
    @inline(never)
    private mutating func handOver(to core: OperationQueue.Core) -> Bool {
        guard let first = unsafe first, unsafe core.spares.put(first) else { return false }
        self = SpareOperations()
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

    mutating func removeAll() {
        unsafe Self.release(first)
        self = SpareOperations()
    }

    /// Releases an operation and those that follow it on its list.
    private static func release(_ first: Unmanaged<Operation>?) {
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

    /// Whether the operation, a `BlockOperation`, refers to nothing.
    @inline(__always)
    fileprivate var isBare: Bool { unsafe _withUnsafeGuaranteedRef { unsafe unsafeDowncast($0, to: BlockOperation.self).isBare } }
}

/// The reference counts of an object to which there is one reference.
private let countsOfUnshared: UInt64 = {
    let object = unsafe Unmanaged<Operation>.passRetained(BlockOperation())
    // Safety: balances the retain above.
    defer { unsafe object.release() }
    return unsafe cplatform_reference_counts(object.toOpaque())
}()
