import CPlatform
import Glibc
import TestSupport
import Testing

@testable import OpEngine

/// Here the test's thread lingers in the place of a worker.
@Suite struct LingeringTests {
    private let engine = Engine(workerCount: 1)

    @Test func whoAddsCallsTheWorkerThatLingers() {
        let queue = OperationQueue(engine: engine)
        let log = Log<Int>()
        #expect(queue.core.beginLingering())
        queue.addOperation { log.append(1) }
        queue.addOperation {}
        #expect(queue.core.isLingererCalled)
        #expect(engine.threadCount == 0)
        #expect(queue.core.endLingering())
        #expect(queue.core.runOne(on: ThreadContext.current, by: .foreground))
        #expect(log.entries == [1])
        // What is left goes the usual way.
        queue.waitUntilAllOperationsAreFinished()
        #expect(engine.threadCount == 1)
    }

    @Test func whoHasLingeredInVainIsNotCalledAnyMore() {
        let queue = OperationQueue(engine: engine)
        #expect(queue.core.beginLingering())
        #expect(!queue.core.endLingering())
        queue.addOperation {}
        queue.waitUntilAllOperationsAreFinished()
        #expect(!queue.core.isLingererCalled)
    }

    @Test func onlyOneWorkerLingersAtAQueue() {
        let queue = OperationQueue(engine: engine)
        #expect(queue.core.beginLingering())
        #expect(!queue.core.beginLingering())
        #expect(!queue.core.endLingering())
        #expect(queue.core.beginLingering())
    }

    @Test func workForOtherThreadsIsNotForWhoLingers() {
        let queue = OperationQueue(engine: engine)
        queue.qualityOfService = .background
        #expect(queue.core.beginLingering())
        queue.addOperation {}
        queue.waitUntilAllOperationsAreFinished()
        #expect(!queue.core.endLingering())
    }

    @Test func whoLingersIsCalledWhenAQueueGoesOn() {
        let queue = OperationQueue(engine: engine)
        queue.isSuspended = true
        queue.addOperation {}
        #expect(queue.core.beginLingering())
        #expect(!queue.core.isLingererCalled)
        queue.isSuspended = false
        #expect(queue.core.isLingererCalled)
        #expect(queue.core.endLingering())
        #expect(queue.core.runOne(on: ThreadContext.current, by: .foreground))
        #expect(queue.operationCount == 0)
    }

    @Test func aWorkerThatLingersServesOtherQueues() {
        let (first, second) = (OperationQueue(engine: engine), OperationQueue(engine: engine))
        for _ in 0..<2000 {
            first.addOperation {}
            second.addOperation {}
            first.addOperation {}
            second.waitUntilAllOperationsAreFinished()
        }
        first.waitUntilAllOperationsAreFinished()
        #expect(engine.threadCount == 1)
    }

    @Test func aWorkerThatLingersLetsAQueueGo() {
        var queue: OperationQueue? = OperationQueue(engine: engine)
        weak let core = queue?.core
        for _ in 0..<100 { queue?.addOperation {} }
        queue?.waitUntilAllOperationsAreFinished()
        queue = nil
        #expect(engine.shutdown(deadline: .seconds(10)) == [])
        #expect(core == nil)
    }

    /// However long it works for another one.
    @Test func aWorkerThatServesAnotherQueueLetsTheLastOneGo() {
        let (started, end) = (Gate(), Gate())
        let second = OperationQueue(engine: engine)
        var first: OperationQueue? = OperationQueue(engine: engine)
        weak let core = first?.core
        first?.addOperation {
            second.addOperation {
                started.open()
                end.wait()
            }
        }
        first?.waitUntilAllOperationsAreFinished()
        first = nil
        started.wait()
        #expect(core == nil)
        end.open()
        second.waitUntilAllOperationsAreFinished()
    }

    // MARK: BatchingDelay

    @Test func fastArrivalsBeginTheDelay() {
        var batchingDelay = BatchingDelay()
        for _ in 0..<8 {
            #expect(batchingDelay.iterations == 0)
            batchingDelay.foundWork(after: 3)
        }
        #expect(batchingDelay.iterations > 0)
        batchingDelay.foundWork(after: 1000)
        #expect(batchingDelay.iterations == 0)
    }

    @Test func theDelayGrowsWhileOperationsArrive() {
        var batchingDelay = BatchingDelay()
        for _ in 0..<8 { batchingDelay.foundWork(after: 3) }
        let growing = (0..<4).map { _ in
            batchingDelay.hasWaited(operationsArrived: true)
            batchingDelay.foundWork(after: 3)
            return batchingDelay.iterations
        }
        let shrinking = (0..<3).map { _ in
            batchingDelay.foundWork(after: 1000)
            return batchingDelay.iterations
        }
        #expect(growing == [512, 1024, 1024, 1024])
        #expect(shrinking == [512, 256, 0])
    }

    /// Who waits for each operation, by whatever means, is kept waiting seldom.
    @Test func attemptsInVainBecomeRare() {
        var batchingDelay = BatchingDelay()
        func callsUntilItWaits() -> Int {
            var count = 0
            while batchingDelay.iterations == 0 {
                batchingDelay.foundWork(after: 3)
                count += 1
            }
            return count
        }
        let counts = (0..<11).map { _ in
            defer { batchingDelay.hasWaited(operationsArrived: false) }
            return callsUntilItWaits()
        }
        #expect(counts == [8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 4096])
        _ = callsUntilItWaits()
        batchingDelay.hasWaited(operationsArrived: true)
        batchingDelay.foundNothing()
        #expect(callsUntilItWaits() == 8)
    }

    @Test(arguments: [true, false])
    func whetherMoreCameIsKnown(isInTime: Bool) {
        let queue = OperationQueue(engine: engine)
        queue.isSuspended = true
        queue.addOperation {}
        #expect(!queue.core.receivesOperations { true })
        let operationsArrived = queue.core.receivesOperations {
            queue.addOperation {}
            return isInTime
        }
        #expect(operationsArrived == isInTime)
        queue.cancelAllOperations()
        queue.isSuspended = false
        queue.waitUntilAllOperationsAreFinished()
    }

    /// Who adds quickly now and then has not been misjudged for ever.
    @Test func whatWasLearntIsForgotten() {
        var batchingDelay = BatchingDelay()
        for _ in 0..<10 {
            while batchingDelay.iterations == 0 { batchingDelay.foundWork(after: 3) }
            batchingDelay.hasWaited(operationsArrived: false)
        }
        for _ in 0..<5 { batchingDelay.foundNothing() }
        for _ in 0..<5 { batchingDelay.foundWork(after: 1000) }
        for _ in 0..<8 { batchingDelay.foundWork(after: 3) }
        #expect(batchingDelay.iterations > 0)
    }

    /// To let more come would make who waits for the last one wait longer.
    @Test(arguments: ["the queue", "an operation", "its end", "a place"])
    func theWorkerKnowsThatSomebodyBeginsToWait(for awaited: String) {
        let queue = OperationQueue(engine: engine)
        queue.maxPendingOperationCount = 1
        #expect(queue.core.beginLingering())
        let operation = BlockOperation {}
        queue.addOperation(operation)
        #expect(!queue.core.isWaitedFor)
        let lingerer = TestThread {
            while !queue.core.isWaitedFor { sched_yield() }
            _ = queue.core.endLingering()
            queue.core.runOne(on: ThreadContext.current, by: .foreground)
        }
        switch awaited {
        case "the queue": queue.waitUntilAllOperationsAreFinished()
        case "an operation": operation.waitUntilFinished()
        case "its end": operation.whenFinished {}
        default: queue.addOperation {}
        }
        lingerer.join()
        #expect(operation.isFinished)
        queue.waitUntilAllOperationsAreFinished()
    }

    @Test func whoBeganToWaitBeforeTheWorkerLingersDoesNotCount() {
        let queue = OperationQueue(engine: engine)
        queue.isSuspended = true
        let operation = BlockOperation {}
        queue.addOperation(operation)
        for isAwaited in [true, false] {
            #expect(queue.core.beginLingering() && !queue.core.isWaitedFor)
            if isAwaited { operation.whenFinished {} }
            #expect(queue.core.isWaitedFor == isAwaited)
            _ = queue.core.endLingering()
        }
        queue.isSuspended = false
        queue.waitUntilAllOperationsAreFinished()
    }

    // MARK: Crowding

    @Test func aWorkerThatIsWokenBesideItsWakerGoesElsewhere() {
        var crowding = Crowding()
        func departures(in wakeUps: Int) -> [Int] { (1...wakeUps).filter { _ in crowding.wasWoken(besideWaker: true) } }
        // In vain each time: it waits for twice as many.
        let (inVain, after) = (departures(in: 100), crowding.wasWoken(besideWaker: false))
        #expect(inVain == [4, 12, 28, 60] && !after)
        let fifth = departures(in: 64)
        // This time it helps.
        let helped = crowding.wasWoken(besideWaker: false), next = departures(in: 5)
        #expect(fifth == [64] && !helped && next == [4])
    }

    @Test func whoGoesElsewhereMayStillRunEverywhere() {
        let (processors, left) = (cplatform_affinity_count(), Locked<Int32>(0))
        TestThread {
            cplatform_leave_processor()
            left.withLock { $0 = cplatform_affinity_count() }
        }.join()
        #expect(left.withLock { $0 } == processors)
    }
}
