import OpEngine
import Synchronization
import TestLimits
import TestSupport
import Testing

/// Becomes ready when `allow` is called. Its override uses `super`, as the documentation asks for.
// Safety: the added property is atomic.
private final class Gated: Operation, @unchecked Sendable {
    private let allowed = Atomic<Bool>(false)
    override var isReady: Bool { super.isReady && allowed.load(ordering: .acquiring) }

    func allow() {
        willChangeValue(forKey: "isReady")
        allowed.store(true, ordering: .releasing)
        didChangeValue(forKey: "isReady")
    }
}

/// Changes something while a worker asks whether it is ready, and then gives the answer from before the change.
// Safety: the added properties are constant or atomic.
private final class Meddling: Operation, @unchecked Sendable {
    private let meddle: @Sendable (Operation) -> Bool
    private let hasMeddled = Atomic<Bool>(false)
    init(_ meddle: @escaping @Sendable (Operation) -> Bool) { self.meddle = meddle }
    override var isReady: Bool {
        let answer = super.isReady
        return Worker.current != nil && !hasMeddled.exchange(true, ordering: .relaxed) ? meddle(self) : answer
    }
}

/// Changes while a worker is about to start an operation.
@Suite(.endsWithin(seconds: 60)) struct ReadinessTests {
    /// The dependent may then be started by hand: no moment lies between the two changes.
    @Test func whoSeesThatADependencyHasFinishedSeesThatItsDependentIsReady() {
        let queue = OperationQueue(engine: Engine(workerCount: 1))
        var unready = 0
        for _ in 0..<5000 {
            let (first, second) = (Operation(), Operation())
            second.addDependency(first)
            queue.addOperation(first)
            while !first.isFinished {}
            if !second.isReady { unready += 1 } else { second.start() }
        }
        #expect(unready == 0)
    }

    @Test(arguments: [false, true]) func whoSubscribesWhenADependencyHasFinishedIsToldOnce(hasAnother: Bool) {
        let queue = OperationQueue(engine: Engine(workerCount: 1))
        for _ in 0..<150 {
            let (dependency, dependents, log) = (Operation(), (0..<300).map { _ in Operation() }, Log<String>())
            for dependent in dependents { dependent.addDependency(dependency) }
            queue.addOperation(dependency)
            while !dependency.isFinished {}
            // Observers are told one after the other, which takes a while; the property has its new value at once.
            let token = dependents[0].observe(\.isReady, options: [.initial, .old, .new]) {
                log.append("\($1.oldValue.map { "\($0)" } ?? "-") \($1.newValue!)")
            }
            let another = Operation()
            if hasAnother { dependents[0].addDependency(another) }
            queue.waitUntilAllOperationsAreFinished()
            if hasAnother { another.start() }
            for dependent in dependents { dependent.start() }
            let told = log.entries
            #expect(
                told == ["- true"] || told == ["- false", "false true"]
                    || hasAnother && told.first == "- true" && told.dropFirst() == ["true false", "false true"]
                    || hasAnother && told.first == "- false" && told.dropFirst() == ["false true", "true false", "false true"],
                "\(told)")
            token.invalidate()
        }
    }

    @Test func oneThatIsCancelledWhileItIsAskedWhetherItIsReadyStillEnds() {
        let queue = OperationQueue(engine: Engine(workerCount: 1))
        let operation = Meddling { operation in
            operation.cancel()
            return false
        }
        queue.addOperation(operation)
        operation.waitUntilFinished()
        #expect(operation.outcome == .cancelled)
    }

    @Test func aDependencyAddedWhileItIsAskedWhetherItIsReadyHoldsIt() {
        let queue = OperationQueue(engine: Engine(workerCount: 1))
        queue.maxConcurrentOperationCount = 1
        let log = Log<String>()
        let dependency = BlockOperation { log.append("dependency") }
        let (asked, ended) = (Gate(), Gate())
        let operation = Meddling { operation in
            operation.addDependency(dependency)
            asked.open()
            return true
        }
        operation.whenFinished {
            log.append("operation")
            ended.open()
        }
        queue.addOperation(operation)
        asked.wait()
        queue.addOperation(dependency)
        ended.wait()
        #expect(log.entries == ["dependency", "operation"])
    }

    /// `OPSCRIPT_LONG_TESTS=1` runs a million rounds.
    @Test func readinessCombinedWithSuperIsNeverMissed() {
        let rounds = TestLength.isLong ? 1_000_000 : 50_000
        let batch = 500
        let queue = OperationQueue(engine: Engine(workerCount: 2))
        let (operations, mayAllow, allowed) = (Locked<[Gated]>([]), Gate(), Gate())
        let thread = TestThread {
            for _ in 0..<(rounds / batch) {
                mayAllow.wait()
                for operation in operations.withLock({ $0 }) { operation.allow() }
                allowed.open()
            }
        }
        for _ in 0..<(rounds / batch) {
            let next = (0..<batch).map { _ in Gated() }
            operations.withLock { $0 = next }
            mayAllow.open()
            for operation in next { queue.addOperation(operation) }
            queue.waitUntilAllOperationsAreFinished()
            allowed.wait()
            if !next.allSatisfy({ $0.outcome == .succeeded }) { Issue.record("one was left behind") }
        }
        thread.join()
    }
}
