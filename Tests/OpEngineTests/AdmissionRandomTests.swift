import OpEngine
import Synchronization
import TestSupport
import Testing

/// Random operations with keys, resources, rate limits, conditions and retries. A failure prints the seed.
@Suite struct AdmissionRandomTests {
    @Test func inASimulationNothingIsTakenTwiceAndNothingIsForgotten() throws {
        for _ in 0..<TestLength.size(100) {
            let seed = UInt64.random(in: 0..<1_000_000)
            try SimulatedRound(seed: seed).run()
        }
    }

    @Test func onThreadsNothingIsTakenTwiceAndNothingIsForgotten() throws {
        for _ in 0..<TestLength.size(30) {
            let seed = UInt64.random(in: 0..<1_000_000)
            try ThreadedRound(seed: seed).run()
        }
    }
}

/// What may be taken, and how much there is.
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
        operation.addCondition(Operation.Condition(name: "random") { _ in holds ? .holds : .failed(reason: "chance") })
    }
}

/// Executes until `finish` is called, and fails in the first attempts.
private final class Long: AsyncOperation, @unchecked Sendable {
    // Safety: `@unchecked Sendable` because the class it inherits from is; the stored property is a constant.
    let failures: Int
    init(failing failures: Int) { self.failures = failures }
    override func main() {}

    func end() {
        if attempt <= failures { fail(with: Failure()) }
        finish()
    }
    struct Failure: Error {}
}

private struct SimulatedRound {
    let seed: UInt64

    func run() throws {
        var random = SeededGenerator(seed: seed)
        let simulation = Engine.Simulation(seed: seed)
        let engine = simulation.engine
        engine.resources = resources
        let queues = (0..<3).map { _ in OperationQueue(engine: engine) }
        queues[2].rateLimit = RateLimit(count: 5, seconds: 1, burst: 2)
        var operations: [Long] = []

        func check() {
            let executing = operations.filter(\.isExecuting)
            for key in keys { #expect(executing.count { $0.exclusiveKeys.contains(key) } <= 1, "key \(key), seed \(seed)") }
            for (name, amount) in resources {
                let used = executing.reduce(0) { $0 + ($1.needs[name] ?? 0) }
                #expect(used <= amount, "resource \(name), seed \(seed)")
            }
        }

        for index in 0..<80 {
            let operation = Long(failing: Int.random(in: 0..<3, using: &random))
            operation.name = "\(index)"
            equip(operation, &random)
            if Bool.random(using: &random) {
                operation.retryPolicy = RetryPolicy(attempts: 3, delay: [0, 0.3].randomElement(using: &random)!)
            }
            if let other = operations.randomElement(using: &random), Int.random(in: 0..<3, using: &random) == 0 {
                operation.addDependency(other)
            }
            operations.append(operation)
            let queue = queues.randomElement(using: &random)!
            if Int.random(in: 0..<20, using: &random) == 0 { queue.addBarrierBlock {} }
            queue.addOperation(operation)
            switch Int.random(in: 0..<12, using: &random) {
            case 0: operations.randomElement(using: &random)!.cancel()
            case 1: queue.isSuspended.toggle()
            case 2: operations.randomElement(using: &random)!.queuePriority = .veryHigh
            case 3: queue.maxConcurrentOperationCount = Int.random(in: 1...3, using: &random)
            case 4:
                operations.randomElement(using: &random)!.addOlderDependency(operations.randomElement(using: &random)!)
            default: break
            }
            for _ in 0..<Int.random(in: 0...3, using: &random) {
                guard simulation.step() else { break }
                check()
            }
            if Bool.random(using: &random) { operations.filter(\.isExecuting).randomElement(using: &random)?.end() }
            check()
        }
        for queue in queues { queue.isSuspended = false }
        // Cycles and barriers in the way are resolved by cancelling; everything else must run by itself.
        var rounds = 0
        while operations.contains(where: { !$0.isFinished }) {
            while simulation.step() { check() }
            for operation in operations where operation.isExecuting { operation.end() }
            check()
            rounds += 1
            guard rounds > 2000 else { continue }
            let stuck = operations.filter { !$0.isFinished }
            let unexplained = stuck.filter { !$0.isHeldUpByOthers }
            let reasons = unexplained.map { $0.whyNotRunning?.description ?? "\($0.name ?? "") runs" }
            #expect(unexplained.isEmpty, "seed \(seed): \(reasons)")
            for operation in stuck { operation.cancel() }
            rounds = 1000
        }
        while simulation.step() {}
        // Not `isQuiescent`, which counts operations that other tests have started by hand.
        #expect(engine.unfinishedOperationCount == 0, "seed \(seed)")
    }
}

extension Operation {
    /// Whether a dependency or a barrier is in the way.
    fileprivate var isHeldUpByOthers: Bool {
        (whyNotRunning?.blockers ?? []).contains { blocker in
            switch blocker {
            case .dependency, .cycle, .barrier, .before: true
            default: false
            }
        }
    }

    /// Adds a dependency if that is an older operation, so that no cycle arises.
    fileprivate func addOlderDependency(_ other: Operation) {
        guard let mine = name.flatMap({ Int($0) }), let theirs = other.name.flatMap({ Int($0) }), theirs < mine else { return }
        addDependency(other)
    }
}

private struct ThreadedRound {
    let seed: UInt64

    /// What executes at this moment.
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
                if current.attempt <= failures { throw Long.Failure() }
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
