import OpPlatform
import Synchronization

/// A transition of an operation's state word: an entry of the operation's journal.
///
/// The journal is not stored. The thread that makes a transition passes the entry at once to those that read it: the mailbox, which has the
/// key-value observers and the observers of events, and the recorder's buffer of the thread. Both derive from the two words what they need.
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
            if !new.has(State.started) { insert(.attemptFailed) } else if !new.has(State.cancelled) { insert(.started) }
        }
        if changed.has(State.finished) { insert(.finished) }
    }
}

extension Operation {
    /// `transition` for an operation that is watched, or will be with this change.
    @inline(never)
    func watchedTransition<Action>(_ change: (inout State) -> Action, joining core: OperationQueue.Core?) -> Action {
        guard let mailbox = observedMailbox else {
            // Nil if another thread has begun to observe the operation since.
            return journaled(change, joining: core)?.action ?? transition(change, joining: core)
        }
        // The lock keeps the order of the transitions in the mailbox. A new subscription sets the flag again, with the lock held.
        return mailbox.state.withLock { box in
            while true {
                guard let (entry, action) = journaled(change, joining: core, isObserved: true, clearing: box.isIdle ? State.observed : 0)
                else { continue }
                box.record(entry, of: self)
                return action
            }
        }
    }

    /// Makes a transition and has the recorder receive it. Returns nil, and nothing has changed, if another thread is observing the operation
    /// although `isObserved` is false.
    private func journaled<Action>(
        _ change: (inout State) -> Action, joining core: OperationQueue.Core?, isObserved: Bool = false, clearing flag: UInt64 = 0
    ) -> (entry: JournalEntry, action: Action)? {
        while true {
            let old = State(bits: state.load(ordering: .relaxed))
            if !isObserved && old.has(State.observed) { return nil }
            var new = old
            let action = change(&new)
            new.clear(flag)
            let entry = JournalEntry(from: old, to: new)
            if exchange(entry, joining: core) { return (entry, action) }
        }
    }

    /// Exchanges the state word, and writes to the recorder. Returns false if another thread was faster.
    private func exchange(_ entry: JournalEntry, joining core: OperationQueue.Core?) -> Bool {
        func exchange() -> Bool {
            let isExchanged = state.compareExchange(
                expected: entry.old.bits, desired: entry.new.bits, successOrdering: .acquiringAndReleasing, failureOrdering: .relaxed
            ).exchanged
            // The readers find the queue there.
            if isExchanged, entry.milestones.contains(.added), let core { setCore(core) }
            return isExchanged
        }
        if !entry.new.has(State.recorded) || entry.milestones.isEmpty { return exchange() }
        return RecordBuffer.ofThread { buffer in
            // The clock is read before the change, so that a thread that sees the change reads a later time.
            let time = buffer.begin()
            defer { buffer.end() }
            guard exchange() else { return false }
            write(entry, at: time, to: buffer)
            return true
        } ?? exchange()
    }
}

extension Mailbox.State {
    /// Records the changes and events that a transition of the operation's state word implies.
    mutating func record(_ entry: JournalEntry, of operation: Operation) {
        typealias State = Operation.State
        let (old, new, milestones) = (entry.old, entry.new, entry.milestones)
        if milestones.contains(.cancelled) { record(.isCancelled, true) }
        if old.isReady != new.isReady { record(.isReady, new.isReady) }
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
