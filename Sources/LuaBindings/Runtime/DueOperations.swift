@_spi(Locking) import OpEngine
import Synchronization

/// The operations whose completion blocks one state has set and not yet run, and that have finished or are about to. They are roughly in
/// the order in which they finished.
///
/// A separate object, so that a thread that finishes an operation does not touch the cache lines that the state's thread works with.
@safe final class DueOperations: Sendable {
    @safe private struct Arrived {
        // Safety: the list retains each operation.
        var operations: [Unmanaged<LuaOperation>] = unsafe []
        /// Whether the state has been closed.
        var isClosed = false
    }

    private let arrived = Guarded(Arrived())
    /// Whether a job that runs the completion blocks is on its way.
    private let isAnnounced = Atomic<Bool>(false)
    /// Separates the cache lines of the other threads from those of the state's thread.
    private let gap = InlineArray<8, UInt>(repeating: 0)

    /// The operations that the state's thread has fetched, and how many of them it has taken.
    // Safety: only the state's thread uses them.
    @safe @exclusivity(unchecked) nonisolated(unsafe) private var fetched: [Unmanaged<LuaOperation>] = unsafe []
    // Safety: only the state's thread uses it.
    @safe @exclusivity(unchecked) nonisolated(unsafe) private var taken = 0

    // MARK: from any thread

    /// Appends an operation that has finished or is about to.
    func append(_ operation: LuaOperation) {
        arrived.withLock { arrived in
            if arrived.isClosed { return }
            unsafe arrived.operations.append(Unmanaged.passRetained(operation))
        }
    }

    /// Removes one entry of an operation. The caller must check afterwards whether the operation has a completion block here. An operation
    /// that the state's thread has already fetched stays until that thread looks at it, which is soon. O(n), searching backwards from the
    /// newest.
    func remove(_ operation: LuaOperation) {
        let removed = unsafe arrived.withLock { arrived -> Unmanaged<LuaOperation>? in
            let index = unsafe arrived.operations.lastIndex { unsafe $0.toOpaque() == Unmanaged.passUnretained(operation).toOpaque() }
            return unsafe index.map { unsafe arrived.operations.remove(at: $0) }
        }
        unsafe removed?.release()
    }

    /// Announces that one of the operations has finished. Returns whether the caller has to post a job.
    @inline(__always)
    func announce() -> Bool {
        // Pairs with the fence in `fetch`: the fetching thread either sees what this thread has appended, or is announced again.
        atomicMemoryFence(ordering: .sequentiallyConsistent)
        return !isAnnounced.load(ordering: .relaxed) && !isAnnounced.exchange(true, ordering: .relaxed)
    }

    // MARK: on the state's thread

    /// Whether there are fetched operations that have not been taken.
    @inline(__always) var hasFetched: Bool { unsafe taken < fetched.count }

    /// Fetches what has arrived and appends it to what is left. Returns the number of operations.
    func fetch() -> Int {
        isAnnounced.store(false, ordering: .relaxed)
        atomicMemoryFence(ordering: .sequentiallyConsistent)
        arrived.withLock { arrived in
            if unsafe fetched.isEmpty {
                unsafe swap(&fetched, &arrived.operations)
            } else {
                unsafe fetched.append(contentsOf: arrived.operations)
                unsafe arrived.operations.removeAll(keepingCapacity: true)
            }
        }
        return unsafe fetched.count - taken
    }

    /// The next operation. The caller must release it.
    @inline(__always)
    func take() -> Unmanaged<LuaOperation>? {
        guard hasFetched else { return nil }
        defer {
            taken += 1
            if !hasFetched { forgetFetched() }
        }
        return unsafe fetched[taken]
    }

    private func forgetFetched() {
        unsafe fetched.removeAll(keepingCapacity: fetched.count <= 64)
        taken = 0
    }

    /// The operations that have finished.
    var finished: [LuaOperation] {
        let arrived = unsafe arrived.withLock { unsafe $0.operations }
        return unsafe (fetched[taken...] + arrived).map { unsafe $0.takeUnretainedValue() }.filter(\.isFinished)
    }

    var isEmpty: Bool { !hasFetched && arrived.withLock { unsafe $0.operations.isEmpty } }

    func close() {
        arrived.withLock { $0.isClosed = true }
        _ = fetch()
        while let operation = unsafe take() { unsafe operation.release() }
    }
}
