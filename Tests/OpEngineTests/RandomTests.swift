import OpEngine
import Synchronization
import TestSupport
import Testing

/// Random graphs in several queues, with cancellations, changes and waits in between. A failure prints the seed.
@Suite struct RandomTests {
    private func check(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        let engine = Engine(workerCount: Int.random(in: 1...4, using: &random))
        let queues = (0..<3).map { _ in OperationQueue(engine: engine) }
        for queue in queues { queue.maxConcurrentOperationCount = [-1, 1, 2].randomElement(using: &random)! }
        let ended = Atomic<Int>(0)
        let violations = Log<String>()
        var operations: [Operation] = []
        for index in 0..<200 {
            let dependencies =
                operations.isEmpty ? [] : (0..<Int.random(in: 0...3, using: &random)).map { _ in operations.randomElement(using: &random)! }
            let operation = BlockOperation {
                if !dependencies.allSatisfy(\.isFinished) && Operation.current?.isCancelled == false {
                    violations.append("\(index) too early")
                }
            }
            operation.completionBlock = { ended.wrappingAdd(1, ordering: .relaxed) }
            operation.queuePriority = Operation.QueuePriority.allCases.randomElement(using: &random)!
            for dependency in dependencies { operation.addDependency(dependency) }
            operations.append(operation)
        }
        for operation in operations.shuffled(using: &random) {
            let queue = queues.randomElement(using: &random)!
            queue.addOperation(operation)
            switch Int.random(in: 0..<20, using: &random) {
            case 0: operations.randomElement(using: &random)!.cancel()
            case 1: queue.isSuspended.toggle()
            case 2: queue.addBarrierBlock {}
            case 3: operations.randomElement(using: &random)!.queuePriority = .high
            case 4: queue.maxConcurrentOperationCount = Int.random(in: 1...3, using: &random)
            case 5:
                let first = operations[0]
                queue.addOperation { first.cancel() }
            default: break
            }
        }
        // A barrier may stand between an operation and its dependency. Only cancelling resolves that.
        for queue in queues { queue.isSuspended = false }
        let limit = ContinuousClock.now + .milliseconds(200)
        for queue in queues { _ = try? queue.tryWaitUntilAllOperationsAreFinished(until: limit) }
        for queue in queues { queue.cancelAllOperations() }
        for queue in queues { queue.waitUntilAllOperationsAreFinished() }
        #expect(engine.shutdown(deadline: .seconds(30)).isEmpty, "seed \(seed)")
        #expect(violations.entries.isEmpty, "seed \(seed)")
        #expect(ended.load(ordering: .relaxed) == 200 && operations.allSatisfy(\.isFinished), "seed \(seed)")
    }

    @Test func randomGraphsEndCompletely() {
        for _ in 0..<30 { check(seed: UInt64.random(in: 0..<1_000_000)) }
    }
}
