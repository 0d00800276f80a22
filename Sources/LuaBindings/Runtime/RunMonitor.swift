import OpEngine
import Synchronization

/// Reads the progress of a runtime's operations. Safe from any thread. Retains the engine.
///
/// Operations pay nothing for this, because the engine keeps these counts anyway.
public struct RunMonitor: Sendable {
    /// The numbers of operations.
    public struct Counts: Sendable, Hashable {
        /// The number of operations that were ever added to queues.
        public let added: Int
        /// The number of those that have finished, with any outcome.
        public let finished: Int
        /// The number of operations that have failed, including those that were started without a queue.
        public let failed: Int
        /// The number of operations whose work was in the store. See `Runtime.Store`.
        public let skipped: Int
    }

    let core: RuntimeCore

    init(core: RuntimeCore) { self.core = core }

    /// The counts now. O(queues that have operations).
    public func counts() -> Counts {
        let (added, finished) = core.engine.operationCounts()
        return Counts(
            added: added, finished: finished, failed: core.failedOperationCount.load(ordering: .relaxed),
            skipped: core.store?.skippedCount.load(ordering: .relaxed) ?? 0)
    }

    /// The names of operations that execute now; those without a name are left out.
    ///
    /// - Parameter limit: the maximum number of operations to look at.
    public func executingNames(limit: Int) -> [String] { core.engine.executingOperations(limit: limit).compactMap(\.name) }

    /// The activities of the runtime's worker threads.
    public struct Workers: Sendable, Hashable {
        /// The number of threads that run operations.
        public let busy: Int
        /// The number of threads that are blocked in an operation: they wait for another one, or in a call such as a read.
        public let blocked: Int
        /// The number of threads that have nothing to do.
        public let idle: Int
    }

    /// The workers now. O(threads), with the lock of the engine's pool held.
    public func workers() -> Workers {
        let (busy, blocked, idle) = core.engine.threadCounts
        return Workers(busy: busy, blocked: blocked, idle: idle)
    }
}
