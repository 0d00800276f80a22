import OpPlatform
import Synchronization

extension OperationQueue {
    /// The mailboxes of a queue and its progress. Created for the first observer.
    final class Observation: Sendable {
        let mailbox: Mailbox
        let progress: Mailbox
        /// The fraction that was recorded last for a queue with groups.
        private let fraction = Guarded<Double?>(nil)

        init(queue: OperationQueue) {
            mailbox = Mailbox(owner: queue, declaring: type(of: queue))
            progress = Mailbox(owner: queue.progress)
        }

        /// Records a change of the number of operations. The caller holds the queue's lock.
        func recordCounts(before: Int, _ state: OperationQueue.State) {
            mailbox.state.withLock { box in
                if box.wants(.operations) {
                    let members = state.members, old = exchange(&box.lastOperations, with: members)
                    box.record(.operations, old: old, new: members)
                }
                box.record(.operationCount, old: before, new: state.count)
            }
            // An operation that was added has increased `added`; one that left has not changed it.
            let came = max(0, state.count - before)
            let old = OperationQueueProgress.Counts(added: state.added - came, unfinished: before, expected: state.expected)
            recordProgress(old: old, new: state.progress, hasGroups: state.hasGroups)
        }

        /// Records a change of the progress. The caller holds the queue's lock. With groups, `recordFraction` follows.
        func recordProgress(old: OperationQueueProgress.Counts, new: OperationQueueProgress.Counts, hasGroups: Bool) {
            progress.record(.progress(.totalUnitCount), old: old.total, new: new.total)
            progress.record(.progress(.completedUnitCount), old: old.completed, new: new.completed)
            if old.isFinished != new.isFinished { progress.record(.progress(.isFinished), old: old.isFinished, new: new.isFinished) }
            if (old.total == 0) != (new.total == 0) {
                progress.record(.progress(.isIndeterminate), old: old.total == 0, new: new.total == 0)
            }
            if !hasGroups { progress.record(.progress(.fractionCompleted), old: old.fraction, new: new.fraction) }
        }

        /// Makes `recordFraction` record the fraction, because the queue has groups from now on. The fraction is `current` now.
        func expectGroups(at current: Double) { fraction.withLock { last in if last == nil { last = current } } }

        /// Whether the fraction is observed, or about to be.
        var wantsFraction: Bool { progress.state.withLock { $0.wants(.progress(.fractionCompleted)) || $0.subscribing > 0 } }

        /// Records the fraction of a queue with groups. The caller holds no lock of a queue, so that `read` may take those of the groups.
        func recordFraction(_ read: () -> Double) {
            fraction.withLock { last in
                let new = read()
                if new != last { progress.record(.progress(.fractionCompleted), old: last ?? 0, new: new) }
                last = new
            }
        }

        /// Delivers recorded changes to observers. The caller must hold no lock.
        func deliver() {
            mailbox.deliver()
            progress.deliver()
        }
    }
}

extension OperationQueue.Core {
    /// Delivers recorded changes to the queue's observers. The caller must hold no lock. Costs one branch if there are no observers.
    @inline(__always)
    func deliverChanges() {
        if has(.observed) { deliverObservedChanges() }
    }

    @inline(never)
    private func deliverObservedChanges() {
        let (observation, hasGroups, isOfGroup) = state.withLock { ($0.observation, $0.hasGroups, $0.memberQueue != nil) }
        if hasGroups { recordFractionOfGroups() }
        observation?.deliver()
        if isOfGroup { queue?.asMemberQueue?.tellProgress() }
    }
}
