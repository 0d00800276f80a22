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

/// What a queue's `progress` says: completed, total.
func progress(of queue: OperationQueue) throws -> (Int64, Int64) { (queue.progress.completedUnitCount, queue.progress.totalUnitCount) }

func beginProgress(of queue: OperationQueue, expecting count: Int64) { queue.progress.totalUnitCount = count }

/// Observes three flags: the name of the flag, its old and its new value.
func observeFlags(_ operation: Operation, _ body: @escaping @Sendable (String, Bool, Bool) -> Void) throws -> [AnyObject] {
    let flags: [(String, KeyPath<Operation, Bool> & Sendable)] = [
        ("executing", \.isExecuting), ("finished", \.isFinished), ("cancelled", \.isCancelled),
    ]
    return flags.map { name, keyPath in
        operation.observe(keyPath, options: [.old, .new]) { _, change in body(name, change.oldValue == true, change.newValue == true) }
    }
}

func isConcurrent(_ operation: Operation) throws -> Bool { operation.isConcurrent }
