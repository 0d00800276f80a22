import Synchronization

extension OperationQueue {
    /// Adds an operation, which runs when it is ready and its turn has come. Traps on one that was added before, is executing, or
    /// has finished.
    public func addOperation(_ operation: Operation) {
        do { try tryAddOperation(operation) } catch { trap(error) }
    }

    /// `addOperation`, but throws `OperationError.addedWhenInQueue`, `.addedWhenExecuting`, `.addedWhenFinished`,
    /// `.queueStaysFull` or `.engineShutDown`.
    public func tryAddOperation(_ operation: Operation) throws {
        if let error = refusal(of: operation) { throw error }
        if let error = core.add(operation, isBarrier: false, face: self) {
            operation.transition { $0.unclaim() }
            throw error
        }
        if engine.isEnding { operation.cancel() }
    }

    /// Adds a block as an operation. An error it throws is the operation's.
    public func addOperation(_ block: @escaping @Sendable () throws -> Void) {
        addOperation(BlockOperation(block: block))
    }

    /// Adds operations in order, all or none. Traps as `addOperation` does.
    ///
    /// - Parameters:
    ///   - operations: what to add; the same operation twice is refused.
    ///   - wait: whether to return only when all of them have finished.
    public func addOperations(_ operations: [Operation], waitUntilFinished wait: Bool) {
        do { try tryAddOperations(operations, waitUntilFinished: wait) } catch { trap(error) }
    }

    /// `addOperations`, but throws; then none has been added. Also throws what `tryWaitUntilFinished` does.
    public func tryAddOperations(_ operations: [Operation], waitUntilFinished wait: Bool) throws {
        for (index, operation) in operations.enumerated() {
            guard let error = refusal(of: operation) else { continue }
            for claimed in operations[..<index] { claimed.transition { $0.unclaim() } }
            throw error
        }
        if let error = core.add(operations, face: self) {
            for operation in operations { operation.transition { $0.unclaim() } }
            throw error
        }
        if engine.isEnding { for operation in operations { operation.cancel() } }
        if wait { for operation in operations { try operation.tryWaitUntilFinished() } }
    }

    /// Adds a block that runs when everything added before it has finished, and before anything added after it starts.
    public func addBarrierBlock(_ barrier: @escaping @Sendable () throws -> Void) {
        do { try tryAddBarrier(BlockOperation(block: barrier)) } catch { trap(error) }
    }

    /// Adds any operation as a barrier. Throws what `tryAddOperation` does.
    public func tryAddBarrier(_ operation: Operation) throws {
        if let error = refusal(of: operation) { throw error }
        operation.isBarrier = true
        if let error = core.add(operation, isBarrier: true, face: self) {
            operation.isBarrier = false
            operation.transition { $0.unclaim() }
            throw error
        }
        if engine.isEnding { operation.cancel() }
    }

    /// Claims the operation, or says why it cannot be added.
    @inline(__always)
    private func refusal(of operation: Operation) -> OperationError? {
        if engine.hasEnded { return .engineShutDown(operation: operation.label) }
        // What a subclass says counts as well.
        if operation.isFinished { return .addedWhenFinished(operation: operation.label) }
        if operation.isExecuting { return .addedWhenExecuting(operation: operation.label) }
        switch operation.transition({ $0.claim() }) {
        case nil: return nil
        case .inQueue: return .addedWhenInQueue(operation: operation.label)
        case .executing: return .addedWhenExecuting(operation: operation.label)
        case .finished: return .addedWhenFinished(operation: operation.label)
        }
    }
}
