import OpEngine
import Synchronization
import TestLimits
import TestSupport
import Testing

/// Random groups. A failure prints the seed. `ModelTests` compares groups with the reference model besides.
@Suite(.endsWithin(seconds: 60)) struct GroupRandomTests {
    private static var seeds: [UInt64] { (0..<TestLength.size(60)).map { _ in UInt64.random(in: 0..<1_000_000) } }

    /// Threads add members while others finish. Each addition is either refused, because the group has finished, or the group has waited for it.
    @Test func noAdditionIsLost() {
        for seed in Self.seeds {
            var random = SeededGenerator(seed: seed)
            let engine = Engine(workerCount: 2), queue = OperationQueue(engine: engine)
            for _ in 0..<20 {
                let group = GroupOperation(operations: [BlockOperation {}], engine: engine)
                let refused = Atomic<Int>(0), added = Locked<[Operation]>([])
                let adders = 2, pace = Pace(threads: adders + 1)
                let pauses = (0...adders).map { _ in Int.random(in: 0..<200, using: &random) }
                let asBatch = Bool.random(using: &random), hasPriority = Bool.random(using: &random)
                let finishedEarly = Atomic<Int>(0)
                group.completionBlock = {
                    for member in group.operations where !member.isFinished {
                        _ = member
                        finishedEarly.wrappingAdd(1, ordering: .relaxed)
                    }
                }
                onThreads(adders + 1) { number in
                    pace.step()
                    for _ in 0..<pauses[number] { _ = refused.load(ordering: .acquiring) }
                    if number == adders { return queue.addOperation(group) }
                    for _ in 0..<10 {
                        let member = BlockOperation {}
                        if hasPriority { member.queuePriority = .high }
                        do {
                            if asBatch { try group.tryAddOperations([member]) } else { try group.tryAddOperation(member) }
                            added.withLock { $0.append(member) }
                        } catch {
                            guard case OperationError.addedToFinishedGroup = error else {
                                Issue.record("\(error), seed \(seed)")
                                return
                            }
                            refused.wrappingAdd(1, ordering: .relaxed)
                        }
                    }
                }
                group.waitUntilFinished()
                let members = added.withLock { $0 }
                let isComplete = members.allSatisfy { $0.outcome == .succeeded }
                #expect(isComplete, "seed \(seed)")
                #expect(members.count + refused.load(ordering: .relaxed) == 10 * adders, "seed \(seed)")
                #expect(group.operations.count == members.count + 1, "seed \(seed)")
                #expect(finishedEarly.load(ordering: .relaxed) == 0, "seed \(seed)")
            }
            queue.waitUntilAllOperationsAreFinished()
        }
    }

    /// A tree of groups whose members add members, fail, are cancelled and depend on each other, on real threads.
    @Test func aTreeOfGroupsKeepsItsPromises() {
        for seed in Self.seeds {
            let problem = GroupTree(seed: seed).run()
            #expect(problem == nil, "\(problem ?? ""), seed \(seed)")
            if problem != nil { return }
        }
    }
}

private final class GroupTree: @unchecked Sendable {
    // Safety: `@unchecked Sendable` because `state` has a lock, and the others are constants or used by one thread.
    private struct Failure: Error {}

    private struct State {
        var random: SeededGenerator
        var left = 150
        /// Every group, with the members that were added to it successfully.
        var groups: [(group: GroupOperation, members: [Operation])] = []
        var begun: [ObjectIdentifier: Int] = [:]
        var problem: String?
    }

    private let engine = Engine(workerCount: 2)
    private let state: Locked<State>

    init(seed: UInt64) { state = Locked(State(random: SeededGenerator(seed: seed))) }

    private func number(_ count: Int) -> Int { state.withLock { Int.random(in: 0..<count, using: &$0.random) } }

    private func report(_ text: String) { state.withLock { $0.problem = $0.problem ?? text } }

    func run() -> String? {
        let root = makeGroup()
        for _ in 0..<4 { grow(root) }
        let queue = OperationQueue(engine: engine)
        let gate = AsyncOperation()
        root.addDependency(gate)
        queue.addOperations([root, gate], waitUntilFinished: false)
        if state.withLock({ !$0.begun.isEmpty }) { report("a member ran before the group") }
        while !gate.isExecuting {}
        gate.finish()
        for _ in 0..<5 { disturb() }
        state.withLock { $0.groups.map(\.group) }.forEach { $0.isSuspended = false }
        queue.waitUntilAllOperationsAreFinished()
        check(root)
        return state.withLock { $0.problem }
    }

    private func makeGroup() -> GroupOperation {
        let group = GroupOperation(operations: [], maxConcurrentOperationCount: [-1, -1, 1, 2][number(4)], engine: engine)
        group.queuePriority = Operation.QueuePriority.allCases[number(5)]
        state.withLock { $0.groups.append((group, [])) }
        group.completionBlock = { [weak self, weak group] in
            if let open = group?.operations.first(where: { !$0.isFinished }) { self?.report("\(open) has not finished, but its group has") }
        }
        return group
    }

    /// Adds a member to a group.
    private func grow(_ group: GroupOperation) {
        let isAllowed = state.withLock { state in
            state.left -= 1
            return state.left >= 0
        }
        if !isAllowed { return }
        let member: Operation
        if number(5) == 0 {
            let inner = makeGroup()
            for _ in 0..<number(4) { grow(inner) }
            member = inner
        } else {
            member = BlockOperation { [unowned self, unowned group] in
                let current = ObjectIdentifier(Operation.current!)
                let count = state.withLock { state in
                    state.begun[current, default: 0] += 1
                    return state.begun[current]!
                }
                if count > 1 { report("a member ran twice") }
                if Operation.current?.group !== group { report("a member is not in its group") }
                for _ in 0..<number(3) { grow(group) }
                if number(10) == 0 { throw Failure() }
                if number(30) == 0 { group.cancel() }
            }
        }
        if let earlier = group.operations.last, number(3) == 0 { member.addDependency(earlier) }
        do {
            try group.tryAddOperation(member)
            state.withLock { state in
                let index = state.groups.firstIndex { $0.group === group }!
                state.groups[index].members.append(member)
            }
        } catch OperationError.addedToFinishedGroup where group.isFinished || group.operations.allSatisfy(\.isFinished) {
        } catch { report("\(error)") }
    }

    /// Changes something from outside.
    private func disturb() {
        let all = state.withLock { $0.groups.map(\.group) }
        let group = all[number(all.count)]
        switch number(4) {
        case 0: group.isSuspended.toggle()
        case 1: grow(group)
        case 2: group.queuePriority = Operation.QueuePriority.allCases[number(5)]
        default: group.operations.randomElement()?.cancel()
        }
    }

    /// Compares the outcome of each group that has started with those of its members.
    private func check(_ root: GroupOperation) {
        if !root.isFinished { report("the outermost group has not finished") }
        for (group, members) in state.withLock({ $0.groups }) where group.isFinished {
            if Set(group.operations) != Set(members) { report("a member is missing, or too many are there") }
            if let open = members.first(where: { !$0.isFinished }) { report("\(open) was not waited for") }
            let hasFailed = members.contains { $0.outcome == .failed }
            let expected: OperationOutcome = hasFailed ? .failed : group.isCancelled ? .cancelled : .succeeded
            if group.outcome != expected { report("a group is \(group.outcome!), not \(expected)") }
        }
    }
}
