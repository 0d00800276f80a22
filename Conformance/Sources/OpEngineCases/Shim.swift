import OpEngine
import OpEngineDispatch

typealias Operation = OpEngine.Operation
typealias BlockOperation = OpEngine.BlockOperation
typealias OperationQueue = OpEngine.OperationQueue
typealias QualityOfService = OpEngine.QualityOfService

/// Runs the main queue on the calling thread, the process's first, until `isDone`.
func runMainQueue(until isDone: () -> Bool) {
    while !isDone() { _ = Engine.shared.mainInbox.run(until: isDone, deadline: .now + .milliseconds(10)) }
}

func progress(of queue: OperationQueue) throws -> (Int64, Int64) { throw NotAvailable() }

func beginProgress(of queue: OperationQueue, expecting count: Int64) {}

func observeFinished(_ operation: Operation, _ body: @escaping @Sendable (Bool, Bool) -> Void) throws -> AnyObject { throw NotAvailable() }

func isConcurrent(_ operation: Operation) throws -> Bool { operation.isConcurrent }
