import OpPlatform
import Synchronization
import TestSupport
import Testing

@testable import OpEngine

/// A worker may stand by while another one runs tiny operations. It must serve the queue when the queue needs it.
@Suite struct StandbyTests {
    private let engine = StandbyTests.makeEngine()
    private static let floods = TestLength.size(30)

    /// An engine for which the operations of a debug build, and of one with a sanitizer, are tiny.
    private static func makeEngine() -> Engine {
        let engine = Engine(workerCount: 2)
        unsafe engine.tinyDuration = .microseconds(100)
        return engine
    }

    /// Adds tiny operations as one batch, so that a worker stands by, and `others` between them.
    private func add(_ others: [OpEngine.Operation], to queue: OpEngine.OperationQueue) {
        let tiny = (0..<4000).map { _ in BlockOperation {} }
        queue.addOperations(tiny + others + (0..<1000).map { _ in BlockOperation {} }, waitUntilFinished: false)
    }

    @Test func twoOperationsThatWaitForEachOtherFollowTinyOnes() {
        let queue = OperationQueue(engine: engine)
        for _ in 0..<Self.floods {
            let arrivals = Atomic<Int>(0)
            let meet: @Sendable () -> Void = {
                arrivals.add(1, ordering: .relaxed)
                while arrivals.load(ordering: .relaxed) < 2 {}
            }
            add([BlockOperation(block: meet), BlockOperation(block: meet)], to: queue)
            queue.waitUntilAllOperationsAreFinished()
            #expect(arrivals.load(ordering: .relaxed) == 2)
        }
    }

    @Test func operationsRunWhileOneThatHasReturnedIsExecuting() {
        let queue = OperationQueue(engine: engine)
        for _ in 0..<Self.floods {
            let returned = AsyncOperation()
            add([returned], to: queue)
            let last = BlockOperation {}
            queue.addOperation(last)
            last.waitUntilFinished()
            returned.finish()
            queue.waitUntilAllOperationsAreFinished()
        }
    }

    /// Operations with one key, and behind them one without a key.
    private func keyed(_ count: Int, _ body: @escaping @Sendable () -> Void, last: @escaping @Sendable () -> Void) -> [BlockOperation] {
        let operations = (0..<count).map { _ in BlockOperation(block: body) }
        for operation in operations { operation.exclusiveKeys = ["key"] }
        return operations + [BlockOperation(block: last)]
    }

    @Test func anOperationWithoutAKeyRunsWhileOthersWaitForAKey() {
        let queue = OperationQueue(engine: engine)
        for _ in 0..<Self.floods {
            let isFirst = Atomic<Bool>(true)
            let hasRun = Gate()
            let operations = keyed(
                1000, { if isFirst.exchange(false, ordering: .relaxed) { hasRun.wait() } }, last: { hasRun.open() })
            queue.addOperations(operations, waitUntilFinished: true)
        }
    }

    @Test func operationsWithOneKeyRunOneAfterTheOther() {
        let queue = OperationQueue(engine: engine)
        let executing = Atomic<Int>(0), excess = Atomic<Int>(0), count = Atomic<Int>(0)
        for _ in 0..<Self.floods {
            for operation in keyed(
                1000,
                {
                    if executing.add(1, ordering: .relaxed).oldValue > 0 { excess.add(1, ordering: .relaxed) }
                    count.add(1, ordering: .relaxed)
                    executing.subtract(1, ordering: .relaxed)
                }, last: {})
            { queue.addOperation(operation) }
            queue.waitUntilAllOperationsAreFinished()
        }
        #expect(excess.load(ordering: .relaxed) == 0 && count.load(ordering: .relaxed) == 1000 * Self.floods)
    }

    @Test func anotherQueueIsServedMeanwhile() {
        let queue = OperationQueue(engine: engine), other = OperationQueue(engine: engine)
        for _ in 0..<Self.floods {
            add([], to: queue)
            let operation = BlockOperation {}
            other.addOperation(operation)
            operation.waitUntilFinished()
        }
        queue.waitUntilAllOperationsAreFinished()
    }

    @Test func manyQueuesShareTheWorkers() throws {
        let queues = (0..<5).map { _ in OperationQueue(engine: engine) }
        for _ in 0..<max(2, Self.floods / 2) {
            for queue in queues { queue.addOperations((0..<600).map { _ in BlockOperation {} }, waitUntilFinished: false) }
            for queue in queues { queue.addOperations(keyed(300, {}, last: {}), waitUntilFinished: false) }
            for queue in queues {
                let isDone = try queue.tryWaitUntilAllOperationsAreFinished(until: .now + .seconds(60))
                try #require(isDone, "\(engine.stallReport(limit: 5))")
            }
        }
    }

    /// A job that a worker runs while it stands by may wait for an operation of the queue.
    @Test func jobsOfAWorkerThatStandsByRun() {
        let queue = OperationQueue(engine: engine)
        for _ in 0..<Self.floods {
            add([], to: queue)
            let workers = engine.pool.withLock { $0.workers }
            for worker in workers { worker.inbox.post { queue.addOperation {} } }
            queue.waitUntilAllOperationsAreFinished()
        }
    }

    @Test func theEngineEndsWhileAWorkerStandsBy() {
        for _ in 0..<Self.floods {
            let engine = Self.makeEngine()
            let queue = OperationQueue(engine: engine)
            add([], to: queue)
            #expect(engine.shutdown(deadline: .seconds(60)).isEmpty)
        }
    }

    @Test func aWorkerStandsByWhileAnotherOneIsFast() {
        let queue = OperationQueue(engine: engine)
        var hasStandby = false
        for _ in 0..<1000 where !hasStandby {
            add([], to: queue)
            while !hasStandby && queue.operationCount > 1000 { hasStandby = queue.core.state.withLock { $0.hasStandby } }
            queue.waitUntilAllOperationsAreFinished()
        }
        #expect(hasStandby)
    }

    @Test func nobodyIsWokenWhileAWorkerStandsBy() {
        let queue = OperationQueue(engine: engine)
        let begun = Gate(), end = Gate()
        queue.addOperation {
            begun.open()
            end.wait()
        }
        begun.wait()
        queue.core.state.withLock { $0.hasStandby = true }
        queue.addOperation {}
        #expect(queue.core.state.withLock { !$0.isScheduled && $0.isRunnable })
        // A thread that is about to wait announces that the queue may need another worker.
        queue.core.scheduleIfRunnable()
        #expect(queue.core.state.withLock { !$0.hasStandby })
        end.open()
        queue.waitUntilAllOperationsAreFinished()
    }

    @Test func trialsBecomeRarer() {
        var trials = Standby.Trials()
        let due = (1...64).filter { _ in trials.isDue(wasRefused: false, wasFull: true) }
        #expect(due == [1, 3, 7, 15, 31, 63])
    }

    @Test func refusalsAreAReasonUntilKeysAreHeldForLong() {
        var trials = Standby.Trials()
        #expect((1...5).allSatisfy { trials.isDue(wasRefused: true, wasFull: true) && trials.refusedTurns == $0 })
        trials.keysAreHeldForLong()
        #expect(
            trials.isDue(wasRefused: true, wasFull: true) && !trials.isDue(wasRefused: true, wasFull: true) && trials.refusedTurns == 0)
        // In this turn, an operation could start.
        _ = trials.isDue(wasRefused: false, wasFull: true)
        #expect(trials.isDue(wasRefused: true, wasFull: true) && trials.refusedTurns == 1)
    }

}
