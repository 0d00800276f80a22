import Measuring
import OpEngine

/// Workloads for features that only the engine has, or that are measured for the engine alone.
var engineWorkloads: [String: Workload] {
    var workloads: [String: Workload] = [
        "M-finished": { keptBytes($0) },
        "M-left": { leftBytes($0) },
        // For instruction counts: without threads, the result is deterministic.
        "I-flood": { simulated($0) { queue, count in for _ in 0..<count { queue.addOperation {} } } },
        "I-chain": { count in
            simulated(count) { queue, count in
                var last: Operation?
                for _ in 0..<count {
                    let link = BlockOperation {}
                    if let last { link.addDependency(last) }
                    queue.addOperation(link)
                    last = link
                }
            }
        },
        "I-fan": { count in
            simulated(count) { queue, count in
                let (first, last) = (BlockOperation {}, BlockOperation {})
                for _ in 0..<count {
                    let operation = BlockOperation {}
                    operation.addDependency(first)
                    last.addDependency(operation)
                    queue.addOperation(operation)
                }
                queue.addOperations([first, last], waitUntilFinished: false)
            }
        },
        "I-dependencies": { count in simulated(count) { addGraph(to: $0, count: $1, dependencies: 3) } },
        "I-asynchronous": { count in
            simulated(count) { queue, count in for _ in 0..<count { queue.addOperation(FinishesAtOnce()) } }
        },
        "I-completion": { count in
            simulated(count) { queue, count in
                for _ in 0..<count {
                    let operation = BlockOperation {}
                    operation.completionBlock = {}
                    queue.addOperation(operation)
                }
            }
        },
        "I-exclusive": { count in
            simulated(count) { queue, count in
                let keys = (0..<64).map { "key \($0)" }
                for index in 0..<count {
                    let operation = BlockOperation {}
                    operation.exclusiveKeys = [keys[index % keys.count]]
                    queue.addOperation(operation)
                }
            }
        },
        "I-group": { count in simulated(count) { addGroups(of: 100, to: $0, count: $1, on: $0.engine) } },
        "I-groups": { count in simulated(count) { addGroups(of: 10, to: $0, count: $1, on: $0.engine) } },
    ]
    for number in [1, 2, 4, 8, 16, 32, 64] {
        workloads["workers-\(number)"] = { flood($0, on: Engine(workerCount: number), queues: 1) }
        workloads["queues-\(number)"] = { flood($0, on: .shared, queues: number) }
        workloads["observers-\(number)"] = { observedFlood($0, observers: number) }
        workloads["dependencies-\(number)"] = { count in
            nanoseconds {
                let queue = OperationQueue()
                addGraph(to: queue, count: count, dependencies: number)
                queue.waitUntilAllOperationsAreFinished()
            } / Double(count)
        }
    }
    for number in [10, 100, 1000] {
        workloads["groups-\(number)"] = { count in
            let queue = OperationQueue()
            return nanoseconds {
                addGroups(of: number, to: queue, count: count, on: .shared)
                queue.waitUntilAllOperationsAreFinished()
            } / Double(count)
        }
    }
    for number in [1000, 10_000, 100_000, 1_000_000] {
        workloads["waiting-\(number)"] = { flood($0, beside: number) }
    }
    return workloads
}

private final class FinishesAtOnce: AsyncOperation, @unchecked Sendable {
    // Safety: adds nothing to its superclass.
    override func main() { finish() }
}

private final class IgnoresEvents: OperationObserver {
    func operationChanged(_ event: OperationEvent) {}
}

/// Adds operations to a queue of a simulated engine, and runs them.
private func simulated(_ count: Int, _ add: (OperationQueue, Int) -> Void) -> Double {
    let simulation = Engine.Simulation(seed: 1)
    let queue = OperationQueue(engine: simulation.engine)
    return nanoseconds {
        add(queue, count)
        while simulation.step() {}
    } / Double(count)
}

/// Adds operations in groups of `size`, without counting the groups themselves.
private func addGroups(of size: Int, to queue: OperationQueue, count: Int, on engine: Engine) {
    for _ in 0..<max(1, count / size) {
        let group = GroupOperation(operations: [], engine: engine)
        for _ in 0..<min(size, count) { group.addOperation {} }
        queue.addOperation(group)
    }
}

/// Each operation depends on the `dependencies` operations before it.
private func addGraph(to queue: OperationQueue, count: Int, dependencies: Int) {
    var before: [Operation] = []
    for index in 0..<count {
        let operation = BlockOperation {}
        for other in before { operation.addDependency(other) }
        queue.addOperation(operation)
        if before.count < dependencies { before.append(operation) } else { before[index % dependencies] = operation }
    }
}

private func flood(_ count: Int, on engine: Engine, queues: Int) -> Double {
    let all = (0..<queues).map { _ in OperationQueue(engine: engine) }
    return nanoseconds {
        for index in 0..<count { all[index % queues].addOperation {} }
        for queue in all { queue.waitUntilAllOperationsAreFinished() }
    } / Double(count)
}

/// Runs `count` operations in a queue in which `waiting` others wait for a dependency.
private func flood(_ count: Int, beside waiting: Int) -> Double {
    let (queue, gate, last) = (OperationQueue(), BlockOperation {}, BlockOperation {})
    for _ in 0..<waiting {
        let operation = BlockOperation {}
        operation.addDependency(gate)
        queue.addOperation(operation)
    }
    // Lets all other ready operations go first.
    last.queuePriority = .veryLow
    let time = nanoseconds {
        for _ in 0..<count { queue.addOperation {} }
        queue.addOperation(last)
        last.waitUntilFinished()
    }
    queue.addOperation(gate)
    queue.waitUntilAllOperationsAreFinished()
    return time / Double(count)
}

private func observedFlood(_ count: Int, observers: Int) -> Double {
    let queue = OperationQueue()
    for _ in 0..<observers { queue.addObserver(IgnoresEvents()) }
    return nanoseconds {
        for _ in 0..<count { queue.addOperation {} }
        queue.waitUntilAllOperationsAreFinished()
    } / Double(count)
}

/// The memory of a finished operation that is kept.
private func keptBytes(_ count: Int) -> Double {
    let queue = OperationQueue()
    var kept: [Operation] = []
    kept.reserveCapacity(count)
    let before = allocatedBytes()
    for _ in 0..<count {
        let operation = BlockOperation {}
        kept.append(operation)
        queue.addOperation(operation)
    }
    queue.waitUntilAllOperationsAreFinished()
    return withExtendedLifetime(kept) { (allocatedBytes() - before) / Double(count) }
}

/// The memory that an operation leaves behind after it was released.
private func leftBytes(_ count: Int) -> Double {
    let before = allocatedBytes()
    _ = keptBytes(count)
    return (allocatedBytes() - before) / Double(count)
}
