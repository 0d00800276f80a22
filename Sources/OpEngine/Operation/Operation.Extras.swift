import CPlatform
import Synchronization

extension Operation {
    /// What many operations have and many do not, in an object of its own, so that operations stay small. 64 bytes of the allocator's.
    final class Extras {
        // The operation's `lock` guards all of it, so that access needs no check for exclusiveness.

        @safe @exclusivity(unchecked) var name: String?
        @safe @exclusivity(unchecked) var completionBlock: Block?
        @safe @exclusivity(unchecked) var rare: Rare?

        /// What few operations have.
        final class Rare {
            @safe @exclusivity(unchecked) var error: (any Error)?
            @safe @exclusivity(unchecked) var finishHandlers: [FinishHandler] = []
            @safe @exclusivity(unchecked) var waiters: [Parker] = []
            @safe @exclusivity(unchecked) var threadPriority = 0.5
            /// The blocks of a block operation after its first.
            @safe @exclusivity(unchecked) var otherBlocks: [@Sendable () throws -> Void] = []
            /// Where the list of dependencies has each, when there are many. See `Operation.indexDependencies`.
            @safe @exclusivity(unchecked) var dependencyIndex: DependencyIndex?
            /// Written once. See `openMailbox`.
            @safe @exclusivity(unchecked) var mailbox: Mailbox?
        }
    }

    /// What `whenFinished` was given.
    struct FinishHandler {
        /// Who may take it back; compared only.
        let owner: ObjectIdentifier?
        let block: Block
    }

    /// With `lock` held. The end of the operation reads the extras, which another thread has probably written.
    @inline(__always)
    func prefetchExtras() {
        guard let extras else { return }
        unsafe cplatform_prefetch(UnsafeRawPointer(Unmanaged.passUnretained(extras).toOpaque()))
    }

    /// With `lock` held.
    @inline(__always) var rareExtras: Extras.Rare? { extras?.rare }

    /// With `lock` held.
    func ensureRareExtras() -> Extras.Rare {
        withExtras { extras in
            if let rare = extras.rare { return rare }
            let made = Extras.Rare()
            extras.rare = made
            return made
        }
    }

    /// With `lock` held. The extras stay as long as the operation, so that they need not be retained meanwhile.
    @inline(__always)
    func withExtras<Result>(_ body: (Extras) -> Result) -> Result {
        if extras == nil { extras = Extras() }
        // Safety: see above.
        return unsafe Unmanaged.passUnretained(extras.unsafelyUnwrapped)._withUnsafeGuaranteedRef(body)
    }

    package var isBarrier: Bool { loadState().has(State.barrier) }

    var storedName: String? {
        get { lock.withLock { extras?.name } }
        set {
            lock.withLock {
                withExtras { extras in
                    observedMailbox?.record(.name, old: extras.name, new: newValue)
                    extras.name = newValue
                }
            }
            deliverChanges()
        }
    }

    /// How messages call it: its name, or its class.
    var label: String { storedName ?? (self as? any ClassNaming)?.className ?? "\(type(of: self))" }

    var storedPriority: QueuePriority {
        get { loadState().priority }
        set {
            // Setting what it is counts as a change, as it does in Foundation.
            let isLinked = transition {
                $0.priority = newValue
                return $0.has(State.linked)
            } recording: {
                $0.record(.queuePriority, old: $1.priority, new: $2.priority)
            }
            deliverChanges()
            // Who links it later sees the new priority.
            if isLinked { withQueueCore { $0.reprioritise(self) } }
        }
    }

}

extension BeyondFoundation where Self: Operation {
    /// When it runs if a dependency does not succeed. Until it is set the default of its queue applies.
    public var dependencyPolicy: Operation.DependencyPolicy {
        get { loadState().has(Operation.State.requiresSuccess) ? .succeeded : .finished }
        set {
            typealias State = Operation.State
            let mustCancel = transition { state in
                state.set(State.hasOwnPolicy)
                if newValue == .succeeded { state.set(State.requiresSuccess) } else { state.clear(State.requiresSuccess) }
                return state.mustCancel && state.has(State.linked)
            }
            if mustCancel { cancelBecauseOfDependency() }
        }
    }

}

extension Operation {
    /// Whether `queue` is not nil: a look at one word.
    package var isInQueue: Bool {
        let state = loadState()
        return state.has(State.linked) && !state.has(State.finished)
    }
}

/// An operation whose users know its class by another name than Swift's.
package protocol ClassNaming: Operation {
    /// Constant.
    var className: String { get }
}
