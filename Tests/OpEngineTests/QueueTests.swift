import Glibc
import OpPlatform
import Synchronization
import TestLimits
import TestSupport
import Testing

@testable import OpEngine

@Suite(.endsWithin(seconds: 60)) struct QueueTests {
    @Test func aBlockBecomesAnOperation() {
        let queue = OperationQueue(engine: Engine(workerCount: 1))
        let log = Log<Bool>()
        queue.addOperation { log.append(OperationQueue.current === queue && Operation.current != nil) }
        queue.waitUntilAllOperationsAreFinished()
        #expect(log.entries == [true])
        #expect(OperationQueue.current !== queue)
    }

    @Test func noMoreThanTheMaximumExecute() {
        let queue = OperationQueue(engine: Engine(workerCount: 4))
        queue.maxConcurrentOperationCount = 2
        do {
            let began = Gate()
            let mayEnd = Gate()
            for _ in 0..<20 {
                queue.addOperation {
                    began.open(); mayEnd.wait()
                }
            }
            for _ in 0..<10 {
                began.wait(2)
                #expect(queue.operations.filter(\.isExecuting).count == 2)
                mayEnd.open(2)
            }
            queue.waitUntilAllOperationsAreFinished()
        }
    }

    @Test func aRaisedMaximumActsAtOnce() {
        let queue = OperationQueue(engine: Engine(workerCount: 4))
        queue.maxConcurrentOperationCount = 0
        let (began, mayEnd) = (Gate(), Gate())
        for _ in 0..<3 {
            queue.addOperation {
                began.open(); mayEnd.wait()
            }
        }
        #expect(queue.operations.allSatisfy { !$0.isExecuting })
        queue.maxConcurrentOperationCount = 1
        began.wait()
        #expect(queue.operations.filter(\.isExecuting).count == 1)
        queue.maxConcurrentOperationCount = 3
        began.wait(2)
        mayEnd.open(3)
        queue.waitUntilAllOperationsAreFinished()
    }

    @Test func suspendingStopsNewStartsOnly() {
        let queue = OperationQueue(engine: Engine(workerCount: 2))
        let (began, mayEnd) = (Gate(), Gate())
        let first = BlockOperation {
            began.open(); mayEnd.wait()
        }
        let second = BlockOperation {}
        second.addDependency(first)
        queue.addOperations([first, second], waitUntilFinished: false)
        began.wait()
        queue.isSuspended = true
        mayEnd.open()
        first.waitUntilFinished()
        #expect(second.isReady && !second.isFinished && queue.operations == [second])
        second.cancel()
        #expect(second.isCancelled && queue.operationCount == 1)
        queue.isSuspended = false
        second.waitUntilFinished()
        #expect(second.outcome == .cancelled)
    }

    @Test func cancelAllCancelsWhatWaitsAndWhatExecutes() {
        let queue = OperationQueue(engine: Engine(workerCount: 2))
        queue.maxConcurrentOperationCount = 1
        let (began, mayEnd) = (Gate(), Gate())
        let log = Log<Int>()
        let first = BlockOperation {
            began.open(); mayEnd.wait()
        }
        queue.addOperation(first)
        let never = Operation()
        for index in 0..<5 {
            let operation = BlockOperation { log.append(index) }
            operation.addDependency(never)
            queue.addOperation(operation)
        }
        began.wait()
        let all = queue.operations
        queue.cancelAllOperations()
        #expect(all.allSatisfy(\.isCancelled) && first.isExecuting)
        mayEnd.open()
        queue.waitUntilAllOperationsAreFinished()
        #expect(log.entries.isEmpty && all.allSatisfy { $0.outcome == .cancelled })
    }

    @Test func whoWaitedForAQueueIsNotKeptByIt() throws {
        let queue = OperationQueue(engine: Engine(workerCount: 1))
        queue.isSuspended = true
        queue.addOperation {}
        for _ in 0..<3 { #expect(try !queue.tryWaitUntilAllOperationsAreFinished(until: .now)) }
        let hasNewWaiter = queue.core.state.withLock { !$0.waits.isEmpty }
        #expect(!hasNewWaiter)
    }

    @Test(arguments: CancelAll.allCases)
    func cancelAllLetsNothingBeginThatItWillCancel(_ way: CancelAll) {
        // Safety: the added property has a lock.
        final class Obedient: Operation, @unchecked Sendable {
            let (began, wasCancelled) = (Gate(), Gate())
            let uncancelled = Locked(0)

            override func main() {
                began.open()
                wasCancelled.wait()
            }

            override func cancel() {
                let others = queue?.operations ?? []
                uncancelled.withLock { $0 = others.count { $0 !== self && !$0.isCancelled } }
                super.cancel()
                wasCancelled.open()
            }
        }
        let engine = Engine(workerCount: 2)
        let queue = OperationQueue(engine: engine)
        queue.maxConcurrentOperationCount = 1
        let log = Log<Int>()
        let never = Operation()
        let (low, chain) = (BlockOperation { log.append(0) }, (1...3).map { index in BlockOperation { log.append(index) } })
        low.queuePriority = .veryLow
        low.addDependency(never)
        chain[0].addDependency(never)
        for (dependency, dependent) in zip(chain, chain.dropFirst()) { dependent.addDependency(dependency) }
        let executing = Obedient()
        queue.addOperations([low, executing] + chain, waitUntilFinished: false)
        executing.began.wait()
        switch way {
        case .queue: queue.cancelAllOperations()
        case .engine: engine.cancelAllOperations()
        case .shutdown: #expect(engine.shutdown(deadline: .seconds(60)).isEmpty)
        }
        queue.waitUntilAllOperationsAreFinished()
        #expect(log.entries.isEmpty && executing.uncancelled.withLock { $0 } == 0)
    }

    @Test func cancelAllCancelsDependentsFirst() {
        // Safety: the added property has a lock.
        final class Logging: Operation, @unchecked Sendable {
            let log: Log<String>

            init(_ name: String, log: Log<String>) {
                self.log = log
                super.init()
                self.name = name
            }

            override func cancel() {
                log.append(name ?? "")
                super.cancel()
            }
        }
        let engine = Engine(workerCount: 1)
        let (downstream, upstream, log) = (OperationQueue(engine: engine), OperationQueue(engine: engine), Log<String>())
        let operations = ["a", "b", "c", "d", "e"].map { Logging($0, log: log) }
        for (dependent, dependency) in [(0, 3), (0, 4), (1, 3), (3, 2)] { operations[dependent].addDependency(operations[dependency]) }
        for queue in [downstream, upstream] { queue.isSuspended = true }
        downstream.addOperations(Array(operations[..<3]), waitUntilFinished: false)
        upstream.addOperations(Array(operations[3...]), waitUntilFinished: false)
        engine.cancelAllOperations()
        let told = log.entries
        func place(_ name: String) -> Int { told.firstIndex(of: name) ?? -1 }
        #expect(told.sorted() == ["a", "b", "c", "d", "e"])
        #expect(place("a") < place("d") && place("a") < place("e") && place("b") < place("d") && place("d") < place("c"), "\(told)")
        for queue in [downstream, upstream] { queue.isSuspended = false }
        for queue in [downstream, upstream] { queue.waitUntilAllOperationsAreFinished() }
    }

    enum CancelAll: CaseIterable { case queue, engine, shutdown }

    @Test func anOperationHasLeftItsQueueWhenItsWaitReturns() {
        let queue = OperationQueue(engine: Engine(workerCount: 2))
        for _ in 0..<2000 {
            let operation = BlockOperation {}
            queue.addOperation(operation)
            operation.waitUntilFinished()
            #expect(queue.operationCount == 0)
        }
    }

    @Test func theQueueOfAnOperationIsKnownWhileItIsInside() {
        let queue = OperationQueue(engine: Engine(workerCount: 1))
        queue.isSuspended = true
        let operation = BlockOperation {}
        #expect(operation.queue == nil)
        queue.addOperation(operation)
        #expect(operation.queue === queue)
        queue.isSuspended = false
        operation.waitUntilFinished()
        #expect(operation.queue == nil)
    }

    @Test func aQueueThatNobodyHoldsLivesUntilItsOperationsHaveEnded() {
        let engine = Engine(workerCount: 1)
        let (mayEnd, ended) = (Gate(), Gate())
        // Safety: adds nothing to its superclass.
        final class Named: OperationQueue, @unchecked Sendable {}
        weak var weakQueue: OperationQueue?
        let log = Log<Bool>()
        do {
            let queue = Named(engine: engine)
            weakQueue = queue
            queue.addOperation { mayEnd.wait() }
            queue.addOperation { log.append(OperationQueue.current is Named) }
            queue.addBarrierBlock { ended.open() }
        }
        #expect(weakQueue != nil)
        mayEnd.open()
        ended.wait()
        _ = engine.shutdown(deadline: .seconds(10))
        #expect(log.entries == [true])
        #expect(weakQueue == nil)
    }

    @Test func aDroppedSuspendedQueueGoesWithItsOperations() {
        let engine = Engine(workerCount: 1)
        weak var weakQueue: OperationQueue?
        weak var weakOperation: Operation?
        let kept = BlockOperation {}
        let dependent = BlockOperation {}
        dependent.addDependency(kept)
        do {
            let queue = OperationQueue(engine: engine)
            queue.isSuspended = true
            weakQueue = queue
            let operation = BlockOperation {}
            weakOperation = operation
            queue.addOperation(operation)
            queue.addOperation(kept)
            queue.addBarrierBlock {}
            queue.addOperation {}
        }
        #expect(weakQueue == nil && weakOperation == nil)
        #expect(kept.outcome == .cancelled && dependent.isReady)
        #expect(engine.unfinishedOperationCount == 0)
    }

    @Test func nestedWaitsDoNotStarveThePool() {
        let queue = OperationQueue(engine: Engine(workerCount: 2))
        @Sendable func nest(_ depth: Int) {
            if depth == 0 { return }
            let inner = BlockOperation { nest(depth - 1) }
            OperationQueue.current!.addOperation(inner)
            inner.waitUntilFinished()
        }
        let outer = (0..<4).map { _ in BlockOperation { nest(30) } }
        queue.addOperations(outer, waitUntilFinished: true)
        #expect(outer.allSatisfy { $0.outcome == .succeeded })
    }

    @Test func aBlockIsAddedAsAnOperationIs() throws {
        let queue = OperationQueue(engine: Engine(workerCount: 1))
        queue.isSuspended = true
        queue.dependencyPolicy = .succeeded
        let log = Log<Int>()
        queue.addOperation { log.append(0) }
        let added = try #require(queue.operations.first)
        #expect(added.queue === queue && added.isReady && added.dependencyPolicy == .succeeded)
        #expect(throws: OperationError.self) { try queue.tryAddOperation(added) }
        #expect(throws: OperationError.self) { try added.tryStart() }
        // The operation waits, leaves the ready list, and returns to it, like any other.
        let first = BlockOperation { log.append(1) }
        added.addDependency(first)
        added.queuePriority = .veryHigh
        queue.addOperation { log.append(2) }
        queue.addOperation(first)
        #expect(!added.isReady && queue.operationCount == 3)
        queue.isSuspended = false
        queue.waitUntilAllOperationsAreFinished()
        #expect(log.entries == [2, 1, 0])
    }

    @Test func aBlockThatIsAddedDuringAShutdownIsCancelled() {
        for _ in 0..<200 {
            let engine = Engine(workerCount: 2)
            let queue = OperationQueue(engine: engine)
            queue.maxConcurrentOperationCount = 1
            let (began, mayGoOn) = (Gate(), Gate())
            queue.addOperation {
                began.open()
                mayGoOn.wait()
            }
            began.wait()
            let ran = Atomic<Bool>(false)
            let thread = TestThread { _ = engine.shutdown(deadline: .seconds(30)) }
            while !queue.operations.allSatisfy(\.isCancelled) { sched_yield() }
            queue.addOperation { ran.store(true, ordering: .relaxed) }
            mayGoOn.open()
            thread.join()
            #expect(queue.operationCount == 0 && !ran.load(ordering: .relaxed))
        }
    }
}
