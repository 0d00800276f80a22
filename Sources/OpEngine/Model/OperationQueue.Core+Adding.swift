import OpPlatform
import Synchronization

/// How operations join a queue, all with the transition `join` of their state: one at a time, or as a batch.
extension OperationQueue.Core {
    enum Addition: Equatable {
        case added, full
        /// The queue is that of a group which has finished.
        case closed
        /// The state of the operation does not allow it.
        case refused(Operation.State.Refusal)
    }

    /// Adds an operation if there is room. On success, takes over the caller's reference. Otherwise nothing has changed.
    ///
    /// - Parameter isOfPlainClass: see `OverriddenMethods`.
    @inline(__always)
    func add(_ operation: Unmanaged<Operation>, isOfPlainClass: Bool, isBarrier: Bool, queue: OperationQueue) -> Addition {
        let locked = unsafe state.lock()
        let isSpecial = takesMoreSteps || isBarrier
        var flags = isOfPlainClass ? Operation.State.endsWithMain : 0
        if isSpecial, let obstacle = unsafe prepare(operation, &flags, &locked.pointee) {
            state.unlock()
            return obstacle
        }
        let (action, joined) = unsafe operation._withUnsafeGuaranteedRef {
            unsafe join($0, setting: flags, isClaimed: false, isBarrier: isBarrier, isSpecial: isSpecial, &locked.pointee)
        }
        if action == .refused {
            state.unlock()
            return .refused(joined.refusal ?? .inQueue)
        }
        if unsafe locked.pointee.count == 1 { unsafe begin(&locked.pointee, queue: queue) }
        let isUnsettled = unsafe isSpecial && hasJoined(operation, &locked.pointee)
        let mustSettle = isUnsettled || action == .cancel || joined.has(Operation.State.observed) || uncheckedEngine.isEnding
        // Safety: balanced by `settle`.
        let unsettled = unsafe mustSettle ? operation.retain() : nil
        let woken = unsafe locked.pointee.schedule()
        state.unlock()
        wake(woken)
        if let unsettled = unsafe unsettled { unsafe settle(unsettled, action, queue) }
        return .added
    }

    /// Adds a batch of operations that the caller has claimed. Room for one operation is enough for the whole batch. Without room, nothing has
    /// changed.
    func add(_ operations: [Operation], areBarriers: Bool, queue: OperationQueue) -> Addition {
        guard !operations.isEmpty else { return .added }
        var unsettled: [(operation: Operation, action: Operation.State.ReadinessAction)] = []
        let (obstacle, woken) = state.withLock { state -> (Addition?, ThreadGroup?) in
            if let found = self.obstacle(in: &state) { return (found, nil) }
            let isSpecial = takesMoreSteps, before = state.count
            for operation in operations {
                let flags = isSpecial ? prepare(operation, &state) : 0
                let (action, after) = join(
                    operation, setting: flags, isClaimed: true, isBarrier: areBarriers, isSpecial: isSpecial, &state)
                // The operation has finished since it was claimed.
                if action == .refused { continue }
                if state.count == 1 { begin(&state, queue: queue) }
                // Safety: balanced when the operation has left.
                _ = unsafe Unmanaged.passRetained(operation)
                if isSpecial { state.memberQueue?.append(operation) }
                // The other operations are not touched again, because those of a long batch have left the cache by then.
                if action == .cancel || after.has(Operation.State.observed) { unsettled.append((operation, action)) }
            }
            if state.count != before { state.observation?.recordCounts(before: before, state) }
            return (nil, state.schedule())
        }
        if let obstacle { return obstacle }
        wake(woken)
        for (operation, action) in unsettled where action == .cancel { operation.cancelBecauseOfDependency() }
        deliverChanges()
        for (operation, _) in unsettled { operation.deliverChanges() }
        if queue.cancelsAdditions { for operation in operations { operation.cancel() } }
        return .added
    }

    /// Joins an operation to the queue. The caller holds the queue's lock. The new state may send other threads to this queue. They take that lock
    /// first, so they find the operation on a list.
    ///
    /// - Returns: `after` is the state of the operation afterwards.
    @inline(__always)
    private func join(
        _ operation: Operation, setting flags: UInt64, isClaimed: Bool, isBarrier: Bool, isSpecial: Bool,
        _ state: inout OperationQueue.State
    ) -> (action: Operation.State.ReadinessAction, after: Operation.State) {
        let byDefault = isSpecial && has(.requiresSuccess)
        let (action, after) = operation.transition(
            { ($0.join(setting: flags, isClaimed: isClaimed, requiringSuccessByDefault: byDefault), $0) }, joining: self)
        if action == .refused { return (action, after) }
        // Set only after the transition: if the operation has joined another queue first, it keeps the core of that queue.
        operation.setCore(self)
        state.add(operation, isBarrier: isBarrier, isReady: action == .post)
        state.requalify(operation)
        return (action, after)
    }

    /// Called when the first operation has been added. Retains the core, and also the queue object unless the queue is at rest. The caller holds the
    /// lock, so the operation cannot leave before.
    private func begin(_ state: inout OperationQueue.State, queue: OperationQueue) {
        // Safety: balanced when the last operation leaves. See `Departure.perform`.
        _ = unsafe Unmanaged.passRetained(self)
        state.isEnding = unsafe engine.isEnding
        if state.needsQueue { state.retainedQueue = queue }
        uncheckedEngine.activate(self)
    }

    // MARK: Specialties

    /// Whether adding an operation may take more than its transition. The caller holds the queue's lock.
    @inline(__always)
    private var takesMoreSteps: Bool { isSpecial || uncheckedEngine.eventObservers.isUsed }

    /// The reason why the queue takes no operation now; nil if it takes one. The caller holds the queue's lock.
    private func obstacle(in state: inout OperationQueue.State) -> Addition? {
        // Safety: the group's queue is alive while the lock is held.
        if let members = unsafe state.groupQueue, unsafe !members._withUnsafeGuaranteedRef({ $0.takesMore }) { return .closed }
        return state.hasCapacity ? nil : .full
    }

    /// Prepares an operation that is about to join. The caller holds the queue's lock.
    ///
    /// - Returns: the flags that the operation gets when it joins.
    private func prepare(_ operation: Operation, _ state: inout OperationQueue.State) -> UInt64 {
        if has(.rateLimited) { operation.changeAdmission { _ in } }
        return isTraced(state) ? watch(operation, &state) : 0
    }

    /// Prepares an operation that is not claimed. Returns the reason why it cannot join, if any.
    @inline(never)
    private func prepare(_ operation: Unmanaged<Operation>, _ flags: inout UInt64, _ state: inout OperationQueue.State) -> Addition? {
        // Safety: the caller retains the operation.
        unsafe operation._withUnsafeGuaranteedRef { operation in
            if let refusal = operation.loadState().refusal { return .refused(refusal) }
            if let obstacle = obstacle(in: &state) { return obstacle }
            flags |= prepare(operation, &state)
            return nil
        }
    }

    /// Tells the group and the observers of the queue about an operation that has joined. Returns whether the caller must `settle` it. The caller
    /// holds the queue's lock.
    @inline(never)
    private func hasJoined(_ operation: Unmanaged<Operation>, _ state: inout OperationQueue.State) -> Bool {
        // Safety: the group's queue is alive while the lock is held, and the operation is in it.
        let isGroupCancelled = unsafe state.groupQueue?._withUnsafeGuaranteedRef { members in
            unsafe members.append(operation.takeUnretainedValue())
            return members.isGroupCancelled
        }
        guard let observation = state.observation else { return isGroupCancelled ?? false }
        observation.recordCounts(before: state.count - 1, state)
        return true
    }

    /// Completes an addition without the lock: cancels the operation if necessary, and delivers changes. Releases the operation.
    @inline(never)
    private func settle(_ unsettled: Unmanaged<Operation>, _ action: Operation.State.ReadinessAction, _ queue: OperationQueue) {
        // Safety: `add` has retained it.
        let operation = unsafe unsettled.takeRetainedValue()
        if action == .cancel { operation.cancelBecauseOfDependency() }
        deliverChanges()
        operation.deliverChanges()
        // The engine may have cancelled everything before this operation was added, or the group its members.
        if queue.cancelsAdditions { operation.cancel() }
    }
}
