import CPlatform
import OpPlatform
import Synchronization

/// The queue inside a group. The members of the group are the operations that were ever added to it.
///
/// The queue holds its operations back until the group starts. While the group executes, the two retain each other. When the last operation
/// leaves, the queue is closed under the same lock, and the group ends. So an addition either precedes that moment, and the group waits for
/// it, or follows it, and is refused.
@_spi(Subclassing) @safe public final class MemberQueue: OperationQueue, @unchecked Sendable {
    // Safety: `@unchecked Sendable` because each stored property states what guards it.

    private enum Phase {
        /// The group has not started.
        case held
        /// The group runs its `main`, which may add members.
        case opening
        case open
        /// The group is about to finish, or has finished.
        case closed
    }

    /// The group's address, for records. Written once, before other threads know the queue.
    private(set) var groupAddress: UInt64 = 0
    private let reference = BackReference<Operation>()

    // The lock of the queue guards all of these, so accesses need no exclusivity checks.

    @safe @exclusivity(unchecked) private var phase = Phase.held
    /// Whether the group was cancelled, so that members which are added later are cancelled, too.
    @safe @exclusivity(unchecked) private(set) var isGroupCancelled = false
    @safe @exclusivity(unchecked) private var all: [Operation] = []
    @safe @exclusivity(unchecked) private var firstFailure: Operation?
    /// The group while it executes.
    @safe @exclusivity(unchecked) private var executing: Operation?
    /// The core of the queue that the group is in while it executes.
    @safe @exclusivity(unchecked) private var outer: Core?

    /// Creates the queue of a group that runs its members on `engine`. `belongs(to:)` must follow.
    public override init(engine: Engine) { super.init(engine: engine) }

    deinit {
        var members: [Operation] = []
        let hasUnfinished = core.state.withLock { state in
            state.memberQueue = nil
            swap(&members, &all)
            return state.count > 0
        }
        if hasUnfinished {
            // The members end while `members` retains all of them: otherwise the end of a member that is a group would release that group's members.
            core.reference.forget(self)
            core.abandon()
        }
        ThreadContext.release(membersOfGroup: &members)
    }

    /// Makes this the queue of `group`, which no other thread may know yet.
    public func belongs(to group: Operation) {
        // Safety: the address is only a number.
        groupAddress = unsafe UInt64(UInt(bitPattern: Unmanaged.passUnretained(group).toOpaque()))
        reference.refer(to: group)
        core.state.withLock { state in
            state.memberQueue = self
            core.set(.ofGroup)
            state.isHeld = true
        }
    }

    /// Must be called when the group is being deallocated.
    public func groupIsGone() { reference.refer(to: nil) }

    /// The group. Nil once it is being deallocated.
    package var group: Operation? { reference.object }

    override var label: String { givenName.map { "group \($0.shown)" } ?? "an unnamed group" }

    override var asMemberQueue: MemberQueue? { self }

    override var cancelsAdditions: Bool { super.cancelsAdditions || core.state.withLock { _ in isGroupCancelled } }

    // MARK: Members

    /// All members in the order in which they were added, including those that have finished. O(n).
    public var members: [Operation] { core.state.withLock { _ in all } }

    /// Whether the group is about to finish, or has finished.
    package var isClosed: Bool { core.state.withLock { _ in phase == .closed } }

    /// Whether the group has not started. The caller holds the queue's lock.
    var isHeld: Bool { phase == .held }

    /// Whether an operation may be added. The caller holds the queue's lock.
    var takesMore: Bool { phase != .closed }

    /// Appends a member. The caller holds the queue's lock.
    @inline(__always)
    func append(_ operation: Operation) {
        // An array that grows from 1 to 10 elements is allocated four times.
        if all.capacity == 0 { all.reserveCapacity(MemberQueue.usualCapacity) }
        all.append(operation)
    }

    private static let usualCapacity = 14

    /// Records a member that has failed, if it is the first one. The caller holds the queue's lock.
    func recordFailure(of operation: Operation) { if firstFailure == nil { firstFailure = operation } }

    /// The reason why a group of this queue cannot be added to `queue`; nil if it can.
    func objection(toJoining queue: OperationQueue) -> OperationError? {
        if queue.ownEngine !== ownEngine { return .groupOfAnotherEngine(group: group?.label ?? label, queue: queue.label) }
        let mayBeAround = core.state.withLock { _ in !all.isEmpty }
        var next = queue.asMemberQueue
        while let members = next {
            if members === self { return .groupContainsItself(group: group?.label ?? label) }
            next = mayBeAround ? members.group?.queue?.asMemberQueue : nil
        }
        return nil
    }

    // MARK: Starting

    /// Lets the members start, because the group does.
    func open(for group: Operation) {
        let settings = self.settings(of: group)
        core.level.store(settings.level, ordering: .relaxed)
        // Like `change`, but no thread waits for these changes, and no observer is told.
        let woken = core.state.withLock { state in
            phase = .opening
            executing = group
            outer = settings.outer
            state.isHeld = false
            state.qualities.own = settings.quality
            if core.recordNumber != nil { core.recordSettings(state) }
            if state.needsQueue { state.retainedQueue = self }
            return state.schedule()
        }
        core.wake(woken)
        if let outer = settings.outer, outer.has(.observed) { _ = openObservation() }
    }

    /// Lets the group end when it has no unfinished member, because its `main` has returned. Ends it now if it has none.
    func mainHasReturned() {
        let isEmpty = core.state.withLock { state in
            phase = .open
            return state.count == 0 && closeIfOpen()
        }
        if isEmpty { endGroup() }
    }

    /// The priority with which the queue is scheduled, and its quality of service: the group's own, or else those of the queue that the group
    /// is in.
    private func settings(of group: Operation) -> (level: UInt8, quality: QualityRank, outer: Core?) {
        var level = group.loadState().level, quality = QualityRank(ofRequest: group.requestedQuality.load(ordering: .relaxed))
        let outer = group.withQueueCore { $0 }
        if let outer {
            let (observation, progress, outerQuality) = outer.state.withLock { state in
                if state.observation == nil { state.hasGroups = true }
                return (state.hasGroups ? nil : state.observation, state.progress, state.executorQuality ?? state.qualities.own)
            }
            if let observation {
                observation.expectGroups(at: progress.fraction)
                outer.state.withLock { $0.hasGroups = true }
            }
            if level == Operation.QueuePriority.normal.level { level = outer.level.load(ordering: .relaxed) }
            if quality == .unspecified { quality = outerQuality }
        }
        return (level, quality, outer)
    }

    /// Applies a changed priority or quality of service of the group. O(unfinished members), including those of the executing groups inside.
    func settingsHaveChanged() {
        var pending = [self]
        while let members = pending.popLast() {
            guard let group = members.core.state.withLock({ _ in members.executing }) else { continue }
            let settings = members.settings(of: group)
            members.core.level.store(settings.level, ordering: .relaxed)
            members.core.change(queue: members) { $0.qualities.own = settings.quality }
            pending += members.core.members().compactMap { $0.isExecuting ? $0.memberQueue : nil }
        }
    }

    // MARK: Ending

    /// Closes the queue, which has become empty, if its group executes. The caller holds the queue's lock. If this returns true, the caller
    /// must call `endGroup` after it has released the lock.
    func closeIfOpen() -> Bool {
        guard phase == .open else { return false }
        phase = .closed
        return true
    }

    /// Closes the queue of a group that will not start, and returns the unfinished members. The caller must finish these, and call `endGroup`.
    func closeUnstarted(_ group: Operation) -> [Operation] {
        core.state.withLock { state in
            (phase, executing) = (.closed, group)
            return state.members
        }
    }

    /// Ends the group after the queue was closed. Then ends the groups around it whose last member has finished. Not recursive, because groups may
    /// be nested deeply. The caller holds no lock.
    func endGroup() {
        var next: MemberQueue? = self
        while let members = next {
            let (group, outer, failure) = members.core.state.withLock { _ in
                (members.executing.take(), members.outer.take(), members.firstFailure)
            }
            // Released here, outside of the lock.
            withExtendedLifetime(outer) {}
            guard let group else { return }
            group.membersHaveFinished(firstFailure: failure)
            next = group.endOnce(takesNext: false).closed
        }
    }

    /// Cancels the members, and those that are added later. Not recursive, because groups may be nested deeply.
    public func cancelMembers() {
        var pending = [self]
        while let members = pending.popLast() { pending += members.cancelDirectMembers() }
    }

    /// Cancels the members, and those that are added later. Returns the queues of members that are groups. The caller cancels the members
    /// of these.
    @discardableResult
    func cancelDirectMembers() -> [MemberQueue] {
        core.state.withLock { _ in isGroupCancelled = true }
        var inside: [MemberQueue] = []
        core.members().cancelAll { member in
            if let inner = member.cancelWithoutMembers() { inside.append(inner) } else { member.cancel() }
        }
        return inside
    }

    /// Passes on a change of the members' progress to the queues around this one. The caller holds no lock.
    func tellProgress() {
        var next = core.state.withLock { _ in outer }
        while let core = next, core.has(.observed) {
            core.recordFractionOfGroups()
            next = core.queue?.asMemberQueue.flatMap { queue in core.state.withLock { _ in queue.outer } }
        }
    }
}

extension ThreadContext {
    /// Releases the members of a group that is being deallocated. If a member is the last reference to another group, the members of that
    /// group are released afterwards, because groups may be nested deeply.
    static func release(membersOfGroup members: inout [Operation]) {
        if members.isEmpty { return }
        withCurrent { context in
            if context.isReleasingMembers { return context.releasedMembers.append(exchange(&members, with: [])) }
            context.isReleasingMembers = true
            members.removeAll()
            while var next = context.releasedMembers.popLast() { next.removeAll() }
            context.isReleasingMembers = false
        }
    }
}
