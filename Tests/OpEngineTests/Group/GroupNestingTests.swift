import OpEngine
import TestLimits
import TestSupport
import Testing

/// Groups in groups. Nothing recurses, so the depth is limited only by memory.
@Suite(.endsWithin(seconds: 60)) struct GroupNestingTests {
    private static let depth = 10_000

    // Safety: `@unchecked Sendable` because nothing is added to its superclass.
    private final class Subclass: GroupOperation, @unchecked Sendable {}

    /// The outermost group first.
    private func nest(_ leaf: Operation, on engine: Engine, depth: Int = GroupNestingTests.depth) -> [GroupOperation] {
        var groups: [GroupOperation] = []
        for level in 0..<depth {
            let member = groups.last ?? leaf
            groups.append(
                level % 2 == 0 ? GroupOperation(operations: [member], engine: engine) : Subclass(operations: [member], engine: engine))
        }
        return groups.reversed()
    }

    @Test func deeplyNestedGroupsStartAndFinish() {
        let engine = Engine(workerCount: 2), log = Log<Int>()
        let groups = nest(BlockOperation { log.append(1) }, on: engine)
        let queue = OperationQueue(engine: engine)
        queue.addOperation(groups[0])
        queue.waitUntilAllOperationsAreFinished()
        #expect(log.count == 1 && groups.allSatisfy { $0.outcome == .succeeded })
    }

    @Test func theFailureOfTheInnermostReachesTheOutermost() {
        struct Broken: Error {}
        let engine = Engine(workerCount: 2), leaf = BlockOperation { throw Broken() }
        leaf.name = "leaf"
        let groups = nest(leaf, on: engine)
        groups.last?.name = "innermost"
        OperationQueue(engine: engine).addOperations([groups[0]], waitUntilFinished: true)
        #expect(groups.allSatisfy { $0.outcome == .failed })
        #expect("\(groups[0].error!)" == "leaf in innermost has failed: Broken()")
    }

    @Test func deeplyNestedGroupsAreCancelledBeforeAndWhileTheyExecute() {
        let engine = Engine(workerCount: 2)
        let unstarted = nest(BlockOperation {}, on: engine)
        unstarted[0].cancel()
        #expect(unstarted.allSatisfy { $0.isCancelled })
        let queue = OperationQueue(engine: engine)
        queue.addOperation(unstarted[0])
        let leaf = AsyncOperation()
        let executing = nest(leaf, on: engine)
        queue.addOperation(executing[0])
        while !leaf.isExecuting {}
        executing[0].cancel()
        #expect(executing.allSatisfy(\.isCancelled) && leaf.isCancelled)
        leaf.finish()
        queue.waitUntilAllOperationsAreFinished()
        #expect(unstarted.allSatisfy { $0.outcome == .cancelled } && executing.allSatisfy { $0.outcome == .cancelled })
    }

    @Test func deeplyNestedGroupsAreReleased() {
        let engine = Engine(workerCount: 2), tracker = LifetimeTracker()
        do {
            _ = nest(BlockOperation { [token = tracker.token()] in _ = token }, on: engine).first
            let finished = nest(BlockOperation { [token = tracker.token()] in _ = token }, on: engine)[0]
            OperationQueue(engine: engine).addOperations([finished], waitUntilFinished: true)
        }
        // A worker may be about to release the operations.
        #expect(engine.shutdown(deadline: .seconds(60)).isEmpty)
        #expect(tracker.alive == 0)
    }

    @Test(arguments: [false, true]) func inADroppedQueueGroupsEndAfterTheirMembers(inAGroup: Bool) {
        let engine = Engine(workerCount: 1), log = Log<String>()
        func named(_ name: String, _ operation: Operation) -> Operation {
            operation.name = name
            operation.whenFinished { log.append(name) }
            return operation
        }
        let inner = GroupOperation(operations: [named("a", BlockOperation {}), named("b", BlockOperation {})], engine: engine)
        inner.isSuspended = true
        inner.operations[0].addDependency(inner.operations[1])
        let empty = GroupOperation(operations: [], engine: engine)
        let kept = [named("inner", inner), named("empty", empty), named("c", BlockOperation {})]
        let outer = GroupOperation(operations: kept, engine: engine)
        do {
            // The group that is dropped has not started, and neither has the queue.
            if inAGroup { _ = GroupOperation(operations: [named("outer", outer)], engine: engine) }
            let queue = OperationQueue(engine: engine)
            queue.isSuspended = true
            if !inAGroup { queue.addOperation(named("outer", outer)) }
        }
        #expect(log.entries == ["a", "b", "inner", "empty", "c", "outer"])
        #expect((inner.operations + kept + [outer]).allSatisfy { $0.outcome == .cancelled })
        for group in [inner, empty, outer] {
            #expect(throws: OperationError.self) { try group.tryAddOperation(BlockOperation {}) }
        }
        #expect(engine.unfinishedOperationCount == 0 && engine.threadCount <= 1)
    }

    // Safety: `@unchecked Sendable` because the stored property is a constant.
    private final class Cancelling: GroupOperation, @unchecked Sendable {
        let log = Log<Int>()
        override func cancel() {
            log.append(1)
            super.cancel()
        }
    }

    @Test func anOverrideOfCancelIsCalled() {
        let engine = Engine(workerCount: 1)
        let inner = Cancelling(operations: [BlockOperation {}], engine: engine)
        let outer = GroupOperation(operations: [GroupOperation(operations: [inner], engine: engine)], engine: engine)
        outer.cancel()
        #expect(inner.log.count == 1 && inner.operations[0].isCancelled)
    }
}
