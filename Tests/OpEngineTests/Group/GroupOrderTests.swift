import OpEngine
import Synchronization
import TestLimits
import TestSupport
import Testing

/// The effect of a group's priority and quality of service on its members.
@Suite(.endsWithin(seconds: 60)) struct GroupOrderTests {
    private func members(_ count: Int, _ name: String, _ log: Log<String>) -> [BlockOperation] {
        (0..<count).map { _ in BlockOperation { log.append(name) } }
    }

    @Test func membersOfAGroupOfAHigherPriorityAreTakenFirst() {
        for seed in 0..<20 as Range<UInt64> {
            let simulation = Engine.Simulation(seed: seed), log = Log<String>()
            let queue = OperationQueue(engine: simulation.engine)
            for (name, priority) in [("low", Operation.QueuePriority.low), ("normal", .normal), ("high", .high)] {
                let group = GroupOperation(operations: members(20, name, log), engine: simulation.engine)
                group.queuePriority = priority
                queue.addOperation(group)
            }
            while simulation.step() {}
            let expected = ["high", "normal", "low"].flatMap { Array(repeating: $0, count: 20) }
            #expect(log.entries == expected, "seed \(seed)")
        }
    }

    /// A worker that runs the members of one group turns to a group of a higher priority after the present member.
    @Test func onThreadsAGroupOfAHigherPriorityOvertakesOneThatRuns() {
        let engine = Engine(workerCount: 1), log = Log<String>()
        let began = Gate(), goOn = Atomic<Bool>(false)
        // The operation computes: if it waited, another worker would replace its worker.
        let busy = BlockOperation {
            began.open()
            while !goOn.load(ordering: .relaxed) {}
        }
        let slow = GroupOperation(operations: [busy] + members(50, "normal", log), engine: engine)
        let urgent = GroupOperation(operations: members(10, "high", log), engine: engine)
        urgent.queuePriority = .high
        let queue = OperationQueue(engine: engine)
        queue.addOperation(slow)
        began.wait()
        urgent.start()
        goOn.store(true, ordering: .relaxed)
        slow.waitUntilFinished()
        urgent.waitUntilFinished()
        #expect(log.entries.prefix(10) == Array(repeating: "high", count: 10)[...])
    }

    @Test func aGroupInsideHasThePriorityOfTheOneAround() {
        let simulation = Engine.Simulation(seed: 3), log = Log<String>()
        let inner = GroupOperation(operations: members(10, "inner", log), engine: simulation.engine)
        let outer = GroupOperation(operations: [inner], engine: simulation.engine)
        let beside = GroupOperation(operations: members(10, "beside", log), engine: simulation.engine)
        outer.queuePriority = .veryHigh
        let queue = OperationQueue(engine: simulation.engine)
        queue.addOperations([outer, beside], waitUntilFinished: false)
        while simulation.step() {}
        #expect(log.entries == Array(repeating: "inner", count: 10) + Array(repeating: "beside", count: 10))
    }

    @Test func aChangeOfThePriorityTakesEffectWhileTheGroupRuns() {
        let simulation = Engine.Simulation(seed: 3), log = Log<String>()
        let groups = ["a", "b"].map { GroupOperation(operations: members(10, $0, log), engine: simulation.engine) }
        let queue = OperationQueue(engine: simulation.engine)
        queue.addOperations(groups, waitUntilFinished: false)
        while !groups.allSatisfy(\.isExecuting) { simulation.step() }
        let before = log.count
        groups[1].queuePriority = .high
        while simulation.step() {}
        let after = log.entries[before...].filter { $0 == "b" }
        #expect(log.entries[before...].prefix(after.count) == after[...])
    }

    @Test func theQualityOfServiceIsThatOfTheMembers() {
        let engine = Engine(workerCount: 1), log = Log<QualityOfService>()
        let group = GroupOperation(engine: engine) { log.append(OperationQueue.current!.qualityOfService) }
        group.qualityOfService = .background
        let inherited = GroupOperation(engine: engine) { log.append(OperationQueue.current!.qualityOfService) }
        let queue = OperationQueue(engine: engine)
        queue.qualityOfService = .utility
        queue.addOperations([group], waitUntilFinished: true)
        queue.addOperations([inherited], waitUntilFinished: true)
        #expect(log.entries == [.background, .utility])
    }
}

extension GroupOperation {
    fileprivate convenience init(engine: Engine, _ body: @escaping @Sendable () -> Void) {
        self.init(operations: [BlockOperation(block: body)], engine: engine)
    }
}
