import OpPlatform
import Synchronization

extension Operation {
    /// Routes all changes through a mailbox, which is created if necessary. `prepare` runs before the first of these changes.
    @discardableResult
    func openMailbox(_ prepare: (inout Mailbox.State) -> Void) -> Mailbox {
        lock.withLock {
            let extras = ensureRareExtras()
            // Written once, so that a thread that sees the `observed` flag reads the mailbox without the lock.
            let mailbox =
                extras.mailbox
                ?? Mailbox(
                    owner: self, overridden: OverriddenMethods.flags(of: self),
                    declaring: OverriddenMethods.declaresDependentKeys(self) ? type(of: self) : nil)
            if extras.mailbox == nil { extras.mailbox = mailbox }
            mailbox.state.withLock { box in
                prepare(&box)
                state.bitwiseOr(State.observed | State.watched, ordering: .acquiringAndReleasing)
            }
            return mailbox
        }
    }

    /// The mailbox if the operation is observed. Costs one branch otherwise.
    @inline(__always)
    var observedMailbox: Mailbox? { loadState().has(State.observed) ? rareExtras?.mailbox : nil }

    /// Delivers recorded changes to observers. The caller must hold no lock. Costs one branch if there are no observers.
    @inline(__always)
    func deliverChanges() {
        if let mailbox = observedMailbox { mailbox.deliver() }
    }

    /// `transition` for an operation that is observed or recorded.
    @inline(never)
    func watchedTransition<Action>(
        _ change: (inout State) -> Action, recording record: (inout Mailbox.State, State, State) -> Void
    ) -> Action {
        if let mailbox = observedMailbox { return observedTransition(change, in: mailbox, recording: record) }
        if loadState().has(State.recorded), let action = recordedTransition(change) { return action }
        return transition(change, recording: record)
    }

    /// `transition` for an observed operation. Changes the state and records the change as one step.
    private func observedTransition<Action>(
        _ change: (inout State) -> Action, in mailbox: Mailbox, recording record: (inout Mailbox.State, State, State) -> Void
    ) -> Action {
        mailbox.state.withLock { box in
            var old = state.load(ordering: .relaxed)
            while true {
                var new = State(bits: old)
                let action = change(&new)
                // A new subscription sets the flag again, with this lock held.
                if box.isIdle {
                    new.clear(State.observed)
                    if !new.has(State.recorded) || new.has(State.finished) { new.clear(State.watched) }
                }
                let before = State(bits: old)
                if exchangeState(&old, for: &new) {
                    record(&box, before, new)
                    return action
                }
            }
        }
    }

    /// Whether a subclass may override the getters of the flags.
    var hasOwnGetters: Bool {
        let type: Operation.Type = type(of: self)
        return type != BlockOperation.self && type != Operation.self
    }
}

extension Mailbox.State {
    /// Records the changes and events that a transition of the state word implies.
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
            // The record retains the core, so this does not release the last reference.
            tracedCore = nil
            record(.event(OperationEvent.Record(.finished, in: core)))
        }
    }
}
