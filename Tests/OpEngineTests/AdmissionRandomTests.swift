import OpEngine
import Synchronization
import TestSupport
import Testing

/// Random operations with keys, resources, rate limits, conditions and retries, on threads. `ModelTests` has the rest. A failure prints the seed.
@Suite struct AdmissionRandomTests {
    @Test func onThreadsNothingIsTakenTwiceAndNothingIsForgotten() throws {
        for _ in 0..<TestLength.size(30) {
            let seed = UInt64.random(in: 0..<1_000_000)
            try ThreadedRound(seed: seed).run()
        }
    }
}

/// The resources, and their amounts.
private let keys = ["a", "b", "c"]
private let resources = ["gpu": 2, "memory": 7]

/// Gives an operation random requirements.
private func equip(_ operation: Operation, _ random: inout SeededGenerator) {
    switch Int.random(in: 0..<4, using: &random) {
    case 0: operation.exclusiveKeys = [keys.randomElement(using: &random)!]
    case 1: operation.exclusiveKeys = Set(keys.filter { _ in Bool.random(using: &random) })
    case 2:
        operation.needs = resources.compactMapValues { amount in
            Bool.random(using: &random) ? Int.random(in: 1...amount, using: &random) : nil
        }
    default:
        operation.exclusiveKeys = [keys.randomElement(using: &random)!]
        operation.needs = ["memory": Int.random(in: 1...7, using: &random)]
    }
    operation.queuePriority = Operation.QueuePriority.allCases.randomElement(using: &random)!
    if Int.random(in: 0..<5, using: &random) == 0 {
        let holds = Bool.random(using: &random)
        operation.addCondition(OperationPrecondition(name: "random") { _ in holds ? .holds : .failed(reason: "chance") })
    }
}

extension Operation {
    /// Adds a dependency if that is an older operation, so that no cycle arises.
    fileprivate func addOlderDependency(_ other: Operation) {
        guard let mine = name.flatMap({ Int($0) }), let theirs = other.name.flatMap({ Int($0) }), theirs < mine else { return }
        addDependency(other)
    }
}

private struct ThreadedRound {
    let seed: UInt64

    /// The operations that execute at this moment.
    private final class Tally: Sendable {
        let taken = Locked([String: Int]())
        let excess = Log<String>()

        func begin(_ keys: Set<String>, _ needs: [String: Int]) {
            taken.withLock { taken in
                for key in keys { taken["key \(key)", default: 0] += 1 }
                for (name, amount) in needs { taken[name, default: 0] += amount }
                for (name, amount) in taken where amount > (resources[name] ?? 1) { excess.append("\(amount) of \(name)") }
            }
        }

        func end(_ keys: Set<String>, _ needs: [String: Int]) {
            taken.withLock { taken in
                for key in keys { taken["key \(key)", default: 0] -= 1 }
                for (name, amount) in needs { taken[name, default: 0] -= amount }
            }
        }
    }

    func run() throws {
        var random = SeededGenerator(seed: seed)
        let engine = Engine(workerCount: Int.random(in: 1...4, using: &random))
        engine.resources = resources
        let queues = (0..<3).map { _ in OperationQueue(engine: engine) }
        queues[1].maxConcurrentOperationCount = 2
        queues[2].rateLimit = RateLimit(count: 100_000, seconds: 1, burst: 10)
        let tally = Tally(), ended = Atomic<Int>(0)
        var operations: [Operation] = []
        for index in 0..<300 {
            let failures = Int.random(in: 0..<3, using: &random)
            let operation = BlockOperation {
                let current = Operation.current!
                tally.begin(current.exclusiveKeys, current.needs)
                defer { tally.end(current.exclusiveKeys, current.needs) }
                if current.attempt <= failures { throw ModelFailure() }
            }
            operation.name = "\(index)"
            equip(operation, &random)
            operation.completionBlock = { ended.wrappingAdd(1, ordering: .relaxed) }
            if Bool.random(using: &random) {
                operation.retryPolicy = RetryPolicy(attempts: 3, delay: [0, 0.0005].randomElement(using: &random)!)
            }
            operations.append(operation)
        }
        let all = operations
        let other = TestThread { [seed] in
            var random = SeededGenerator(seed: seed + 1)
            for _ in 0..<100 {
                let operation = all.randomElement(using: &random)!
                switch Int.random(in: 0..<5, using: &random) {
                case 0: operation.cancel()
                case 1: operation.queuePriority = .high
                case 2: operation.addOlderDependency(all.randomElement(using: &random)!)
                case 3: queues[0].isSuspended.toggle()
                default: engine.resources = resources
                }
            }
            queues[0].isSuspended = false
        }
        for operation in operations { queues.randomElement(using: &random)!.addOperation(operation) }
        other.join()
        for queue in queues {
            let isDone = try queue.tryWaitUntilAllOperationsAreFinished(until: .now + .seconds(60))
            #expect(isDone, "seed \(seed): \(engine.stallReport(limit: 5))")
        }
        #expect(tally.excess.entries.isEmpty, "seed \(seed)")
        let left = operations.filter { !$0.isFinished }
        #expect(left.isEmpty, "seed \(seed)")
        #expect(engine.shutdown(deadline: .seconds(30)).isEmpty, "seed \(seed)")
        #expect(ended.load(ordering: .relaxed) == operations.count, "seed \(seed)")
    }
}
