extension OperationQueue {
    /// The progress of a queue: how many of its operations have finished. Counts automatically from the creation of the queue and never
    /// resets.
    ///
    /// Safe to use from any thread. Each property is read in O(1) and is exact at that moment. To update a progress bar, observe
    /// `\.fractionCompleted`; the handler runs on the threads that add and finish operations.
    @safe public final class Progress: @unchecked Sendable {
        // Safety: `@unchecked Sendable` because `core` is a constant that is safe to use from any thread.
        let core: Core

        init(core: Core) { self.core = core }

        /// The number of operations that were added to the queue, or the expected number if that is greater. Set it if you know how many
        /// operations will be added.
        public var totalUnitCount: Int64 {
            get { core.state.withLock { $0.progress.total } }
            set {
                core.change(queue: core.queue) { state in
                    let old = state.progress
                    state.expected = Int(newValue)
                    state.observation?.recordProgress(old: old, new: state.progress)
                }
            }
        }

        /// The number of operations that have finished, whatever their outcome.
        public var completedUnitCount: Int64 { core.state.withLock { $0.progress.completed } }

        /// The fraction of finished operations, from 0 to 1. 0 before anything was added.
        public var fractionCompleted: Double { core.state.withLock { $0.progress.fraction } }

        /// Whether all operations that were added or are expected have finished. False if there were none.
        public var isFinished: Bool {
            core.state.withLock { $0.progress.total > 0 && $0.progress.completed == $0.progress.total }
        }

        /// Whether the total is unknown because nothing was added and nothing is expected.
        public var isIndeterminate: Bool { totalUnitCount == 0 }

        /// The numbers that the progress is computed from.
        struct Counts {
            var added: Int
            var unfinished: Int
            var expected: Int

            var total: Int64 { Int64(max(added, expected)) }
            var completed: Int64 { Int64(added - unfinished) }
            var fraction: Double { total == 0 ? 0 : Double(completed) / Double(total) }
        }
    }
}

extension OperationQueue.State {
    var progress: OperationQueue.Progress.Counts {
        OperationQueue.Progress.Counts(added: added, unfinished: count, expected: expected)
    }
}
