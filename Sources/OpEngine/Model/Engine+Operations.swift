import OpPlatform
import Synchronization

extension Engine {
    func activeCores() -> [OperationQueue.Core] { Registry.lock.withLock { listedCores() } }

    /// The cores on the list of queues that have operations, without that of internal operations. The caller holds `Registry.lock`.
    private func listedCores() -> [OperationQueue.Core] {
        var all: [OperationQueue.Core] = []
        var next = unsafe firstActive
        while let entry = unsafe next {
            // Safety: the registry's lock guards the list, and every core on it retains itself.
            let core = unsafe entry.takeUnretainedValue()
            if !core.isHelper.load(ordering: .relaxed) { all.append(core) }
            unsafe next = core.nextActive
        }
        return all
    }

    /// The number of operations that have been added to this engine's queues and have not finished. O(queues).
    public var unfinishedOperationCount: Int {
        activeCores().reduce(0) { $0 + $1.state.withLock { $0.count } }
    }

    /// The operations that have been added to this engine's queues and have not finished. In order of addition within each queue. O(n).
    public func unfinishedOperations() -> [Operation] { activeCores().flatMap { $0.members() } }

    /// Cancels the operations in all queues of this engine except barriers. Executing operations are cancelled last. O(n).
    public func cancelAllOperations() { unfinishedOperations().filter { !$0.isBarrier }.cancelAll() }

    /// The queues of this engine that have operations now, the longest busy first. O(queues).
    public func busyQueues() -> [OperationQueue] { activeCores().compactMap(\.queue) }

    /// The operations of this engine's queues that execute now. Those of one queue are listed with the latest first.
    ///
    /// - Parameter limit: the maximum number of operations to list.
    public func executingOperations(limit: Int) -> [Operation] {
        var all: [Operation] = []
        for core in activeCores() where all.count < limit {
            let room = limit - all.count
            core.state.withLock { state in
                var left = room
                unsafe state.running.forEach {
                    if left > 0 { unsafe all.append($0.takeUnretainedValue()) }
                    left -= 1
                }
            }
        }
        return all
    }

    /// The number of operations that were ever added to this engine's queues, and the number of those that have finished. O(queues). The
    /// counts cost the operations nothing.
    ///
    /// The numbers of one queue belong to the same moment. A queue that becomes empty during the call may be counted a moment too early or
    /// too late.
    public func operationCounts() -> (added: Int, finished: Int) {
        let (former, cores) = Registry.lock.withLock { (unsafe formerlyFinished, listedCores().map { ($0, $0.countedAsFinished) }) }
        var (added, finished) = (former, former)
        for (core, counted) in cores {
            core.state.withLock { state in
                added += state.added - counted
                finished += state.added - state.count - counted
            }
        }
        return (added, finished)
    }
}
