import OpEngine
import TestLimits
import TestSupport
import Testing

@Suite(.endsWithin(seconds: 60)) struct GroupTests {
    private struct Broken: Error, Equatable { var text = "broken" }

    private let engine = Engine(workerCount: 2)

    private func group(_ operations: [Operation] = [], name: String? = nil, maximum: Int = -1) -> GroupOperation {
        GroupOperation(operations: operations, name: name, maxConcurrentOperationCount: maximum, engine: engine)
    }

    private func named(_ name: String, _ body: @escaping @Sendable () throws -> Void = {}) -> BlockOperation {
        let operation = BlockOperation(block: body)
        operation.name = name
        return operation
    }

    private func run(_ operation: Operation) {
        let queue = OperationQueue(engine: engine)
        queue.addOperation(operation)
        queue.waitUntilAllOperationsAreFinished()
    }

    @Test func itFinishesWhenItsMembersHave() {
        let log = Log<Int>()
        let members = (0..<10).map { number in BlockOperation { log.append(number) } }
        let group = group(members)
        #expect(group.operations == members && group.isAsynchronous)
        #expect(log.count == 0 && members.allSatisfy { !$0.isFinished && $0.group === group })
        run(group)
        #expect(log.count == 10 && group.outcome == .succeeded && members.allSatisfy(\.isFinished))
        #expect(group.operations == members)
        #expect(members[0].group == nil)
    }

    @Test func withoutMembersItFinishesAtOnce() {
        let group = group()
        run(group)
        #expect(group.outcome == .succeeded)
    }

    @Test func itCanBeStartedByHand() {
        let gate = Gate()
        let group = group([BlockOperation { gate.wait() }])
        group.start()
        #expect(group.isExecuting && !group.isFinished)
        gate.open()
        group.waitUntilFinished()
        #expect(group.outcome == .succeeded)
        let other = self.group([BlockOperation {}])
        other.addDependency(BlockOperation {})
        #expect(throws: OperationError.self) { try other.tryStart() }
    }

    @Test func membersMayAddMembers() {
        let log = Log<Int>()
        let group = group()
        // The group keeps its members, and these keep their blocks.
        @Sendable func add(_ number: Int, to group: GroupOperation) {
            group.addOperation { [unowned group] in
                log.append(number)
                if number < 100 { add(number + 1, to: group) }
            }
        }
        add(1, to: group)
        run(group)
        #expect(log.entries == Array(1...100) && group.operations.count == 100)
    }

    @Test func aBodyFindsItsGroup() {
        let group = group()
        group.addOperation { Operation.current?.group?.addOperation { Operation.current?.group?.name = "found" } }
        run(group)
        #expect(group.name == "found")
    }

    @Test func afterItHasFinishedNothingCanBeAdded() {
        let group = group([BlockOperation {}], name: "all")
        run(group)
        let late = named("late")
        let error = #expect(throws: OperationError.self) { try group.tryAddOperation(late) }
        #expect("\(error!)" == "late cannot be added to all: the group has finished; add it before, or from a member, or make a new group")
        #expect(throws: OperationError.self) { try group.tryAddOperations([late, named("other")]) }
        // The refused operation is as before.
        run(late)
        #expect(late.outcome == .succeeded && group.operations.count == 1)
    }

    @Test func itsDependenciesHoldAllMembersBack() {
        let first = AsyncOperation(), log = Log<String>()
        let group = group([BlockOperation { log.append("a") }, BlockOperation { log.append("b") }])
        group.addDependency(first)
        let queue = OperationQueue(engine: engine)
        queue.addOperation(group)
        queue.addOperation(BlockOperation { log.append("beside") })
        queue.addOperation(first)
        while log.count < 1 || !first.isExecuting {}
        #expect(log.entries == ["beside"])
        first.finish()
        queue.waitUntilAllOperationsAreFinished()
        #expect(Set(log.entries) == ["beside", "a", "b"])
    }

    @Test func membersAndOthersDependOnEachOther() {
        let log = Log<String>()
        let (inner, outer, last) = (
            named("inner") { log.append("inner") }, named("outer") { log.append("outer") }, named("last") { log.append("last") }
        )
        inner.addDependency(outer)
        last.addDependency(inner)
        let group = group([inner])
        let queue = OperationQueue(engine: engine)
        queue.addOperations([last, group, outer], waitUntilFinished: true)
        #expect(log.entries == ["outer", "inner", "last"])
    }

    @Test func theFirstFailureIsItsOwnAndTheOthersGoOn() throws {
        let group = group(
            [named("a") {}, named("b") { throw Broken() }, named("c") { throw Broken(text: "later") }, named("d")], name: "all", maximum: 1)
        run(group)
        #expect(group.outcome == .failed && group.operations.map(\.outcome) == [.succeeded, .failed, .failed, .succeeded])
        guard case .memberFailed("all", "b", let error)? = group.error as? OperationError else {
            Issue.record("\(String(describing: group.error))")
            return
        }
        #expect(error as? Broken == Broken())
        #expect("\(try #require(group.error))" == "b in all has failed: \(Broken())")
    }

    @Test func aFailureOfAnOperationWithNothingElseCounts() {
        let group = group([BlockOperation {}, BlockOperation { throw Broken() }, BlockOperation {}], maximum: 1)
        run(group)
        #expect(group.outcome == .failed)
    }

    @Test func aGroupInsideNamesTheMemberThatFailed() {
        let inner = group([named("leaf") { throw Broken() }], name: "inner")
        let outer = group([inner], name: "outer")
        run(outer)
        #expect(outer.outcome == .failed && inner.outcome == .failed)
        #expect("\(outer.error!)" == "leaf in inner has failed: \(Broken())")
    }

    @Test func cancellingCancelsTheMembersAndThoseThatAreAddedLater() {
        let began = Gate(), goOn = Gate()
        let executing = BlockOperation {
            began.open()
            goOn.wait()
        }
        let waiting = BlockOperation {}, barred = BlockOperation {}
        let group = group([executing, waiting], maximum: 1)
        let queue = OperationQueue(engine: engine)
        queue.addOperation(group)
        began.wait()
        group.cancel()
        group.addOperation(barred)
        #expect(executing.isCancelled && waiting.isCancelled && barred.isCancelled && !group.isFinished)
        goOn.open()
        group.waitUntilFinished()
        #expect(group.outcome == .cancelled && barred.outcome == .cancelled && waiting.outcome == .cancelled)
    }

    @Test func cancelledBeforeItStartsItFinishesWithItsMembers() {
        let never = BlockOperation {}, log = Log<Int>()
        let member = BlockOperation { log.append(1) }
        let group = group([member])
        group.addDependency(never)
        let after = BlockOperation { log.append(2) }
        after.addDependency(member)
        let queue = OperationQueue(engine: engine)
        queue.addOperations([group, after], waitUntilFinished: false)
        group.cancel()
        queue.waitUntilAllOperationsAreFinished()
        #expect(group.outcome == .cancelled && member.outcome == .cancelled && log.entries == [2])
        // The members are finished before the group is.
        #expect(throws: OperationError.self) { try group.tryAddOperation(BlockOperation {}) }
    }

    @Test func aMemberThatIsCancelledDoesNotChangeTheOutcome() {
        let members = [BlockOperation {}, BlockOperation {}]
        let group = group(members)
        members[0].cancel()
        run(group)
        #expect(group.outcome == .succeeded && members.map(\.outcome) == [.cancelled, .succeeded])
    }

    @Test func suspendingHoldsMembersThatHaveNotStarted() {
        let began = Gate(), goOn = Gate(), log = Log<Int>()
        let group = group(
            [
                BlockOperation {
                    began.open()
                    goOn.wait()
                    log.append(1)
                }, BlockOperation { log.append(2) },
            ], maximum: 1)
        let queue = OperationQueue(engine: engine)
        queue.addOperation(group)
        began.wait()
        group.isSuspended = true
        goOn.open()
        group.operations[0].waitUntilFinished()
        #expect(group.isSuspended && group.isExecuting && log.entries == [1])
        group.isSuspended = false
        group.waitUntilFinished()
        #expect(log.entries == [1, 2])
    }

    @Test func suspendedBeforeItStartsItStartsNoMember() throws {
        let simulation = Engine.Simulation(seed: 1)
        let group = GroupOperation(operations: [BlockOperation {}], engine: simulation.engine)
        group.isSuspended = true
        OperationQueue(engine: simulation.engine).addOperation(group)
        while simulation.step() {}
        #expect(group.isExecuting && !group.operations[0].isFinished)
        group.isSuspended = false
        while simulation.step() {}
        #expect(group.outcome == .succeeded)
    }

    @Test func itsMaximumIsThatOfItsMembers() {
        let running = Locked(0), most = Locked(0)
        let members = (0..<50).map { _ in
            BlockOperation {
                let now = running.withLock {
                    $0 += 1; return $0
                }
                most.withLock { $0 = max($0, now) }
                running.withLock { $0 -= 1 }
            }
        }
        let group = group(members, maximum: 1)
        #expect(group.maxConcurrentOperationCount == 1)
        run(group)
        #expect(most.withLock { $0 } == 1)
        #expect(throws: OperationError.self) { try group.trySetMaxConcurrentOperationCount(-2) }
    }

    @Test func inItsQueueItIsOneOperation() {
        let began = Gate(), goOn = Gate(), log = Log<String>()
        let blocked = BlockOperation {
            began.open()
            goOn.wait()
        }
        let group = group([blocked, BlockOperation { log.append("member") }])
        let queue = OperationQueue(engine: engine)
        queue.maxConcurrentOperationCount = 1
        queue.addOperation(group)
        queue.addOperation { log.append("after") }
        began.wait()
        #expect(queue.operationCount == 2 && group.operations[0].queue !== queue)
        group.operations[1].waitUntilFinished()
        #expect(log.entries == ["member"])
        goOn.open()
        queue.waitUntilAllOperationsAreFinished()
        #expect(log.entries == ["member", "after"])
    }

    @Test func aThousandGroupsWaitWithoutAThread() {
        let goOn = AsyncOperation(), begun = Locked(0), allHaveBegun = Gate()
        let groups = (0..<1000).map { _ in
            let waiting = BlockOperation {}
            waiting.addDependency(goOn)
            let first = BlockOperation {
                if begun.withLock({
                    $0 += 1; return $0
                }) == 1000 {
                    allHaveBegun.open()
                }
            }
            return group([first, waiting])
        }
        let queue = OperationQueue(engine: engine)
        queue.addOperations(groups, waitUntilFinished: false)
        queue.addOperation(goOn)
        allHaveBegun.wait()
        while !goOn.isExecuting {}
        #expect(groups.allSatisfy { $0.isExecuting })
        // The monitor may take a worker that waits for a lock of the runtime for blocked, and replaces it.
        #expect(engine.threadCount <= 8)
        goOn.finish()
        queue.waitUntilAllOperationsAreFinished()
        #expect(groups.allSatisfy { $0.outcome == .succeeded })
    }

    @Test func whatCannotBeAddedIsSaid() throws {
        let (inner, outer) = (group(name: "inner"), group(name: "outer"))
        #expect(throws: OperationError.self) { try inner.tryAddOperation(inner) }
        outer.addOperation(inner)
        let error = #expect(throws: OperationError.self) { try inner.tryAddOperation(outer) }
        #expect("\(error!)" == "outer cannot be added: a group cannot contain itself")
        let other = Engine(workerCount: 1)
        let foreign = #expect(throws: OperationError.self) { try OperationQueue(engine: other).tryAddOperation(group(name: "g")) }
        #expect("\(foreign!)".hasPrefix("g cannot be added to the queue: they have different engines"))
        let member = named("m")
        outer.addOperation(member)
        #expect(throws: OperationError.self) { try OperationQueue(engine: engine).tryAddOperation(member) }
        #expect(throws: OperationError.self) { try member.tryAddDependency(outer) }
        #expect(throws: OperationError.self) { try outer.tryAddDependency(member) }
    }

    @Test func aMemberCannotWaitForItsGroup() {
        let group = group(), log = Log<String>()
        group.addOperation { [unowned group] in
            do { try group.tryWaitUntilFinished() } catch { log.append("\(error)") }
        }
        run(group)
        #expect(log.count == 1 && log.entries[0].contains("waits for itself"))
    }

    @Test func aTimeoutCancelsTheMembersAndIsTheOutcome() throws {
        let simulation = Engine.Simulation(seed: 1)
        let (long, quick) = (AsyncOperation(), BlockOperation { throw Broken() })
        let group = GroupOperation(operations: [long, quick], name: "g", engine: simulation.engine)
        group.timeout = .seconds(5)
        #expect(group.timeout == .seconds(5))
        let queue = OperationQueue(engine: simulation.engine)
        queue.addOperation(group)
        let begin = simulation.now
        while !long.isCancelled { simulation.step() }
        #expect(simulation.now == begin + .seconds(5) && group.isCancelled && !group.isFinished)
        long.finish()
        while simulation.step() {}
        #expect(group.outcome == .failed && "\(group.error!)" == "g took longer than \(Duration.seconds(5))")
    }

    @Test func aTimeoutThatIsNotNeededLeavesNothingBehind() {
        let engine = Engine(workerCount: 1, hostMayAddOperations: false)
        let group = GroupOperation(operations: [BlockOperation {}], engine: engine)
        group.timeout = .seconds(3600)
        OperationQueue(engine: engine).addOperation(group)
        group.waitUntilFinished()
        #expect(group.outcome == .succeeded)
        // A timer would keep the engine from being quiescent.
        #expect(engine.mainInbox.run(until: { false }) == .stalled)
    }

    @Test func conditionsAndKeysAreThoseOfTheWhole() {
        let log = Log<Int>()
        let (a, b) = (
            group([BlockOperation { log.append(1) }, BlockOperation { log.append(1) }]), group([BlockOperation { log.append(2) }])
        )
        for group in [a, b] { group.exclusiveKeys = ["key"] }
        let refused = group([BlockOperation { log.append(3) }])
        refused.addCondition(OperationPrecondition(name: "never") { _ in .failed(reason: "no") })
        let queue = OperationQueue(engine: engine)
        queue.addOperations([a, b, refused], waitUntilFinished: true)
        #expect(log.entries == [1, 1, 2] || log.entries == [2, 1, 1])
        #expect(refused.outcome == .cancelled && refused.operations[0].outcome == .cancelled)
    }

    @Test func aDependencyThatFailsCancelsAGroupWhosePolicySaysSo() {
        let failing = BlockOperation { throw Broken() }, member = BlockOperation {}
        let group = group([member])
        group.dependencyPolicy = .succeeded
        group.addDependency(failing)
        OperationQueue(engine: engine).addOperations([group, failing], waitUntilFinished: true)
        #expect(group.outcome == .cancelled && member.outcome == .cancelled)
    }

    // Safety: `@unchecked Sendable` because the stored property is a constant.
    private final class FanOut: GroupOperation, @unchecked Sendable {
        let log = Log<Int>()
        override func main() {
            for number in 0..<3 { addOperation { [log] in log.append(number) } }
            // The group does not end before this returns.
            waitForMembers()
            addOperation { [log] in log.append(3) }
        }
        private func waitForMembers() { for member in operations { member.waitUntilFinished() } }
    }

    @Test func aSubclassAddsMembersInMain() {
        let group = FanOut(operations: [], engine: engine)
        run(group)
        #expect(Set(group.log.entries.dropLast()) == [0, 1, 2] && group.log.entries.last == 3 && group.outcome == .succeeded)
    }

    @Test func theInitializersOfOtherLibrariesExist() {
        let group = GroupOperation(operations: BlockOperation {}, BlockOperation {})
        let empty = GroupOperation()
        OperationQueue().addOperations([group, empty], waitUntilFinished: true)
        #expect(group.operations.count == 2 && empty.outcome == .succeeded)
    }

    @Test func observersSeeItAsAnyOperation() {
        let log = Log<String>()
        let group = group([BlockOperation {}])
        let tokens = [
            group.observe(\.isExecuting, options: .new) { _, change in log.append("executing \(change.newValue!)") },
            group.observe(\.isFinished, options: .new) { _, change in log.append("finished \(change.newValue!)") },
        ]
        group.completionBlock = { log.append("completion") }
        run(group)
        while log.count < 4 {}
        #expect(log.entries == ["executing true", "executing false", "finished true", "completion"])
        withExtendedLifetime(tokens) {}
    }

    @Test func itIsReleasedWithItsMembers() {
        let tracker = LifetimeTracker()
        do {
            let finished = group([BlockOperation { [token = tracker.token()] in _ = token }])
            run(finished)
            let unused = group([BlockOperation { [token = tracker.token()] in _ = token }])
            unused.addOperation(group([BlockOperation { [token = tracker.token()] in _ = token }]))
        }
        // A worker may be about to release the finished group.
        #expect(engine.shutdown(deadline: .seconds(60)).isEmpty)
        #expect(tracker.alive == 0)
    }
}
