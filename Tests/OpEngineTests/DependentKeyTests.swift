import OpEngine
import Synchronization
import TestLimits
import TestSupport
import Testing

/// Keeps its flags in a state, whose changes are all that it announces.
private class Stateful: Operation, @unchecked Sendable {
    // Safety: a lock guards the state, and the rest is constant.
    enum Phase: Equatable { case pending, ready, executing, finished }
    private let stored = Locked(Phase.pending)
    let began = Gate()

    var phase: Phase {
        get { stored.withLock { $0 } }
        set {
            willChangeValue(forKey: "phase")
            stored.withLock { $0 = newValue }
            didChangeValue(forKey: "phase")
        }
    }
    var note: String { "note \(phase)" }
    override var isReady: Bool { super.isReady && phase != .pending }
    override var isExecuting: Bool { phase == .executing }
    override var isFinished: Bool { phase == .finished }
    override var isAsynchronous: Bool { true }
    override func start() {
        phase = .executing
        began.open()
    }
    override func value(forKey key: String) -> (any Sendable)? {
        switch key {
        case "phase": phase
        case "note": note
        default: super.value(forKey: key)
        }
    }
}

/// Says in Foundation's way which flags depend on the state, one of them indirectly.
// Safety: the counter has a lock.
private final class Declaring: Stateful, @unchecked Sendable {
    static let asked = Locked<[String: Int]>([:])
    override class func keyPathsForValuesAffectingValue(forKey key: String) -> Set<String> {
        asked.withLock { $0[key, default: 0] += 1 }
        return switch key {
        case "isReady", "isFinished": ["note"]
        case "note": ["phase"]
        case "isExecuting": ["phase"]
        default: super.keyPathsForValuesAffectingValue(forKey: key)
        }
    }
}

/// Says it with functions that only an Objective-C runtime finds.
// Safety: nothing is added.
private final class DeclaringByFunctions: Stateful, @unchecked Sendable {
    class func keyPathsForValuesAffectingIsReady() -> Set<String> { ["phase"] }
    class func keyPathsForValuesAffectingIsExecuting() -> Set<String> { ["phase"] }
    static func keyPathsForValuesAffectingIsFinished() -> Set<String> { ["phase"] }
}

/// Says that one flag depends on another.
// Safety: the number is atomic.
private final class EndingWithExecution: Operation, @unchecked Sendable {
    private let phase = Atomic<Int>(0)
    override class func keyPathsForValuesAffectingValue(forKey key: String) -> Set<String> {
        key == "finished" ? ["executing"] : super.keyPathsForValuesAffectingValue(forKey: key)
    }
    override var isExecuting: Bool { phase.load(ordering: .acquiring) == 1 }
    override var isFinished: Bool { phase.load(ordering: .acquiring) == 2 }
    override func start() {
        enter(1)
        _ = TestThread { self.enter(2) }
    }
    private func enter(_ next: Int) {
        willChangeValue(for: \.isExecuting)
        phase.store(next, ordering: .releasing)
        didChangeValue(for: \.isExecuting)
    }
}

// Safety: a lock guards the count.
private final class CountingQueue: OperationQueue, @unchecked Sendable {
    private let count = Locked(0)
    override class func keyPathsForValuesAffectingValue(forKey key: String) -> Set<String> { key == "name" ? ["count"] : [] }
    override var name: String? {
        get { "counted to \(count.withLock { $0 })" }
        set {}
    }
    func increase() {
        willChangeValue(forKey: "count")
        count.withLock { $0 += 1 }
        didChangeValue(forKey: "count")
    }
}

@Suite(.endsWithin(seconds: 60)) struct DependentKeyTests {
    @Test(arguments: ["undeclared", "declared", "declared by functions"])
    func anAnnouncedStateStartsAndEndsAnOperation(form: String) throws {
        let queue = OperationQueue(engine: Engine(workerCount: 1))
        for isObserved in [false, true] {
            let operation = form == "undeclared" ? Stateful() : form == "declared" ? Declaring() : DeclaringByFunctions()
            let told = Log<String>()
            let tokens = ["isExecuting", "isFinished"].map { key in
                isObserved ? operation.observe(keyPath: key, options: .new) { told.append("\(key) \($0.newValue as! Bool)") } : nil
            }
            queue.addOperation(operation)
            // The queue has found that it is not ready.
            queue.addOperations([BlockOperation {}], waitUntilFinished: true)
            operation.phase = .ready
            operation.began.wait()
            operation.phase = .finished
            #expect(try operation.tryWaitUntilFinished(until: .now + .seconds(10)))
            #expect(operation.outcome == .succeeded && queue.operationCount == 0)
            #expect(told.entries.filter { $0.hasSuffix("true") } == (isObserved ? ["isExecuting true", "isFinished true"] : []))
            for token in tokens { token?.invalidate() }
        }
    }

    @Test func aDeclaredKeyIsToldLikeOneThatIsAnnounced() {
        let (operation, log) = (Declaring(), Log<String>())
        let tokens = [
            operation.observe(\.isReady, options: [.old, .new, .prior]) {
                log.append("ready \($1.oldValue!) \($1.newValue, default: "prior")")
            },
            operation.observe(\.isExecuting, options: [.old, .new]) { log.append("executing \($1.oldValue!) \($1.newValue!)") },
            operation.observe(keyPath: "note", options: [.old, .new]) {
                log.append("\($0.oldValue as! String), \($0.newValue as! String)")
            },
        ]
        operation.phase = .ready
        #expect(
            log.entries == [
                "ready false prior", "ready false true", "executing false false", "note pending, note ready",
            ])
        for token in tokens { token.invalidate() }
    }

    @Test func anUndeclaredKeyIsToldIfItHasChangedAndReadinessBeforeTheStart() throws {
        let (operation, log) = (DeclaringByFunctions(), Log<String>())
        let engine = Engine(workerCount: 1)
        let tokens = [
            operation.observe(\.isFinished, options: [.old, .new]) { log.append("finished \($1.oldValue!) \($1.newValue!)") },
            operation.observe(\.isReady, options: [.old, .new]) { log.append("ready \($1.oldValue!) \($1.newValue!)") },
            operation.observe(\.isExecuting, options: [.old, .new]) { log.append("executing \($1.oldValue!) \($1.newValue!)") },
            operation.observe(\.isCancelled) { _, _ in log.append("cancelled") },
            operation.observe(\.note, options: [.old, .new]) { log.append("\($1.oldValue!), \($1.newValue!)") },
        ]
        operation.phase = .pending
        operation.phase = .ready
        #expect(log.entries == ["ready false false", "ready false true", "note pending, note ready"])
        OperationQueue(engine: engine).addOperation(operation)
        operation.began.wait()
        operation.phase = .finished
        #expect(try operation.tryWaitUntilFinished(until: .now + .seconds(10)))
        #expect(engine.shutdown(deadline: .seconds(10)).isEmpty)
        #expect(
            log.entries.dropFirst(3) == [
                "executing false true", "note ready, note executing", "executing true false", "note executing, note finished",
                "finished false true",
            ])
        for token in tokens { token.invalidate() }
    }

    @Test func aFlagMayDependOnAnother() throws {
        let operation = EndingWithExecution()
        OperationQueue(engine: Engine(workerCount: 1)).addOperation(operation)
        #expect(try operation.tryWaitUntilFinished(until: .now + .seconds(10)))
    }

    @Test func aClassIsAskedOnceForEachKey() {
        // Safety: nothing is added.
        final class Asked: Operation, @unchecked Sendable {
            static let asked = Locked<[String: Int]>([:])
            override class func keyPathsForValuesAffectingValue(forKey key: String) -> Set<String> {
                asked.withLock { $0[key, default: 0] += 1 }
                return key == "b" ? ["a"] : []
            }
        }
        let told = Log<Int>()
        for _ in 0..<3 {
            let operation = Asked()
            let token = operation.observe(keyPath: "b") { _ in told.append(1) }
            operation.willChangeValue(forKey: "a")
            operation.didChangeValue(forKey: "a")
            token.invalidate()
        }
        #expect(told.count == 3)
        #expect(Asked.asked.withLock { $0 } == ["a": 1, "b": 1])
    }

    @Test func aQueuesPropertyMayDependOnASubclassesOwn() {
        let (queue, log) = (CountingQueue(), Log<String>())
        let token = queue.observe(\.name, options: [.old, .new]) { log.append("\($1.oldValue!!), \($1.newValue!!)") }
        queue.increase()
        #expect(log.entries == ["counted to 0, counted to 1"])
        token.invalidate()
    }

    @Test func anObserverByKeyPathIsToldOfAnAnnouncementByString() {
        let (operation, log) = (Stateful(), Log<String>())
        let tokens = [
            operation.observe(\.phase, options: [.old, .new]) { log.append("\($1.oldValue!) \($1.newValue!)") },
            operation.observe(keyPath: "phase", options: .new) { log.append("\($0.newValue as! Stateful.Phase)") },
        ]
        operation.phase = .ready
        #expect(log.entries == ["ready", "pending ready"])
        for token in tokens { token.invalidate() }
    }

    @Test func classesWithoutDeclarationAreNotAskedForKeysThatAnyoneMakesUp() {
        let operation = Stateful()
        #expect(Stateful.keyPathsForValuesAffectingValue(forKey: "isFinished").isEmpty)
        #expect(OperationQueue.keyPathsForValuesAffectingValue(forKey: "name").isEmpty)
        operation.willChangeValue(forKey: "anything")
        operation.didChangeValue(forKey: "anything")
        #expect(!operation.isFinished)
    }
}
