import Synchronization

extension BeyondFoundation where Self: OperationQueue {
    /// `addOperation`, but throws `OperationError.addedWhenInQueue`, `.addedWhenExecuting`, `.addedWhenFinished`,
    /// `.queueStaysFull` or `.engineShutDown`.
    public func tryAddOperation(_ operation: Operation) throws {
        let isOfPlainClass = !operation.isEndedByWorker && OperationClass.isPlain(operation)
        // What its getters say counts as well, if they may be a subclass's.
        if !(operation.isEndedByWorker || isOfPlainClass) || ownEngine.hasEnded, let error = objection(to: operation) { throw error }
        // Here, because others may wait for the lock. Safety: balanced when the operation has left, or below.
        let kept = unsafe Unmanaged.passRetained(operation)
        if unsafe core.addInOneStep(kept, isOfPlainClass: isOfPlainClass, queue: self) { return }
        unsafe kept.release()
        try addInTwoSteps(operation)
    }

    /// `addOperations`, but throws; then none has been added. Also throws what `tryWaitUntilFinished` does.
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
        if ownEngine.isEnding { for operation in operations { operation.cancel() } }
        if !wait || core.isEmpty { return }
        for operation in operations.reversed() where !operation.hasEnded {
            try operation.tryWaitUntilFinished()
            // Mostly the last one is the last to end.
            if core.isEmpty { return }
        }
    }

    /// Adds any operation as a barrier. Throws what `tryAddOperation` does.
    public func tryAddBarrier(_ operation: Operation) throws {
        if let error = refusal(of: operation) { throw error }
        operation.transition { $0.set(Operation.State.barrier) }
        if let error = core.add(operation, isBarrier: true, queue: self) {
            operation.transition { $0.unclaim() }
            throw error
        }
        if ownEngine.isEnding { operation.cancel() }
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
        if ownEngine.isEnding { operation.cancel() }
    }

    /// Claims the operation, or says why it cannot be added.
    @inline(__always)
    fileprivate func refusal(of operation: Operation) -> OperationError? {
        let isOfPlainClass = !operation.isEndedByWorker && OperationClass.isPlain(operation)
        if !isOfPlainClass || ownEngine.hasEnded, let error = objection(to: operation) { return error }
        return claim(operation, isOfPlainClass: isOfPlainClass)
    }

    /// What the engine and the operation's getters have against adding it.
    @inline(__always)
    fileprivate func objection(to operation: Operation) -> OperationError? {
        if ownEngine.hasEnded { return .engineShutDown(operation: operation.label) }
        // What a subclass says counts as well.
        if operation.isFinished { return .addedWhenFinished(operation: operation.label) }
        if operation.isExecuting { return .addedWhenExecuting(operation: operation.label) }
        if OperationClass.hasOwnSettings(operation) { operation.adoptOwnSettings() }
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
