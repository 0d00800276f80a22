import OpPlatform
import Synchronization

/// A transition of an operation's state word: an entry of the operation's journal.
///
/// The journal is not stored. The thread that makes a transition passes the entry at once to its two readers. One is the mailbox, which serves the
/// key-value observers and the observers of events. The other one is the thread's buffer of the recorder. Both compare the old word with the new one.
struct JournalEntry {
    let old: Operation.State
    let new: Operation.State
    let milestones: Milestones

    init(from old: Operation.State, to new: Operation.State) {
        (self.old, self.new, milestones) = (old, new, Milestones(from: old, to: new))
    }

    func changes(_ flag: UInt64) -> Bool { (old.bits ^ new.bits) & flag != 0 }
}

/// The steps of an operation's life in its queue.
struct Milestones: OptionSet {
    let rawValue: UInt16

    static let added = Milestones(rawValue: 1)
    static let ready = Milestones(rawValue: 2)
    static let started = Milestones(rawValue: 4)
    static let cancelled = Milestones(rawValue: 8)
    static let finished = Milestones(rawValue: 16)
    /// An attempt has failed, and there will be another.
    static let attemptFailed = Milestones(rawValue: 32)
    /// A thread finishes the operation, which was cancelled before it started.
    static let passedOver = Milestones(rawValue: 64)
}

extension Milestones {
    @inline(__always)
    init(from old: Operation.State, to new: Operation.State) {
        typealias State = Operation.State
        self = []
        let changed = State(bits: old.bits ^ new.bits)
        if changed.has(State.linked) { insert(.added) }
        if changed.has(State.cancelled) { insert(.cancelled) }
        if new.has(State.linked) && new.isReady && !(old.isReady && old.has(State.linked)) && !new.has(State.finished) { insert(.ready) }
        if changed.has(State.started) {
            insert(!new.has(State.started) ? .attemptFailed : new.has(State.cancelled) ? .passedOver : .started)
        }
        if changed.has(State.finished) { insert(.finished) }
    }
}

extension Operation {
    /// A transition that was made. `time` is the moment before it; nil if the recorder does not receive the transition.
    private typealias Journaled<Action> = (entry: JournalEntry, action: Action, time: UInt64?)

    /// `transition` for an operation that is watched, or will be with this change.
    @inline(never)
    func watchedTransition<Action>(_ change: (inout State) -> Action, joining core: OperationQueue.Core?) -> Action {
        RecordBuffer.ofThread { buffer in
            let (entry, action, time) = journaled(change, joining: core, buffer)
            // The mailbox's lock is not held here. `write` takes the operation's lock, and other threads take the mailbox's lock inside that one.
            if let time {
                write(entry, at: time, to: buffer)
                buffer.end()
            }
            return action
        } ?? journaled(change, joining: core, nil).action
    }

    /// Makes a transition, and records it in the mailbox if the operation is observed.
    private func journaled<Action>(
        _ change: (inout State) -> Action, joining core: OperationQueue.Core?, _ buffer: RecordBuffer?
    ) -> Journaled<Action> {
        while true {
            let made =
                if let mailbox = observedMailbox {
                    // The lock keeps the order of the transitions in the mailbox. The transition clears `observed` if the mailbox is idle. A new
                    // subscription sets that flag again under the same lock.
                    mailbox.state.withLock { box -> Journaled<Action>? in
                        let made = exchange(change, joining: core, buffer, isObserved: true, clearing: box.isIdle ? State.observed : 0)
                        if let made { box.record(made.entry, of: self) }
                        return made
                    }
                } else {
                    exchange(change, joining: core, buffer, isObserved: false, clearing: 0)
                }
            if let made { return made }
        }
    }

    /// Exchanges the state word. Returns nil, and nothing has changed, if another thread was faster, or observes the operation although
    /// `isObserved` is false.
    private func exchange<Action>(
        _ change: (inout State) -> Action, joining core: OperationQueue.Core?, _ buffer: RecordBuffer?, isObserved: Bool,
        clearing flag: UInt64
    ) -> Journaled<Action>? {
        let old = State(bits: state.load(ordering: .relaxed))
        if !isObserved && old.has(State.observed) { return nil }
        var new = old
        let action = change(&new)
        new.clear(flag)
        let entry = JournalEntry(from: old, to: new)
        // The clock is read before the change, so that a thread that sees the change reads a later time.
        let time = new.has(State.recorded) && !entry.milestones.isEmpty ? buffer?.begin() : nil
        let isExchanged = state.compareExchange(
            expected: old.bits, desired: new.bits, successOrdering: .acquiringAndReleasing, failureOrdering: .relaxed
        ).exchanged
        if !isExchanged {
            if time != nil { buffer?.end() }
            return nil
        }
        // The readers of the entry ask the operation for its queue.
        if entry.milestones.contains(.added), let core { setCore(core) }
        return (entry, action, time)
    }
}

extension Mailbox.State {
    /// Records the changes and events that a transition of the operation's state word implies.
    mutating func record(_ entry: JournalEntry, of operation: Operation) {
        typealias State = Operation.State
        let (old, new, milestones) = (entry.old, entry.new, entry.milestones)
        if milestones.contains(.cancelled) { record(.isCancelled, true) }
        // As on Apple's systems, cancelling an operation that has not started tells that it is ready, also if it was ready before.
        let mayHaveBecomeReady = milestones.contains(.cancelled) && !new.has(State.started | State.executing)
        if old.isReady != new.isReady || mayHaveBecomeReady { record(.isReady, new.isReady, from: old.isReady) }
        if entry.changes(State.executing) { record(.isExecuting, new.has(State.executing)) }
        if milestones.contains(.finished) { record(.isFinished, true) }
        if old.level != new.level { record(.queuePriority, old: old.priority, new: new.priority) }
        guard isTraced, new.has(State.linked), !milestones.isEmpty else { return }
        // Safety: the operation cannot leave its queue before the lock of the mailbox is released.
        unsafe operation.core._withUnsafeGuaranteedRef { core in
            func record(_ kind: OperationEvent.Kind) { self.record(.event(OperationEvent.Record(kind, in: core))) }
            if milestones.contains(.added) { record(.added) }
            if milestones.contains(.cancelled) { record(.cancelled) }
            if milestones.contains(.ready) { record(.ready) }
            if milestones.contains(.started) { record(.started) }
            if milestones.contains(.finished) { record(.finished) }
        }
        if milestones.contains(.finished) { isTraced = false }
    }
}
