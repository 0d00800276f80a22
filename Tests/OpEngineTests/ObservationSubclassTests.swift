import OpEngine
import Synchronization
import TestLimits
import TestSupport
import Testing

/// The classic recipe, with key paths.
private class Announcing: Operation, @unchecked Sendable {
    // Safety: `@unchecked Sendable` because the flags are atomic.
    private let running = Atomic<Bool>(false)
    private let ended = Atomic<Bool>(false)
    override var isExecuting: Bool { running.load(ordering: .acquiring) }
    override var isFinished: Bool { ended.load(ordering: .acquiring) }
    override var isAsynchronous: Bool { true }
    let began = Gate()
    override func main() { began.open() }
    override func start() {
        willChangeValue(for: \.isExecuting)
        running.store(true, ordering: .releasing)
        didChangeValue(for: \.isExecuting)
        main()
    }
    func complete() {
        willChangeValue(for: \.isFinished)
        willChangeValue(for: \.isExecuting)
        running.store(false, ordering: .releasing)
        ended.store(true, ordering: .releasing)
        didChangeValue(for: \.isExecuting)
        didChangeValue(for: \.isFinished)
    }
}

private final class Counter: Operation, @unchecked Sendable {
    // Safety: `@unchecked Sendable` because the count has a lock.
    private let storage = Locked(0)
    var count: Int { storage.withLock { $0 } }
    override func value(forKey key: String) -> (any Sendable)? { key == "count" ? count : super.value(forKey: key) }
    func countByName() {
        willChangeValue(forKey: "count")
        storage.withLock { $0 += 1 }
        didChangeValue(forKey: "count")
    }
    func countByPath() {
        willChangeValue(for: \.count)
        storage.withLock { $0 += 1 }
        didChangeValue(for: \.count)
    }
}

private final class Allowed: Operation, @unchecked Sendable {
    // Safety: `@unchecked Sendable` because the flag is atomic.
    private let allowed = Atomic<Bool>(false)
    override var isReady: Bool { super.isReady && allowed.load(ordering: .acquiring) }
    func allow() {
        willChangeValue(forKey: "ready")
        allowed.store(true, ordering: .releasing)
        didChangeValue(forKey: "isReady")
    }
}

/// Evaluates a condition when its dependencies have finished, and is ready when the condition holds.
private final class Conditional: Operation, @unchecked Sendable {
    // Safety: the flag is atomic, and the rest is constant.
    private let holds = Atomic<Bool>(false)
    private let announces: Bool
    init(announces: Bool) { self.announces = announces }
    override var isReady: Bool { super.isReady && holds.load(ordering: .acquiring) }

    func dependenciesMayHaveFinished() {
        guard super.isReady, !holds.load(ordering: .acquiring) else { return }
        if announces { willChangeValue(for: \.isReady) }
        holds.store(true, ordering: .releasing)
        if announces { didChangeValue(for: \.isReady) }
    }
}

/// Another thread finishes it while `start` returns, and announces that later.
private final class FinishedElsewhere: Operation, @unchecked Sendable {
    // Safety: the flag is atomic, and the rest is constant.
    private let ended = Atomic<Bool>(false)
    private let setsFirst: Bool
    let (mayAnnounce, hasAnnounced) = (Gate(), Gate())
    init(setsFirst: Bool) { self.setsFirst = setsFirst }
    override var isFinished: Bool { ended.load(ordering: .acquiring) }

    override func start() {
        let hasEnded = Gate()
        _ = TestThread { [self] in
            if !setsFirst { willChangeValue(for: \.isFinished) }
            ended.store(true, ordering: .releasing)
            hasEnded.open()
            mayAnnounce.wait()
            if setsFirst { willChangeValue(for: \.isFinished) }
            didChangeValue(for: \.isFinished)
            hasAnnounced.open()
        }
        hasEnded.wait()
    }
}

@Suite(.endsWithin(seconds: 60)) struct ObservationSubclassTests {
    @Test func overriddenPropertiesAreToldOnceWithTheValuesOfTheirGetters() {
        let engine = Engine(workerCount: 2)
        let log = Log<String>()
        let operation = Announcing()
        let tokens = [
            operation.observe(\.isExecuting, options: [.old, .new, .prior]) { operation, change in
                log.append("executing \(change.oldValue!) \(change.newValue, default: "prior") \(operation.isExecuting)")
            },
            operation.observe(keyPath: "finished", options: [.old, .new]) { change in
                log.append("finished \(change.oldValue as! Bool) \(change.newValue as! Bool)")
            },
        ]
        OperationQueue(engine: engine).addOperation(operation)
        operation.began.wait()
        operation.complete()
        operation.waitUntilFinished()
        #expect(engine.shutdown(deadline: .seconds(10)).isEmpty)
        #expect(
            log.entries == [
                "executing false prior false", "executing false true true", "executing true prior true", "executing true false false",
                "finished false true",
            ])
        for token in tokens { token.invalidate() }
    }

    @Test func aSubclassThatFinishesWithoutSayingSoIsToldByTheEngine() {
        final class Silent: Operation, @unchecked Sendable {
            // Safety: `@unchecked Sendable` because the flag is atomic.
            private let ended = Atomic<Bool>(false)
            override var isFinished: Bool { ended.load(ordering: .acquiring) }
            override func start() { ended.store(true, ordering: .releasing) }
        }
        let engine = Engine(workerCount: 1)
        let log = Log<String>()
        let operation = Silent()
        let token = operation.observe(\.isFinished, options: [.old, .new]) { log.append("\($1.oldValue!) \($1.newValue!)") }
        OperationQueue(engine: engine).addOperations([operation], waitUntilFinished: true)
        #expect(engine.shutdown(deadline: .seconds(10)).isEmpty)
        #expect(log.entries == ["false true"])
        token.invalidate()
    }

    @Test func aSubclassesPropertyIsObservedByStringAndByKeyPath() {
        let log = Log<String>()
        let operation = Counter()
        let byName = operation.observe(keyPath: "count", options: [.old, .new, .initial]) { change in
            log.append("name \(change.oldValue as? Int ?? -1) \(change.newValue as! Int)")
        }
        let byPath = operation.observe(\.count, options: [.old, .new]) { operation, change in
            log.append("path \(change.oldValue!) \(change.newValue!) \(operation.count)")
        }
        operation.countByName()
        operation.countByPath()
        #expect(log.entries == ["name -1 0", "name 0 1", "path 0 1 1", "path 1 2 2", "name 1 2"])
        byName.invalidate()
        byPath.invalidate()
    }

    /// A value whose comparison uses the operation that has it.
    private struct Level: Equatable, Sendable {
        let number: Int
        let use: @Sendable () -> Void
        static func == (left: Level, right: Level) -> Bool {
            left.use()
            return left.number == right.number
        }
    }

    private final class Rising: Operation, @unchecked Sendable {
        // Safety: `@unchecked Sendable` because the number has a lock.
        private let number = Locked(0)
        var level: Level {
            Level(number: number.withLock { $0 }) { [unowned self] in observe(\.isFinished) { _, _ in }.invalidate() }
        }
        func rise(by step: Int) {
            number.withLock { $0 += step }
            didChangeValue(for: \.level)
        }
    }

    @Test func valuesAreComparedWithoutALock() {
        let (operation, log) = (Rising(), Log<Int>())
        let token = operation.observe(\.level, options: [.new]) { log.append($1.newValue!.number) }
        for step in [1, 0, 2] { operation.rise(by: step) }
        #expect(log.entries == [1, 3])
        token.invalidate()
    }

    @Test func readinessIsWhatTheGetterSays() {
        let log = Log<String>()
        let (operation, dependency) = (Allowed(), Operation())
        operation.addDependency(dependency)
        let token = operation.observe(\.isReady, options: [.old, .new]) { log.append("\($1.oldValue!) \($1.newValue!)") }
        dependency.start()
        #expect(log.entries == ["false false"])
        operation.allow()
        operation.addDependency(Operation())
        operation.cancel()
        #expect(log.entries == ["false false", "false true", "true false", "false true"])
        token.invalidate()
    }

    @Test(arguments: [false, true]) func whatBeginsWhenTheDependenciesHaveFinishedMayMakeTheOperationReady(announces: Bool) throws {
        let queue = OperationQueue(engine: Engine(workerCount: 1))
        let (operation, dependency) = (Conditional(announces: announces), BlockOperation {})
        operation.addDependency(dependency)
        let told = Log<String>()
        let token = operation.observe(\.isReady, options: [.old, .new]) { operation, change in
            told.append("\(change.oldValue!) \(change.newValue!)")
            operation.dependenciesMayHaveFinished()
        }
        queue.addOperations([operation, dependency], waitUntilFinished: false)
        #expect(try operation.tryWaitUntilFinished(until: .now + .seconds(10)))
        #expect(told.entries == (announces ? ["false false", "false true"] : ["false false"]))
        token.invalidate()
    }

    @Test func changesOfTheSuperclassesFlagsAreToldAlsoIfTheGetterSaysTheSame() {
        final class Unmoved: Operation, @unchecked Sendable {
            // Safety: the class adds no stored properties.
            override var isExecuting: Bool { false }
            override var isCancelled: Bool { false }
        }
        let (operation, cancelled, log) = (Unmoved(), Unmoved(), Log<String>())
        let tokens = [
            operation.observe(\.isExecuting, options: [.old, .new]) { log.append("executing \($1.oldValue!) \($1.newValue!)") },
            operation.observe(\.isFinished, options: [.old, .new]) { log.append("finished \($1.oldValue!) \($1.newValue!)") },
            cancelled.observe(\.isCancelled, options: [.old, .new]) { log.append("cancelled \($1.oldValue!) \($1.newValue!)") },
        ]
        cancelled.cancel()
        operation.start()
        #expect(log.entries == ["cancelled false false", "executing false false", "finished false true"])
        for token in tokens { token.invalidate() }
    }

    @Test func whatIsAnnouncedIsToldAlsoIfItHasNotChanged() {
        let (operation, log) = (Counter(), Log<String>())
        let tokens = ["isFinished", "isExecuting", "isReady", "isCancelled", "count"].map { key in
            operation.observe(keyPath: key, options: [.old, .new, .prior]) { change in
                func text<Value>(_: Value.Type) -> String? {
                    (change.oldValue as? Value).map { "\(key) \($0) \((change.newValue as? Value).map { "\($0)" } ?? "prior")" }
                }
                log.append(text(Bool.self) ?? text(Int.self) ?? "neither")
            }
        }
        for key in ["finished", "executing", "ready", "cancelled", "count"] {
            operation.willChangeValue(forKey: key)
            operation.didChangeValue(forKey: key)
        }
        #expect(
            log.entries == [
                "isFinished false prior", "isFinished false false", "isExecuting false prior", "isExecuting false false",
                "isReady true prior", "isReady true true", "isCancelled false prior", "isCancelled false false",
                "count 0 prior", "count 0 0",
            ])
        for token in tokens { token.invalidate() }
    }

    /// A thread is between `willChangeValue` and `didChangeValue`, or has not called the former yet, when the worker that has called `start`
    /// sees that the operation has finished.
    @Test(arguments: [false, true], [false, true]) func theEndIsToldOnce(isStalled: Bool, setsFirst: Bool) {
        let engine = Engine(workerCount: 1)
        let (operation, log) = (FinishedElsewhere(setsFirst: setsFirst), Log<String>())
        let (stalls, goesOn) = (Gate(), Gate())
        let tokens = [
            operation.observe(\.isFinished, options: [.old, .new, .prior]) {
                log.append("\($1.oldValue!) \($1.newValue, default: "prior")")
            },
            operation.observe(\.name) { _, _ in
                stalls.open()
                goesOn.wait()
            },
        ]
        let stalled = TestThread { if isStalled { operation.name = "stalled" } }
        if isStalled { stalls.wait() }
        OperationQueue(engine: engine).addOperation(operation)
        operation.waitUntilFinished()
        operation.mayAnnounce.open()
        operation.hasAnnounced.wait()
        goesOn.open()
        stalled.join()
        #expect(engine.shutdown(deadline: .seconds(10)).isEmpty)
        #expect(log.entries == ["false prior", "false true"])
        for token in tokens { token.invalidate() }
    }

    @Test func aSubscriptionInTheMiddleOfAnAnnouncementNeitherMissesNorDoubles() {
        final class Halfway: Operation, @unchecked Sendable {
            // Safety: `@unchecked Sendable` because the flag is atomic and the rest are constants.
            private let flag = Atomic<Bool>(false)
            let log = Log<String>()
            let tokens = Locked<[KeyValueObservation]>([])
            override var isReady: Bool { flag.load(ordering: .acquiring) }
            func subscribe(_ name: String) {
                let log = log
                let token = observe(\.isReady, options: [.initial, .old, .new]) {
                    log.append("\(name) \($1.oldValue, default: "nil") \($1.newValue!)")
                }
                tokens.withLock { $0.append(token) }
            }
            func change() {
                willChangeValue(forKey: "isReady")
                subscribe("before")
                flag.store(true, ordering: .releasing)
                subscribe("after")
                didChangeValue(forKey: "isReady")
            }
        }
        let operation = Halfway()
        operation.change()
        #expect(operation.log.entries == ["before nil false", "after nil true", "before false true"])
    }

    @Test func foundationsNamesCompile() {
        let operation: Operation = BlockOperation {}
        let options: NSKeyValueObservingOptions = [.old, .new]
        let token: NSKeyValueObservation = operation.observe(\.isCancelled, options: options) {
            (operation: Operation, change: NSKeyValueObservedChange<Bool>) in
            #expect(operation.isCancelled && change.newValue == true && change.oldValue == false)
        }
        operation.cancel()
        let block = BlockOperation {}
        let second = block.observe(\BlockOperation.isCancelled) { block, _ in #expect(block.executionBlocks.count == 1) }
        block.cancel()
        token.invalidate()
        second.invalidate()
    }
}
