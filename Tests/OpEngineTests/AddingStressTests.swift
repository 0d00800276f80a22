import OpEngine
import TestSupport
import Testing

/// What happens to an operation at the moment when a queue takes possession of it.
@Suite struct AddingStressTests {
    private let count = 2000

    @Test func ofTwoQueuesThatAddAnOperationOneGetsIt() {
        let engine = Engine(workerCount: 1)
        let queues = (0..<2).map { _ in OperationQueue(engine: engine) }
        for queue in queues { queue.isSuspended = true }
        let operations = (0..<count).map { _ in BlockOperation {} }
        let pace = Pace(threads: 2)
        let (got, refusals) = (Locked<[[Operation]]>([]), Log<String>())
        let threads = queues.map { queue in
            TestThread {
                var mine: [Operation] = []
                for operation in operations {
                    pace.step()
                    do {
                        try queue.tryAddOperation(operation)
                        mine.append(operation)
                        if operation.queue !== queue { refusals.append("it is in the other queue") }
                    } catch {
                        refusals.append("\(error)")
                    }
                }
                if queue.operations != mine { refusals.append("the queue has others") }
                got.withLock { $0.append(mine) }
            }
        }
        for thread in threads { thread.join() }
        #expect(refusals.entries == Array(repeating: "\(OperationError.addedWhenInQueue(operation: "BlockOperation"))", count: count))
        #expect(Set(got.withLock { $0.flatMap { $0 } }) == Set(operations))
        for queue in queues {
            queue.isSuspended = false
            queue.waitUntilAllOperationsAreFinished()
        }
    }

    /// The other thread may find it linked before it knows where.
    @Test(arguments: [false, true]) func aDependencyMayFinishWhileItsDependentIsAdded(cancels: Bool) {
        let engine = Engine(workerCount: 1)
        let queue = OperationQueue(engine: engine)
        let gates = (0..<count).map { _ in Operation() }
        let operations = gates.map { gate in
            let operation = BlockOperation {}
            operation.addDependency(gate)
            return operation
        }
        let pace = Pace(threads: 2)
        let threads = [
            TestThread {
                for operation in operations {
                    pace.step()
                    queue.addOperation(operation)
                }
            },
            TestThread {
                for (gate, operation) in zip(gates, operations) {
                    pace.step()
                    if cancels { operation.cancel() } else { gate.start() }
                }
            },
        ]
        for thread in threads { thread.join() }
        queue.waitUntilAllOperationsAreFinished()
        #expect(operations.allSatisfy { $0.isFinished && $0.isCancelled == cancels })
    }

    @Test func aDependencyThatIsAddedWhileItsDependentIsAddedHolds() {
        let engine = Engine(workerCount: 1)
        let queue = OperationQueue(engine: engine)
        queue.isSuspended = true
        let gate = Operation()
        let operations = (0..<count).map { _ in BlockOperation {} }
        let pace = Pace(threads: 2)
        let threads = [
            TestThread {
                for operation in operations {
                    pace.step()
                    queue.addOperation(operation)
                }
            },
            TestThread {
                for operation in operations {
                    pace.step()
                    operation.addDependency(gate)
                }
            },
        ]
        for thread in threads { thread.join() }
        queue.isSuspended = false
        // Its place is behind theirs.
        let last = BlockOperation {}
        queue.addOperation(last)
        last.waitUntilFinished()
        #expect(queue.operations == operations)
        gate.start()
        queue.waitUntilAllOperationsAreFinished()
    }

    @Test func aPriorityThatIsSetWhileItsOperationIsAddedCounts() {
        let engine = Engine(workerCount: 1)
        let queue = OperationQueue(engine: engine)
        queue.isSuspended = true
        queue.maxConcurrentOperationCount = 1
        let log = Log<Int>()
        let operations = (0..<count).map { index in BlockOperation { log.append(index) } }
        let pace = Pace(threads: 2)
        let threads = [
            TestThread {
                for operation in operations {
                    pace.step()
                    queue.addOperation(operation)
                }
            },
            TestThread {
                for operation in operations {
                    pace.step()
                    operation.queuePriority = .high
                }
            },
        ]
        for thread in threads { thread.join() }
        queue.addOperation { log.append(-1) }
        queue.isSuspended = false
        queue.waitUntilAllOperationsAreFinished()
        #expect(log.entries.count == count + 1 && log.entries.last == -1)
    }
}
