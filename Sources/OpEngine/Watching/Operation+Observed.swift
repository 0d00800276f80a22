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
                state.bitwiseOr(State.observed, ordering: .acquiringAndReleasing)
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
}
