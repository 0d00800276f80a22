import OpEngine
import TestSupport
import Testing

@Suite struct OrderTests {
    @Test func priorityThenFirstInFirstOut() {
        let queue = OperationQueue(engine: Engine(workerCount: 2))
        queue.maxConcurrentOperationCount = 1
        queue.isSuspended = true
        let log = Log<String>()
        let priorities: [Operation.QueuePriority] = [.low, .veryHigh, .normal, .veryLow, .high]
        for round in 0..<3 {
            for priority in priorities {
                let operation = BlockOperation { log.append("\(priority)\(round)") }
                operation.queuePriority = priority
                queue.addOperation(operation)
            }
        }
        queue.isSuspended = false
        queue.waitUntilAllOperationsAreFinished()
        let expected = ["veryHigh", "high", "normal", "low", "veryLow"].flatMap { name in (0..<3).map { "\(name)\($0)" } }
        #expect(log.entries == expected)
    }

    @Test func aBlockIsAddedWithItsPriority() {
        let queue = OperationQueue(engine: Engine(workerCount: 1))
        queue.maxConcurrentOperationCount = 1
        queue.isSuspended = true
        let log = Log<Operation.QueuePriority>()
        for priority in Operation.QueuePriority.allCases { queue.addOperation(queuePriority: priority) { log.append(priority) } }
        #expect(queue.operations.map(\.queuePriority) == Operation.QueuePriority.allCases)
        queue.isSuspended = false
        queue.waitUntilAllOperationsAreFinished()
        #expect(log.entries == Operation.QueuePriority.allCases.reversed())
    }

    /// For operations that are ready when they are added, Apple promises the order of addition. In OpEngine, the others follow in the
    /// order in which they become ready.
    @Test func anOperationIsInWhenItIsReadyAndOneFinishReleasesInOrderOfDependency() {
        let queue = OperationQueue(engine: Engine(workerCount: 1))
        queue.maxConcurrentOperationCount = 1
        queue.isSuspended = true
        let log = Log<String>()
        let operations = ["a", "b", "c", "d"].map { name in BlockOperation { log.append(name) } }
        let gate = BlockOperation {}
        for index in [2, 0] { operations[index].addDependency(gate) }
        queue.addOperations(operations, waitUntilFinished: false)
        gate.start()
        queue.isSuspended = false
        queue.waitUntilAllOperationsAreFinished()
        #expect(log.entries == ["b", "d", "c", "a"])
    }

    @Test func aChangedPriorityActsAtOnce() {
        let queue = OperationQueue(engine: Engine(workerCount: 1))
        queue.isSuspended = true
        queue.maxConcurrentOperationCount = 1
        let log = Log<Int>()
        let operations = (0..<4).map { index in BlockOperation { log.append(index) } }
        queue.addOperations(operations, waitUntilFinished: false)
        operations[2].queuePriority = .veryHigh
        operations[0].queuePriority = .veryLow
        queue.isSuspended = false
        queue.waitUntilAllOperationsAreFinished()
        #expect(log.entries == [2, 1, 3, 0])
    }

    @Test func aLateImportantOperationOvertakesWhatWaits() {
        let queue = OperationQueue(engine: Engine(workerCount: 1))
        queue.maxConcurrentOperationCount = 1
        let log = Log<String>()
        let (began, mayEnd) = (Gate(), Gate())
        queue.addOperation {
            began.open()
            mayEnd.wait()
        }
        for index in 0..<3 { queue.addOperation { log.append("normal\(index)") } }
        began.wait()
        let important = BlockOperation { log.append("important") }
        important.queuePriority = .high
        queue.addOperation(important)
        mayEnd.open()
        queue.waitUntilAllOperationsAreFinished()
        #expect(log.entries == ["important", "normal0", "normal1", "normal2"])
    }

    @Test func otherPrioritiesMoveTowardsNormal() {
        let values = [-100: -8, -8: -8, -7: -4, -4: -4, -3: 0, 0: 0, 3: 0, 4: 4, 7: 4, 8: 8, 100: 8]
        for (value, expected) in values { #expect(Operation.QueuePriority(nearestTo: value).rawValue == expected) }
    }

    @Test func operationsAreListedInOrderOfAddition() {
        let queue = OperationQueue(engine: Engine(workerCount: 1))
        queue.isSuspended = true
        let operations = (0..<5).map { _ in BlockOperation {} }
        operations[3].queuePriority = .veryHigh
        queue.addOperations(operations, waitUntilFinished: false)
        #expect(queue.operations == operations && queue.operationCount == 5)
        queue.isSuspended = false
        queue.waitUntilAllOperationsAreFinished()
        #expect(queue.operations.isEmpty && queue.operationCount == 0)
    }
}
