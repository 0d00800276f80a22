extension Operation {
    /// The state of an operation that decides what may happen to it, packed into one atomic word: 20 flags, the priority, the dependency policy,
    /// and the number of unfinished dependencies.
    ///
    /// Transitions are pure functions. Each returns an action, and the thread that made the transition performs it.
    ///
    ///              join              post             take           startBody, start             publishFinish
    ///        new ────────► waiting ────────► ready ─────────► taken ──────────────────► executing ──────────────► finished
    ///         │             ▲ ▲ ▲   recall     │                │                         │   ▲
    ///         │             │ │ └──────────────┘                │ postpone                │   │
    ///         │             │ └─────────────────────────────────┘                         │   │
    ///         │             └──────────────────────── endAttempt, postpone ───────────────┘   │
    ///         └────────────────────────────── start, by hand ─────────────────────────────────┘
    ///
    ///     flags:          claimed           posted                               started                    finishing
    ///                     linked                                                 executing                  finished
    ///
    /// Waiting, ready and taken are lists of the queue (`queuePosition`), under the queue's lock. The word tells other threads when to take that
    /// lock. An operation that was cancelled counts as ready. It passes through the same states, and `start` finishes it without `main`.
    ///
    /// | flag | set by | cleared by |
    /// |---|---|---|
    /// | `cancelled` | `cancel`; `abandon` of a queue | |
    /// | `claimed` | `join`; `claim`, for a batch | `unclaim` |
    /// | `linked` | `join` | |
    /// | `posted` | `post`, in `join`, `dependencyFinished`, `dependencyRemoved`, `cancel`, or when a condition changes | `recall`, `postpone` |
    /// | `started` | `startBody`, `launch`, `start` by hand | `endAttempt` |
    /// | `executing` | `startBody`, `start` | `endAttempt`, `publishFinish` |
    /// | `finishing` | `claimFinish`, `runBody`, `publishFinish` | |
    /// | `finished` | `publishFinish` | |
    /// | `failed` | `fail(with:)` | `endAttempt` |
    /// | `dependencyFailed` | `dependencyFinished`, `addDependency` of one that did not succeed | `removeDependency` of the last such one |
    /// | `hasDependents` | `addDependency(this)` of another operation | |
    /// | `hasFinishHandlers` | a completion block, a handler or a wait | |
    /// | `notifiesSubclass` | `tellWhenFinished`, `endsWithMain()` | the call of `didFinish` |
    /// | `outlivesStart` | `startReturned`, `manualStartReturned` | `endAttempt` |
    /// | `continuesAfterMain` | `isFinishedAfterMain` | `endAttempt` |
    /// | `endsWithMain` | `join` or `claim` of a plain class; `endsWithMain()` | |
    /// | `isInert` | `endsWithMain()` | `keepsMore()` |
    /// | `hasAdmission` | `changeAdmission` | |
    /// | `observed` | `openMailbox` | `watchedTransition`, when the mailbox is idle |
    /// | `recorded` | `join`, while a recorder records | |
    struct State: Sendable {
        var bits: UInt64

        init(bits: UInt64 = 0) { self.bits = bits }

        // The low 32 bits count unfinished dependencies. The flags are above them.
        private static let dependencyMask: UInt64 = 0xFFFF_FFFF

        /// `cancel()` was called.
        static let cancelled: UInt64 = 1 << 32
        /// A queue owns the operation. Nothing else may start it or add it.
        static let claimed: UInt64 = 1 << 33
        /// The operation has joined its queue. Until it finishes, each thread that takes the queue's lock finds it on a list. If it becomes ready,
        /// it must be posted to the queue.
        static let linked: UInt64 = 1 << 34
        /// The operation was posted to its queue's ready list, and has not been returned to the waiting list since.
        static let posted: UInt64 = 1 << 35
        /// A thread won the right to call `start`.
        static let started: UInt64 = 1 << 36
        static let executing: UInt64 = 1 << 37
        /// A thread won the right to finish the operation.
        static let finishing: UInt64 = 1 << 38
        static let finished: UInt64 = 1 << 39
        /// The operation recorded an error that counts as a failure.
        static let failed: UInt64 = 1 << 40
        /// A dependency did not succeed.
        static let dependencyFailed: UInt64 = 1 << 41
        /// The operation has dependents, or had some.
        static let hasDependents: UInt64 = 1 << 42
        /// A completion block, a handler or a waiting thread must be notified of the end.
        static let hasFinishHandlers: UInt64 = 1 << 43
        /// `willFinish` and `didFinish` must be called.
        static let notifiesSubclass: UInt64 = 1 << 44
        /// `start` returned before the operation finished, and code unknown to the engine may finish it.
        static let outlivesStart: UInt64 = 1 << 45
        /// A subclass's `isFinished` was false after `main`. The base class has nothing left to do.
        static let continuesAfterMain: UInt64 = 1 << 46
        /// Only the worker that has taken the operation can finish it, when `main` has returned. Never changes in a queue.
        static let endsWithMain: UInt64 = 1 << 47
        /// Releasing the operation runs no foreign code, apart from what its dependencies and extras cause.
        static let isInert: UInt64 = 1 << 48
        /// The operation needs something besides its dependencies, or may be tried again. See `Admission`.
        static let hasAdmission: UInt64 = 1 << 49
        /// The operation is observed: its mailbox receives state changes.
        static let observed: UInt64 = 1 << 50
        /// The recorder knows the operation, and receives state changes.
        static let recorded: UInt64 = 1 << 51
        /// Three bits hold `level`.
        private static let levelShift: UInt64 = 52
        /// Two bits hold `policy`.
        private static let policyShift: UInt64 = 55
        /// The policy is `.succeeded`.
        private static let requiresSuccess = Policy.succeeded.rawValue << policyShift

        /// The flags with which state changes are added to the journal. See `Operation.watchedTransition`.
        static let watched = observed | recorded
        /// The flags that require a notification of the end.
        static let notifiesAtEnd = hasFinishHandlers | notifiesSubclass | observed
        /// The flags with which an end has consequences: for dependents, for code that must be notified, or for the group, which records
        /// the failure.
        static let hasConsequences = hasDependents | notifiesAtEnd | failed

        @inline(__always) func has(_ flag: UInt64) -> Bool { bits & flag != 0 }
        @inline(__always) mutating func clear(_ flags: UInt64) { bits &= ~flags }

        /// Sets flags. Returns the state afterwards.
        @inline(__always)
        @discardableResult
        mutating func set(_ flags: UInt64) -> Self {
            bits |= flags
            return self
        }

        /// The priority level. See `QueuePriority.level`. Stored as the XOR with the default level, so that the default needs no bits set.
        @inline(__always) var level: UInt8 {
            get { UInt8(truncatingIfNeeded: bits >> State.levelShift) & 7 ^ QueuePriority.normal.level }
            set { bits = bits & ~(7 << State.levelShift) | UInt64(newValue ^ QueuePriority.normal.level) << State.levelShift }
        }

        @inline(__always) var priority: QueuePriority {
            get { QueuePriority(level: level) }
            set { level = newValue.level }
        }

        /// The dependency policy that was set.
        enum Policy: UInt64 {
            /// Nothing. The queue's default applies when the operation joins.
            case unset
            case finished, succeeded
        }

        @inline(__always) var policy: Policy {
            get { Policy(rawValue: bits >> State.policyShift & 3) ?? .unset }
            set { bits = bits & ~(3 << State.policyShift) | newValue.rawValue << State.policyShift }
        }

        /// Whether the operation may be on the list of an unfinished dependency.
        @inline(__always) var isCounting: Bool { bits & (State.dependencyMask | State.dependencyFailed) != 0 }

        @inline(__always) var isReady: Bool {
            bits & State.dependencyMask == 0 || bits & (State.cancelled | State.started | State.executing | State.finished) != 0
        }

        /// Whether the policy requires cancelling the operation, and this has not been done yet. The thread whose transition made this true
        /// must cancel the operation. Until then the operation does not start.
        @inline(__always) var mustCancel: Bool {
            bits & (State.dependencyFailed | State.requiresSuccess) == State.dependencyFailed | State.requiresSuccess
                && bits & (State.cancelled | State.started | State.executing | State.finishing | State.finished) == 0
        }

        /// `mustCancel` of an operation in a queue, which keeps it alive.
        var mustCancelInQueue: Bool { has(State.linked) && mustCancel }

        /// How the operation finished, or how it would finish now.
        var outcome: OperationOutcome {
            has(State.failed) ? .failed : has(State.cancelled) ? .cancelled : .succeeded
        }
    }
}

// MARK: - Transitions

extension Operation.State {
    private typealias State = Operation.State

    /// Whether the operation is on its queue's waiting list and could be on the ready list. A transition to ready posts the operation. So a ready
    /// operation that is not posted was given back by a worker: its subclass was not ready, or its admission lacked something.
    @inline(__always)
    var canBePosted: Bool {
        bits & (State.linked | State.posted | State.finishing | State.finished) == State.linked && isReady && !mustCancel
    }

    /// Marks the operation as posted if it can be. Returns true if it must be handed to its queue.
    @inline(__always)
    mutating func post() -> Bool {
        guard canBePosted else { return false }
        set(State.posted)
        return true
    }

    /// Why an operation cannot be added to a queue or started.
    enum Refusal {
        case inQueue, executing, finished
    }

    /// Why the operation cannot be added to a queue; nil if it can.
    var refusal: Refusal? {
        if has(State.finishing | State.finished) { return .finished }
        if has(State.executing) { return .executing }
        if has(State.claimed) { return .inQueue }
        return has(State.started) ? .executing : nil
    }

    /// Claims the operation for a batch, which joins a queue as a whole or not at all.
    ///
    /// - Parameter isOfPlainClass: see `OverriddenMethods`.
    mutating func claim(isOfPlainClass: Bool) -> Refusal? {
        if let refusal { return refusal }
        set(State.claimed | (isOfPlainClass ? State.endsWithMain : 0))
        return nil
    }

    /// Undoes `claim` after the queue has refused the batch.
    mutating func unclaim() { clear(State.claimed) }

    /// Puts the operation on its queue's list and applies the queue's default policy. The caller holds the queue's lock.
    @inline(__always)
    mutating func join(setting flags: UInt64, isClaimed: Bool, requiringSuccessByDefault: Bool) -> ReadinessAction {
        let others = State.finishing | State.finished | (isClaimed ? 0 : State.claimed | State.started | State.executing)
        if has(others) { return .refused }
        set(State.claimed | State.linked | flags)
        if requiringSuccessByDefault && policy == .unset { policy = .succeeded }
        if mustCancel { return .cancel }
        return post() ? .post : .none
    }

    enum ReadinessAction {
        case none
        /// Hand the operation to its queue.
        case post
        /// Cancel the operation because of its policy. Its queue keeps it alive.
        case cancel
        /// The operation does not join, for the reason that `refusal` gives. Nothing has changed.
        case refused
    }

    /// A counted dependency has finished.
    @inline(__always)
    mutating func dependencyFinished(succeeded: Bool) -> ReadinessAction {
        bits -= 1
        if !succeeded {
            set(State.dependencyFailed)
            if mustCancelInQueue { return .cancel }
        }
        return post() ? .post : .none
    }

    /// A counted dependency was removed. Returns true if the operation must be handed to its queue.
    mutating func dependencyRemoved() -> Bool {
        bits -= 1
        return post()
    }

    enum AddedDependency {
        /// The operation has started or finished, so the dependency has no effect.
        case ignored
        case counted
        /// The operation is on its queue's ready list or on its way there. The queue has to take it back.
        case recall
    }

    /// An unfinished dependency was added.
    mutating func dependencyAdded() -> AddedDependency {
        bits += 1
        if has(State.started | State.executing | State.finishing | State.finished) { return .ignored }
        return has(State.posted) ? .recall : .counted
    }

    /// The queue took the operation back from the ready list. Returns true if it has become ready again and must stay there.
    mutating func recall() -> Bool {
        if isReady { return true }
        clear(State.posted)
        return false
    }

    enum CancelAction {
        case ignored, marked, post
    }

    mutating func cancel() -> CancelAction {
        if has(State.finished | State.cancelled) { return .ignored }
        set(State.cancelled)
        return post() ? .post : .marked
    }

    enum LaunchAction {
        case start
        /// A dependency was added after a worker took the operation, or a dependency has failed.
        case notReady
        /// The operation has finished since a worker took it.
        case ended
    }

    /// A worker is about to call `start`.
    @inline(__always)
    mutating func launch() -> LaunchAction {
        if has(State.finishing | State.finished) { return .ended }
        if !isReady || mustCancel { return .notReady }
        set(State.started)
        return .start
    }

    /// Combines `launch` and `start` for an operation that only the calling worker can finish. Returns false, and nothing has changed, if the
    /// operation needs the two steps.
    ///
    /// - Parameter isAdmitted: whether the operation has taken what it needs, if anything.
    @inline(__always)
    mutating func startBody(isAdmitted: Bool = false) -> Bool {
        let others =
            State.cancelled | State.started | State.executing | State.finishing | State.finished | State.observed
            | (isAdmitted ? 0 : State.hasAdmission)
        guard bits & (others | State.dependencyMask) == 0, !mustCancel else { return false }
        set(State.started | State.executing)
        return true
    }

    /// A worker returns the operation to the waiting list.
    mutating func postpone() { clear(State.posted) }

    enum StartAction {
        case run
        case finishCancelled
        case refuse(Operation.State.Refusal)
        /// The operation has finished while it was being started. Do nothing.
        case ignore
    }

    /// The transition of the base class's `start`. `launched` means that a worker has called `launch` and is calling `start` now.
    @inline(__always)
    mutating func start(launched: Bool) -> StartAction {
        if has(State.finishing | State.finished) { return launched ? .ignore : .refuse(.finished) }
        if has(State.executing) { return .refuse(.executing) }
        if !launched {
            if has(State.claimed) { return .refuse(.inQueue) }
            if has(State.started) { return .refuse(.executing) }
            set(State.started)
        }
        if has(State.cancelled) { return .finishCancelled }
        set(State.executing)
        return .run
    }

    enum FinishClaim {
        case lost
        /// The caller may finish the operation, which is in no queue.
        case alone
        /// The caller may finish the operation, which must leave its queue.
        case inQueue
    }

    /// Claims the right to finish the operation. The first caller wins.
    @inline(__always)
    mutating func claimFinish() -> FinishClaim {
        if has(State.finishing | State.finished) { return .lost }
        set(State.finishing)
        return has(State.linked) ? .inQueue : .alone
    }

    /// An error is recorded, which is a failure or only the reason why the operation was cancelled. Returns false, and nothing has changed, if the
    /// operation has finished.
    mutating func fail(isFailure: Bool) -> Bool {
        if has(State.finished) { return false }
        if isFailure { set(State.failed) }
        return true
    }

    /// `start` has returned. Returns true if the operation continues and code unknown to the engine may finish it.
    @inline(__always)
    mutating func startReturned() -> Bool {
        if has(State.finishing | State.finished) { return false }
        set(State.outlivesStart)
        return true
    }

    /// A manually called `start` has returned. Returns true if the operation continues and this was not recorded yet.
    mutating func manualStartReturned() -> Bool {
        if has(State.claimed | State.finishing | State.finished | State.outlivesStart) { return false }
        set(State.outlivesStart)
        return true
    }

    /// Whether the operation was started manually and is being deallocated without having finished.
    var isAbandoned: Bool { bits & (State.outlivesStart | State.finished) == State.outlivesStart }

    @inline(__always)
    mutating func publishFinish() -> Operation.State {
        clear(State.executing)
        return set(State.finishing | State.finished)
    }
}
