import Foundation

typealias Operation = Foundation.Operation
typealias BlockOperation = Foundation.BlockOperation
typealias OperationQueue = Foundation.OperationQueue
typealias QualityOfService = Foundation.QualityOfService

/// Runs the main queue on the calling thread, the process's first, until `isDone`.
func runMainQueue(until isDone: () -> Bool) {
    while !isDone() { RunLoop.main.run(mode: .default, before: Date(timeIntervalSinceNow: 0.01)) }
}

/// What a queue's `progress` says: completed, total.
func progress(of queue: OperationQueue) throws -> (Int64, Int64) { (queue.progress.completedUnitCount, queue.progress.totalUnitCount) }

/// Asks for the progress of so many operations before they are added, which Foundation needs.
func beginProgress(of queue: OperationQueue, expecting count: Int64) { queue.progress.totalUnitCount = count }

/// Foundation on Linux has no key-value observing.
func observeFlags(_ operation: Operation, _ body: @escaping @Sendable (String, Bool, Bool) -> Void) throws -> [AnyObject] {
    throw NotAvailable()
}

func isConcurrent(_ operation: Operation) throws -> Bool { throw NotAvailable() }
