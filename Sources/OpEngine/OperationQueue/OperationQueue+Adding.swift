import Synchronization

extension BeyondFoundation where Self: OperationQueue {
    /// Like `addOperation`, but throws `OperationError.addedWhenInQueue`, `.addedWhenExecuting`, `.addedWhenFinished`, `.queueStaysFull`,
    /// `.engineShutDown`, or for groups `.addedToFinishedGroup`, `.groupOfAnotherEngine` or `.groupContainsItself` instead of trapping.
    public func tryAddOperation(_ operation: Operation) throws {
        let isOfPlainClass = !operation.isEndedByWorker && OverriddenMethods.isPlain(operation)
        // A subclass may override the getters, so what they return counts as well.
        if !(operation.isEndedByWorker || isOfPlainClass) || ownEngine.hasEnded, let error = objection(to: operation) { throw error }
        if operation.loadState().has(Operation.State.hasAdmission), let error = ownEngine.lack(for: operation) { throw error }
        // Retain before taking the lock, because other threads may be waiting for it. Safety: balanced when the operation leaves the queue,
        // or below.
        let kept = unsafe Unmanaged.passRetained(operation)
        if unsafe core.addInOneStep(kept, isOfPlainClass: isOfPlainClass, queue: self) { return }
        unsafe kept.release()
        try addInTwoSteps(operation)
    }

    /// Like `addOperations`, but throws instead of trapping, and adds nothing then. Also throws the errors of `tryWaitUntilFinished`.
    public func tryAddOperations(_ operations: [Operation], waitUntilFinished wait: Bool) throws {
        for (index, operation) in operations.enumerated() {
            guard let error = refusal(of: operation) else { continue }
            for claimed in operations[..<index] { claimed.transition { $0.unclaim() } }
            throw error
        }
        if let error = core.add(operations, queue: self) {
            for operation in operations { operation.transition { $0.unclaim() } }
            throw error
        }
        if cancelsAdditions { for operation in operations { operation.cancel() } }
        if !wait || core.isEmpty { return }
        for operation in operations.reversed() where !operation.hasEnded {
            try operation.tryWaitUntilFinished()
            // Usually the operation added last also finishes last.
            if core.isEmpty { return }
        }
    }

    /// Adds any operation as a barrier. Throws the errors of `tryAddOperation`.
    public func tryAddBarrier(_ operation: Operation) throws {
        if let error = refusal(of: operation) { throw error }
        operation.transition { $0.set(Operation.State.barrier) }
        if let error = core.add(operation, isBarrier: true, queue: self) {
            operation.transition { $0.unclaim() }
            throw error
        }
        if cancelsAdditions { operation.cancel() }
    }
}

extension OperationQueue {
    @inline(never)
    fileprivate func addInTwoSteps(_ operation: Operation) throws {
        if let error = refusal(of: operation) { throw error }
        if let error = core.add(operation, isBarrier: false, queue: self) {
            operation.transition { $0.unclaim() }
            throw error
        }
        if cancelsAdditions { operation.cancel() }
    }

    /// Claims the operation. Returns an error if it cannot be added.
    @inline(__always)
    func refusal(of operation: Operation) -> OperationError? {
        let isOfPlainClass = !operation.isEndedByWorker && OverriddenMethods.isPlain(operation)
        if !isOfPlainClass || ownEngine.hasEnded, let error = objection(to: operation) { return error }
        if operation.loadState().has(Operation.State.hasAdmission), let error = ownEngine.lack(for: operation) { return error }
        return claim(operation, isOfPlainClass: isOfPlainClass)
    }

    /// The reason, if any, why the engine or the operation's getters do not allow adding it.
    @inline(__always)
    fileprivate func objection(to operation: Operation) -> OperationError? {
        if ownEngine.hasEnded { return .engineShutDown(operation: operation.label) }
        if let members = operation.memberQueue, let error = members.objection(toJoining: self) { return error }
        // A subclass may override these getters, so ask them instead of the state.
        if operation.isFinished { return .addedWhenFinished(operation: operation.label) }
        if operation.isExecuting { return .addedWhenExecuting(operation: operation.label) }
        if OverriddenMethods.hasOwnSettings(operation) { operation.adoptOwnSettings() }
        return nil
    }

    @inline(__always)
    fileprivate func claim(_ operation: Operation, isOfPlainClass: Bool) -> OperationError? {
        switch operation.transition({ $0.claim(isOfPlainClass: isOfPlainClass) }) {
        case nil: return nil
        case .inQueue: return .addedWhenInQueue(operation: operation.label)
        case .executing: return .addedWhenExecuting(operation: operation.label)
        case .finished: return .addedWhenFinished(operation: operation.label)
        }
    }
}
