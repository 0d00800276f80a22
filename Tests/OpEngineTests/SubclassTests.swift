import OpEngine
import Synchronization
import TestLimits
import TestSupport
import Testing

/// Keeps its own state and announces it with string keys, as the classic recipe does.
// Safety: the added properties are locked or atomic.
private class Announcing: Operation, @unchecked Sendable {
    enum Phase: String {
        case ready = "isReady"
        case executing = "isExecuting"
        case finished = "isFinished"
    }
    private let stored = Locked(Phase.ready)
    let starts = Atomic<Int>(0)
    var phase: Phase {
        get { stored.withLock { $0 } }
        set {
            let old = phase
            willChangeValue(forKey: newValue.rawValue)
            willChangeValue(forKey: old.rawValue)
            stored.withLock { $0 = newValue }
            didChangeValue(forKey: old.rawValue)
            didChangeValue(forKey: newValue.rawValue)
        }
    }
    override var isReady: Bool { super.isReady && phase == .ready }
    override var isExecuting: Bool { phase == .executing }
    override var isFinished: Bool { phase == .finished }
    override var isAsynchronous: Bool { true }
    override func start() {
        starts.wrappingAdd(1, ordering: .relaxed)
        if isCancelled {
            phase = .finished
            return
        }
        main()
        if phase == .ready { phase = .executing }
    }
    override func cancel() {
        super.cancel()
        phase = .finished
    }
}

// Safety: the added property is atomic.
private final class Readiness: Operation, @unchecked Sendable {
    private let allowed = Atomic<Bool>(false)
    override var isReady: Bool { super.isReady && allowed.load(ordering: .acquiring) }
    func allow(_ key: String = "isReady") {
        willChangeValue(forKey: key)
        allowed.store(true, ordering: .releasing)
        didChangeValue(forKey: key)
    }
}

@Suite(.endsWithin(seconds: 60)) struct SubclassTests {
    @Test func aSubclassFinishesItself() {
        let queue = OperationQueue(engine: Engine(workerCount: 2))
        // Safety: adds nothing to its superclass.
        final class Work: Announcing, @unchecked Sendable {
            override func main() { TestThread { self.phase = .finished }.join() }
        }
        let log = Log<Int>()
        let work = Work()
        let after = BlockOperation { log.append(1) }
        after.addDependency(work)
        queue.addOperations([after, work], waitUntilFinished: true)
        #expect(log.entries == [1] && work.starts.load(ordering: .relaxed) == 1 && queue.operationCount == 0)
    }

    @Test func oneThatIsFinishedBeforeItStartedIsNeverStarted() {
        let queue = OperationQueue(engine: Engine(workerCount: 2))
        queue.isSuspended = true
        let log = Log<String>()
        let work = Announcing()
        let after = BlockOperation { log.append("after") }
        after.addDependency(work)
        work.completionBlock = { log.append("completed") }
        queue.addOperations([work, after], waitUntilFinished: false)
        work.cancel()
        #expect(queue.operations == [after] && after.isReady && log.entries == ["completed"])
        queue.isSuspended = false
        queue.waitUntilAllOperationsAreFinished()
        #expect(work.starts.load(ordering: .relaxed) == 0 && log.entries == ["completed", "after"])
    }

    @Test func theFirstFinishWins() {
        let queue = OperationQueue(engine: Engine(workerCount: 2))
        for _ in 0..<500 {
            let log = Log<Int>()
            let work = Announcing()
            work.completionBlock = { log.append(1) }
            queue.addOperation(work)
            let thread = TestThread { work.cancel() }
            work.phase = .finished
            thread.join()
            work.waitUntilFinished()
            queue.waitUntilAllOperationsAreFinished()
            #expect(queue.operationCount == 0)
            #expect(log.count <= 1)
        }
    }

    @Test(arguments: ["isReady", "ready"]) func aChangedReadinessIsSeen(key: String) {
        let queue = OperationQueue(engine: Engine(workerCount: 2))
        let operation = Readiness()
        let other = BlockOperation {}
        queue.addOperations([operation, other], waitUntilFinished: false)
        other.waitUntilFinished()
        #expect(!operation.isFinished)
        operation.allow(key)
        operation.waitUntilFinished()
        #expect(operation.outcome == .succeeded)
    }

    @Test func aReadinessThatChangesAtAnyMomentIsNotMissed() {
        let queue = OperationQueue(engine: Engine(workerCount: 2))
        for _ in 0..<5000 {
            let operation = Readiness()
            let thread = TestThread { operation.allow() }
            queue.addOperation(operation)
            operation.waitUntilFinished()
            thread.join()
        }
    }

    @Test func aCancelledOneNeedsNoReadiness() {
        let queue = OperationQueue(engine: Engine(workerCount: 2))
        let operation = Readiness()
        queue.addOperation(operation)
        operation.cancel()
        operation.waitUntilFinished()
        #expect(operation.outcome == .cancelled)
    }
}
