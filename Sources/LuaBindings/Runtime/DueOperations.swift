import CLua
import OpEngine
import OpPlatform
import Synchronization

/// Operations that have finished or are about to, and whose completion blocks in one state have not run. They are roughly in the order in
/// which they finished.
///
/// One job runs all due completion blocks. This costs a flag with two fences. It saves a job and a protected call for each operation but the
/// first: L1 takes 0.82 of the time and 0.92 of the instructions.
///
/// The object is separate, so that a thread that finishes an operation does not touch the cache lines that the state's thread works with.
@safe final class DueOperations: Sendable {
    @safe private struct Arrived {
        // Safety: the list retains each operation.
        var operations: [Unmanaged<LuaOperation>] = unsafe []
        /// Whether the state has been closed.
        var isClosed = false
    }

    private let arrived = Guarded(Arrived())
    /// Whether a job that runs the completion blocks was posted and has not begun.
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
        // Pairs with the fence in `fetch`: either the fetching thread sees what this thread has appended, or this thread announces again.
        atomicMemoryFence(ordering: .sequentiallyConsistent)
        return !isAnnounced.load(ordering: .relaxed) && !isAnnounced.exchange(true, ordering: .relaxed)
    }

    // MARK: on the state's thread

    /// Whether there are fetched operations that have not been taken.
    @inline(__always) var hasFetched: Bool { unsafe taken < fetched.count }

    /// Fetches the operations that have arrived, and appends them to those that are left. Returns the number of operations.
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

    /// The group of the next operation.
    @inline(__always)
    fileprivate var groupOfNext: Unmanaged<Runtime.Group>? {
        hasFetched ? unsafe fetched[taken]._withUnsafeGuaranteedRef { unsafe $0.origin.group } : nil
    }

    /// The operation that `take` will return.
    var next: LuaOperation? { hasFetched ? unsafe fetched[taken].takeUnretainedValue() : nil }

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

extension LuaState {
    /// Posts a job that runs the due completion blocks, unless one was posted and has not begun. Called when a due operation has finished.
    /// From any thread.
    @inline(__always)
    func announceDue() {
        if due.announce() { post { [self] in runDue() } }
    }

    /// Posts a job that continues with the fetched operations. Called before code that may wait for them.
    @inline(__always)
    func announceFetched() {
        if due.hasFetched { announceDue() }
    }

    /// Runs the completion blocks that are due now.
    private func runDue() {
        var run = DueRun(state: self, left: due.fetch())
        while due.hasFetched && run.left > 0 {
            // Operations that follow one another and belong to one group run together.
            let group = unsafe due.groupOfNext?.takeUnretainedValue()
            unsafe run.group = due.groupOfNext
            do throws(Failure) {
                run.begin()
                try within(group, by: run.nextBudget) { () throws(Failure) in
                    try unsafe attemptToEnd { lua, failure in
                        unsafe withUnsafeMutablePointer(to: &run) { run in
                            unsafe clua_run_completions(
                                lua, { unsafe $0!.assumingMemoryBound(to: DueRun.self).pointee.next($1!) }, run, &failure)
                        }
                    }
                }
            } catch { run.fail(error) }
        }
        run.endCurrent()
        if drainLimit != nil { announceFetched() }
    }
}

/// Runs the completion blocks that are due in a state at one moment, one after the other.
@safe private struct DueRun {
    // Safety: the run stays on the state's thread, which keeps the state alive.
    unowned(unsafe) let state: LuaState
    /// The number of operations left. Later arrivals wait for the next run.
    private(set) var left: Int
    /// The group of the blocks that run now.
    var group: Unmanaged<Runtime.Group>?
    private var hasRun = false
    /// Whether each block is called by itself, because each may have a budget of its own.
    private let takesOne: Bool
    /// Whether an operation was taken since `begin`.
    private var hasTaken = false
    /// The operation whose block runs, with the list's reference to it.
    private var current: Unmanaged<LuaOperation>?

    init(state: LuaState, left: Int) {
        (unsafe self.state, self.left) = (state, left)
        takesOne = state.core.usage.limitsRuns
    }

    /// See `clua_next_completion`.
    mutating func next(_ completion: UnsafeMutablePointer<clua_completion>) -> Bool {
        endCurrent()
        if takesOne && hasTaken { return false }
        // The limit has counted the job, which stands for the first block.
        if hasRun, unsafe state.drainLimit?.allowsMore() == false { left = 0 }
        while left > 0, unsafe state.due.groupOfNext?.toOpaque() == group?.toOpaque(), let operation = unsafe state.due.take() {
            left -= 1
            hasTaken = true
            unsafe current = operation
            let (due, slot) = unsafe operation._withUnsafeGuaranteedRef { operation in
                unsafe (operation.takeCompletion(in: state), operation.isHome(state) ? operation.handleSlot : 0)
            }
            switch due {
            case .completes(let isPinned):
                hasRun = true
                unsafe state.ranCompletionCount += 1
                unsafe completion.pointee = clua_completion(object: operation.toOpaque(), is_pinned: isPinned, slot: slot)
                return true
            case .waits: unsafe operation._withUnsafeGuaranteedRef { unsafe state.due.append($0) }
            case .nothing: break
            }
            endCurrent()
            if takesOne { return false }
        }
        return false
    }

    /// The budget for the next block.
    var nextBudget: RunBudget? { takesOne ? unsafe state.due.next?.budget : nil }

    /// Begins a call of `clua_run_completions`, whose budget is `nextBudget`.
    mutating func begin() { hasTaken = false }

    mutating func endCurrent() { unsafe current.take()?.release() }

    /// Reports that the current block failed. If no block is current, Lua could not begin the next one, so the next one has failed.
    mutating func fail(_ failure: Failure) {
        var completion = unsafe clua_completion()
        if unsafe current == nil, unsafe next(&completion), unsafe completion.is_pinned, unsafe !state.isLuaClosed {
            unsafe clua_unpin(state.running, completion.object)
        }
        if let operation = unsafe current?.takeUnretainedValue() {
            unsafe state.report(failure, in: operation.nameOfCompletion, of: group?.takeUnretainedValue())
        }
        endCurrent()
    }
}
