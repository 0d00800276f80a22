import OpEngine
import TestSupport
import Testing

/// Operations that change at the moment when a queue takes them over.
@Suite struct AddingStressTests {
    private let count = 2000

    /// Calls both functions for each operation at the same moment, on two threads.
    private func race(_ operations: [BlockOperation], _ one: @escaping @Sendable (Int) -> Void, _ other: @escaping @Sendable (Int) -> Void)
    {
        let pace = Pace(threads: 2)
        let threads = [one, other].map { step in
            TestThread {
                for index in operations.indices {
                    pace.step()
                    step(index)
                }
            }
        }
        for thread in threads { thread.join() }
    }

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

    /// The other thread may find the operation linked to its dependency before the operation has a place in its queue.
    @Test(arguments: [false, true]) func aDependencyMayFinishWhileItsDependentIsAdded(cancels: Bool) {
        let engine = Engine(workerCount: 1)
        let queue = OperationQueue(engine: engine)
        let gates = (0..<count).map { _ in Operation() }
        let operations = gates.map { gate in
            let operation = BlockOperation {}
            operation.addDependency(gate)
            return operation
        }
        race(operations) {
            queue.addOperation(operations[$0])
        } _: {
            if cancels { operations[$0].cancel() } else { gates[$0].start() }
        }
        queue.waitUntilAllOperationsAreFinished()
        #expect(operations.allSatisfy { $0.isFinished && $0.isCancelled == cancels })
    }

    @Test func aDependencyThatIsAddedWhileItsDependentIsAddedHolds() {
        let engine = Engine(workerCount: 1)
        let queue = OperationQueue(engine: engine)
        queue.isSuspended = true
        let gate = Operation()
        let operations = (0..<count).map { _ in BlockOperation {} }
        race(operations) {
            queue.addOperation(operations[$0])
        } _: {
            operations[$0].addDependency(gate)
        }
        queue.isSuspended = false
        // `last` is the last operation of the queue.
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
        race(operations) {
            queue.addOperation(operations[$0])
        } _: {
            operations[$0].queuePriority = .high
        }
        queue.addOperation { log.append(-1) }
        queue.isSuspended = false
        queue.waitUntilAllOperationsAreFinished()
        #expect(log.entries.count == count + 1 && log.entries.last == -1)
    }
}
