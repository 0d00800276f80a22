import OpEngine
import TestLimits
import TestSupport
import Testing

@Suite(.endsWithin(seconds: 60)) struct BarrierTests {
    @Test func aBarrierSeparatesWhatCameBeforeFromWhatComesAfter() {
        let queue = OperationQueue(engine: Engine(workerCount: 2))
        let log = Log<String>()
        queue.isSuspended = true
        for _ in 0..<50 { queue.addOperation { log.append("before") } }
        queue.addBarrierBlock { log.append(OperationQueue.current === queue && Operation.current != nil ? "barrier" : "nothing") }
        for _ in 0..<50 {
            let operation = BlockOperation { log.append("after") }
            operation.queuePriority = .veryHigh
            queue.addOperation(operation)
        }
        queue.addBarrierBlock { log.append("end") }
        queue.isSuspended = false
        queue.waitUntilAllOperationsAreFinished()
        let expected = Array(repeating: "before", count: 50) + ["barrier"] + Array(repeating: "after", count: 50) + ["end"]
        #expect(log.entries == expected)
    }

    @Test func onAnEmptyQueueABarrierRunsAtOnce() {
        let queue = OperationQueue(engine: Engine(workerCount: 2))
        let log = Log<Int>()
        queue.addBarrierBlock { log.append(1) }
        queue.waitUntilAllOperationsAreFinished()
        #expect(log.entries == [1])
    }

    @Test func aBarrierWaitsForAsynchronousOperations() {
        let queue = OperationQueue(engine: Engine(workerCount: 2))
        let log = Log<String>()
        let asynchronous = AsyncOperation()
        let gate = Gate()
        queue.addOperation(asynchronous)
        queue.addOperation { gate.open() }
        queue.addBarrierBlock { log.append("barrier") }
        gate.wait()
        log.append("finish")
        asynchronous.finish()
        queue.waitUntilAllOperationsAreFinished()
        #expect(log.entries == ["finish", "barrier"])
    }

    @Test func manyBarriersInARow() {
        let queue = OperationQueue(engine: Engine(workerCount: 2))
        let log = Log<Int>()
        for index in 0..<1000 {
            queue.addBarrierBlock { log.append(index) }
        }
        queue.waitUntilAllOperationsAreFinished()
        #expect(log.entries == Array(0..<1000))
    }

    @Test func cancelAllLeavesAPendingBarrierInItsPlace() {
        let queue = OperationQueue(engine: Engine(workerCount: 2))
        queue.isSuspended = true
        let log = Log<String>()
        queue.addOperation { log.append("before") }
        queue.addBarrierBlock { log.append("barrier") }
        queue.addOperation { log.append("after") }
        queue.cancelAllOperations()
        queue.isSuspended = false
        queue.waitUntilAllOperationsAreFinished()
        #expect(log.entries == ["barrier"])
    }

    @Test func onTheMainQueueABarrierKeepsItsPlaceToo() {
        let engine = Engine(workerCount: 1)
        let log = Log<String>()
        engine.mainQueue.addOperation { log.append("before") }
        engine.mainQueue.addBarrierBlock { log.append("barrier") }
        let after = BlockOperation { log.append("after") }
        after.queuePriority = .veryHigh
        engine.mainQueue.addOperation(after)
        #expect(engine.mainInbox.drain() == 3)
        #expect(log.entries == ["before", "barrier", "after"])
    }

    // MARK: Waiting in front of a barrier

    /// Runs `body` as the operation `first` of a queue or of the main queue, and returns the error that the body throws.
    private func error(onTheMainQueue isMain: Bool, _ body: @escaping @Sendable (OperationQueue) throws -> Void) -> String {
        let engine = Engine(workerCount: 2), log = Log<String>()
        let queue = isMain ? engine.mainQueue : OperationQueue(engine: engine)
        let first = BlockOperation {
            do { try body(queue) } catch { log.append("\(error)") }
        }
        first.name = "first"
        queue.name = "q"
        queue.addOperation(first)
        queue.waitUntilAllOperationsAreFinished()
        return log.entries.joined(separator: ", ")
    }

    private static func named(_ name: String) -> BlockOperation {
        let operation = BlockOperation {}
        operation.name = name
        return operation
    }

    @Test(arguments: [true, false]) func aWaitForABarrierThatWaitsForTheWaitingOperationIsAnError(onTheMainQueue isMain: Bool) {
        let error = error(onTheMainQueue: isMain) { queue in
            let barrier = Self.named("barrier")
            try queue.tryAddBarrier(barrier)
            try barrier.tryWaitUntilFinished()
        }
        #expect(
            error == "this wait can never end: barrier is a barrier behind first in queue q; "
                + "the barrier waits for first, which waits here; make the rest of first an operation that depends on barrier")
    }

    @Test(arguments: [true, false]) func soIsAWaitForAnOperationBehindIt(onTheMainQueue isMain: Bool) {
        let error = error(onTheMainQueue: isMain) { queue in
            let later = Self.named("later")
            try queue.tryAddBarrier(Self.named("barrier"))
            queue.addOperation(later)
            try later.tryWaitUntilFinished()
        }
        #expect(
            error == "this wait can never end: later is behind the barrier barrier in queue q; "
                + "the barrier waits for first, which waits here; make the rest of first an operation that depends on later")
    }

    @Test func soIsAWaitOfTheBarrierItself() {
        let queue = OperationQueue(engine: Engine(workerCount: 2)), log = Log<String>(), later = Self.named("later"), added = Gate()
        let barrier = BlockOperation {
            added.wait()
            do { try later.tryWaitUntilFinished() } catch { log.append("\(error)") }
        }
        (queue.name, barrier.name) = ("q", "barrier")
        try? queue.tryAddBarrier(barrier)
        queue.addOperation(later)
        added.open()
        queue.waitUntilAllOperationsAreFinished()
        #expect(
            log.entries == [
                "this wait can never end: later is behind the barrier barrier in queue q; barrier waits here; "
                    + "make the rest of barrier an operation that depends on later"
            ])
    }

    @Test func soIsAWaitFurtherDownTheStackOfTheMainQueue() {
        let log = Log<String>()
        let error = error(onTheMainQueue: true) { queue in
            let inner = BlockOperation {
                let later = Self.named("later")
                queue.addBarrierBlock {}
                queue.addOperation(later)
                do { try later.tryWaitUntilFinished() } catch { log.append("\(error)") }
            }
            queue.addOperation(inner)
            inner.waitUntilFinished()
        }
        #expect(error.isEmpty && log.count == 1 && log.entries[0].contains("which waits here"), "\(log.entries)")
    }

    @Test(arguments: [true, false]) func waitsThatCanEndAreNoError(onTheMainQueue isMain: Bool) {
        let log = Log<Bool>()
        let error = error(onTheMainQueue: isMain) { queue in
            let before = Self.named("before"), later = Self.named("later")
            queue.addOperation(before)
            queue.addBarrierBlock {}
            queue.addOperation(later)
            try before.tryWaitUntilFinished()
            log.append(try later.tryWaitUntilFinished(until: .now + .milliseconds(1)))
            // Another queue's barriers do not matter.
            let other = OperationQueue(engine: queue.engine), last = Self.named("last")
            other.addBarrierBlock {}
            other.addOperation(last)
            try last.tryWaitUntilFinished()
        }
        #expect(error.isEmpty && log.entries == [false])
    }

    @Test func anAwaitedOperationMayBeFinishedByOtherCodeBehindTheBarrier() {
        let log = Log<OperationOutcome?>()
        let error = error(onTheMainQueue: false) { queue in
            let awaited = AsyncOperation()
            queue.addBarrierBlock {}
            queue.addOperation(awaited)
            OperationQueue(engine: queue.engine).addOperation { awaited.finish() }
            try awaited.tryWaitUntilFinished()
            log.append(awaited.outcome)
        }
        #expect(error.isEmpty && log.entries == [.succeeded])
    }

    @Test func anAsynchronousOperationMayBeFinishedByAnotherThreadWhileItWaits() {
        // Safety: the properties do not change.
        final class Waiting: AsyncOperation, @unchecked Sendable {
            let awaited = BarrierTests.named("awaited")
            let other: OperationQueue
            init(other: OperationQueue) { self.other = other }
            override func main() {
                queue?.addBarrierBlock {}
                queue?.addOperation(awaited)
                other.addOperation { self.finish() }
                awaited.waitUntilFinished()
            }
        }
        let engine = Engine(workerCount: 2)
        let waiting = Waiting(other: OperationQueue(engine: engine)), queue = OperationQueue(engine: engine)
        queue.addOperation(waiting)
        queue.waitUntilAllOperationsAreFinished()
        #expect(waiting.awaited.outcome == .succeeded)
    }
}
