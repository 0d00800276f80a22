import Foundation

typealias Operation = Foundation.Operation
typealias BlockOperation = Foundation.BlockOperation
typealias OperationQueue = Foundation.OperationQueue
typealias QualityOfService = Foundation.QualityOfService

/// Runs the main queue until `isDone`. The calling thread must be the first thread of the process.
func runMainQueue(until isDone: () -> Bool) {
    while !isDone() { RunLoop.main.run(mode: .default, before: Date(timeIntervalSinceNow: 0.01)) }
}

/// The completed and the total unit count of a queue's `progress`.
func progress(of queue: OperationQueue) throws -> (Int64, Int64) { (queue.progress.completedUnitCount, queue.progress.totalUnitCount) }

/// Announces how many operations will be added. Foundation needs this to count their progress.
func beginProgress(of queue: OperationQueue, expecting count: Int64) { queue.progress.totalUnitCount = count }

/// Foundation on Linux has no key-value observing.
func observeFlags(_ operation: Operation, _ body: @escaping @Sendable (String, Bool, Bool) -> Void) throws -> [AnyObject] {
    throw NotAvailable()
}

func isConcurrent(_ operation: Operation) throws -> Bool { throw NotAvailable() }
