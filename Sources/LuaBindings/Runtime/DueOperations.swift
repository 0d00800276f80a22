@_spi(Locking) import OpEngine
import Synchronization

/// The operations whose completion blocks one state has set and not run yet, and that have finished or are about to, in about that order.
///
/// An object of its own, so that whoever finishes an operation takes no memory from the thread that works with the state.
@safe final class DueOperations: Sendable {
    @safe private struct Arrived {
        // Safety: each was retained for the list.
        var operations: [Unmanaged<LuaOperation>] = unsafe []
        /// The state has been closed.
        var isClosed = false
    }

    private let arrived = Guarded(Arrived())
    /// A job that runs them is on its way.
    private let isAnnounced = Atomic<Bool>(false)
    private let gap = InlineArray<8, UInt>(repeating: 0)

    /// Those that its thread has fetched, and how many of them that has taken.
    // Safety: the state's thread alone uses these.
    @safe @exclusivity(unchecked) nonisolated(unsafe) private var fetched: [Unmanaged<LuaOperation>] = unsafe []
    // Safety: the same.
    @safe @exclusivity(unchecked) nonisolated(unsafe) private var taken = 0

    // MARK: from any thread

    /// `operation` is about to finish, or has.
    func append(_ operation: LuaOperation) {
        arrived.withLock { arrived in
            if arrived.isClosed { return }
            unsafe arrived.operations.append(Unmanaged.passRetained(operation))
        }
    }

    /// `operation` has no completion block here any more. One that the state's thread has fetched stays until that looks at it, which is
    /// soon. O(n), from the last one on.
    func remove(_ operation: LuaOperation) {
        let removed = unsafe arrived.withLock { arrived -> Unmanaged<LuaOperation>? in
            let index = unsafe arrived.operations.lastIndex { unsafe $0.toOpaque() == Unmanaged.passUnretained(operation).toOpaque() }
            return unsafe index.map { unsafe arrived.operations.remove(at: $0) }
        }
        unsafe removed?.release()
    }

    /// One of them says that it has finished. Returns whether a job has to be posted.
    @inline(__always)
    func announce() -> Bool {
        // Whoever fetches sees what it says, or is announced again.
        atomicMemoryFence(ordering: .sequentiallyConsistent)
        return !isAnnounced.load(ordering: .relaxed) && !isAnnounced.exchange(true, ordering: .relaxed)
    }

    // MARK: on the state's thread

    /// Whether some have been fetched and not taken.
    @inline(__always) var hasFetched: Bool { unsafe taken < fetched.count }

    /// Fetches what has arrived, behind what is left. Returns how many there are.
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

    /// The next one, which the caller has to release.
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

    /// Those that have finished.
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
