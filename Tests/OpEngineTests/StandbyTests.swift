import Synchronization
import TestSupport
import Testing

@_spi(Locking) @testable import OpEngine

/// A worker may stand by while another one runs tiny operations. It must come when it is needed.
@Suite struct StandbyTests {
    private let engine = StandbyTests.makeEngine()
    private static let floods = TestLength.size(100)

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

    @Test func theEngineEndsWhileAWorkerStandsBy() {
        for _ in 0..<Self.floods {
            let engine = Self.makeEngine()
            let queue = OperationQueue(engine: engine)
            add([], to: queue)
            #expect(engine.shutdown(deadline: .seconds(60)).isEmpty)
        }
    }

    #if !WITHOUT_STANDBY

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

        @Test func nobodyIsWokenForAQueueWithAnExecutingOperation() {
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
            // Whoever is about to wait says that the queue may need another worker.
            queue.core.scheduleIfRunnable()
            #expect(queue.core.state.withLock { !$0.hasStandby })
            end.open()
            queue.waitUntilAllOperationsAreFinished()
        }

        @Test func looksBecomeRarer() {
            var looks = Standby.Looks()
            let due = (1...64).filter { _ in looks.isDue() }
            #expect(due == [1, 3, 7, 15, 31, 63])
        }

    #endif
}
