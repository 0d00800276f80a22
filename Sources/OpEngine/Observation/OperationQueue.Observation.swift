import Synchronization

extension OperationQueue {
    /// The mailboxes of a queue and of its progress, made when the first observer comes.
    final class Observation: Sendable {
        let mailbox: Mailbox
        let progress: Mailbox

        init(queue: OperationQueue) {
            mailbox = Mailbox(owner: queue)
            progress = Mailbox(owner: queue.progress)
        }

        /// The number of operations has changed. With the queue's lock held.
        func recordCounts(before: Int, _ state: OperationQueue.State) {
            mailbox.state.withLock { box in
                if box.wants(.operations) {
                    let old = box.lastOperations
                    box.lastOperations = state.members
                    box.record(.exact(key: .operations, old: old, new: box.lastOperations))
                }
                if box.wants(.operationCount) {
                    box.record(.exact(key: .operationCount, old: before, new: state.count))
                } else {
                    box.touch()
                }
            }
            // Coming adds to what was added before; going does not.
            let came = max(0, state.count - before)
            let old = Progress.Counts(added: state.added - came, unfinished: before, expected: state.expected)
            recordProgress(old: old, new: state.progress)
        }

        /// The progress has changed. With the queue's lock held.
        func recordProgress(old: Progress.Counts, new: Progress.Counts) {
            progress.record(.totalUnitCount, old: old.total, new: new.total)
            progress.record(.completedUnitCount, old: old.completed, new: new.completed)
            progress.record(.fractionCompleted, old: old.fraction, new: new.fraction)
        }

        /// Tells observers, with no lock held.
        func deliver() {
            mailbox.deliver()
            progress.deliver()
        }
    }
}

extension OperationQueue.Core {
    /// Tells those who observe the queue what has happened. No lock may be held. One branch when there are none.
    @inline(__always)
    func deliverChanges() {
        if isObserved.load(ordering: .relaxed) { deliverObservedChanges() }
    }

    @inline(never)
    private func deliverObservedChanges() { state.withLock { $0.observation }?.deliver() }
}
