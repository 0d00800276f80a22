import Synchronization

extension Operation {
    /// Makes changes go through the mailbox, which is made if there is none, from the moment of `prepare` on.
    @discardableResult
    func openMailbox(_ prepare: (inout Mailbox.State) -> Void) -> Mailbox {
        lock.withLock {
            let extras = ensureRareExtras()
            // Written once: who sees the flag reads it without the lock.
            let mailbox = extras.mailbox ?? Mailbox(owner: self)
            if extras.mailbox == nil { extras.mailbox = mailbox }
            mailbox.state.withLock { box in
                prepare(&box)
                state.bitwiseOr(State.observed, ordering: .acquiringAndReleasing)
            }
            return mailbox
        }
    }

    /// The mailbox, if somebody observes the operation. One branch when nobody does.
    @inline(__always)
    var observedMailbox: Mailbox? { loadState().has(State.observed) ? rareExtras?.mailbox : nil }

    /// Tells observers what has happened. No lock may be held. One branch when there are none.
    @inline(__always)
    func deliverChanges() {
        if let mailbox = observedMailbox { mailbox.deliver() }
    }

    /// `transition` while somebody observes: the change and its record are one step.
    @inline(never)
    func observedTransition<Action>(
        _ change: (inout State) -> Action, recording record: (inout Mailbox.State, State, State) -> Void
    ) -> Action {
        guard let mailbox = observedMailbox else { return transition(change, recording: record) }
        return mailbox.state.withLock { box in
            var old = state.load(ordering: .relaxed)
            while true {
                var new = State(bits: old)
                let action = change(&new)
                // Whoever subscribes sets it again, with this lock held.
                if box.isIdle { new.clear(State.observed) }
                let (exchanged, current) = state.weakCompareExchange(
                    expected: old, desired: new.bits, successOrdering: .acquiringAndReleasing, failureOrdering: .relaxed)
                if exchanged {
                    record(&box, State(bits: old), new)
                    return action
                }
                old = current
            }
        }
    }

    /// Whether a subclass may see the flags differently.
    var hasOwnGetters: Bool {
        let type: Operation.Type = type(of: self)
        return type != BlockOperation.self && type != AsyncOperation.self && type != Operation.self
    }

    /// A flag as its getter says.
    func flag(_ key: ObservedKey) -> Bool {
        switch key {
        case .isReady: isReady
        case .isCancelled: isCancelled
        case .isExecuting: isExecuting
        default: isFinished
        }
    }
}

extension Mailbox.State {
    /// What a change of an operation's word means for those who observe it.
    mutating func record(from old: Operation.State, to new: Operation.State) {
        typealias State = Operation.State
        let changed = State(bits: old.bits ^ new.bits)
        if changed.has(State.cancelled) { record(.isCancelled, true) }
        if old.isReady != new.isReady { record(.isReady, new.isReady) }
        if changed.has(State.executing) { record(.isExecuting, new.has(State.executing)) }
        if changed.has(State.finished) { record(.isFinished, true) }
        guard let core = tracedCore, new.has(State.linked) else { return }
        if changed.has(State.linked) { record(.event(OperationEvent.Record(.added, in: core))) }
        if changed.has(State.cancelled) { record(.event(OperationEvent.Record(.cancelled, in: core))) }
        if new.isReady && !(old.isReady && old.has(State.linked)) && !new.has(State.finished) {
            record(.event(OperationEvent.Record(.ready, in: core)))
        }
        if changed.has(State.started) && !new.has(State.cancelled) { record(.event(OperationEvent.Record(.started, in: core))) }
        if changed.has(State.finished) {
            // The record keeps the core, so that this is not its end.
            tracedCore = nil
            record(.event(OperationEvent.Record(.finished, in: core)))
        }
    }

    private mutating func record(_ key: ObservedKey, _ value: Bool) {
        if wants(key) { record(.flag(key: key, new: value)) } else { touch() }
    }
}
