import OpEngine
import Synchronization
import TestLimits
import TestSupport
import Testing

/// Keys, resources, rate limits and conditions.
@Suite(.endsWithin(seconds: 60)) struct AdmissionTests {
    @Test func operationsThatShareAKeyNeverExecuteAtOnce() {
        let engine = Engine(workerCount: 4)
        let queues = (0..<3).map { _ in OperationQueue(engine: engine) }
        let inside = Atomic<Int>(0), most = Locked(0), count = Atomic<Int>(0)
        for index in 0..<600 {
            let operation = BlockOperation {
                let now = inside.wrappingAdd(1, ordering: .relaxed).newValue
                most.withLock { $0 = max($0, now) }
                count.wrappingAdd(1, ordering: .relaxed)
                inside.wrappingSubtract(1, ordering: .relaxed)
            }
            operation.exclusiveKeys = index % 2 == 0 ? ["database"] : ["database", "log"]
            queues[index % 3].addOperation(operation)
        }
        for queue in queues { queue.waitUntilAllOperationsAreFinished() }
        #expect(count.load(ordering: .relaxed) == 600)
        #expect(most.withLock { $0 } == 1)
        #expect(engine.shutdown(deadline: .seconds(10)).isEmpty)
    }

    @Test func keysMayBeSetBeforeAndAfterOtherProperties() {
        let engine = Engine(workerCount: 2)
        let queue = OperationQueue(engine: engine), log = Log<String>()
        let changes: [(String, (Operation) -> Void)] = [
            ("key", { $0.exclusiveKeys = ["key"] }), ("name", { $0.name = "named" }), ("needs", { $0.needs = ["disk": 1] }),
            ("completion", { $0.completionBlock = { log.append("completed") } }), ("retry", { $0.retryPolicy = RetryPolicy(attempts: 2) }),
        ]
        engine.resources = ["disk": 1]
        for first in changes.indices {
            let operation = BlockOperation { log.append("ran") }
            for (_, change) in changes[first...] + changes[..<first] { change(operation) }
            #expect(
                operation.exclusiveKeys == ["key"] && operation.name == "named" && operation.needs == ["disk": 1],
                "\(changes[first].0) first")
            #expect(operation.completionBlock != nil && operation.retryPolicy?.attempts == 2)
            queue.addOperation(operation)
        }
        queue.waitUntilAllOperationsAreFinished()
        #expect(engine.shutdown(deadline: .seconds(10)).isEmpty)
        #expect(log.entries.count { $0 == "ran" } == changes.count && log.entries.count { $0 == "completed" } == changes.count)
    }

    @Test func waitingOperationsGetAKeyByPriorityAndThenByAge() {
        let engine = Engine(workerCount: 2)
        let queue = OperationQueue(engine: engine), log = Log<String>()
        let gate = Gate()
        queue.addOperation(exclusive("first") { gate.wait() })
        while queue.operations.first?.isExecuting != true {}
        for (name, priority) in [("a", Operation.QueuePriority.normal), ("b", .low), ("c", .high), ("d", .normal), ("e", .high)] {
            let operation = exclusive(name) { log.append(name) }
            operation.queuePriority = priority
            queue.addOperation(operation)
            // The next operation asks later than this one, on any thread.
            while operation.whyNotRunning?.blockers.contains(where: { if case .key = $0 { true } else { false } }) != true {}
        }
        let raised = queue.operations.first { $0.name == "b" }
        raised?.queuePriority = .veryHigh
        #expect(raised?.whyNotRunning?.description == "b needs the key 'key', which first has")
        gate.open()
        queue.waitUntilAllOperationsAreFinished()
        #expect(log.entries == ["b", "c", "e", "a", "d"])
        #expect(engine.shutdown(deadline: .seconds(10)).isEmpty)
    }

    @Test func aSuspendedQueueAndACancelledOperationAreInNobodysWay() throws {
        let engine = Engine(workerCount: 2)
        let (one, other) = (OperationQueue(engine: engine), OperationQueue(engine: engine))
        let gate = Gate()
        one.addOperation(exclusive("holder") { gate.wait() })
        while one.operations.first?.isExecuting != true {}
        let waiting = exclusive("waiting") {}
        one.addOperation(waiting)
        while waiting.whyNotRunning?.blockers.contains(where: { if case .key = $0 { true } else { false } }) != true {}
        one.isSuspended = true
        let cancelled = exclusive("cancelled") {}
        let runs = exclusive("runs") {}
        other.addOperations([cancelled, runs], waitUntilFinished: false)
        cancelled.cancel()
        try cancelled.tryWaitUntilFinished()
        gate.open()
        // The key is free although the suspended queue's operation was first.
        try runs.tryWaitUntilFinished()
        #expect(!waiting.isFinished)
        one.isSuspended = false
        try waiting.tryWaitUntilFinished()
        #expect(engine.shutdown(deadline: .seconds(10)).isEmpty)
    }

    @Test func anOperationThatGetsADependencyWhileItWaitsLetsOthersGoFirst() throws {
        let engine = Engine(workerCount: 2)
        let queue = OperationQueue(engine: engine), log = Log<String>(), gate = Gate(), later = BlockOperation {}
        queue.addOperation(exclusive("holder") { gate.wait() })
        while queue.operations.first?.isExecuting != true {}
        let (first, second) = (exclusive("first") { log.append("first") }, exclusive("second") { log.append("second") })
        queue.addOperations([first, second], waitUntilFinished: false)
        let last = BlockOperation {}
        last.queuePriority = .veryLow
        queue.addOperations([last], waitUntilFinished: true)
        first.addDependency(later)
        gate.open()
        try second.tryWaitUntilFinished()
        queue.addOperation(later)
        try first.tryWaitUntilFinished()
        #expect(log.entries == ["second", "first"])
        #expect(engine.shutdown(deadline: .seconds(10)).isEmpty)
    }

    @Test func anOperationThatNeedsNothingAnyMoreGoesBeforeThoseThatCameLater() {
        let simulation = Engine.Simulation(seed: 1)
        let queue = OperationQueue(engine: simulation.engine), log = Log<String>()
        let holder = AsyncStub()
        holder.exclusiveKeys = ["key"]
        queue.addOperation(holder)
        let waiting = exclusive("waiting") { log.append("waiting") }
        queue.addOperation(waiting)
        while simulation.step() {}
        for name in ["a", "b"] { queue.addOperation { log.append(name) } }
        waiting.exclusiveKeys = []
        while simulation.step() {}
        #expect(log.entries == ["waiting", "a", "b"])
        holder.finish()
        while simulation.step() {}
    }

    @Test func manyThatWaitForTheSameKeyAreCancelledAtOnce() throws {
        let engine = Engine(workerCount: 2)
        let queue = OperationQueue(engine: engine), gate = Gate()
        queue.addOperation(exclusive("holder") { gate.wait() })
        while queue.operations.first?.isExecuting != true {}
        let waiting = (0..<TestLength.size(20_000)).map { exclusive("\($0)") {} }
        queue.addOperations(waiting, waitUntilFinished: false)
        let last = BlockOperation {}
        last.queuePriority = .veryLow
        queue.addOperations([last], waitUntilFinished: true)
        queue.cancelAllOperations()
        for operation in waiting { try operation.tryWaitUntilFinished() }
        gate.open()
        queue.waitUntilAllOperationsAreFinished()
        #expect(engine.shutdown(deadline: .seconds(10)).isEmpty)
    }

    @Test func whatRunsAtOnceNeverNeedsMoreThanThereIs() {
        let engine = Engine(workerCount: 4)
        engine.resources = ["gpu": 2, "memory": 10]
        #expect(engine.resources == ["gpu": 2, "memory": 10])
        let queue = OperationQueue(engine: engine)
        let used = Locked((gpu: 0, memory: 0)), most = Locked((gpu: 0, memory: 0))
        for index in 0..<400 {
            let (gpu, memory) = (index % 3, 1 + index % 7)
            let operation = BlockOperation {
                let now = used.withLock { used -> (gpu: Int, memory: Int) in
                    used = (used.gpu + gpu, used.memory + memory)
                    return used
                }
                most.withLock { $0 = (max($0.gpu, now.gpu), max($0.memory, now.memory)) }
                used.withLock { $0 = ($0.gpu - gpu, $0.memory - memory) }
            }
            operation.needs = gpu == 0 ? ["memory": memory] : ["gpu": gpu, "memory": memory]
            queue.addOperation(operation)
        }
        queue.waitUntilAllOperationsAreFinished()
        #expect(most.withLock { $0.gpu <= 2 && $0.memory <= 10 && $0.memory > 0 })
        #expect(engine.shutdown(deadline: .seconds(10)).isEmpty)
    }

    @Test func whoNeedsMuchIsNotOvertakenByThoseThatNeedLittle() throws {
        let simulation = Engine.Simulation(seed: 1)
        let engine = simulation.engine
        engine.resources = ["unit": 2]
        let queue = OperationQueue(engine: engine), log = Log<String>()
        // The holder keeps one unit until the others have asked for theirs.
        let holder = AsyncStub()
        holder.needs = ["unit": 1]
        queue.addOperation(holder)
        _ = simulation.step()
        for (name, amount) in [("much", 2), ("little", 1), ("little", 1)] {
            let operation = BlockOperation { log.append(name) }
            operation.name = name
            operation.needs = ["unit": amount]
            queue.addOperation(operation)
        }
        while simulation.step() {}
        #expect(log.count == 0)
        #expect(
            queue.operations[1].whyNotRunning?.description
                == "much needs 2 of the resource 'unit', of which 1 of 2 are left; AsyncStub has the rest")
        holder.finish()
        while simulation.step() {}
        #expect(log.entries == ["much", "little", "little"])
    }

    @Test func whoNeedsMoreThanThereIsCannotBeAdded() throws {
        let engine = Engine(workerCount: 1)
        let queue = OperationQueue(engine: engine), operation = BlockOperation {}
        operation.name = "render"
        operation.needs = ["gpu": 2]
        let message = { (count: Int) in
            "render cannot be added: it needs 2 of the resource 'gpu', of which there is \(count); need less, or set the engine's resources before"
        }
        #expect { try queue.tryAddOperation(operation) } throws: { "\($0)" == message(0) }
        engine.resources = ["gpu": 1]
        #expect { try queue.tryAddOperations([operation], waitUntilFinished: false) } throws: { "\($0)" == message(1) }
        engine.resources["gpu"] = 2
        try queue.tryAddOperations([operation], waitUntilFinished: true)
        #expect(engine.shutdown(deadline: .seconds(10)).isEmpty)
    }

    @Test func aRateLimitIsATokenBucket() throws {
        let simulation = Engine.Simulation(seed: 7)
        let queue = OperationQueue(engine: simulation.engine), starts = Log<Double>(), begin = simulation.now
        queue.rateLimit = RateLimit(count: 10, seconds: 1, burst: 3)
        for index in 0..<6 {
            let operation = BlockOperation { starts.append(((begin.duration(to: simulation.now) / .seconds(1)) * 100).rounded() / 100) }
            operation.name = "request \(index)"
            queue.addOperation(operation)
        }
        for _ in 0..<3 { #expect(simulation.step()) }
        #expect(starts.entries == [0, 0, 0])
        simulation.advance(by: .milliseconds(50))
        while simulation.step() {}
        #expect(starts.entries == [0, 0, 0, 0.1, 0.2, 0.3])
        // After a pause there may be three at once again, and not more.
        simulation.advance(by: .seconds(60))
        for _ in 0..<4 { queue.addOperation { starts.append(((begin.duration(to: simulation.now) / .seconds(1)) * 100).rounded() / 100) } }
        while simulation.step() {}
        #expect(Array(starts.entries.suffix(4)) == [60.3, 60.3, 60.3, 60.4])
        #expect(queue.rateLimit == RateLimit(count: 10, seconds: 1, burst: 3))
    }

    @Test func aRateLimitOnThreads() {
        let engine = Engine(workerCount: 2)
        let queue = OperationQueue(engine: engine), count = Atomic<Int>(0)
        queue.rateLimit = RateLimit(count: 1000, seconds: 1, burst: 1)
        let begin = ContinuousClock.now
        for _ in 0..<50 { queue.addOperation { count.wrappingAdd(1, ordering: .relaxed) } }
        queue.waitUntilAllOperationsAreFinished()
        #expect(count.load(ordering: .relaxed) == 50 && begin.duration(to: .now) >= .milliseconds(48))
        // Without the limit those that wait start at once.
        queue.rateLimit = RateLimit(count: 1, seconds: 3600, burst: 1)
        for _ in 0..<50 { queue.addOperation { count.wrappingAdd(1, ordering: .relaxed) } }
        queue.rateLimit = nil
        queue.waitUntilAllOperationsAreFinished()
        #expect(count.load(ordering: .relaxed) == 100)
        #expect(engine.shutdown(deadline: .seconds(10)).isEmpty)
    }

    @Test func aConditionThatDoesNotHoldCancels() throws {
        let engine = Engine(workerCount: 2)
        let queue = OperationQueue(engine: engine), asked = Log<String>(), gate = Gate()
        let dependency = BlockOperation { gate.wait() }
        dependency.name = "load"
        let operation = BlockOperation { asked.append("main") }
        operation.name = "print"
        operation.addDependency(dependency)
        operation.addCondition(
            OperationPrecondition(name: "first") { _ in
                asked.append("first"); return .holds
            })
        operation.addCondition(
            OperationPrecondition(name: "second") {
                asked.append($0.name ?? ""); return .failed(reason: "no paper")
            })
        operation.addCondition(
            OperationPrecondition(name: "third") { _ in
                asked.append("third"); return .holds
            })
        queue.addOperations([operation, dependency], waitUntilFinished: false)
        #expect(asked.count == 0)
        gate.open()
        try operation.tryWaitUntilFinished()
        #expect(asked.entries == ["first", "print"])
        #expect(operation.outcome == .cancelled)
        #expect(operation.error.map { "\($0)" } == "print was cancelled because its condition second does not hold: no paper")
        #expect(engine.shutdown(deadline: .seconds(10)).isEmpty)
    }

    @Test func conditionsThatAreBuiltIn() throws {
        struct Failure: Error {}
        let engine = Engine(workerCount: 2), queue = OperationQueue(engine: engine)
        func error(_ condition: OperationPrecondition, after dependency: Operation) throws -> String? {
            let operation = BlockOperation {}
            operation.name = "op"
            operation.addDependency(dependency)
            operation.addCondition(condition)
            queue.addOperations([operation, dependency], waitUntilFinished: true)
            return operation.error.map { "\($0)" }
        }
        func named(_ name: String, _ operation: Operation) -> Operation {
            operation.name = name
            return operation
        }
        let cancelled = { named("b", BlockOperation {}) }
        func cancel(_ operation: Operation) -> Operation {
            operation.cancel()
            return operation
        }
        let beginning = "op was cancelled because its condition "
        #expect(
            try error(.noFailedDependencies, after: named("a", BlockOperation { throw Failure() }))
                == beginning + "noFailedDependencies does not hold: a failed")
        #expect(try error(.noFailedDependencies, after: cancel(cancelled())) == nil)
        #expect(
            try error(.noCancelledDependencies, after: cancel(cancelled()))
                == beginning + "noCancelledDependencies does not hold: b was cancelled")
        #expect(try error(.fileExists("/"), after: BlockOperation {}) == nil)
        #expect(
            try error(.fileExists("/nowhere"), after: BlockOperation {})
                == beginning + "fileExists does not hold: '/nowhere': No such file or directory")
        #expect(engine.shutdown(deadline: .seconds(10)).isEmpty)
    }

    @Test func aWaitForWhatNobodyReturnsSaysWhy() throws {
        let engine = Engine(workerCount: 1, hostMayAddOperations: false)
        engine.resources = ["unit": 1]
        let queue = OperationQueue(engine: engine), operation = BlockOperation {}
        operation.name = "late"
        operation.needs = ["unit": 1]
        queue.isSuspended = true
        queue.addOperation(operation)
        engine.resources = ["unit": 0]
        queue.isSuspended = false
        #expect { try operation.tryWaitUntilFinished() } throws: {
            "\($0)".contains("late needs 1 of the resource 'unit', of which 0 of 0 are left")
        }
        engine.resources = ["unit": 1]
        try operation.tryWaitUntilFinished()
        #expect(engine.shutdown(deadline: .seconds(10)).isEmpty)
    }

    /// The engine keeps up to 128 unused keys for reuse.
    @Test func ofManyKeysNoneIsTakenTwice() {
        let simulation = Engine.Simulation(seed: 1)
        let queue = OperationQueue(engine: simulation.engine)
        let old = (0..<127).map { "old \($0)" }, new = (0..<100).map { "new \($0)" }
        func add(_ keys: [String], _ operation: Operation = BlockOperation {}) -> Operation {
            operation.exclusiveKeys = Set(keys)
            queue.addOperation(operation)
            return operation
        }
        for key in old { _ = add([key]) }
        while simulation.step() {}
        let holder = AsyncStub()
        _ = add(old + new, holder)
        while simulation.step() {}
        let others = (old + new).map { add([$0]) }
        while simulation.step() {}
        #expect(holder.isExecuting && others.allSatisfy { !$0.isFinished })
        holder.finish()
        while simulation.step() {}
        #expect(others.allSatisfy { $0.isFinished })
    }
}

/// An operation that needs the key `key`.
private func exclusive(_ name: String, _ block: @escaping @Sendable () -> Void) -> BlockOperation {
    let operation = BlockOperation(block: block)
    operation.name = name
    operation.exclusiveKeys = ["key"]
    return operation
}

/// Executes until `finish` is called.
private final class AsyncStub: AsyncOperation, @unchecked Sendable {
    // Safety: `@unchecked Sendable` because the class it inherits from is, and there are no stored properties.
    override func main() {}
}
