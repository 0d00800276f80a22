import Measuring

// Operations as programs use them: subclasses with names, completion blocks and dependencies, added from several threads.

/// A typical subclass of `Operation`.
// Safety: `@unchecked Sendable` because only `main` changes it.
final class Work: Operation, @unchecked Sendable {
    private let input: Int
    private(set) var output = 0

    init(input: Int) { self.input = input }

    override func main() { output = input + 1 }
}

func subclasses(_ count: Int) -> Double {
    let queue = OperationQueue()
    return nanoseconds {
        var operations: [Operation] = []
        operations.reserveCapacity(count)
        for index in 0..<count { operations.append(Work(input: index)) }
        queue.addOperations(operations, waitUntilFinished: true)
    } / Double(count)
}

func dressed(_ count: Int) -> Double {
    let queue = OperationQueue()
    return nanoseconds {
        for index in 0..<count {
            let operation = BlockOperation {}
            operation.name = "step"
            operation.queuePriority = index % 2 == 0 ? .normal : .high
            operation.completionBlock = {}
            queue.addOperation(operation)
        }
        queue.waitUntilAllOperationsAreFinished()
    } / Double(count)
}

/// Each operation depends on the two before it: one in its own queue, one in the other queue.
func alternating(_ count: Int) -> Double {
    let queues = (OperationQueue(), OperationQueue())
    return nanoseconds {
        var before: (Operation?, Operation?) = (nil, nil)
        for index in 0..<count {
            let operation = BlockOperation {}
            if let first = before.0 { operation.addDependency(first) }
            if let second = before.1 { operation.addDependency(second) }
            (index % 2 == 0 ? queues.0 : queues.1).addOperation(operation)
            before = (before.1, operation)
        }
        queues.0.waitUntilAllOperationsAreFinished()
        queues.1.waitUntilAllOperationsAreFinished()
    } / Double(count)
}

/// Four threads add operations to one queue.
func producers(_ count: Int, _ add: @escaping @Sendable (OperationQueue) -> Void) -> Double {
    let queue = OperationQueue()
    return nanoseconds {
        onThreads(4) { _ in for _ in 0..<count / 4 { add(queue) } }
        queue.waitUntilAllOperationsAreFinished()
    } / Double(count)
}
