import OpEngine
import TestSupport
import Testing

/// The reasons given for groups and members that do not run, and their progress.
@Suite struct GroupDiagnosisTests {
    private let engine = Engine(workerCount: 1, hostMayAddOperations: false)

    private func named<Kind: Operation>(_ operation: Kind, _ name: String) -> Kind {
        operation.name = name
        return operation
    }

    private func why(_ operation: Operation) -> String { operation.whyNotRunning.map { "\($0)" } ?? "it runs" }

    @Test func aMemberWaitsForItsGroup() {
        let (member, first) = (named(BlockOperation {}, "m"), named(BlockOperation {}, "first"))
        let group = GroupOperation(operations: [member], name: "g", engine: engine)
        group.addDependency(first)
        #expect(why(member) == "m is in the group g, which has not started")
        #expect(member.whyNotRunning?.blockers == [.groupNotStarted(group)])
        let queue = OperationQueue(engine: engine)
        queue.addOperation(group)
        let error = #expect(throws: OperationError.self) { try member.tryWaitUntilFinished() }
        #expect(
            "\(error!)"
                == "this wait can never end: m is in the group g, which has not started; g depends on first, which was never added to a queue"
        )
        group.cancel()
        queue.waitUntilAllOperationsAreFinished()
    }

    @Test func aSuspendedGroupIsNamed() {
        let member = named(BlockOperation {}, "m")
        let group = GroupOperation(operations: [member], name: "g", engine: engine)
        group.isSuspended = true
        let queue = OperationQueue(engine: engine)
        queue.addOperation(group)
        let error = #expect(throws: OperationError.self) { try group.tryWaitUntilFinished() }
        #expect("\(error!)" == "this wait can never end: g waits for its members m; m is in group g, which is suspended")
        #expect(why(group) == "it runs" && why(member) == "m is in group g, which is suspended")
        #expect(engine.stallReport().entries.map(\.operation) == [member])
        group.isSuspended = false
        queue.waitUntilAllOperationsAreFinished()
    }

    @Test func theMaximumOfAGroupIsNamed() {
        let simulation = Engine.Simulation(seed: 1)
        let (first, second) = (named(AsyncOperation(), "first"), named(BlockOperation {}, "second"))
        let group = GroupOperation(operations: [first, second], name: "g", maxConcurrentOperationCount: 1, engine: simulation.engine)
        OperationQueue(engine: simulation.engine).addOperation(group)
        while simulation.step() {}
        #expect(why(second) == "second is in group g, whose maximum is reached by first")
        first.finish()
        while simulation.step() {}
        #expect(group.outcome == .succeeded)
    }

    @Test func observersOfTheProgressSeeOldAndNewValues() {
        let simulation = Engine.Simulation(seed: 1)
        let queue = OperationQueue(engine: simulation.engine)
        let changes = Log<[Double]>()
        let token = queue.progress.observe(\.fractionCompleted, options: [.old, .new]) { _, change in
            changes.append([change.oldValue!, change.newValue!])
        }
        let members = [AsyncOperation(), AsyncOperation()]
        queue.addOperations([BlockOperation {}, GroupOperation(operations: members, engine: simulation.engine)], waitUntilFinished: false)
        while simulation.step() {}
        for member in members { member.finish() }
        // An addition tells a change, too, even if the fraction is as before.
        #expect(changes.entries.filter { $0[0] != $0[1] } == [[0, 0.5], [0.5, 0.75], [0.75, 1]])
        // A later observer begins with the present members, also in groups inside.
        let (late, leaf) = (Log<[Double]>(), AsyncOperation())
        var inner = GroupOperation(operations: [leaf, BlockOperation {}], engine: simulation.engine)
        for _ in 0..<300 { inner = GroupOperation(operations: [inner], engine: simulation.engine) }
        let other = OperationQueue(engine: simulation.engine)
        other.addOperation(inner)
        while simulation.step() {}
        let second = other.progress.observe(\.fractionCompleted, options: [.old, .new]) { _, change in
            late.append([change.oldValue!, change.newValue!])
        }
        leaf.finish()
        #expect(late.entries == [[0.5, 1]])
        withExtendedLifetime((token, second)) {}
    }

    @Test func theProgressOfItsQueueContainsThatOfItsMembers() {
        let simulation = Engine.Simulation(seed: 1)
        let queue = OperationQueue(engine: simulation.engine)
        let members = (0..<4).map { _ in AsyncOperation() }
        let inner = GroupOperation(operations: [members[2], members[3]], engine: simulation.engine)
        let group = GroupOperation(operations: [members[0], members[1], inner], engine: simulation.engine)
        let other = AsyncOperation()
        queue.addOperations([group, other], waitUntilFinished: false)
        while simulation.step() {}
        #expect(queue.progress.fractionCompleted == 0 && queue.progress.totalUnitCount == 2)
        let fractions = Log<Double>()
        let token = queue.progress.observe(\.fractionCompleted, options: .new) { _, change in fractions.append(change.newValue!) }
        members[0].finish()
        #expect(abs(queue.progress.fractionCompleted - 1 / 6) < 1e-9 && abs(group.progress.fractionCompleted - 1 / 3) < 1e-9)
        members[2].finish()
        #expect(abs(queue.progress.fractionCompleted - 1 / 4) < 1e-9)
        members[1].finish()
        members[3].finish()
        #expect(queue.progress.fractionCompleted == 0.5 && queue.progress.completedUnitCount == 1)
        other.finish()
        #expect(queue.progress.isFinished && queue.progress.fractionCompleted == 1)
        #expect(fractions.entries.count >= 5 && fractions.entries == fractions.entries.sorted() && fractions.entries.last == 1)
        withExtendedLifetime(token) {}
    }
}
