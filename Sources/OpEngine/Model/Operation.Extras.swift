import CPlatform
import OpPlatform

extension Operation {
    /// Properties that many operations do not use. They live in a separate object of 64 bytes, to keep operations small.
    class Extras {
        // The operation's `lock` guards all of these, so accesses need no exclusivity checks.

        @safe @exclusivity(unchecked) var name: String?
        @safe @exclusivity(unchecked) var completionBlock: Block?
        @safe @exclusivity(unchecked) var rare: Rare?
        /// The admission of an operation that already had extras when it got one. Written once. See `changeAdmission`.
        @safe @exclusivity(unchecked) var laterAdmission: Admission?

        /// Properties that few operations use.
        final class Rare {
            @safe @exclusivity(unchecked) var error: (any Error)?
            @safe @exclusivity(unchecked) var finishHandlers: [FinishHandler] = []
            @safe @exclusivity(unchecked) var waiters: [Parker] = []
            @safe @exclusivity(unchecked) var threadPriority = 0.5
            /// The blocks of a block operation, except the first.
            @safe @exclusivity(unchecked) var otherBlocks: [@Sendable () throws -> Void] = []
            /// Finds edges of a long dependency list. See `Operation.edge(to:)`.
            @safe @exclusivity(unchecked) var dependencyIndex: DependencyIndex?
            /// Written once. See `openMailbox`.
            @safe @exclusivity(unchecked) var mailbox: Mailbox?
        }
    }

    /// A handler that was passed to `whenFinished`.
    struct FinishHandler {
        /// The object that may remove the handler. Only compared.
        let owner: ObjectIdentifier?
        let block: Block
    }

    /// Prefetches the extras, because finishing the operation reads them and another thread has probably written them. The caller holds
    /// `lock`.
    @inline(__always)
    func prefetchExtras() {
        guard let extras else { return }
        unsafe cplatform_prefetch(UnsafeRawPointer(Unmanaged.passUnretained(extras).toOpaque()))
    }

    /// The caller holds `lock`.
    @inline(__always) var rareExtras: Extras.Rare? { extras?.rare }

    /// The caller holds `lock`.
    func ensureRareExtras() -> Extras.Rare {
        withExtras { extras in
            if let rare = extras.rare { return rare }
            let made = Extras.Rare()
            extras.rare = made
            return made
        }
    }

    /// Calls `body` with the extras, which are created if necessary. The caller holds `lock`.
    @inline(__always)
    func withExtras<Result>(_ body: (Extras) -> Result) -> Result {
        if extras == nil { extras = Extras() }
        // Safety: the extras live as long as the operation once they exist, so `body` need not retain them.
        return unsafe Unmanaged.passUnretained(extras.unsafelyUnwrapped)._withUnsafeGuaranteedRef(body)
    }

    var storedName: String? {
        get { lock.withLock { extras?.name } }
        set {
            lock.withLock {
                withExtras { extras in
                    observedMailbox?.record(.name, old: extras.name, new: newValue)
                    extras.name = newValue
                }
            }
            if loadState().has(State.recorded) { recordName(newValue) }
            memberQueue?.name = newValue
            deliverChanges()
        }
    }

    /// The operation's name in messages: its `name`, or its class.
    package var label: String { storedName?.shown ?? (self as? any ClassNaming)?.className ?? "\(type(of: self))" }

    var storedPriority: QueuePriority {
        get { loadState().priority }
        set {
            let (isLinked, old) = transition { state -> (Bool, QueuePriority) in
                defer { state.priority = newValue }
                return (state.has(State.linked), state.priority)
            }
            // Setting the current value counts as a change, as in Foundation. The lock keeps the order of changes in the mailbox, so the value
            // is the one that the last change before this one has set.
            if old == newValue, let mailbox = observedMailbox {
                mailbox.state.withLock { box in
                    let present = loadState().priority
                    box.record(.queuePriority, old: present, new: present)
                }
            }
            deliverChanges()
            // A thread that links the operation later sees the new priority.
            if isLinked { withQueueCore { $0.reprioritise(self) } }
            if loadState().has(State.hasAdmission) { placeHasChanged() }
            memberQueue?.settingsHaveChanged()
        }
    }
}

extension BeyondFoundation where Self: Operation {
    /// Whether the operation still runs if a dependency does not succeed. The queue's default applies until this is set.
    @_disfavoredOverload
    public var dependencyPolicy: OperationDependencyPolicy {
        get { loadState().policy == .succeeded ? .succeeded : .finished }
        set {
            let mustCancel = transition { state in
                state.policy = newValue == .succeeded ? .succeeded : .finished
                return state.mustCancelInQueue
            }
            if mustCancel { cancelBecauseOfDependency() }
        }
    }
}

extension Operation {
    /// Whether `queue` is not nil. Costs one atomic load.
    package var isInQueue: Bool {
        let state = loadState()
        return state.has(State.linked) && !state.has(State.finished)
    }
}

/// An operation whose class has a name for users that differs from the Swift name.
package protocol ClassNaming: Operation {
    /// The class's name. Must not change.
    var className: String { get }
}
