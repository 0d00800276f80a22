import OpPlatform
import Synchronization

extension BeyondFoundation where Self: OperationQueue {
    /// The maximum number of operations that may wait in this queue to be started. At least 1; nil, the default, for no limit. A change
    /// takes effect immediately.
    ///
    /// While that many added operations have not started, `addOperation` and similar methods block, so that a fast producer does not
    /// exhaust memory. A batch waits until there is room for one operation and is then added as a whole. An operation stops counting when
    /// it starts or finishes; a cancelled operation in a suspended queue still counts.
    ///
    /// While a worker is blocked like this, another thread takes over its share of the work. The thread of the engine's main queue runs
    /// that queue's operations meanwhile. If nothing can make room any more, the throwing methods throw `OperationError.queueStaysFull` and
    /// the others trap, unless the host may still add operations (see `Engine.init(workerCount:hostMayAddOperations:)`). An operation
    /// should not add to the queue that runs it if that queue has a limit: it may keep the pending operations from starting while it waits.
    ///
    /// Traps if set to a number below 1.
    @_disfavoredOverload
    public var maxPendingOperationCount: Int? {
        get { core.state.withLock { $0.maximumPending == .max ? nil : $0.maximumPending } }
        set {
            do { try trySetMaxPendingOperationCount(newValue) } catch { trap(error) }
        }
    }

    /// Sets `maxPendingOperationCount`, but throws `OperationError.pendingLimitTooSmall` instead of trapping.
    public func trySetMaxPendingOperationCount(_ value: Int?) throws {
        if let value, value < 1 { throw OperationError.pendingLimitTooSmall(queue: label, value: value) }
        core.change(queue: self) {
            core.set(.limited, value != nil)
            $0.maximumPending = value ?? .max
        }
    }
}

extension OperationQueue {
    /// Whether there is a `maxPendingOperationCount`. Costs one atomic load.
    package var hasPendingLimit: Bool { core.has(.limited) }

    /// Adds operations, or a barrier, if the queue has room for one. Returns false, and changes nothing, if it is full. Otherwise like
    /// `tryAddOperations`.
    package func tryAddIfRoom(_ operations: [Operation], isBarrier: Bool) throws -> Bool {
        try whileClaiming(operations) {
            let addition = core.add(operations, areBarriers: isBarrier, queue: self)
            if addition == .closed { throw core.groupHasFinished(adding: operations[0]) }
            return addition == .added
        }
    }

    /// Whether there is room for another operation. If there is none, the queue wakes `inbox` when there may be. `stopWaking` ends that.
    package func hasRoom(waking inbox: Inbox) -> Bool {
        core.state.withLock { state in
            if state.hasCapacity { return true }
            if !state.capacityWaiters.contains(where: { $0 === inbox.parker }) { state.capacityWaiters.append(inbox.parker) }
            return false
        }
    }

    /// Ends what `hasRoom(waking:)` has begun.
    package func stopWaking(_ inbox: Inbox) { _ = core.state.withLock { $0.capacityWaiters.removeFirst { $0 === inbox.parker } } }

    /// The error that the engine throws if a full queue stays full.
    package func staysFull(for operation: Operation) -> OperationError {
        .queueStaysFull(operation: operation.label, queue: label, limit: maxPendingOperationCount ?? 0)
    }
}

extension OperationQueue.State {
    /// Whether another operation may be added.
    @inline(__always)
    var hasCapacity: Bool { count - executing < maximumPending || isEnding }

    /// Removes and returns the threads that wait for capacity if there is some now. Unpark them outside the lock.
    @inline(__always)
    mutating func takeCapacityWaiters() -> [Parker]? {
        if capacityWaiters.isEmpty || !hasCapacity { return nil }
        defer { capacityWaiters = [] }
        return capacityWaiters
    }
}

extension OperationQueue.Core {
    /// The error for an operation that is added too late.
    func groupHasFinished(adding operation: Operation) -> OperationError {
        .addedToFinishedGroup(operation: operation.label, group: state.withLock { $0.name } ?? "the group")
    }

    /// Adds a batch, which the caller has claimed, as soon as there is room for one of its operations. `first` is the answer that the caller got.
    @inline(never)
    func waitForRoom(
        after first: Addition, for operations: [Operation], areBarriers: Bool, queue: OperationQueue
    ) throws(OperationError) {
        // Safety: the caller retains the queue.
        let engine: Engine = unsafe self.engine
        let context = ThreadContext.current
        let parker = context.parker(on: engine)
        var addition = first
        let outcome = context.wait(
            on: engine, deadline: nil,
            isDone: {
                if addition != .full || engine.hasEnded { return true }
                // Register before trying to add, so that capacity which is freed in between is not missed.
                state.withLock { state in
                    if !state.capacityWaiters.contains(where: { $0 === parker }) { state.capacityWaiters.append(parker) }
                }
                addition = add(operations, areBarriers: areBarriers, queue: queue)
                return addition != .full
            }, register: { _ in })
        _ = state.withLock { $0.capacityWaiters.removeFirst { $0 === parker } }
        if addition == .added { return }
        if addition == .closed { throw groupHasFinished(adding: operations[0]) }
        if outcome == .satisfied { throw .engineShutDown(operation: operations[0].label) }
        throw queue.staysFull(for: operations[0])
    }
}
