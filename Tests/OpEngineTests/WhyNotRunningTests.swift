@_spi(Subclassing) import OpEngine
import TestSupport
import Testing

@Suite struct WhyNotRunningTests {
    private let engine = Engine(workerCount: 1, hostMayAddOperations: false)

    private func named(_ name: String, _ body: @escaping @Sendable () -> Void = {}) -> BlockOperation {
        let operation = BlockOperation(block: body)
        operation.name = name
        return operation
    }

    private func queue(_ name: String, suspended: Bool = false) -> OperationQueue {
        let queue = OperationQueue(engine: engine)
        queue.name = name
        queue.isSuspended = suspended
        return queue
    }

    private func why(_ operation: Operation) -> String { operation.whyNotRunning.map { "\($0)" } ?? "it runs" }

    /// Ready when both its own flag is set and its dependencies have finished.
    // Safety: `@unchecked Sendable` because only the test's thread changes it.
    private final class Gated: Operation, @unchecked Sendable {
        var isOpen = false
        override var isReadyByItself: Bool { isOpen }
        override var isReady: Bool { super.isReady && isOpen }
    }

    @Test func whatASubclassAddsIsNamedBesideItsDependencies() {
        let (gated, other) = (Gated(), named("other"))
        gated.addDependency(other)
        #expect(gated.whyNotRunning?.blockers == [.dependency(other), .notReady, .notInQueue])
        gated.isOpen = true
        #expect(gated.whyNotRunning?.blockers == [.dependency(other), .notInQueue])
        gated.isOpen = false
        other.start()
        #expect(gated.whyNotRunning?.blockers == [.notReady, .notInQueue])
    }

    @Test func oneThatIsInNoQueue() {
        let operation = named("a")
        #expect(operation.whyNotRunning?.blockers == [.notInQueue])
        #expect(why(operation) == "a was never added to a queue")
        operation.start()
        #expect(operation.whyNotRunning == nil)
    }

    @Test func unfinishedDependenciesAndWhetherTheyWereEverAdded() {
        let (a, b, c) = (named("a"), named("b"), named("c"))
        a.addDependency(b)
        a.addDependency(c)
        let held = queue("held", suspended: true), open = queue("open")
        held.addOperation(b)
        open.addOperation(a)
        #expect(a.whyNotRunning?.blockers == [.dependency(b), .dependency(c)])
        #expect(why(a) == "a depends on b and on c, which was never added to a queue")
        a.cancel()
        open.waitUntilAllOperationsAreFinished()
        #expect(a.whyNotRunning == nil)
    }

    @Test func allReasonsAreGiven() {
        let (a, b) = (named("a"), named("b"))
        a.addDependency(b)
        let queue = queue("q", suspended: true)
        queue.maxConcurrentOperationCount = 0
        queue.addOperation(a)
        #expect(
            why(a)
                == "a depends on b, which was never added to a queue, and is in queue q, which is suspended, and is in queue q, whose maximum is 0"
        )
    }

    @Test func aCancelledOneWaitsOnlyForItsQueue() {
        let a = named("a")
        a.addDependency(named("b"))
        let queue = queue("q", suspended: true)
        queue.addOperation(a)
        a.cancel()
        #expect(why(a) == "a is in queue q, which is suspended")
    }

    @Test func aFullQueueAndWhatOccupiesIt() {
        let queue = queue("q")
        queue.maxConcurrentOperationCount = 1
        let (began, mayEnd) = (Gate(), Gate())
        let first = named("first") {
            began.open()
            mayEnd.wait()
        }
        let second = named("second")
        queue.addOperations([first, second], waitUntilFinished: false)
        began.wait()
        #expect(first.whyNotRunning == nil)
        #expect(second.whyNotRunning?.blockers == [.full(queue, executing: [first])])
        #expect(why(second) == "second is in queue q, whose maximum is reached by first")
        mayEnd.open()
        queue.waitUntilAllOperationsAreFinished()
    }

    @Test func aBarrierInFrontAndWhatABarrierWaitsFor() throws {
        let queue = queue("q")
        let (first, barrier, after) = (AsyncOperation(), named("barrier"), named("after"))
        first.name = "first"
        queue.addOperation(first)
        try queue.tryAddBarrier(barrier)
        queue.addOperation(after)
        #expect(why(barrier) == "barrier is a barrier behind first in queue q")
        #expect(after.whyNotRunning?.blockers == [.barrier(barrier, in: queue)])
        #expect(why(after) == "after is behind the barrier barrier in queue q")
        while !first.isExecuting { _ = engine.mainInbox.drain() }
        first.finish()
        queue.waitUntilAllOperationsAreFinished()
    }

    @Test func itsOwnReadiness() {
        // Safety: adds nothing to its superclass.
        final class Unready: Operation, @unchecked Sendable {
            override var isReady: Bool { isCancelled }
        }
        let operation = Unready()
        operation.name = "a"
        let queue = queue("q")
        queue.addOperation(operation)
        #expect(throws: OperationError.self) { try operation.tryWaitUntilFinished() }
        #expect(why(operation) == "a has isReady = false")
        operation.cancel()
    }

    @Test func nobodyHasTakenIt() {
        let operation = named("a")
        engine.mainQueue.addOperation(operation)
        #expect(why(operation) == "a is in the main queue, whose threads have not come to it")
        _ = engine.mainInbox.drain()
    }

    @Test func aCycleIsShownAsOne() {
        let (a, b, c) = (named("a"), named("b"), named("c"))
        a.addDependency(b)
        b.addDependency(c)
        c.addDependency(a)
        let queue = queue("q")
        queue.addOperations([a, b, c], waitUntilFinished: false)
        #expect(a.whyNotRunning?.blockers == [.cycle([a, b, c, a])])
        #expect(why(b) == "b depends on itself: b → c → a → b")
        let error = #expect(throws: OperationError.self) { try a.tryWaitUntilFinished() }
        #expect("\(error!)" == "this wait can never end: a depends on itself: a → b → c → a")
        a.cancel()
        queue.waitUntilAllOperationsAreFinished()
        // Finished dependencies stay listed, so a cycle keeps itself alive until it is opened.
        a.removeDependency(b)
    }

    // Safety: `@unchecked Sendable` because nothing is added to its superclass.
    private final class Equal: Operation, @unchecked Sendable {
        override func isEqual(_ object: Any?) -> Bool { object is Equal }
        override var hash: Int { 1 }
    }

    @Test func equalOperationsAreAllNamed() {
        let all = ["a", "b", "c"].map { name in
            let operation = Equal()
            operation.name = name
            return operation
        }
        all[0].addDependency(all[1])
        let held = queue("held", suspended: true)
        held.addOperations(all, waitUntilFinished: false)
        let report = StallReport(waitingFor: [all[0]])
        #expect(report.description == "a depends on b, and is in queue held, which is suspended; b is in queue held, which is suspended")
        all[1].addDependency(all[0])
        all[1].addDependency(all[2])
        #expect(why(all[1]) == "b depends on c, and depends on itself: b → a → b, and is in queue held, which is suspended")
        all[1].removeDependency(all[0])
        held.cancelAllOperations()
    }

    @Test func aWaitThatCannotEndNamesWhatIsInTheWay() {
        let (a, b) = (named("a"), named("b"))
        a.addDependency(b)
        let held = queue("held", suspended: true), open = queue("open")
        held.addOperation(b)
        open.addOperation(a)
        let error = #expect(throws: OperationError.self) { try open.tryWaitUntilAllOperationsAreFinished() }
        #expect("\(error!)" == "this wait can never end: a depends on b; b is in queue held, which is suspended")
    }

    @Test func theReportOfAnEngineHasAllThatDoNotRun() {
        let suspended = queue("suspended", suspended: true), empty = queue("empty")
        empty.maxConcurrentOperationCount = 0
        suspended.addOperation(named("a"))
        empty.addOperations([named("b"), named("c")], waitUntilFinished: false)
        let report = engine.stallReport()
        #expect(report.entries.map(\.operation.name) == ["a", "b", "c"])
        #expect(
            "\(report)"
                == "a is in queue suspended, which is suspended; b is in queue empty, whose maximum is 0; c is in queue empty, whose maximum is 0"
        )
        #expect("\(engine.stallReport(limit: 1))" == "a is in queue suspended, which is suspended; and 2 more")
        #expect(Engine(workerCount: 1).stallReport().isEmpty)
    }
}
