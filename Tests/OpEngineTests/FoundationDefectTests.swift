import Glibc
import OpEngine
import TestSupport
import Testing

/// Defects of Foundation on Linux that have no other place. The tests of these defects are elsewhere:
///
/// | defect | test |
/// |---|---|
/// | removing the last dependency leaves it stuck | `DependencyTests.removingTheLastUnfinishedOneMakesItReady` |
/// | a dependency on oneself is accepted | `MisuseTests.dependingOnOneselfIsRefused` |
/// | a late dependency makes a finished operation unready | `DependencyTests.aDependencyAddedToAFinishedOperationHasNoEffect` |
/// | the completion block is kept | `CompletionTests.theBlockRunsOnceAfterTheEndAndIsReleased` |
/// | the blocks of an operation run one by one | `CompletionTests.blocksRunConcurrentlyBeyondTheMaximum` |
/// | a barrier on an empty or the main queue | `BarrierTests.onAnEmptyQueueABarrierRunsAtOnce`, `.onTheMainQueueABarrierKeepsItsPlaceToo` |
/// | a wait inside one's own queue hangs | `MisuseTests.waitingForOneselfIsRefused` |
/// | a long chain is released by recursion | `DependencyTests.aChainOfAMillionIsReleasedWithoutRecursion` |
/// | a dropped suspended queue leaks | `QueueTests.aDroppedSuspendedQueueGoesWithItsOperations` |
/// | blocked threads are not replaced | `ThreadTests.twoHundredSleepersAllStart` |
/// | an override of `isReady` combined with `super` is missed | `ReadinessTests.readinessCombinedWithSuperIsNeverMissed` |
@Suite struct FoundationDefectTests {
    @Test func aBarrierOnASuspendedQueueWaitsAndKeepsItsPlace() {
        let queue = OperationQueue(engine: Engine(workerCount: 2))
        let log = Log<String>()
        queue.isSuspended = true
        queue.addBarrierBlock { log.append("barrier") }
        queue.addOperation { log.append("after") }
        #expect(queue.operationCount == 2 && log.entries.isEmpty)
        queue.isSuspended = false
        queue.waitUntilAllOperationsAreFinished()
        #expect(log.entries == ["barrier", "after"])
    }

    @Test func aCancelledBarrierStillSeparates() throws {
        let queue = OperationQueue(engine: Engine(workerCount: 2))
        let log = Log<String>()
        let (began, mayEnd) = (Gate(), Gate())
        queue.addOperation {
            began.open()
            mayEnd.wait()
            log.append("before")
        }
        let barrier = BlockOperation { log.append("barrier") }
        try queue.tryAddBarrier(barrier)
        queue.addOperation { log.append("after") }
        began.wait()
        barrier.cancel()
        #expect(!barrier.isFinished && queue.operationCount == 3)
        mayEnd.open()
        queue.waitUntilAllOperationsAreFinished()
        #expect(log.entries == ["before", "after"] && barrier.outcome == .cancelled)
    }

    @Test func progressCountsEveryEnd() {
        struct Failure: Error {}
        let queue = OperationQueue(engine: Engine(workerCount: 2))
        let asynchronous = AsyncOperation()
        let cancelled = BlockOperation {}
        cancelled.addDependency(asynchronous)
        queue.addOperations([asynchronous, cancelled, BlockOperation { throw Failure() }, BlockOperation {}], waitUntilFinished: false)
        queue.addBarrierBlock {}
        #expect(queue.progress.totalUnitCount == 5)
        cancelled.cancel()
        cancelled.waitUntilFinished()
        asynchronous.finish()
        queue.waitUntilAllOperationsAreFinished()
        #expect(queue.progress.completedUnitCount == 5 && queue.progress.totalUnitCount == 5)
    }

    @Test func aChangedPriorityOfAnOperationWithAQualityActsAtOnce() {
        let queue = OperationQueue(engine: Engine(workerCount: 2))
        queue.maxConcurrentOperationCount = 1
        queue.isSuspended = true
        let log = Log<Int>()
        let operations = (0..<4).map { index in BlockOperation { log.append(index) } }
        for operation in operations { operation.qualityOfService = .userInitiated }
        queue.addOperations(operations, waitUntilFinished: false)
        operations[3].queuePriority = .veryHigh
        operations[0].queuePriority = .low
        queue.isSuspended = false
        queue.waitUntilAllOperationsAreFinished()
        #expect(log.entries == [3, 1, 2, 0])
    }

    @Test func afterAWaitTheCountIsZero() {
        let queue = OperationQueue(engine: Engine(workerCount: 2))
        for _ in 0..<2000 {
            for _ in 0..<3 { queue.addOperation {} }
            queue.waitUntilAllOperationsAreFinished()
            if queue.operationCount != 0 || !queue.operations.isEmpty { Issue.record("something was left") }
        }
    }

    /// The work is measured in processor time of this thread, which other load does not change. The simulated engine has no other threads.
    @Test func tenTimesTheDependentsCostTenTimesTheWork() {
        func work(_ count: Int) -> Int {
            let before = threadTime()
            let simulation = Engine.Simulation(seed: 1)
            let queue = OperationQueue(engine: simulation.engine)
            let gate = Operation()
            for _ in 0..<count {
                let next = Operation()
                next.addDependency(gate)
                queue.addOperation(next)
            }
            queue.addOperation(gate)
            queue.waitUntilAllOperationsAreFinished()
            return threadTime() - before
        }
        let (few, many) = TestLength.isLong ? (100_000, 1_000_000) : (10_000, 100_000)
        _ = work(few)
        // Linear growth would be a factor of 10, quadratic growth a factor of 100.
        #expect(work(many) < 30 * work(few))
    }

    private func threadTime() -> Int {
        var time = timespec()
        // Safety: the address of a local variable.
        unsafe clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
        return time.tv_sec * 1_000_000_000 + time.tv_nsec
    }
}
