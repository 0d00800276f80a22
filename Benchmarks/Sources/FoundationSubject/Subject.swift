import Foundation
import Measuring

typealias Operation = Foundation.Operation
typealias BlockOperation = Foundation.BlockOperation
typealias OperationQueue = Foundation.OperationQueue

extension OperationQueue {
    /// The code with which a program adds a block with a priority.
    func addOperation(queuePriority: Operation.QueuePriority, _ block: @escaping @Sendable () -> Void) {
        let operation = BlockOperation(block: block)
        operation.queuePriority = queuePriority
        addOperation(operation)
    }
}

@main struct Subject {
    static func main() { measure(operationWorkloads.merging(["H4": decodeRows]) { operations, _ in operations }) }
}
