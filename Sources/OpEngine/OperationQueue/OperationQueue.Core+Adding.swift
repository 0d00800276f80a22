import OpPlatform
import Synchronization

/// How operations join a queue.
extension OperationQueue.Core {
    enum Addition {
        case added, full
        /// The queue is that of a group which has finished.
        case closed
    }

    /// Adds an operation that this queue has claimed, if there is capacity.
    func addIfCapacity(_ operation: Operation, isBarrier: Bool, queue: OperationQueue) -> Addition {
        var isClosed = false
        let joined = state.withLock { state -> (Operation.State.ReadinessAction, ThreadGroup?)? in
            if let members = state.memberQueue {
                isClosed = !members.takesMore
                if isClosed { return nil }
            }
            if !state.hasCapacity { return nil }
            state.memberQueue?.append(operation)
            if state.count == 0 { begin(&state, queue: queue) }
            let action = join(operation, isBarrier: isBarrier, &state)
            state.observation?.recordCounts(before: state.count - 1, state)
            return (action, state.schedule())
        }
        guard let (action, woken) = joined else { return isClosed ? .closed : .full }
        wake(woken)
        settle(operation, action)
        deliverChanges()
        operation.deliverChanges()
        return .added
    }

    /// Adds a new block operation in one step, which is possible because no other thread knows it. On success, takes over the caller's
    /// reference. Returns false if the operation must be added in the usual way.
    @inline(__always)
    func addNewBlock(_ operation: Unmanaged<Operation>, _ priority: Operation.QueuePriority, queue: OperationQueue) -> Bool {
        if uncheckedEngine.hasEnded { return false }
        return unsafe addInOneStep(operation, queue: queue) { state in
            let joined = Operation.State(addedAtOnceWith: priority, requiringSuccess: requiresSuccess.load(ordering: .relaxed))
            unsafe operation._withUnsafeGuaranteedRef { operation in
                // No thread sees the operation before the lock is released.
                operation.setCore(self)
                operation.state.store(joined.bits, ordering: .relaxed)
                state.add(operation, isBarrier: false, isReady: true)
            }
            return true
        }
    }

    /// Adds an unclaimed operation: claims, links and, if it is ready, posts it with a single change of its state. On success, takes
    /// over the caller's reference. Returns false and changes nothing if the operation or the queue needs the usual two steps.
    @inline(__always)
    func addInOneStep(_ operation: Unmanaged<Operation>, isOfPlainClass: Bool, queue: OperationQueue) -> Bool {
        unsafe addInOneStep(operation, queue: queue) { state in
            unsafe operation._withUnsafeGuaranteedRef { operation in
                let byDefault = requiresSuccess.load(ordering: .relaxed)
                // The queue's lock is held. Every thread that the new state sends to this queue takes that lock first, so it finds the
                // operation on a list.
                let isPosted = operation.transition {
                    $0.join(requiringSuccessByDefault: byDefault, isOfPlainClass: isOfPlainClass)
                }
                guard let isPosted else { return false }
                // Store the core only after the claim has succeeded, because another queue may have claimed the operation first.
                operation.setCore(self)
                state.add(operation, isBarrier: false, isReady: isPosted)
                state.requalify(operation)
                return true
            }
        } orRecorded: { state in
            unsafe operation._withUnsafeGuaranteedRef { joinRecorded($0, isOfPlainClass: isOfPlainClass, &state) }
        }
    }

    /// The part of `addInOneStep` that the lock protects, for an operation that is recorded.
    @inline(never)
    private func joinRecorded(_ operation: Operation, isOfPlainClass: Bool, _ state: inout OperationQueue.State) -> Bool {
        guard state.hasCapacity, state.observation == nil, !state.isRateLimited, isOnlyRecorded(&state) else { return false }
        if let members = unsafe state.groupQueue, unsafe !members._withUnsafeGuaranteedRef({ $0.takesMoreAtOnce }) { return false }
        let byDefault = requiresSuccess.load(ordering: .relaxed)
        let isPosted = operation.join(self, &state) {
            $0.join(requiringSuccessByDefault: byDefault, isOfPlainClass: isOfPlainClass)
        }
        guard let isPosted else { return false }
        unsafe state.groupQueue?._withUnsafeGuaranteedRef { $0.append(operation) }
        state.add(operation, isBarrier: false, isReady: isPosted)
        state.requalify(operation)
        return true
    }

    // `inout` avoids copying the state.
    @inline(__always)
    private func isUsual(_ state: inout OperationQueue.State) -> Bool {
        state.hasCapacity && state.observation == nil && state.specialties.isEmpty && !isTraced(state)
    }

    /// Whether nothing but the group of this queue is special.
    @inline(never)
    private func isUsualInGroup(_ state: inout OperationQueue.State) -> Bool {
        guard state.hasCapacity, state.observation == nil, !state.isRateLimited, !isTraced(state) else { return false }
        return unsafe state.groupQueue?._withUnsafeGuaranteedRef { $0.takesMoreAtOnce } ?? false
    }

    /// The common part of `addNewBlock` and the other `addInOneStep`. Calls `join` with the lock held, or `joinRecorded` if somebody follows
    /// what happens in the queue. If that returns false, nothing has changed.
    @inline(__always)
    private func addInOneStep(
        _ operation: Unmanaged<Operation>, queue: OperationQueue, _ join: (inout OperationQueue.State) -> Bool,
        orRecorded joinRecorded: (inout OperationQueue.State) -> Bool = { _ in false }
    ) -> Bool {
        let locked = unsafe state.lock()
        let isUsual = unsafe isUsual(&locked.pointee), isMember = unsafe !isUsual && isUsualInGroup(&locked.pointee)
        guard isUsual || isMember ? unsafe join(&locked.pointee) : unsafe joinRecorded(&locked.pointee) else {
            state.unlock()
            return false
        }
        if isMember {
            unsafe locked.pointee.groupQueue?._withUnsafeGuaranteedRef { members in
                unsafe operation._withUnsafeGuaranteedRef { members.append($0) }
            }
        }
        if unsafe locked.pointee.count == 1 { unsafe begin(&locked.pointee, queue: queue) }
        // If the engine is shutting down, it may have cancelled everything before this operation was added. Safety: the retain is
        // balanced below.
        let late = unsafe uncheckedEngine.isEnding && !isHelper.load(ordering: .relaxed) ? operation.retain() : nil
        let woken = unsafe locked.pointee.schedule()
        state.unlock()
        wake(woken)
        unsafe late?.takeRetainedValue().cancel()
        return true
    }

    /// Adds a batch under one acquisition of the lock, if there is capacity.
    func addIfCapacity(_ operations: [Operation], queue: OperationQueue) -> Addition {
        var isAnyObserved = false, isClosed = false
        let joined = state.withLock { state -> ([(Operation, Operation.State.ReadinessAction)], ThreadGroup?)? in
            if let members = state.memberQueue {
                isClosed = !members.takesMore
                if isClosed { return nil }
            }
            if !state.hasCapacity { return nil }
            state.memberQueue?.append(operations)
            if state.count == 0 { begin(&state, queue: queue) }
            var unsettled: [(Operation, Operation.State.ReadinessAction)] = []
            for operation in operations {
                let action = join(operation, isBarrier: false, &state)
                if action == .cancel || action == .remove { unsettled.append((operation, action)) }
                if operation.isObserved { isAnyObserved = true }
            }
            state.observation?.recordCounts(before: state.count - operations.count, state)
            return (unsettled, state.schedule())
        }
        guard let (unsettled, woken) = joined else { return isClosed ? .closed : .full }
        wake(woken)
        for (operation, action) in unsettled { settle(operation, action) }
        deliverChanges()
        // Skip this for unobserved batches: the operations of a long batch are no longer in the cache.
        if isAnyObserved { for operation in operations { operation.deliverChanges() } }
        return .added
    }

    /// Performs what `join` has to leave until the lock is released.
    private func settle(_ operation: Operation, _ action: Operation.State.ReadinessAction) {
        switch action {
        case .none, .post: break
        case .cancel: operation.cancelBecauseOfDependency()
        case .remove:
            // The operation finished after it was claimed and before it was linked.
            leave(operation, takesNext: false).closed?.endGroup()
            // Safety: balances the retain in `join`.
            unsafe Unmanaged.passUnretained(operation).release()
        }
    }

    /// Retains the core, and the queue object unless the queue is at rest, when the first operation is added. The caller holds the
    /// lock, so the operation cannot leave before this is done.
    private func begin(_ state: inout OperationQueue.State, queue: OperationQueue) {
        // Safety: balanced when the last operation leaves. See `Departure.perform`.
        _ = unsafe Unmanaged.passRetained(self)
        state.isEnding = unsafe engine.isEnding
        if !state.isResting { state.retainedQueue = queue }
        uncheckedEngine.activate(self)
    }

    @inline(__always)
    private func join(_ operation: Operation, isBarrier: Bool, _ state: inout OperationQueue.State) -> Operation.State.ReadinessAction {
        // Safety: balanced when the operation has left.
        _ = unsafe Unmanaged.passRetained(operation)
        operation.setCore(self)
        if isTraced(state) { watch(operation, &state) }
        if state.isRateLimited { operation.changeAdmission { _ in } }
        let byDefault = requiresSuccess.load(ordering: .relaxed)
        let action = operation.transition { $0.link(requiringSuccessByDefault: byDefault) }
        state.add(operation, isBarrier: isBarrier, isReady: action == .post)
        state.requalify(operation)
        return action
    }
}
