import OpPlatform
import Synchronization

extension BeyondFoundation where Self: Operation {
    /// Keys that no two executing operations of an engine share. Empty by default.
    ///
    /// An operation takes all its keys when it starts, and returns them when it finishes. While one is missing, the operation waits in its
    /// queue without a thread and without a place among the executing ones. Among waiting operations of one queue, the priority decides,
    /// and then the time of waiting. Among several queues, the first one that can start its operation gets the key.
    ///
    /// Has no effect on an operation that has started, or that is started by hand.
    @_disfavoredOverload
    public var exclusiveKeys: Set<String> {
        get { admission.map { admission in Set(lock.withLock { admission.exclusiveKeys.all }) } ?? [] }
        set { setExclusiveKeys(Few(newValue)) }
    }

    /// The amounts of the engine's `resources` that the operation needs while it executes. Empty by default. See `exclusiveKeys`.
    ///
    /// Adding an operation that needs more than the total at that time traps; `tryAddOperation` throws
    /// `OperationError.needsMoreThanThereIs`. Traps if an amount is below 1.
    @_disfavoredOverload
    public var needs: [String: Int] {
        get { admission.flatMap { admission in lock.withLock { admission.further?.needs } } ?? [:] }
        set {
            precondition(newValue.allSatisfy { $0.value >= 1 }, "opscript: what an operation needs must be 1 or more")
            if changeAdmission({ $0.ensureFurther().needs = newValue }) { leaveLine() }
        }
    }

    /// Adds a condition, which is asked once, when the dependencies have finished and a worker would start the operation. If the condition
    /// does not hold, the operation is cancelled, and its `error` is `OperationError.conditionFailed`.
    ///
    /// Conditions are asked in the order in which they were added, until one does not hold. Has no effect on an operation that has started,
    /// or that is started by hand.
    public func addCondition(_ condition: OperationPrecondition) { changeAdmission { $0.ensureFurther().conditions.append(condition) } }

    /// The attempts that the operation has if it fails, and the pauses between them; nil, the default, for a single attempt.
    ///
    /// Each attempt calls `main`, or an override of `start`, once more, after the last call has returned. Between two attempts the operation
    /// waits in its queue and is not executing: it has no thread, no place among those that execute, and none of its keys and resources.
    /// Cancelling ends the wait. The error of the last attempt is the operation's `error`; completion blocks run once, at the end.
    ///
    /// An operation that is started by hand has one attempt. Traps if the policy is set on a group, whose members run once: set it on
    /// these.
    @_disfavoredOverload
    public var retryPolicy: RetryPolicy? {
        get { admission.flatMap { admission in lock.withLock { admission.further?.retryPolicy } } }
        set {
            precondition(newValue == nil || memberQueue == nil, "opscript: a group cannot be tried again: set the policy of its members")
            // Released outside of the lock: the closure `when` may hold the last reference to an object.
            var former: RetryPolicy?
            changeAdmission { former = exchange(&$0.ensureFurther().retryPolicy, with: newValue) }
            withExtendedLifetime(former) {}
        }
    }

    /// The number of the attempt that runs, or of the last one, from 1. Without a `retryPolicy`, 1 when the operation has started, and 0
    /// before.
    @_disfavoredOverload
    public var attempt: Int {
        if let admission { return lock.withLock { admission.attempt } }
        return loadState().has(Operation.State.started | Operation.State.executing) ? 1 : 0
    }

    /// The errors of the latest 100 attempts that have failed and were followed by another one, in order.
    @_disfavoredOverload
    public var attemptErrors: [any Error] { admission.flatMap { admission in lock.withLock { admission.further?.failures } } ?? [] }
}

extension Operation {
    /// Sets `exclusiveKeys` to one key, without making a set.
    package func setExclusiveKey(_ key: String) { setExclusiveKeys(Few(CollectionOfOne(key))) }

    fileprivate func setExclusiveKeys(_ keys: Few<String>) {
        if changeAdmission({ $0.exclusiveKeys = keys }) { leaveLine() }
    }

    /// Declares that another process has made the attempts before this number. Call before the operation is added to a queue.
    package func continueAttempts(at attempt: Int) { changeAdmission { $0.attempt = attempt - 1 } }

    /// The number of conditions that have not been asked.
    package var conditionCount: Int { admission.flatMap { admission in lock.withLock { admission.further?.conditions.count } } ?? 0 }
}

extension Engine {
    /// The total of each resource that operations may need. Empty by default.
    ///
    /// A change takes effect at once. Operations that execute keep what they have taken, even if that exceeds the new total. Operations
    /// that need more than the total wait until it grows. Traps if an amount is negative.
    public var resources: [String: Int] {
        get { admissions.withLock { $0.resources } }
        set {
            precondition(newValue.allSatisfy { $0.value >= 0 }, "opscript: the amount of a resource cannot be negative")
            changeAdmissions { $0.setResources(newValue) }
        }
    }

    /// The error for an operation that needs more of a resource than the total.
    func lack(for operation: Operation) -> OperationError? {
        guard let admission = operation.admission, !admission.needsOnlyKeys.load(ordering: .relaxed) else { return nil }
        for (name, amount) in operation.needs.sorted(by: { $0.key < $1.key }) {
            let capacity = admissions.withLock { $0.capacity(of: name) }
            if amount > capacity {
                return .needsMoreThanThereIs(operation: operation.label, resource: name, amount: amount, capacity: capacity)
            }
        }
        return nil
    }
}

extension BeyondFoundation where Self: OperationQueue {
    /// The most starts in a period; nil, the default, for no limit. A change takes effect at once, and earlier starts do not count any
    /// more.
    ///
    /// An operation waits for the next start without a thread and without a place among those that execute.
    @_disfavoredOverload
    public var rateLimit: RateLimit? {
        get { ownEngine.admissions.withLock { $0.rate(of: ObjectIdentifier(core)) } }
        set {
            let core = core
            // With the lock, so that an operation is either added later, or a member below.
            core.state.withLock { _ in core.set(.rateLimited, newValue != nil) }
            for operation in core.members() { operation.changeAdmission { _ in } }
            ownEngine.changeAdmissions { $0.setRate(newValue, of: ObjectIdentifier(core)) }
        }
    }
}
