import Synchronization

extension BeyondFoundation where Self: OperationQueue {
    /// Like `addOperation`, but throws `OperationError.addedWhenInQueue`, `.addedWhenExecuting`, `.addedWhenFinished`, `.queueStaysFull`,
    /// `.engineShutDown`, or for groups `.addedToFinishedGroup`, `.groupOfAnotherEngine` or `.groupContainsItself` instead of trapping.
    public func tryAddOperation(_ operation: Operation) throws { try add(operation, isBarrier: false) }

    /// Like `addOperations`, but throws instead of trapping, and adds nothing then. Throws the errors of `tryWaitUntilFinished` if the wait
    /// fails, after all operations have been added.
    public func tryAddOperations(_ operations: [Operation], waitUntilFinished wait: Bool) throws {
        try add(operations, areBarriers: false)
        if !wait || core.isEmpty { return }
        for operation in operations.reversed() where !operation.hasEnded {
            try operation.tryWaitUntilFinished()
            // Usually the operation added last also finishes last.
            if core.isEmpty { return }
        }
    }

    /// Adds any operation as a barrier. Throws the errors of `tryAddOperation`.
    public func tryAddBarrier(_ operation: Operation) throws { try add(operation, isBarrier: true) }
}

extension OperationQueue {
    /// Adds an operation as soon as there is room.
    @inline(__always)
    fileprivate func add(_ operation: Operation, isBarrier: Bool) throws {
        let isOfPlainClass = try isOfPlainClass(operation)
        // Retain before taking the lock, because other threads may be waiting for it. Safety: balanced when the operation leaves the queue,
        // or below.
        let kept = unsafe Unmanaged.passRetained(operation)
        let addition = unsafe core.add(kept, isOfPlainClass: isOfPlainClass, isBarrier: isBarrier, queue: self)
        if addition == .added { return }
        unsafe kept.release()
        if case .refused(let refusal) = addition { throw error(for: operation, refusal) }
        // Claims the operation while it waits for room.
        try add([operation], areBarriers: isBarrier)
    }

    /// Adds a batch as soon as there is room for one operation.
    @inline(never)
    fileprivate func add(_ operations: [Operation], areBarriers: Bool) throws {
        try whileClaiming(operations) {
            let addition = core.add(operations, areBarriers: areBarriers, queue: self)
            if addition != .added { try core.waitForRoom(after: addition, for: operations, areBarriers: areBarriers, queue: self) }
            return true
        }
    }

    /// Claims operations and calls `add`. If that throws or returns false, the operations are as before.
    @discardableResult
    func whileClaiming(_ operations: [Operation], _ add: () throws -> Bool) throws -> Bool {
        var claimed = 0, isAdded = false
        defer { if !isAdded { for operation in operations[..<claimed] { operation.transition { $0.unclaim() } } } }
        for operation in operations {
            let isOfPlainClass = try isOfPlainClass(operation)
            if let refusal = operation.transition({ $0.claim(isOfPlainClass: isOfPlainClass) }) { throw error(for: operation, refusal) }
            claimed += 1
        }
        isAdded = try add()
        return isAdded
    }

    /// Whether the class of the operation leaves starting and finishing to `Operation`. Throws if the engine or the operation's getters do not
    /// allow adding the operation.
    @inline(__always)
    private func isOfPlainClass(_ operation: Operation) throws(OperationError) -> Bool {
        let isOfPlainClass = !operation.isEndedByWorker && OverriddenMethods.isPlain(operation)
        let isUsual = (isOfPlainClass || operation.isEndedByWorker) && ownEngine.hasStartedWorker.load(ordering: .relaxed)
        if !isUsual || ownEngine.hasEnded, let error = objection(to: operation) { throw error }
        if operation.loadState().has(Operation.State.hasAdmission), let error = ownEngine.lack(for: operation) { throw error }
        return isOfPlainClass
    }

    /// The reason, if any, why the engine or the operation's getters do not allow adding it.
    private func objection(to operation: Operation) -> OperationError? {
        if ownEngine.hasEnded { return .engineShutDown(operation: operation.label) }
        if !ownEngine.hasStartedWorker.load(ordering: .relaxed), !core.isMain, underlyingQueue == nil, !ownEngine.startFirstWorker() {
            return .noThread(operation: operation.label)
        }
        if let members = operation.memberQueue, let error = members.objection(toJoining: self) { return error }
        // A subclass may override these getters, so ask them instead of the state.
        if operation.isFinished { return .addedWhenFinished(operation: operation.label) }
        if operation.isExecuting { return .addedWhenExecuting(operation: operation.label) }
        if OverriddenMethods.hasOwnSettings(operation) { operation.adoptOwnSettings() }
        return nil
    }

    private func error(for operation: Operation, _ refusal: Operation.State.Refusal) -> OperationError {
        switch refusal {
        case .inQueue: .addedWhenInQueue(operation: operation.label)
        case .executing: .addedWhenExecuting(operation: operation.label)
        case .finished: .addedWhenFinished(operation: operation.label)
        }
    }
}
