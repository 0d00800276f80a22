import OpEngine
import TestSupport
import Testing

@Suite struct DependencyTests {
    @Test func dependenciesHoldAcrossQueues() {
        let engine = Engine(workerCount: 2)
        let (first, second) = (OperationQueue(engine: engine), OperationQueue(engine: engine))
        let log = Log<String>()
        let a = BlockOperation { log.append("a") }
        let b = BlockOperation { log.append("b") }
        let c = BlockOperation { log.append("c") }
        c.addDependency(b)
        b.addDependency(a)
        second.addOperation(c)
        first.addOperation(b)
        #expect(!b.isReady && !c.isReady)
        second.addOperation(a)
        c.waitUntilFinished()
        #expect(log.entries == ["a", "b", "c"])
        #expect(c.dependencies == [b])
    }

    @Test func addedTwiceItCountsOnce() {
        let (a, b) = (BlockOperation {}, BlockOperation {})
        b.addDependency(a)
        b.addDependency(a)
        #expect(b.dependencies == [a])
        a.start()
        #expect(b.isReady)
        b.addDependency(a)
        #expect(b.dependencies == [a])
    }

    @Test func removingTheLastUnfinishedOneMakesItReady() {
        let queue = OperationQueue(engine: Engine(workerCount: 1))
        let (never, operation) = (BlockOperation {}, BlockOperation {})
        operation.addDependency(never)
        queue.addOperation(operation)
        #expect(!operation.isReady)
        operation.removeDependency(never)
        operation.waitUntilFinished()
        #expect(operation.dependencies.isEmpty && !never.isFinished)
    }

    @Test func aDependencyAddedToAReadyOperationHoldsIt() {
        let queue = OperationQueue(engine: Engine(workerCount: 1))
        queue.isSuspended = true
        queue.maxConcurrentOperationCount = 1
        let log = Log<String>()
        let a = BlockOperation { log.append("a") }
        let b = BlockOperation { log.append("b") }
        queue.addOperations([b, a], waitUntilFinished: false)
        b.addDependency(a)
        #expect(!b.isReady)
        queue.isSuspended = false
        queue.waitUntilAllOperationsAreFinished()
        #expect(log.entries == ["a", "b"])
    }

    @Test func aDependencyAddedToAFinishedOperationHasNoEffect() {
        let (a, b) = (BlockOperation {}, BlockOperation {})
        b.start()
        b.addDependency(a)
        #expect(b.isReady && b.isFinished && b.dependencies == [a])
    }

    @Test func cancellingOneMemberFreesACycle() {
        let queue = OperationQueue(engine: Engine(workerCount: 2))
        let (a, b, c) = (BlockOperation {}, BlockOperation {}, BlockOperation {})
        a.addDependency(b)
        b.addDependency(c)
        c.addDependency(a)
        queue.addOperations([a, b, c], waitUntilFinished: false)
        #expect(!a.isReady && !b.isReady && !c.isReady)
        b.cancel()
        queue.waitUntilAllOperationsAreFinished()
        #expect(a.outcome == .succeeded && b.outcome == .cancelled && c.outcome == .succeeded)
        for operation in [a, b, c] { for dependency in operation.dependencies { operation.removeDependency(dependency) } }
    }

    @Test func aFailedDependencyThatWasRemovedDoesNotCount() {
        struct Failure: Error {}
        let queue = OperationQueue(engine: Engine(workerCount: 2))
        let (failed, other, a, b) = (BlockOperation { throw Failure() }, BlockOperation { throw Failure() }, Operation(), Operation())
        failed.start()
        other.start()
        for operation in [a, b] { operation.dependencyPolicy = .succeeded }
        a.addDependency(failed)
        b.addDependency(failed)
        b.addDependency(other)
        for operation in [a, b] { operation.removeDependency(failed) }
        queue.addOperations([a, b], waitUntilFinished: true)
        #expect(a.outcome == .succeeded && b.outcome == .cancelled)
    }

    @Test func aChainOfAMillionIsReleasedWithoutRecursion() {
        let queue = OperationQueue(engine: Engine(workerCount: 2))
        let gate = BlockOperation {}
        var last: Operation = gate
        for _ in 0..<TestLength.size(1_000_000) {
            let next = Operation()
            next.addDependency(last)
            queue.addOperation(next)
            last = next
        }
        queue.addOperation(gate)
        last.waitUntilFinished()
        #expect(last.isFinished)
    }

    @Test func aChainOfAMillionThatNeverRanGoesWithoutRecursion() {
        weak var first: Operation?
        do {
            let gate = Operation()
            first = gate
            var last: Operation = gate
            for _ in 0..<TestLength.size(1_000_000) {
                let next = Operation()
                next.addDependency(last)
                last = next
            }
        }
        #expect(first == nil)
    }

    @Test func aGateWithAMillionDependentsIsLinear() {
        let queue = OperationQueue(engine: Engine(workerCount: 2))
        let gate = BlockOperation {}
        let end = BlockOperation {}
        for _ in 0..<TestLength.size(1_000_000) {
            let next = Operation()
            next.addDependency(gate)
            end.addDependency(next)
            queue.addOperation(next)
        }
        queue.addOperation(end)
        queue.addOperation(gate)
        end.waitUntilFinished()
        #expect(queue.operationCount == 0 && end.dependencies.count == TestLength.size(1_000_000))
    }

    @Test func droppedDependentsLeaveTheirDependency() {
        let gate = BlockOperation {}
        for _ in 0..<1000 { Operation().addDependency(gate) }
        gate.start()
        #expect(gate.isFinished)
    }

    @Test func oneThatHasEndedListsADependencyOnce() {
        let queue = OperationQueue(engine: Engine(workerCount: 1))
        let (other, never, operation) = (Operation(), Operation(), Operation())
        operation.addDependency(other)
        operation.addDependency(never)
        queue.addOperation(operation)
        operation.cancel()
        operation.waitUntilFinished()
        operation.addDependency(never)
        #expect(operation.dependencies == [other, never])
        never.start()
        operation.addDependency(never)
        #expect(operation.dependencies == [other, never] && operation.isFinished)
    }

    @Test func finishedDependenciesThatOthersHaveAreListedOnceInLinearTime() {
        let (one, other) = (Operation(), Operation())
        let finished = (0..<100_000).map { _ in Operation() }
        for operation in finished {
            operation.start()
            one.addDependency(operation)
        }
        for operation in finished {
            other.addDependency(operation)
            other.addDependency(operation)
        }
        #expect(one.dependencies == finished && other.dependencies == finished && other.isReady)
        for operation in finished.reversed().prefix(100) { other.removeDependency(operation) }
        other.addDependency(finished[99_999])
        #expect(other.dependencies == finished.prefix(99_900) + [finished[99_999]])
    }

    @Test func addingAndRemovingKeepTheOrderOfAddition() {
        let seed = UInt64.random(in: 0..<1_000_000)
        var random = SeededGenerator(seed: seed)
        let tracker = LifetimeTracker()
        do {
            let all = (0..<40).map { _ in
                let token = tracker.token()
                return BlockOperation { withExtendedLifetime(token) {} }
            }
            let operation = Operation()
            var expected: [Operation] = []
            var differences = 0
            for _ in 0..<5000 {
                let other = all.randomElement(using: &random)!
                switch Int.random(in: 0..<40, using: &random) {
                case 0: if !other.isFinished && Int.random(in: 0..<4, using: &random) == 0 { other.start() }
                case 1..<22:
                    operation.addDependency(other)
                    if !expected.contains(other) { expected.append(other) }
                default:
                    operation.removeDependency(other)
                    expected.removeAll { $0 == other }
                }
                if operation.dependencies != expected || operation.isReady != expected.allSatisfy(\.isFinished) { differences += 1 }
            }
            #expect(differences == 0, "seed \(seed)")
            operation.cancel()
            operation.start()
        }
        #expect(tracker.alive == 0, "seed \(seed)")
    }
}
