import OpEngine
import Synchronization
import TestSupport
import Testing

/// When objects are released. AddressSanitizer finds most mistakes here.
@Suite struct LifetimeTests {
    @Test func anAsynchronousOperationMayBeTheLastThatHoldsItsEngine() {
        weak var weakEngine: Engine?
        let operation = AsyncOperation()
        do {
            // No worker is started, since it would keep the engine alive, too.
            let engine = Engine(workerCount: 1)
            weakEngine = engine
            engine.mainQueue.addOperation(operation)
            #expect(engine.mainInbox.drain() == 1)
        }
        #expect(weakEngine != nil && operation.isExecuting)
        operation.finish()
        #expect(weakEngine == nil && operation.isFinished)
    }

    @Test func aQueueMayGoWhileItsLastOperationIsMadeReadyElsewhere() {
        let engine = Engine(workerCount: 2)
        for _ in 0..<2000 {
            let (never, ended) = (Operation(), Gate())
            let operation = BlockOperation {}
            operation.whenFinished { ended.open() }
            operation.addDependency(never)
            OperationQueue(engine: engine).addOperation(operation)
            operation.removeDependency(never)
            ended.wait()
        }
        #expect(engine.shutdown(deadline: .seconds(10)).isEmpty)
    }

    @Test func aFailedDependencyMayCancelOneThatEndsAtThatMoment() {
        let engine = Engine(workerCount: 2)
        let queue = OperationQueue(engine: engine)
        for _ in 0..<2000 {
            let failing = AsyncOperation()
            do {
                let operation = Operation()
                operation.dependencyPolicy = .succeeded
                operation.addDependency(failing)
                queue.addOperation(operation)
            }
            let thread = TestThread { queue.cancelAllOperations() }
            failing.finish(with: OperationError.dependsOnItself(operation: "test"))
            thread.join()
            queue.waitUntilAllOperationsAreFinished()
        }
        #expect(queue.operationCount == 0)
        #expect(engine.shutdown(deadline: .seconds(10)).isEmpty)
    }

    /// While a dependency finishes, another thread releases, ends, adds and removes its dependents.
    @Test func dependentsMayGoEndAndChangeWhileTheirDependencyFinishes() {
        let seed = UInt64.random(in: 0..<1_000_000)
        var random = SeededGenerator(seed: seed)
        let engine = Engine(workerCount: 2)
        let queue = OperationQueue(engine: engine)
        let tracker = LifetimeTracker()
        for round in 0..<1000 {
            let (dependency, other) = (Operation(), Operation())
            let choices = (0..<12).map { _ in Int.random(in: 0..<5, using: &random) }
            // Only the thread below owns the operations.
            let box = Locked<[Operation]>([])
            let ran = Atomic<Int>(0)
            for choice in choices {
                let token = tracker.token()
                let dependent = BlockOperation {
                    withExtendedLifetime(token) {}
                    ran.wrappingAdd(1, ordering: .relaxed)
                }
                if choice != 4 { dependent.addDependency(dependency) }
                if choice >= 3 { dependent.addDependency(other) }
                if choice != 0 { queue.addOperation(dependent) }
                box.withLock { $0.append(dependent) }
            }
            let thread = TestThread {
                var dependents = box.withLock { dependents in
                    defer { dependents = [] }
                    return dependents
                }
                for choice in choices {
                    let dependent = dependents.removeFirst()
                    switch choice {
                    // 0: only the reference is released.
                    case 1: dependent.removeDependency(dependency)
                    case 2: dependent.cancel()
                    case 3: dependent.removeDependency(dependency)
                    case 4: dependent.addDependency(dependency)
                    default: break
                    }
                }
            }
            for _ in 0..<Int.random(in: 0..<2000, using: &random) { _ = ran.load(ordering: .relaxed) }
            dependency.start()
            other.start()
            thread.join()
            queue.waitUntilAllOperationsAreFinished()
            let mustRun = choices.count { $0 != 0 && $0 != 2 }
            #expect(ran.load(ordering: .relaxed) >= mustRun, "seed \(seed), round \(round)")
        }
        #expect(engine.shutdown(deadline: .seconds(10)).isEmpty)
        #expect(tracker.alive == 0, "seed \(seed)")
    }

    @Test func blocksStillRunWhenTheirEngineHasBeenShutDown() {
        let engine = Engine(workerCount: 1)
        let log = Log<Int>()
        let (began, mayGoOn, ended) = (Gate(), Gate(), Gate())
        let operation = BlockOperation {
            began.open()
            mayGoOn.wait()
            let inner = BlockOperation { log.append(0) }
            for index in 1..<4 { inner.addExecutionBlock { log.append(index) } }
            inner.start()
            ended.open()
        }
        OperationQueue(engine: engine).addOperation(operation)
        began.wait()
        #expect(engine.shutdown(deadline: .milliseconds(5)) == [operation])
        mayGoOn.open()
        ended.wait()
        #expect(log.entries == [0, 1, 2, 3])
    }

    /// The deinitialiser runs on the thread that releases both operations, while the other operation is on its way to its queue.
    @Test func aDependentThatGoesMayEndAnotherThatIsReleasedWithIt() {
        // Safety: the added property is constant.
        final class Ending: Operation, @unchecked Sendable {
            private let other: AsyncOperation

            init(_ other: AsyncOperation) { self.other = other }

            deinit { other.finish() }
        }
        let queue = OperationQueue(engine: Engine(workerCount: 1))
        queue.isSuspended = true
        for _ in 0..<TestLength.size(3000) {
            let (dependency, other, pace) = (AsyncOperation(), AsyncOperation(), Pace(threads: 2))
            other.addDependency(dependency)
            queue.addOperation(other)
            let held = Locked((0..<60).map { _ in Ending(other) })
            held.withLock { for operation in $0 { operation.addDependency(dependency) } }
            let releasing = TestThread {
                pace.step()
                while held.withLock({ $0.popLast() }) != nil {}
            }
            pace.step()
            dependency.finish()
            releasing.join()
            other.finish()
        }
        #expect(queue.operations.isEmpty)
    }
}
