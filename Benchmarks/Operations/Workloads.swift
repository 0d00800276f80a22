import Measuring

/// The workloads of operations and queues. They run against the module that `Shim.swift` names.
var operationWorkloads: [String: Workload] {
    [
        "W1": { flood($0, in: OperationQueue()) },
        "W1s": { submit($0).time },
        "W1s-bytes": { submit($0).bytes },
        "W2": { chain($0) },
        "W3": { fan($0) },
        "W4": { layeredGraph($0) },
        "W5": { count in
            let queue = OperationQueue()
            return medianMicroseconds(count) {
                let operation = BlockOperation {}
                queue.addOperation(operation)
                operation.waitUntilFinished()
            }
        },
        "W6": { count in
            let queue = OperationQueue()
            queue.maxConcurrentOperationCount = 1
            return flood(count, in: queue)
        },
        "W7": { priorities($0) { queue, priority in queue.addOperation(queuePriority: priority) {} } },
        "W7m": { count in
            priorities(count) { queue, priority in
                let operation = BlockOperation {}
                operation.queuePriority = priority
                queue.addOperation(operation)
            }
        },
        "W8": { speedUp($0) },
        "W9": { subclasses($0) },
        "W10": { dressed($0) },
        "W11": { alternating($0) },
        "W12": { producers($0) { queue in queue.addOperation {} } },
        "W12s": { producers($0) { queue in queue.addOperation(Work(input: 1)) } },
        "W13": { count in
            let queue = OperationQueue()
            return nanoseconds {
                for _ in 0..<count { queue.addOperation { _ = computeBriefly() } }
                queue.waitUntilAllOperationsAreFinished()
            } / Double(count)
        },
        "W13-loop": { count in nanoseconds { for _ in 0..<count { _ = computeBriefly() } } / Double(count) },
    ]
}

private func flood(_ count: Int, in queue: OperationQueue) -> Double {
    nanoseconds {
        for _ in 0..<count { queue.addOperation {} }
        queue.waitUntilAllOperationsAreFinished()
    } / Double(count)
}

private func submit(_ count: Int) -> (time: Double, bytes: Double) {
    let queue = OperationQueue()
    queue.isSuspended = true
    let before = allocatedBytes()
    let time = nanoseconds { for _ in 0..<count { queue.addOperation {} } }
    let bytes = allocatedBytes() - before
    queue.cancelAllOperations()
    queue.isSuspended = false
    queue.waitUntilAllOperationsAreFinished()
    return (time / Double(count), bytes / Double(count))
}

/// Measures only the running, not the adding.
private func chain(_ count: Int) -> Double {
    let queue = OperationQueue()
    let first = BlockOperation {}
    var links: [Operation] = []
    for _ in 0..<count {
        let link = BlockOperation {}
        link.addDependency(links.last ?? first)
        links.append(link)
    }
    queue.addOperations(links, waitUntilFinished: false)
    return nanoseconds {
        queue.addOperation(first)
        queue.waitUntilAllOperationsAreFinished()
    } / Double(count)
}

private func fan(_ count: Int) -> Double {
    let queue = OperationQueue()
    return nanoseconds {
        let (first, last) = (BlockOperation {}, BlockOperation {})
        for _ in 0..<count {
            let operation = BlockOperation {}
            operation.addDependency(first)
            last.addDependency(operation)
            queue.addOperation(operation)
        }
        queue.addOperation(last)
        queue.addOperation(first)
        queue.waitUntilAllOperationsAreFinished()
    } / Double(count)
}

private func layeredGraph(_ count: Int) -> Double {
    let queue = OperationQueue()
    let (layerCount, width) = layers(of: count)
    return nanoseconds {
        // Two arrays are reused. With a new array for each layer, the allocator would consolidate memory each time.
        var before: [Operation] = [], layer: [Operation] = []
        for _ in 0..<layerCount {
            for index in 0..<width {
                let operation = BlockOperation {}
                if !before.isEmpty {
                    let (first, second, third) = dependencies(of: index, width: width)
                    operation.addDependency(before[first])
                    operation.addDependency(before[second])
                    operation.addDependency(before[third])
                }
                queue.addOperation(operation)
                layer.append(operation)
            }
            before.removeAll(keepingCapacity: true)
            swap(&before, &layer)
        }
        queue.waitUntilAllOperationsAreFinished()
    } / Double(layerCount * width)
}

private func priorities(_ count: Int, _ add: (OperationQueue, Operation.QueuePriority) -> Void) -> Double {
    let queue = OperationQueue()
    let priorities: [Operation.QueuePriority] = [.veryLow, .low, .normal, .high, .veryHigh]
    return nanoseconds {
        for index in 0..<count { add(queue, priorities[index % 5]) }
        queue.waitUntilAllOperationsAreFinished()
    } / Double(count)
}

/// How many times faster `count` computations finish on two workers than on one.
private func speedUp(_ count: Int) -> Double {
    func time(on workers: Int) -> Double {
        let queue = OperationQueue()
        queue.maxConcurrentOperationCount = workers
        return nanoseconds {
            for _ in 0..<count { queue.addOperation { _ = compute() } }
            queue.waitUntilAllOperationsAreFinished()
        }
    }
    return time(on: 1) / time(on: 2)
}
