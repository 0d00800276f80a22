extension BeyondFoundation where Self: OperationQueue {
    /// How many operations may wait in this queue, at least 1; nil, the default, for any number. A change acts at once.
    ///
    /// While that many have been added and not started, `addOperation` and the methods like it wait, so that a fast producer does not
    /// fill the memory. A batch waits for one queuePosition and then joins as a whole. A queuePosition becomes free when an operation starts, or has
    /// finished; a cancelled one in a suspended queue keeps it. On a worker another thread takes the queuePosition of the one that waits; on
    /// the thread of the engine's main queue that queue goes on meanwhile. Where nothing can make a queuePosition any more, the throwing
    /// forms throw `OperationError.queueStaysFull` and the others trap; a host that may still add operations (see
    /// `Engine.init(workerCount:hostMayAddOperations:)`) is waited for. An operation should not add to the queue that runs it
    /// when that queue has a limit: it may occupy the queuePosition that it waits for.
    ///
    /// Traps on a number below 1.
    public var maxPendingOperationCount: Int? {
        get { core.state.withLock { $0.maximumPending == .max ? nil : $0.maximumPending } }
        set {
            do { try trySetMaxPendingOperationCount(newValue) } catch { trap(error) }
        }
    }

    /// `maxPendingOperationCount = value`, but throws `OperationError.pendingLimitTooSmall`.
    public func trySetMaxPendingOperationCount(_ value: Int?) throws {
        if let value, value < 1 { throw OperationError.pendingLimitTooSmall(queue: label, value: value) }
        core.change(queue: self) { $0.maximumPending = value ?? .max }
    }
}

extension OperationQueue.State {
    /// Another operation may be added.
    @inline(__always)
    var hasCapacity: Bool { count - executing < maximumPending || isEnding }

    /// Those who wait for a queuePosition, if there is one now; to be unparked outside of the lock.
    @inline(__always)
    mutating func takeCapacityWaiters() -> [Parker]? {
        if capacityWaiters.isEmpty || !hasCapacity { return nil }
        defer { capacityWaiters = [] }
        return capacityWaiters
    }
}

extension OperationQueue.Core {
    /// Operations that this queue has claimed join it, when there is a queuePosition.
    ///
    /// - Returns: why they did not.
    func add(_ operation: Operation, isBarrier: Bool, queue: OperationQueue) -> OperationError? {
        if addIfCapacity(operation, isBarrier: isBarrier, queue: queue) { return nil }
        return waitForCapacity(naming: operation) { addIfCapacity(operation, isBarrier: isBarrier, queue: queue) }
    }

    /// The same for many.
    func add(_ operations: [Operation], queue: OperationQueue) -> OperationError? {
        guard let first = operations.first, !addIfCapacity(operations, queue: queue) else { return nil }
        return waitForCapacity(naming: first) { addIfCapacity(operations, queue: queue) }
    }

    @inline(never)
    private func waitForCapacity(naming operation: Operation, _ add: () -> Bool) -> OperationError? {
        // Safety: the caller holds the queue.
        let engine: Engine = unsafe self.engine
        let context = ThreadContext.current
        let parker = context.parker(on: engine)
        var isAdded = false
        let outcome = context.wait(
            on: engine, deadline: nil,
            isDone: {
                if isAdded || engine.hasEnded { return true }
                // Registered before it looks, so that a queuePosition which becomes free then is not missed.
                state.withLock { state in
                    if !state.capacityWaiters.contains(where: { $0 === parker }) { state.capacityWaiters.append(parker) }
                    noteWaiter()
                }
                isAdded = add()
                return isAdded
            }, register: { _ in })
        state.withLock { $0.capacityWaiters.removeFirst { $0 === parker } }
        if isAdded { return nil }
        if outcome == .satisfied { return .engineShutDown(operation: operation.label) }
        let (name, limit) = state.withLock { ($0.name, $0.maximumPending) }
        return .queueStaysFull(operation: operation.label, queue: name.map { "queue \($0)" } ?? "the queue", limit: limit)
    }
}
