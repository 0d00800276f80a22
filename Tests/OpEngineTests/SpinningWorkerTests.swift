import CTestSupport
import Glibc
import TestSupport
import Testing

@testable import OpEngine

/// In these tests, the test's thread spins at a queue in place of a worker.
@Suite struct SpinningWorkerTests {
    private let engine = Engine(workerCount: 1)

    private func isSignalled(_ queue: OperationQueue) -> Bool { queue.core.workerSignal.isSet }

    #if !WITHOUT_SPINNING_WORKER_SIGNAL

        @Test func addingSignalsTheSpinningWorker() {
            let queue = OperationQueue(engine: engine)
            let log = Log<Int>()
            #expect(queue.core.beginSpinning())
            queue.addOperation { log.append(1) }
            queue.addOperation {}
            #expect(isSignalled(queue))
            #expect(engine.threadCount == 0)
            #expect(queue.core.endSpinning())
            #expect(queue.core.runOne(on: ThreadContext.current, by: .foreground))
            #expect(log.entries == [1])
            // The remaining operation is scheduled as usual.
            queue.waitUntilAllOperationsAreFinished()
            #expect(engine.threadCount == 1)
        }

        @Test func aWorkerThatStoppedSpinningIsNotSignalled() {
            let queue = OperationQueue(engine: engine)
            #expect(queue.core.beginSpinning())
            #expect(!queue.core.endSpinning())
            queue.addOperation {}
            queue.waitUntilAllOperationsAreFinished()
            #expect(!isSignalled(queue))
        }

        @Test func onlyOneWorkerSpinsAtAQueue() {
            let queue = OperationQueue(engine: engine)
            #expect(queue.core.beginSpinning())
            #expect(!queue.core.beginSpinning())
            #expect(!queue.core.endSpinning())
            #expect(queue.core.beginSpinning())
        }

        @Test func workForOtherThreadGroupsDoesNotSignalTheSpinningWorker() {
            let queue = OperationQueue(engine: engine)
            queue.qualityOfService = .background
            #expect(queue.core.beginSpinning())
            queue.addOperation {}
            queue.waitUntilAllOperationsAreFinished()
            #expect(!queue.core.endSpinning())
        }

        @Test func resumingAQueueSignalsTheSpinningWorker() {
            let queue = OperationQueue(engine: engine)
            queue.isSuspended = true
            queue.addOperation {}
            #expect(queue.core.beginSpinning())
            #expect(!isSignalled(queue))
            queue.isSuspended = false
            #expect(isSignalled(queue))
            #expect(queue.core.endSpinning())
            #expect(queue.core.runOne(on: ThreadContext.current, by: .foreground))
            #expect(queue.operationCount == 0)
        }

    #else

        @Test("No worker spins at a queue, and adding an operation schedules the queue in the pool")
        func addingSchedulesTheQueue() {
            let queue = OperationQueue(engine: engine)
            #expect(!queue.core.beginSpinning())
            queue.addOperation {}
            #expect(engine.threadCount == 1)
            queue.waitUntilAllOperationsAreFinished()
            #expect(!isSignalled(queue))
        }

    #endif

    /// The test has its own process. A worker that sleeps for a lock looks blocked and is replaced when the holder is no worker. Other
    /// tests take such a lock when they change the address space. A sanitizer has more of them.
    @Test func aSpinningWorkerServesOtherQueues() async {
        await #expect(processExitsWith: .success) {
            let engine = Engine(workerCount: 1)
            let (first, second) = (OperationQueue(engine: engine), OperationQueue(engine: engine))
            for _ in 0..<2000 {
                first.addOperation {}
                second.addOperation {}
                first.addOperation {}
                second.waitUntilAllOperationsAreFinished()
            }
            first.waitUntilAllOperationsAreFinished()
            let isSanitized = has_address_sanitizer() || has_thread_sanitizer()
            #expect(isSanitized ? engine.threadCount <= 4 : engine.threadCount == 1)
        }
    }

    @Test func aSpinningWorkerReleasesTheQueue() {
        var queue: OperationQueue? = OperationQueue(engine: engine)
        weak let core = queue?.core
        for _ in 0..<100 { queue?.addOperation {} }
        queue?.waitUntilAllOperationsAreFinished()
        queue = nil
        #expect(engine.shutdown(deadline: .seconds(10)) == [])
        #expect(core == nil)
    }

    /// A worker does not retain the queue it served last, however long it serves another one.
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

    // MARK: Batching delay

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

    /// A producer that waits for each operation is rarely delayed.
    @Test func failedDelaysBecomeRare() {
        var batchingDelay = BatchingDelay()
        func arrivalsUntilItDelays() -> Int {
            var count = 0
            while batchingDelay.iterations == 0 {
                batchingDelay.foundWork(after: 3)
                count += 1
            }
            return count
        }
        let counts = (0..<11).map { _ in
            defer { batchingDelay.hasWaited(operationsArrived: false) }
            return arrivalsUntilItDelays()
        }
        #expect(counts == [8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 4096])
        _ = arrivalsUntilItDelays()
        batchingDelay.hasWaited(operationsArrived: true)
        batchingDelay.foundNothing()
        #expect(arrivalsUntilItDelays() == 8)
    }

    @Test(arguments: [true, false])
    func theQueueReportsWhetherOperationsArrived(isInTime: Bool) {
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

    /// A producer that adds quickly only now and then gets another chance.
    @Test func theThresholdRecovers() {
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

    #if !WITHOUT_ADAPTIVE_BATCHING && !WITHOUT_SPINNING_WORKER_SIGNAL

        /// Waiting for more operations would delay a thread that waits for the last one.
        @Test(arguments: ["the queue", "an operation", "its end", "capacity"])
        func theWorkerNoticesANewWaiter(for awaited: String) {
            let queue = OperationQueue(engine: engine)
            queue.maxPendingOperationCount = 1
            #expect(queue.core.beginSpinning())
            let operation = BlockOperation {}
            queue.addOperation(operation)
            #expect(!queue.core.hasNewWaiter)
            let spinningWorker = TestThread {
                while !queue.core.hasNewWaiter { sched_yield() }
                _ = queue.core.endSpinning()
                queue.core.runOne(on: ThreadContext.current, by: .foreground)
            }
            switch awaited {
            case "the queue": queue.waitUntilAllOperationsAreFinished()
            case "an operation": operation.waitUntilFinished()
            case "its end": operation.whenFinished {}
            default: queue.addOperation {}
            }
            spinningWorker.join()
            #expect(operation.isFinished)
            queue.waitUntilAllOperationsAreFinished()
        }

        @Test func aWaiterFromBeforeTheSpinDoesNotCount() {
            let queue = OperationQueue(engine: engine)
            queue.isSuspended = true
            let operation = BlockOperation {}
            queue.addOperation(operation)
            for isAwaited in [true, false] {
                #expect(queue.core.beginSpinning() && !queue.core.hasNewWaiter)
                if isAwaited { operation.whenFinished {} }
                #expect(queue.core.hasNewWaiter == isAwaited)
                _ = queue.core.endSpinning()
            }
            queue.isSuspended = false
            queue.waitUntilAllOperationsAreFinished()
        }

    #endif

    #if WITHOUT_ADAPTIVE_BATCHING

        @Test("A worker does not wait for more operations, and nobody tells it that a thread waits")
        func theWorkerDoesNotWait() {
            let queue = OperationQueue(engine: engine)
            var batchingDelay = BatchingDelay()
            for _ in 0..<8 { batchingDelay.foundWork(after: 3) }
            batchingDelay.accumulateOperations(
                in: queue.core,
                whileIdle: {
                    Issue.record("The worker waits.")
                    return true
                })
            queue.core.noteWaiter()
            #expect(!queue.core.hasNewWaiter)
        }

    #endif
}
