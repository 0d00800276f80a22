@_spi(Subclassing) import OpEngine
import TestSupport

/// Performs random operations and actions on a simulated engine and on the reference model, and compares the two.
///
/// Everything runs on one thread, so the seed decides everything, including what bodies, completion blocks and handlers do.
final class LockStepRound: @unchecked Sendable {
    // Safety: `@unchecked Sendable` because the simulation has only one thread.
    private var random: SeededGenerator
    let simulation: Engine.Simulation
    private let limit: Int
    var model: ReferenceModel
    var queues: [OperationQueue] = []
    var operations: [Operation] = []
    /// The operation that is being started by hand. `finishedEarly` is an operation that is being finished before it has started.
    private var startedByHand: Int?
    private var finishedEarly: Int?
    private var depth = 0
    private var isEnding = false
    var isOver = false
    private let isTelling = TestLength.environment("OPSCRIPT_MODEL_TELL") == "1"
    private let tracker = LifetimeTracker()
    /// The events, to compare two runs with the same seed.
    private(set) var trace: [Int] = []
    private var completions: [Int] = []
    var failing: Set<Int> = []
    /// The operations whose `start` has not returned, and those of them whose attempt has failed meanwhile.
    var inStart: Set<Int> = [], endedInStart: Set<Int> = []

    static let mainQueue = 0

    init(seed: UInt64, operations limit: Int, flaw: ReferenceModel.Flaw? = nil) {
        random = SeededGenerator(seed: seed)
        simulation = Engine.Simulation(seed: seed)
        self.limit = limit
        model = ReferenceModel(flaw: flaw) { [simulation] in simulation.now }
    }

    /// Runs the round and returns the violations.
    func run() -> [String] {
        for number in 0..<4 {
            let isMain = number == LockStepRound.mainQueue
            queues.append(isMain ? simulation.engine.mainQueue : OperationQueue(engine: simulation.engine))
            model.queues.append(ReferenceModel.Queue(maximum: isMain ? 1 : nil))
        }
        setResources(Self.allResources)
        while operations.count < limit && model.violations.isEmpty {
            act()
            if flip(16) { compareAll() }
        }
        end()
        return model.violations
    }

    // MARK: Actions

    func number(_ count: Int) -> Int { Int.random(in: 0..<count, using: &random) }
    func flip(_ count: Int) -> Bool { number(count) == 0 }
    /// Prints what happens when `OPSCRIPT_MODEL_TELL=1` is set.
    func tell(_ text: @autoclosure () -> String) {
        if isTelling { print(String(repeating: "  ", count: depth) + text()) }
    }
    var anyQueue: Int { number(queues.count) }
    /// Mostly recent operations, sometimes old ones.
    private var anyOperation: Int? {
        if operations.isEmpty { return nil }
        return flip(4) ? number(operations.count) : operations.count - 1 - number(min(12, operations.count))
    }

    private func act() {
        switch number(44) {
        case 0..<9: add(make(), to: anyQueue)
        case 9: addBatch()
        case 10: addBarrier()
        case 11: _ = make()
        case 12: if let one = anyOperation { add(one, to: anyQueue) }
        case 13..<17: if let one = anyOperation, let other = anyOperation { addDependency(other, to: one) }
        case 17, 18: removeDependency()
        case 19: if let one = anyOperation { cancel(one) }
        case 20: if flip(6) { cancelAll() }
        case 21, 22: toggleSuspension()
        case 23: changeMaximum()
        case 24: changePriority()
        case 25: changePolicy()
        case 26..<30: finishSome()
        case 30, 31: allowSome()
        case 32: if let one = anyOperation { startByHand(one) }
        case 33: wait()
        case 34: if let one = anyOperation { misuse(one) }
        case 35: if let one = anyOperation { changeNeeds(of: one) }
        case 36: changeLimits()
        default: if depth == 0 { step() } else if let one = anyOperation { compare(one) }
        }
    }

    /// Random actions from bodies, completion blocks and handlers.
    private func reenter() {
        guard !isEnding, depth < 4, operations.count < limit else { return }
        depth += 1
        for _ in 0..<number(3) { act() }
        depth -= 1
    }

    private func step() {
        if flip(4) {
            _ = simulation.engine.mainInbox.drain()
        } else if !simulation.step() {
            let missed = model.runnable.filter { model.operations[$0].queue != LockStepRound.mainQueue }
            if !missed.isEmpty && depth == 0 { model.violate("nothing runs, though \(missed) may") }
            if depth == 0 { checkReasons() }
        }
    }

    private func make() -> Int {
        let one = operations.count
        let token = tracker.token()
        let begin: @Sendable () -> Void = { [weak self] in
            withExtendedLifetime(token) { self?.began(one) }
            self?.startReturns(one)
        }
        let operation: Operation
        var inner: OperationQueue?
        switch number(9) {
        case 8:
            let group = GroupSubject(begin, opened: { [weak self] in self?.opened(one) }, engine: simulation.engine)
            operation = group
            inner = group.memberQueue
        case 0, 1: operation = HeldOperation(begin)
        case 2: operation = GatedOperation(begin)
        case 3:
            operation = BlockOperation { [weak self] in
                begin()
                // The body throws after `startReturns`, so that nothing happens before the engine gets the error.
                if self?.mustFail(one) ?? false { throw ModelFailure() }
            }
        default: operation = BlockOperation(block: begin)
        }
        operation.name = "\(one)"
        operations.append(operation)
        model.operations.append(ReferenceModel.Operation())
        model.operations[one].isGated = operation is GatedOperation
        model.operations[one].isGateClosed = operation is GatedOperation
        if let inner {
            model.operations[one].inner = queues.count
            queues.append(inner)
            model.queues.append(ReferenceModel.Queue(group: one, isHeld: true))
        }
        if inner == nil { equip(one) }
        completions.append(0)
        operation.whenFinished { [weak self] in self?.finished(one) }
        if flip(2) {
            operation.completionBlock = { [weak self] in
                withExtendedLifetime(token) { self?.completed(one) }
            }
        } else {
            completions[one] = 1
        }
        if one > 0 { for _ in 0..<number(3) { addDependency(operations.count - 1 - number(min(20, one + 1)), to: one) } }
        return one
    }

    private func began(_ one: Int) {
        if isOver { return }
        trace.append(one)
        inStart.insert(one)
        tell("\(one) begins, by hand: \(startedByHand == one)")
        model.start(one, byHand: startedByHand == one)
        if Operation.current !== operations[one] { model.violate("\(one) is not the current operation") }
        let queue = model.operations[one].queue.map { queues[$0] }
        if let queue, OperationQueue.current !== queue { model.violate("the queue of \(one) is not the current queue") }
        compare(one)
        reenter()
        if model.operations[one].inner != nil { model.open(one) }
    }

    /// A group that was cancelled lets its members end.
    private func opened(_ group: Int) {
        if isOver { return }
        tell("\(group) was cancelled and ends")
        model.startCancelled(group, byHand: startedByHand == group)
    }

    private func finished(_ one: Int) {
        if isOver { return }
        trace.append(-1 - one)
        tell("\(one) has finished")
        if model.operations[one].hasFailedMember && model.flaw != .groupsIgnoreFailures { failing.insert(one) }
        model.finish(one, hasFailed: failing.contains(one), byHand: startedByHand == one, finishedEarly: finishedEarly == one)
        if startedByHand == one { startedByHand = nil }
        compare(one)
        reenter()
    }

    private func completed(_ one: Int) {
        if isOver { return }
        completions[one] += 1
        if !operations[one].isFinished { model.violate("\(one) completes before it has finished") }
        reenter()
    }

    private func add(_ one: Int, to queue: Int) {
        let isPossible = canBeAdded(one) && model.takes(one, in: queue)
        if isRefusedAsFull([one], queue, isPossible) { return }
        if isPossible { model.add([one], to: queue) }
        tell("add \(one) to \(queue): \(isPossible)")
        expect(isPossible, "adding \(one)") { try queues[queue].tryAddOperation(operations[one]) }
    }

    private func addBatch() {
        let batch = (0..<(1 + number(4))).map { _ in make() } + (flip(3) ? [anyOperation ?? 0] : [])
        let queue = anyQueue
        let isPossible = Set(batch).count == batch.count && batch.allSatisfy { canBeAdded($0) && model.takes($0, in: queue) }
        if isRefusedAsFull(batch, queue, isPossible) { return }
        tell("add \(batch) to \(queue): \(isPossible)")
        if isPossible { model.add(batch, to: queue) }
        expect(isPossible, "adding \(batch)") {
            try queues[queue].tryAddOperations(batch.map { operations[$0] }, waitUntilFinished: false)
        }
    }

    private func addBarrier() {
        let (one, queue) = (make(), anyQueue)
        let isPossible = canBeAdded(one) && model.takes(one, in: queue)
        if isRefusedAsFull([one], queue, isPossible, isBarrier: true) { return }
        tell("add barrier \(one) to \(queue): \(isPossible)")
        if isPossible { model.add([one], to: queue, isBarrier: true) }
        expect(isPossible, "adding barrier \(one)") { try queues[queue].tryAddBarrier(operations[one]) }
    }

    private func canBeAdded(_ one: Int) -> Bool { canBeStarted(one) && model.suffices(for: one) }

    private func canBeStarted(_ one: Int) -> Bool {
        let operation = model.operations[one]
        return operation.queue == nil && !operation.isExecuting && !operation.isEndingUnstarted && !operation.isFinished
    }

    private func addDependency(_ other: Int, to one: Int) {
        let isRefused = model.closesCycle(one, on: other) || model.isMember(one, of: other) || model.isMember(other, of: one)
        tell("\(one) depends on \(other)")
        if isRefused && one != other && flip(8) {
            model.addDependency(other, to: one)
            operations[one].addDependency(operations[other])
            return
        }
        if !isRefused { model.addDependency(other, to: one) }
        expect(!isRefused, "making \(one) depend on \(other)") { try operations[one].tryAddDependency(operations[other]) }
    }

    private func removeDependency() {
        guard let one = anyOperation, let other = model.operations[one].dependencies.randomElement(using: &random) else { return }
        tell("\(one) does not depend on \(other)")
        model.removeDependency(other, from: one)
        operations[one].removeDependency(operations[other])
    }

    private func cancel(_ one: Int) {
        tell("cancel \(one)")
        model.cancel(one)
        operations[one].cancel()
        compare(one)
    }

    private func cancelAll() {
        let queue = anyQueue
        model.cancelAll(in: queue)
        tell("cancel all in \(queue)")
        queues[queue].cancelAllOperations()
    }

    private func toggleSuspension() {
        let queue = anyQueue
        model.queues[queue].isSuspended.toggle()
        tell("queue \(queue) suspended: \(model.queues[queue].isSuspended)")
        queues[queue].isSuspended.toggle()
    }

    private func changeMaximum() {
        let (queue, maximum) = (anyQueue, [-1, 0, 1, 1, 2, 3][number(6)])
        tell("queue \(queue) maximum \(maximum)")
        if queue != LockStepRound.mainQueue { model.queues[queue].maximum = maximum == -1 ? nil : maximum }
        queues[queue].maxConcurrentOperationCount = maximum
    }

    private func changePriority() {
        guard let one = anyOperation, let priority = Operation.QueuePriority.allCases.randomElement(using: &random) else { return }
        tell("\(one) priority \(priority)")
        model.setPriority(priority.rawValue, of: one)
        operations[one].queuePriority = priority
    }

    private func changePolicy() {
        let policy = flip(2) ? OperationDependencyPolicy.succeeded : .finished
        if flip(4) {
            let queue = anyQueue
            model.queues[queue].policy = policy
            queues[queue].dependencyPolicy = policy
        } else if let one = anyOperation {
            model.setPolicy(policy, of: one)
            operations[one].dependencyPolicy = policy
        }
    }

    private func finishSome() {
        let held = operations.indices.filter { model.operations[$0].isExecuting && operations[$0] is HeldOperation }
        if let one = held.randomElement(using: &random), operations[one] !== Operation.current {
            finish(one)
        } else if flip(8), let one = anyOperation, operations[one] is HeldOperation, !model.operations[one].isExecuting,
            !model.operations[one].isBarrier
        {
            // A barrier that ends before its turn still keeps the operations on its two sides apart. The model does not cover that.
            finishedEarly = one
            finish(one)
            finishedEarly = nil
        }
    }

    private func finish(_ one: Int) {
        guard let operation = operations[one] as? HeldOperation else { return }
        tell("finish \(one)")
        // Between two attempts, only the former attempt can still call `finish`.
        if model.isBetweenAttempts(one) { return operation.finish() }
        if !model.operations[one].isFinished && flip(model.operations[one].admission.attempts > 1 ? 2 : 4) {
            attemptFails(one)
            operation.finish(with: ModelFailure())
        } else {
            operation.finish()
        }
    }

    private func allowSome() {
        let closed = operations.indices.filter { model.operations[$0].isGateClosed }
        if let one = closed.randomElement(using: &random) { allow(one) }
    }

    private func allow(_ one: Int) {
        tell("allow \(one)")
        model.operations[one].isGateClosed = false
        (operations[one] as? GatedOperation)?.allow()
    }

    private func startByHand(_ one: Int) {
        guard startedByHand == nil else { return }
        let operation = model.operations[one]
        // Starting an operation whose dependency has failed cancels it, which makes it ready.
        let isUnlucky = operation.hasUnluckyDependency && operation.policy == .succeeded && canBeStarted(one)
        if isUnlucky { model.cancelBecauseOfDependency(one) }
        let isPossible = canBeStarted(one) && model.operations[one].isReady && !operation.isGateClosed
        startedByHand = isPossible ? one : nil
        expect(isPossible, "starting \(one) by hand") { try operations[one].tryStart() }
        startedByHand = nil
    }

    /// Waits until a deadline, which the simulation reaches as soon as nothing can run.
    private func wait() {
        // An operation in no queue belongs to no simulation, so a wait for it would really sleep.
        guard let one = anyOperation, operations[one] !== Operation.current, model.operations[one].queue != nil else { return }
        let deadline = simulation.now + .seconds(1)
        // An operation of the main queue that waits lets another of that queue start.
        let waiting = Operation.current.flatMap { current in operations.firstIndex { $0 === current } }
        let isNested = waiting.map { model.operations[$0].queue == LockStepRound.mainQueue } ?? false
        if isNested { model.queues[LockStepRound.mainQueue].maximum! += 1 }
        defer { if isNested { model.queues[LockStepRound.mainQueue].maximum! -= 1 } }
        do {
            if flip(2) {
                let isOver = try operations[one].tryWaitUntilFinished(until: deadline)
                if isOver != model.operations[one].isFinished { model.violate("a wait for \(one) returned \(isOver)") }
            } else {
                let queue = anyQueue
                let isOver = try queues[queue].tryWaitUntilAllOperationsAreFinished(until: deadline)
                if isOver && !model.queues[queue].operations.isEmpty { model.violate("a wait for queue \(queue) ended too early") }
            }
        } catch OperationError.waitsForItself {
        } catch { model.violate("waiting: \(error)") }
    }

    private func misuse(_ one: Int) {
        expect(false, "a maximum of -2") { try queues[0].trySetMaxConcurrentOperationCount(-2) }
        expect(false, "depending on itself") { try operations[one].tryAddDependency(operations[one]) }
        let operation = model.operations[one]
        if operation.isFinished {
            expect(false, "a late completion block") { try operations[one].trySetCompletionBlock {} }
        }
    }

    private func expect(_ isPossible: Bool, _ what: String, _ body: () throws -> Void) {
        do {
            try body()
            if !isPossible { model.violate("\(what) was not refused") }
        } catch { if isPossible { model.violate("\(what) was refused: \(error)") } }
    }

    // MARK: Comparing

    private func compare(_ one: Int) {
        let (real, expected) = (operations[one], model.operations[one])
        func check(_ isSame: Bool, _ what: String) { if !isSame { model.violate("\(what) of \(one) differs") } }
        check(real.isReady == (expected.isReady && !expected.isGateClosed), "isReady")
        check(real.isExecuting == expected.isExecuting, "isExecuting")
        check(real.isFinished == expected.isFinished, "isFinished")
        check(real.isCancelled == expected.isCancelled, "isCancelled")
        let outcome = expected.isFinished ? expected.outcome : nil
        check(real.outcome == outcome, "outcome, \(real.outcome.map { "\($0)" } ?? "none") and not \(outcome.map { "\($0)" } ?? "none"),")
        check(real.dependencies.map { Int($0.name ?? "") } == expected.dependencies, "dependencies")
        check(real.queuePriority.rawValue == expected.priority, "priority")
        check((real.queue != nil) == (expected.queue != nil && !expected.isFinished), "queue")
        check(real.exclusiveKeys == expected.admission.needs.keys, "keys")
        check(real.needs == expected.admission.needs.resources, "needs")
        if expected.admission.attempts > 1 { check(real.attempt == expected.admission.attempt, "attempt") }
    }

    private func compareAll() {
        for one in operations.indices { compare(one) }
        for (index, queue) in queues.enumerated() {
            let expected = model.queues[index]
            let names = queue.operations.map { Int($0.name ?? "") ?? -1 }
            if names != expected.operations { model.violate("queue \(index) has \(names), not \(expected.operations)") }
            if queue.operationCount != expected.operations.count { model.violate("the count of queue \(index) differs") }
            if queue.isSuspended != expected.isSuspended { model.violate("queue \(index) is suspended or not") }
            if queue.maxConcurrentOperationCount != expected.maximum ?? -1 { model.violate("the maximum of queue \(index) differs") }
        }
    }

    // MARK: The end

    /// Lets every operation end that can end, and cancels the rest. No operation may be left.
    private func end() {
        guard model.violations.isEmpty else { return abandon() }
        isEnding = true
        setResources(Self.allResources)
        for (index, queue) in queues.enumerated() {
            model.queues[index].isSuspended = false
            queue.isSuspended = false
            (model.queues[index].maximumPending, queue.maxPendingOperationCount) = (nil, nil)
            if index != LockStepRound.mainQueue {
                model.queues[index].maximum = nil
                queue.maxConcurrentOperationCount = -1
            }
        }
        for one in operations.indices where model.operations[one].inner != nil && canBeAdded(one) { add(one, to: 1) }
        settle()
        // No operation holds anything, so each that may run had its turn.
        let stuck = operations.indices.filter { model.mayRun($0) }
        if !stuck.isEmpty && model.violations.isEmpty { model.violate("\(stuck) wait for things that no operation holds") }
        for (index, queue) in queues.enumerated() {
            model.cancelAll(in: index)
            queue.cancelAllOperations()
            // Frees a barrier that waits for operations behind it.
            for one in model.queues[index].operations { cancel(one) }
        }
        settle()
        compareAll()
        for (index, queue) in queues.enumerated() where !queue.operations.isEmpty {
            model.violate("queue \(index) keeps \(queue.operations.map(\.name))")
        }
        if simulation.engine.unfinishedOperationCount != 0 { model.violate("the engine has something left") }
        for one in operations.indices where model.operations[one].isFinished && completions[one] != 1 {
            model.violate("the completion block of \(one) ran \(completions[one]) times")
        }
        abandon()
        if tracker.alive != 0 { model.violate("\(tracker.alive) blocks are still alive") }
    }

    private func settle() {
        while true {
            while simulation.step() || simulation.engine.mainInbox.drain() > 0 {}
            if !model.runnable.isEmpty { model.violate("\(model.runnable) may run and do not") }
            let held = operations.indices.filter { model.operations[$0].isExecuting && model.operations[$0].inner == nil }
            let closed = operations.indices.filter { model.operations[$0].isGateClosed }
            if held.isEmpty && closed.isEmpty || !model.violations.isEmpty { return }
            for one in held { finish(one) }
            for one in closed { allow(one) }
        }
    }

    /// Releases everything: opens cycles and drops operations that were never added.
    private func abandon() {
        for operation in operations { for dependency in operation.dependencies { operation.removeDependency(dependency) } }
        if !model.violations.isEmpty { endRegardless() }
        operations = []
        queues = []
    }

    /// The model is of no use after a violation, but nothing may leak.
    private func endRegardless() {
        isOver = true
        for operation in operations {
            operation.cancel()
            (operation as? HeldOperation)?.finish()
        }
        _ = simulation.engine.shutdown(deadline: .seconds(1))
    }
}
