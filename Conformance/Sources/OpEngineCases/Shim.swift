import OpEngine
import OpEngineDispatch

typealias Operation = OpEngine.Operation
typealias BlockOperation = OpEngine.BlockOperation
typealias OperationQueue = OpEngine.OperationQueue
typealias QualityOfService = OpEngine.QualityOfService

/// Runs the main queue until `isDone`. The calling thread must be the first thread of the process.
func runMainQueue(until isDone: () -> Bool) {
    while !isDone() { _ = Engine.shared.mainInbox.run(until: isDone, deadline: .now + .milliseconds(10)) }
}

/// The completed and the total unit count of a queue's `progress`.
func progress(of queue: OperationQueue) throws -> (Int64, Int64) { (queue.progress.completedUnitCount, queue.progress.totalUnitCount) }

func beginProgress(of queue: OperationQueue, expecting count: Int64) { queue.progress.totalUnitCount = count }

/// Observes three flags. `body` gets the name of the flag, the old value and the new value.
func observeFlags(_ operation: Operation, _ body: @escaping @Sendable (String, Bool, Bool) -> Void) throws -> [AnyObject] {
    let flags: [(String, KeyPath<Operation, Bool> & Sendable)] = [
        ("executing", \.isExecuting), ("finished", \.isFinished), ("cancelled", \.isCancelled),
    ]
    return flags.map { name, keyPath in
        operation.observe(keyPath, options: [.old, .new]) { _, change in body(name, change.oldValue == true, change.newValue == true) }
    }
}

func isConcurrent(_ operation: Operation) throws -> Bool { operation.isConcurrent }
