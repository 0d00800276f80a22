import OpPlatform

/// The progress of a queue: how many of its operations have finished. Counts automatically from the creation of the queue and never
/// resets.
///
/// Safe to use from any thread. Each property is read in O(1) and is exact at that moment, except `fractionCompleted` with groups. To update
/// a progress bar, observe `\.fractionCompleted`; the handler runs on the threads that add and finish operations.
@safe public final class OperationQueueProgress: @unchecked Sendable {
    // Safety: `@unchecked Sendable` because `core` is a constant that is safe to use from any thread.
    let core: OperationQueue.Core

    init(core: OperationQueue.Core) { self.core = core }

    /// The number of operations that were added to the queue, or the expected number if that is greater. Set it if you know how many
    /// operations will be added.
    public var totalUnitCount: Int64 {
        get { core.state.withLock { $0.progress.total } }
        set {
            core.change(queue: core.queue) { state in
                let old = state.progress
                state.expected = Int(newValue)
                state.observation?.recordProgress(old: old, new: state.progress, hasGroups: state.hasGroups)
            }
        }
    }

    /// The number of operations that have finished, with any outcome.
    public var completedUnitCount: Int64 { core.state.withLock { $0.progress.completed } }

    /// The fraction of finished operations, from 0 to 1. 0 before anything was added.
    ///
    /// A group that executes counts with the fraction of its members that have finished. Once the queue has had a group, the property costs
    /// O(executing operations), and the fractions of several groups may be of slightly different moments.
    public var fractionCompleted: Double {
        let (fraction, hasGroups) = core.state.withLock { ($0.progress.fraction, $0.hasGroups) }
        return hasGroups ? core.fractionWithGroups : fraction
    }

    /// Whether all operations that were added or are expected have finished. False if there were none.
    public var isFinished: Bool {
        core.state.withLock { $0.progress.isFinished }
    }

    /// Whether the total is unknown because nothing was added and nothing is expected.
    public var isIndeterminate: Bool { totalUnitCount == 0 }

    struct Counts {
        var added: Int
        var unfinished: Int
        var expected: Int

        var total: Int64 { Int64(max(added, expected)) }
        var completed: Int64 { Int64(added - unfinished) }
        var isFinished: Bool { total > 0 && completed == total }
        var fraction: Double { total == 0 ? 0 : Double(completed) / Double(total) }
    }
}

extension OperationQueue.State {
    var progress: OperationQueueProgress.Counts {
        OperationQueueProgress.Counts(added: added, unfinished: count, expected: expected)
    }
}

extension OperationQueue.Core {
    /// The fraction of finished operations, with those of the groups in this queue. The caller holds no lock of a queue.
    var fractionWithGroups: Double {
        var sum = 0.0
        // Not recursive, because groups may be nested deeply.
        var pending = [(core: self, weight: 1.0)]
        while let (core, weight) = pending.popLast() {
            let (progress, groups) = core.state.withLock { ($0.progress, $0.hasGroups ? $0.executingGroups : []) }
            if progress.total == 0 { continue }
            sum += weight * progress.fraction
            for group in groups { pending.append((group.core, weight / Double(progress.total))) }
        }
        return min(sum, 1)
    }

    /// Records and tells a change of the fraction for the observers of the progress. The caller holds no lock of a queue.
    func recordFractionOfGroups() {
        guard let observation = state.withLock({ $0.hasGroups ? $0.observation : nil }), observation.wantsFraction else { return }
        observation.recordFraction { fractionWithGroups }
        observation.deliver()
    }
}

extension OperationQueue.State {
    /// The queues of the groups that execute in this queue. O(executing operations).
    var executingGroups: [MemberQueue] {
        var groups: [MemberQueue] = []
        unsafe running.forEach { operation in
            if let members = unsafe operation._withUnsafeGuaranteedRef({ $0.memberQueue }) { groups.append(members) }
        }
        return groups
    }
}
