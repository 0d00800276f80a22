import OpPlatform
import Synchronization

/// An operation that consists of others, its members: one operation to the outside, a queue inside.
///
/// The members start when the group starts, and the group finishes when all of them have finished, with any outcome. Members may be added
/// until then, also by other members. The group waits without a thread.
///
/// - **Outcome.** The group fails if a member fails. Its `error` is then `OperationError.memberFailed` with the first failure. The other
///   members go on. A member that is cancelled does not change the outcome.
/// - **Cancelling** the group cancels the members, including barriers and those that are added later.
/// - **Order.** The dependencies of the group hold all members back. Members may depend on each other and on operations outside, and operations
///   outside may depend on members.
/// - **Priority.** While an engine has ready members of several groups, those of a group with a higher `queuePriority` are taken first. The
///   `queuePriority` of a member counts among the members. A member without a `qualityOfService` has the group's. A group without a
///   priority or a `qualityOfService` of its own has that of the queue that it is in.
/// - **The queue that the group is in** counts the group as one executing operation. Its maximum and its suspension do not apply to members
///   of a group that has started.
/// - **Requirements.** Conditions, `exclusiveKeys` and `needs` are those of the group as a whole: it takes them when it starts, and returns
///   them when it finishes. A group cannot be tried again, because its members run once; setting its `retryPolicy` traps.
///
/// A subclass may override `main`. It runs when the group starts, before the group can finish, and may add members. The group keeps its
/// members until it is deallocated.
///
/// Every method is safe to call from any thread.
open class GroupOperation: Operation, @unchecked Sendable {
    // Safety: `@unchecked Sendable` because `inner` is a constant, and its lock guards the variables.

    fileprivate let inner: MemberQueue
    /// The time that the group may execute. Accesses need no exclusivity checks, because of the lock.
    @safe @exclusivity(unchecked) private var limit: Limit?

    /// Whether a limit was ever set. Atomic, so that groups without one do not take the lock for it.
    private let mayBeLimited = Atomic<Bool>(false)

    private struct Limit {
        let duration: Duration
        /// Identifies the timer that runs, from 1; 0 if none was set.
        var run = 0
        var timer: Timers.Number?
    }

    @safe @exclusivity(unchecked) private var lastRun = 0

    /// Creates a group.
    ///
    /// - Parameters:
    ///   - operations: the first members. Traps if one of them was already added to a queue or a group, is executing, or has finished.
    ///   - name: the group's name in messages.
    ///   - maxConcurrentOperationCount: the maximum number of members that execute at once. -1 lets the engine decide.
    ///   - engine: the engine that runs the members. The group can be added only to queues of this engine.
    public init(
        operations: [Operation], name: String? = nil,
        maxConcurrentOperationCount: Int = OperationQueue.defaultMaxConcurrentOperationCount, engine: Engine = .shared
    ) {
        inner = MemberQueue(engine: engine)
        super.init()
        inner.belongs(to: self)
        if let name { self.name = name }
        if maxConcurrentOperationCount != -1 { inner.maxConcurrentOperationCount = maxConcurrentOperationCount }
        if !operations.isEmpty { inner.addOperations(operations, waitUntilFinished: false) }
    }

    /// Creates a group without members. Members that are added later run on `Engine.shared`.
    public override convenience init() { self.init(operations: []) }

    /// Creates a group whose members run on `Engine.shared`.
    public convenience init(operations first: Operation, _ others: Operation...) { self.init(operations: [first] + others) }

    deinit { inner.groupIsGone() }

    // MARK: Members

    /// The members in the order in which they were added, including those that have finished. O(n).
    open var operations: [Operation] { inner.members }

    /// Adds a member. Traps if the operation was already added to a queue or a group, is executing or has finished, if it is this group or
    /// contains it, or if this group has finished.
    ///
    /// The body of a member may call this. A completion block may be too late: it runs after its operation has finished, when the group may
    /// have finished, too.
    open func addOperation(_ operation: Operation) { inner.addOperation(operation) }

    /// Adds a block as a member. An error that the block throws becomes the member's `error`.
    open func addOperation(_ block: @escaping @Sendable () throws -> Void) { inner.addOperation(block) }

    /// Adds members in order, either all of them or none. Traps under the same conditions as `addOperation`.
    open func addOperations(_ operations: [Operation]) { inner.addOperations(operations, waitUntilFinished: false) }

    /// The maximum number of members that execute at once. -1 lets the engine decide; 0 runs nothing. Traps on other negative numbers.
    open var maxConcurrentOperationCount: Int {
        get { inner.maxConcurrentOperationCount }
        set { inner.maxConcurrentOperationCount = newValue }
    }

    /// Whether the group starts no members. Executing members continue. The group itself starts, and waits for the members that have not finished.
    open var isSuspended: Bool {
        get { inner.isSuspended }
        set { inner.isSuspended = newValue }
    }

    /// The progress of the members. In the progress of the queue that it is in, the group counts as one operation and contributes the fraction of
    /// its members that have finished.
    open var progress: OperationQueueProgress { inner.progress }

    // MARK: The operation

    /// Starts the members. See `Operation.start`.
    open override func start() {
        startLimit()
        startAsDocumented(endsWithMain: false, members: inner)
        // A limit may have been set meanwhile. See `timeout`.
        atomicMemoryFence(ordering: .sequentiallyConsistent)
        if isExecuting { startLimit() }
    }

    /// Runs when the group starts, beside the first members. The group does not finish before `main` returns. The default implementation
    /// does nothing.
    open override func main() {}

    /// Cancels the group and its members.
    open override func cancel() {
        super.cancel()
        inner.cancelMembers()
    }

    /// Always true.
    open override var isAsynchronous: Bool { true }

    @_spi(Subclassing) public final override var memberQueue: MemberQueue? { inner }

    @_spi(Subclassing) public final override var endsFromWithin: Bool { true }

    @_spi(Subclassing) public final override func cancelWithoutMembers() -> MemberQueue? {
        if OverriddenMethods.hasOwnCancel(self) { return nil }
        super.cancel()
        return inner
    }

    @_spi(Subclassing) public final override func membersHaveFinished(firstFailure member: Operation?) {
        stopLimit()
        guard let member, let error = member.error else { return }
        // If the member is a group, its error names a member of that group, and is passed on unchanged. So errors do not nest as deeply as
        // groups.
        if case OperationError.memberFailed = error { return fail(with: error) }
        fail(with: OperationError.memberFailed(group: label, member: member.label, error: error))
    }

    // MARK: Time

    /// The time that the group may execute; nil, the default, for any time. After that time, the group and its members are cancelled, and
    /// the group fails with `OperationError.timedOut`.
    ///
    /// A time that is set during the execution begins at that moment.
    public final var timeout: Duration? {
        get { inner.core.state.withLock { _ in limit?.duration } }
        set {
            stopLimit()
            inner.core.state.withLock { _ in limit = newValue.map { Limit(duration: $0) } }
            if newValue != nil { mayBeLimited.store(true, ordering: .relaxed) }
            // Pairs with the fence in `start`: either this thread sees that the group executes, or the thread that starts it sees the limit.
            atomicMemoryFence(ordering: .sequentiallyConsistent)
            if isExecuting { startLimit() }
        }
    }

    /// Sets the timer, unless it is set. The timer may fire before its number is known.
    private func startLimit() {
        guard mayBeLimited.load(ordering: .relaxed) else { return }
        let started = inner.core.state.withLock { _ -> (duration: Duration, run: Int)? in
            guard let duration = limit?.duration, limit?.run == 0 else { return nil }
            lastRun += 1
            limit?.run = lastRun
            return (duration, lastRun)
        }
        guard let (duration, run) = started else { return }
        let engine = inner.ownEngine
        let timer = engine.setTimer(at: engine.now + duration) { [weak self] in self?.timeHasRunOut(run) }
        let isNeeded = inner.core.state.withLock { _ in
            guard limit?.run == run else { return false }
            limit?.timer = timer
            return true
        }
        if !isNeeded || inner.isClosed { stopLimit(orElse: timer) }
    }

    private func stopLimit(orElse timer: Timers.Number? = nil) {
        guard mayBeLimited.load(ordering: .relaxed) else { return }
        let stopped = inner.core.state.withLock { _ -> Timers.Number? in
            limit?.run = 0
            return limit?.timer.take()
        }
        for timer in [stopped, timer] { if let timer { inner.ownEngine.cancelTimer(timer) } }
    }

    private func timeHasRunOut(_ run: Int) {
        let duration = inner.core.state.withLock { _ -> Duration? in
            guard limit?.run == run else { return nil }
            // This number keeps `startLimit` from setting another timer.
            limit?.run = .max
            limit?.timer = nil
            return limit?.duration
        }
        guard let duration else { return }
        fail(with: OperationError.timedOut(operation: label, limit: duration))
        cancel()
    }
}

extension BeyondFoundation where Self: GroupOperation {
    /// Like `addOperation`, but throws `OperationError.addedToFinishedGroup`, `.groupContainsItself`, `.groupOfAnotherEngine` and the errors
    /// of `OperationQueue.tryAddOperation` instead of trapping.
    public func tryAddOperation(_ operation: Operation) throws { try inner.tryAddOperation(operation) }

    /// Like `addOperations`, but throws instead of trapping, and adds nothing then.
    public func tryAddOperations(_ operations: [Operation]) throws {
        try inner.tryAddOperations(operations, waitUntilFinished: false)
    }

    /// Sets `maxConcurrentOperationCount`, but throws `OperationError.negativeMaximum` instead of trapping.
    public func trySetMaxConcurrentOperationCount(_ value: Int) throws { try inner.trySetMaxConcurrentOperationCount(value) }
}
