extension Operation {
    /// Everything that decides what may happen to an operation, in one word that is changed atomically.
    ///
    /// The transitions are pure: each returns a named action, and whoever made the transition performs it.
    struct State: Sendable {
        var bits: UInt64

        init(bits: UInt64 = 0) { self.bits = bits }

        // The low half counts unfinished dependencies; the flags are above it.
        private static let dependencyMask: UInt64 = 0xFFFF_FFFF

        /// `cancel()` was called.
        static let cancelled: UInt64 = 1 << 32
        /// A queue owns it: nobody else may start it or add it.
        static let claimed: UInt64 = 1 << 33
        /// It is on a list of its queue, as everyone sees who takes that one's lock: becoming ready means being posted there.
        static let linked: UInt64 = 1 << 34
        /// It was handed to its queue's ready list; happens once, except for a deferred operation.
        static let posted: UInt64 = 1 << 35
        /// Somebody won the right to call `start`.
        static let started: UInt64 = 1 << 36
        static let executing: UInt64 = 1 << 37
        /// Somebody won the right to finish it.
        static let finishing: UInt64 = 1 << 38
        static let finished: UInt64 = 1 << 39
        /// An error was recorded that counts as a failure.
        static let failed: UInt64 = 1 << 40
        /// A dependency did not succeed.
        static let dependencyFailed: UInt64 = 1 << 41
        /// Its policy is `.succeeded`.
        static let requiresSuccess: UInt64 = 1 << 42
        /// Its policy was set, so that the queue's default does not apply.
        static let hasOwnPolicy: UInt64 = 1 << 43
        /// Something depends on it, or did.
        static let hasDependents: UInt64 = 1 << 44
        /// Somebody wants to know when it has finished: a completion block, a handler or a waiting thread.
        static let hasFinishHandlers: UInt64 = 1 << 45
        /// A subclass's `isReady` said no when a worker took it.
        static let deferred: UInt64 = 1 << 46
        /// `start` returned before it had finished.
        static let outlivesStart: UInt64 = 1 << 47
        /// It goes on after `start`, and only what the engine runs can finish it.
        static let endedFromWithin: UInt64 = 1 << 48
        /// It is a barrier of its queue: `cancelAllOperations` passes over it.
        static let barrier: UInt64 = 1 << 49
        /// Three bits are `level`.
        private static let levelShift: UInt64 = 50
        /// `willFinish` and `didFinish` are to be called.
        static let tellsSubclass: UInt64 = 1 << 53
        /// Starting it, calling `main` and ending it is all that its `start` does. Never changes.
        static let endsWithMain: UInt64 = 1 << 54
        /// Somebody observes it: changes go through its mailbox.
        static let observed: UInt64 = 1 << 55
        /// To let it go runs no code of anybody, but for what its dependencies and extras are.
        static let isInert: UInt64 = 1 << 56
        /// `main` of a subclass has returned, which may say by its `isFinished` that it goes on.
        static let isAskedAfterMain: UInt64 = 1 << 57
        /// It has said so; what the base class has to do is done.
        static let goesOnAfterMain: UInt64 = 1 << 58
        /// It is of a class that leaves starting and ending to `Operation`. Goes with `endsWithMain`.
        static let isOfPlainClass: UInt64 = 1 << 59
        /// A block operation has more than one block.
        static let hasOtherBlocks: UInt64 = 1 << 60
        /// Its end has to be told to somebody.
        static let toldAtEnd = hasFinishHandlers | tellsSubclass | observed

        @inline(__always) func has(_ flag: UInt64) -> Bool { bits & flag != 0 }
        @inline(__always) mutating func set(_ flags: UInt64) { bits |= flags }
        @inline(__always) mutating func clear(_ flags: UInt64) { bits &= ~flags }

        @inline(__always) var unfinishedDependencyCount: Int { Int(bits & State.dependencyMask) }

        /// See `QueuePriority.level`. In the word it differs by that of the default, so that nothing is set for that.
        @inline(__always) var level: UInt8 {
            get { UInt8(truncatingIfNeeded: bits >> State.levelShift) & 7 ^ QueuePriority.normal.level }
            set { bits = bits & ~(7 << State.levelShift) | UInt64(newValue ^ QueuePriority.normal.level) << State.levelShift }
        }

        @inline(__always) var priority: QueuePriority {
            get { QueuePriority(level: level) }
            set { level = newValue.level }
        }

        @inline(__always) var isReady: Bool {
            bits & State.dependencyMask == 0 || bits & (State.cancelled | State.started | State.executing | State.finished) != 0
        }

        /// Must be cancelled because of its policy and is not yet: whoever made this true cancels it, and until then it does not start.
        @inline(__always) var mustCancel: Bool {
            bits & (State.dependencyFailed | State.requiresSuccess) == State.dependencyFailed | State.requiresSuccess
                && bits & (State.cancelled | State.started | State.executing | State.finishing | State.finished) == 0
        }

        /// How it ended, or would end now.
        var outcome: Outcome {
            has(State.failed) ? .failed : has(State.cancelled) ? .cancelled : .succeeded
        }
    }
}

// MARK: - Transitions

extension Operation.State {
    private typealias State = Operation.State

    /// Marks it posted when it is linked, ready, and was not posted before. A deferred one is posted again.
    @inline(__always)
    private mutating func post() -> Bool {
        guard bits & (State.linked | State.finishing | State.finished) == State.linked, isReady, !mustCancel else { return false }
        if has(State.posted) { return undefer() }
        set(State.posted)
        return true
    }

    /// Why an operation cannot be added to a queue or started.
    enum Refusal {
        case inQueue, executing, finished
    }

    /// A queue takes possession.
    ///
    /// - Parameter isOfPlainClass: see `OperationClass`.
    @inline(__always)
    mutating func claim(isOfPlainClass: Bool) -> Refusal? {
        if has(State.finished | State.finishing) { return .finished }
        if has(State.claimed) { return .inQueue }
        if has(State.started | State.executing) { return .executing }
        set(State.claimed | (isOfPlainClass ? State.isOfPlainClass | State.endsWithMain : 0))
        return nil
    }

    /// The batch it was claimed for was refused.
    mutating func unclaim() { clear(State.claimed | State.barrier) }

    /// It comes to its queue's list, whose lock is held, and the queue's default policy applies.
    @inline(__always)
    mutating func link(requiringSuccessByDefault: Bool) -> ReadinessAction {
        set(State.linked)
        if requiringSuccessByDefault && !has(State.hasOwnPolicy) { set(State.requiresSuccess) }
        if has(State.finishing | State.finished) { return .remove }
        if mustCancel { return .cancel }
        return post() ? .post : .none
    }

    /// Of one that nobody has seen, and that is on its queue's lists and ready: `claim` and `link`.
    @inline(__always)
    init(addedAtOnceWith priority: Operation.QueuePriority, requiringSuccess: Bool) {
        bits = State.claimed | State.linked | State.posted | (requiringSuccess ? State.requiresSuccess : 0)
        self.priority = priority
    }

    /// `claim` and `link` in one, of an operation that nobody observes. True: hand it to its queue. Nil: it has to be claimed first,
    /// which may be refused; nothing has changed.
    @inline(__always)
    mutating func join(requiringSuccessByDefault: Bool, isOfPlainClass: Bool) -> Bool? {
        let others = State.claimed | State.started | State.executing | State.finishing | State.finished | State.observed
        if has(others) { return nil }
        var joined = self
        joined.set(State.claimed | (isOfPlainClass ? State.isOfPlainClass | State.endsWithMain : 0))
        switch joined.link(requiringSuccessByDefault: requiringSuccessByDefault) {
        case .cancel, .remove: return nil
        case .none:
            self = joined
            return false
        case .post:
            self = joined
            return true
        }
    }

    enum ReadinessAction {
        case none
        /// Hand it to its queue.
        case post
        /// Its policy asks for cancelling it; it is in a queue, which keeps it alive.
        case cancel
        /// It has ended: its queue lets it go.
        case remove
    }

    /// A dependency it counted has finished.
    @inline(__always)
    mutating func dependencyFinished(succeeded: Bool) -> ReadinessAction {
        bits -= 1
        if !succeeded {
            set(State.dependencyFailed)
            if has(State.linked) && mustCancel { return .cancel }
        }
        return post() ? .post : .none
    }

    /// A dependency it counted was removed. True: hand it to its queue.
    mutating func dependencyRemoved() -> Bool {
        bits -= 1
        return post()
    }

    enum AddedDependency {
        /// It has begun or ended: no effect.
        case ignored
        case counted
        /// It was on its queue's ready list, or about to be: the queue has to take it back.
        case recall
    }

    /// An unfinished dependency was added.
    mutating func dependencyAdded() -> AddedDependency {
        bits += 1
        if has(State.started | State.executing | State.finishing | State.finished) { return .ignored }
        return has(State.posted) && !has(State.deferred) ? .recall : .counted
    }

    /// Its queue took it back from the ready list. True: it became ready meanwhile and must stay there.
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
        /// A dependency was added since it was taken, or one has failed.
        case notReady
        /// It has been finished since it was taken.
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

    /// `launch` and `start` in one, for an operation without an override of `start` that nobody observes. False: nothing has changed.
    @inline(__always)
    mutating func launchUnobserved() -> Bool {
        let others = State.cancelled | State.started | State.executing | State.finishing | State.finished | State.observed
        guard bits & (others | State.dependencyMask) == 0, !mustCancel else { return false }
        set(State.started | State.executing)
        return true
    }

    /// A subclass is not ready: it waits until the subclass announces a change.
    mutating func `defer`() { set(State.deferred) }

    /// The subclass announced a change of `isReady`. True: hand it to its queue again.
    mutating func undefer() -> Bool {
        guard has(State.deferred), isReady, !mustCancel, !has(State.finishing | State.finished) else { return false }
        clear(State.deferred)
        return true
    }

    enum StartAction {
        case run
        case finishCancelled
        case refuse(Operation.State.Refusal)
        /// Finished while it was being started: nothing to do.
        case ignore
    }

    /// The base class's `start`. `launched`: a worker claimed it by `launch` and calls `start` now.
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
        /// Ours, in no queue.
        case alone
        /// Ours, and it has to leave its queue.
        case inQueue
    }

    /// The first who wants to finish it wins.
    @inline(__always)
    mutating func claimFinish() -> FinishClaim {
        if has(State.finishing | State.finished) { return .lost }
        set(State.finishing)
        return has(State.linked) ? .inQueue : .alone
    }

    /// `claimFinish` of one that nobody else ends.
    @inline(__always)
    mutating func beginEnd() { set(State.finishing) }

    /// `start` has returned. True: the operation goes on, and somebody whom the engine does not know may end it.
    @inline(__always)
    mutating func startReturned() -> Bool {
        if has(State.finishing | State.finished | State.endedFromWithin) { return false }
        set(State.outlivesStart)
        return true
    }

    /// `start`, called by hand, has returned. True: the operation goes on, and that was not known.
    mutating func goesOnAlone() -> Bool {
        if has(State.claimed | State.finishing | State.finished | State.outlivesStart | State.endedFromWithin) { return false }
        set(State.outlivesStart)
        return true
    }

    /// It goes without having ended, although it was started by hand.
    var isGivenUp: Bool { bits & (State.outlivesStart | State.finished) == State.outlivesStart }

    @inline(__always)
    mutating func publishFinish() {
        clear(State.executing)
        set(State.finishing | State.finished)
    }
}
