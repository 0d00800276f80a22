/// An error of an operation or a queue: misuse that was refused, or the reason for an end without an error of its own.
///
/// Methods of Foundation that cannot throw trap with the error's description. Their counterparts (`tryStart`, `tryAddOperation` and so on)
/// throw the error. A refused call changes nothing.
public enum OperationError: Error, Sendable, CustomStringConvertible {
    /// `start()` was called on an operation that was not ready. `dependencies` are those that had not finished. Without any of
    /// these, a subclass's own condition was false.
    case startedWhenNotReady(operation: String, dependencies: [String])
    /// `start()` was called on an executing operation.
    case startedWhenExecuting(operation: String)
    /// `start()` was called on a finished operation.
    case startedWhenFinished(operation: String)
    /// `start()` was called on an operation in a queue, which starts its operations itself.
    case startedWhenInQueue(operation: String)
    /// The operation was added to a queue while in one.
    case addedWhenInQueue(operation: String)
    /// The operation was added to a queue while executing.
    case addedWhenExecuting(operation: String)
    /// The operation was added to a queue after it had finished.
    case addedWhenFinished(operation: String)
    /// A completion block was set after the operation had finished.
    case completionBlockSetTooLate(operation: String)
    /// An execution block was added while the operation was executing or after it had finished.
    case executionBlockAddedTooLate(operation: String)
    /// The operation was made to depend on itself.
    case dependsOnItself(operation: String)
    /// A dependency would close a cycle. `path` begins and ends with the same operation.
    case dependencyCycle(path: [String])
    /// A maximum was negative and not -1, which lets the engine decide.
    case negativeMaximum(queue: String, value: Int)
    /// An executor was set on a queue that has operations.
    case underlyingQueueSetTooLate(queue: String)
    /// An executor was set on a main queue.
    case underlyingQueueOfMainQueue
    /// An executor that runs jobs on the main thread was set.
    case underlyingQueueIsMain(queue: String)
    /// A thread waits for the operation that it is running.
    case waitsForItself(operation: String)
    /// Nothing can end the wait. `reasons` has a sentence for each operation in the way.
    case neverFinishes(operations: [String], reasons: [String])
    /// A limit of pending operations was below 1.
    case pendingLimitTooSmall(queue: String, value: Int)
    /// The `result` of an operation that has not finished was read.
    case resultNotAvailable(operation: String)
    /// The operation would have to wait for capacity in its queue, and nothing can free any.
    case queueStaysFull(operation: String, queue: String, limit: Int)
    /// The engine was shut down.
    case engineShutDown(operation: String)
    /// The engine has no thread, and the system cannot start one.
    case noThread(operation: String)
    /// An operation with the policy `.succeeded` was cancelled because of a dependency. Recorded as the operation's `error`.
    case dependencyNotSucceeded(operation: String, dependency: String)
    /// The operation was cancelled because a condition did not hold. Recorded as the operation's `error`.
    case conditionFailed(operation: String, condition: String, reason: String)
    /// The operation needs more of a resource than the engine's total.
    case needsMoreThanThereIs(operation: String, resource: String, amount: Int, capacity: Int)
    /// The operation was added to a group that has finished, or whose last member has just finished.
    case addedToFinishedGroup(operation: String, group: String)
    /// The group was added to itself, or to a group inside it.
    case groupContainsItself(group: String)
    /// The group was added to a queue of another engine than the one that it was made for.
    case groupOfAnotherEngine(group: String, queue: String)
    /// A member of a group has failed, with `error`. Recorded as the `error` of the group.
    case memberFailed(group: String, member: String, error: any Error)
    /// The operation executed longer than its `timeout`. Recorded as its `error`.
    case timedOut(operation: String, limit: Duration)
    /// An observer asked for a property whose changes are never told. `observable` lists the properties that can be observed.
    case cannotBeObserved(property: String, object: String, observable: [String])
    /// The result of an `InvocationOperation` was requested, but the operation was cancelled.
    case invocationOperationCancelled(operation: String)
    /// The result of an `InvocationOperation` was requested, but its method returns nothing.
    case invocationOperationVoidResult(operation: String)

    /// A message that names the operation and says what to do instead.
    public var description: String {
        switch self {
        case .startedWhenNotReady(let operation, let dependencies):
            "\(operation) cannot start: "
                + (dependencies.isEmpty ? "its isReady is false" : "it waits for \(list(dependencies))")
                + "; add it to a queue, or start it when it is ready"
        case .startedWhenExecuting(let operation):
            "\(operation) cannot start: it is executing; an operation runs once, make a new one"
        case .startedWhenFinished(let operation):
            "\(operation) cannot start: it has finished; an operation runs once, make a new one"
        case .startedWhenInQueue(let operation):
            "\(operation) cannot be started by hand: it is in a queue, which starts it"
        case .addedWhenInQueue(let operation):
            "\(operation) cannot be added: it is already in a queue; an operation can be added once"
        case .addedWhenExecuting(let operation):
            "\(operation) cannot be added: it is executing; add it instead of starting it"
        case .addedWhenFinished(let operation):
            "\(operation) cannot be added: it has finished; an operation runs once, make a new one"
        case .completionBlockSetTooLate(let operation):
            "the completion block of \(operation) cannot be set: it has finished; set the block before"
        case .executionBlockAddedTooLate(let operation):
            "\(operation) takes no further block: it is executing or finished; add blocks before adding or starting it"
        case .dependsOnItself(let operation):
            "dependency cycle: \(operation) → \(operation); an operation cannot depend on itself"
        case .dependencyCycle(let path):
            "dependency cycle: " + path.joined(separator: " → ")
        case .negativeMaximum(let queue, let value):
            "the maximum of \(queue) cannot be \(value): use -1 (the engine decides), 0 (nothing runs) or a positive number"
        case .underlyingQueueSetTooLate(let queue):
            "the underlying queue of \(queue) cannot be set: it has operations; set it before adding any, or wait until they have finished"
        case .underlyingQueueOfMainQueue:
            "the main queue cannot have an underlying queue: its operations run on the main thread"
        case .underlyingQueueIsMain(let queue):
            "the underlying queue of \(queue) cannot be the main one: use OperationQueue.main"
        case .waitsForItself(let operation):
            "\(operation) waits for itself; wait for it on another thread, or make the rest an operation that depends on it"
        case .neverFinishes(let operations, let reasons):
            "this wait can never end: "
                + (reasons.isEmpty ? "nothing is running that could finish \(list(operations))" : reasons.joined(separator: "; "))
        case .pendingLimitTooSmall(let queue, let value):
            "the limit of waiting operations of \(queue) cannot be \(value): use nil (none) or a positive number"
        case .resultNotAvailable(let operation):
            "\(operation) has not finished and has no result yet; depend on it, or wait for it"
        case .queueStaysFull(let operation, let queue, let limit):
            "\(operation) cannot be added: \(limit) operations wait in \(queue), its limit, and nothing can start one; "
                + "resume the queue, raise its limits, or cancel some"
        case .engineShutDown(let operation):
            "\(operation) cannot be added: the engine was shut down"
        case .noThread(let operation):
            "\(operation) cannot be added: the system cannot start a thread; raise the limit of processes (ulimit -u), or free memory"
        case .dependencyNotSucceeded(let operation, let dependency):
            "\(operation) was cancelled because \(dependency), which it depends on, did not succeed"
        case .conditionFailed(let operation, let condition, let reason):
            "\(operation) was cancelled because its condition \(condition) does not hold: \(reason)"
        case .needsMoreThanThereIs(let operation, let resource, let amount, let capacity):
            "\(operation) cannot be added: it needs \(amount) of the resource '\(resource)', of which there is \(capacity); "
                + "need less, or set the engine's resources before"
        case .addedToFinishedGroup(let operation, let group):
            "\(operation) cannot be added to \(group): the group has finished; "
                + "add it before, or from a member, or make a new group"
        case .groupContainsItself(let group):
            "\(group) cannot be added: a group cannot contain itself"
        case .groupOfAnotherEngine(let group, let queue):
            "\(group) cannot be added to \(queue): they have different engines; make the group with the engine of the queue"
        case .memberFailed(let group, let member, let error):
            "\(member) in \(group) has failed: \(error)"
        case .timedOut(let operation, let limit):
            "\(operation) took longer than \(limit)"
        case .cannotBeObserved(let property, let object, let observable):
            "'\(property)' of \(object) cannot be observed: \(observable.joined(separator: ", ")) can, and what a subclass declares and "
                + "announces, as \\Subclass.property or by a string"
        case .invocationOperationCancelled(let operation):
            "\(operation) has no result: it was cancelled; look at isCancelled before asking"
        case .invocationOperationVoidResult(let operation):
            "\(operation) has no result: its method returns nothing"
        }
    }

    private func list(_ names: [String]) -> String {
        let shown = names.prefix(8).joined(separator: ", ")
        return names.isEmpty ? "it" : names.count > 8 ? "\(shown) and \(names.count - 8) more" : shown
    }
}

/// Ends the process because of a caller's mistake in a method that cannot throw.
@inline(never)
func trap(_ error: any Error) -> Never { fatalError("\(error)") }
