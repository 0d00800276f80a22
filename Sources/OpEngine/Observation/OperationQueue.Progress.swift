extension OperationQueue {
    /// How much of what was added to a queue has finished. Counts by itself, from the queue's beginning; never starts again.
    ///
    /// Safe from every thread; each property is read in O(1) and is right at that moment. To attach a bar, observe
    /// `\.fractionCompleted`, whose handler is called on the threads that add and finish operations.
    @safe public final class Progress: @unchecked Sendable {
        // Safety: `@unchecked Sendable` because `core` is a constant that is safe from every thread.
        let core: Core

        init(core: Core) { self.core = core }

        /// How many operations were added to the queue, or are expected when that is more: a program that knows how many will come
        /// says so by setting it.
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

        /// How many of them have finished: succeeded, failed or cancelled.
        public var completedUnitCount: Int64 { core.state.withLock { $0.progress.completed } }

        /// From 0 to 1; 0 while nothing was added.
        public var fractionCompleted: Double { core.state.withLock { $0.progress.fraction } }

        /// Whether everything that was added or is expected has finished, and there was something.
        public var isFinished: Bool {
            core.state.withLock { $0.progress.total > 0 && $0.progress.completed == $0.progress.total }
        }

        /// Whether it is not known yet how much there will be: nothing was added and nothing is expected.
        public var isIndeterminate: Bool { totalUnitCount == 0 }

        /// What progress is computed from.
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
