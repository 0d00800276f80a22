import OpEngine
import Synchronization
import TestSupport
import Testing

/// Overrides the flags and announces them.
private final class Recipe: Operation, @unchecked Sendable {
    // Safety: `@unchecked Sendable` because the flags are atomic.
    private let running = Atomic<Bool>(false)
    private let ended = Atomic<Bool>(false)
    override var isExecuting: Bool { running.load(ordering: .acquiring) }
    override var isFinished: Bool { ended.load(ordering: .acquiring) }
    override func start() {
        willChangeValue(for: \.isExecuting)
        running.store(true, ordering: .releasing)
        didChangeValue(for: \.isExecuting)
        willChangeValue(for: \.isExecuting)
        willChangeValue(for: \.isFinished)
        running.store(false, ordering: .releasing)
        ended.store(true, ordering: .releasing)
        didChangeValue(for: \.isExecuting)
        didChangeValue(for: \.isFinished)
    }
}

/// The changes that one observer of a flag was told of: the initial value, and then each value once, in order.
private final class Witness: Sendable {
    private let told = Log<String>()

    func observe(_ operation: Operation, _ key: String) -> KeyValueObservation {
        operation.observe(keyPath: key, options: [.initial, .old, .new]) { [told] change in
            let new = change.newValue as? Bool ?? false
            told.append("\((change.oldValue as? Bool).map { "\($0)" } ?? "-") \(new)")
        }
    }

    /// Whether each old value equals the new value before it, and each entry is a change, apart from one `true` after `true` if the notice of a
    /// cancelled operation that was ready before is among them.
    func isLegal(withNoticeOfCancelling: Bool) -> Bool {
        let values = told.entries.map { $0.split(separator: " ").map(String.init) }
        guard let first = values.first, first[0] == "-" else { return false }
        let repeated = values.dropFirst().filter { $0[0] == $0[1] }
        return zip(values, values.dropFirst()).allSatisfy { $0[1] == $1[0] }
            && (repeated.isEmpty || withNoticeOfCancelling && repeated == [["true", "true"]])
    }

    var last: String? { told.entries.last.map { String($0.split(separator: " ")[1]) } }
    var description: String { told.entries.joined(separator: ", ") }
}

@Suite struct ObservationStressTests {
    /// Threads start, cancel, hold and release one operation while others subscribe and unsubscribe.
    @Test(arguments: [false, true]) func noChangeIsMissedDoubledOrOutOfOrder(overridden: Bool) {
        let engine = Engine(workerCount: 2)
        let queue = OperationQueue(engine: engine)
        for round in 0..<400 {
            let operation = overridden ? Recipe() : BlockOperation {}
            let order = Log<String>()
            let tokens = Locked<[KeyValueObservation]>([])
            let witnesses = Locked<[(String, Witness)]>([])
            let ends = [
                operation.observe(\.isExecuting, options: .new) { order.append("executing \($1.newValue!)") },
                operation.observe(\.isFinished, options: .new) { order.append("finished \($1.newValue!)") },
            ]
            let threads = [
                TestThread { queue.addOperation(operation) },
                TestThread { if round % 3 == 0 { operation.cancel() } },
                TestThread {
                    for key in ["isFinished", "isExecuting", "isCancelled", "isReady", "finished"] {
                        let witness = Witness()
                        let token = witness.observe(operation, key)
                        witnesses.withLock { $0.append((key, witness)) }
                        tokens.withLock { $0.append(token) }
                    }
                },
                TestThread {
                    let held = Operation()
                    operation.addDependency(held)
                    operation.name = "\(round)"
                    for _ in 0..<5 { operation.observe(\.isReady, options: .initial) { _, _ in }.invalidate() }
                    if round % 2 == 0 { held.start() } else { operation.removeDependency(held) }
                },
            ]
            for thread in threads { thread.join() }
            operation.waitUntilFinished()
            // Once the observer of this change is called, all earlier changes have been delivered.
            let allTold = Gate()
            let last = operation.observe(\.name, options: .new) { _, _ in allTold.open() }
            operation.name = "end"
            allTold.wait()
            last.invalidate()
            for (key, witness) in witnesses.withLock({ $0 }) {
                let isLegal = witness.isLegal(withNoticeOfCancelling: key == "isReady" && operation.isCancelled)
                #expect(isLegal, "round \(round) \(key): \(witness.description)")
                if key == "isFinished" || key == "finished" { #expect(witness.last == "true") }
                if key == "isExecuting" { #expect(witness.last == "false") }
                if key == "isReady" { #expect(witness.last == "true", "round \(round): \(witness.description)") }
            }
            let told = order.entries
            #expect(
                told == ["executing true", "executing false", "finished true"] || (round % 3 == 0 && told == ["finished true"]),
                "round \(round): \(told)")
            for token in tokens.withLock({ $0 }) + ends { token.invalidate() }
        }
        #expect(engine.shutdown(deadline: .seconds(10)).isEmpty)
    }

    @Test func prioritiesAreToldInTheOrderInWhichTheyWereSet() {
        for round in 0..<40 {
            let operation = Operation()
            let isObservedFromTheStart = round % 2 == 0
            let always = operation.observe(\.isCancelled) { _, _ in }
            if !isObservedFromTheStart { always.invalidate() }
            let told = Locked<[Log<(old: Operation.QueuePriority?, new: Operation.QueuePriority)>]>([])
            let tokens = Locked<[KeyValueObservation]>([])
            let setters = (0..<3).map { _ in
                TestThread {
                    for _ in 0..<100 { for priority in Operation.QueuePriority.allCases { operation.queuePriority = priority } }
                }
            }
            let observer = TestThread {
                for _ in 0..<50 {
                    let log = Log<(old: Operation.QueuePriority?, new: Operation.QueuePriority)>()
                    told.withLock { $0.append(log) }
                    let token = operation.observe(\.queuePriority, options: [.initial, .old, .new]) { _, change in
                        log.append((change.oldValue, change.newValue!))
                    }
                    tokens.withLock { $0.append(token) }
                }
            }
            for thread in setters + [observer] { thread.join() }
            // A setter may deliver changes; all setters have been joined.
            for entries in told.withLock({ $0.map(\.entries) }) {
                #expect(zip(entries, entries.dropFirst()).allSatisfy { $0.new == $1.old }, "round \(round): \(entries)")
                #expect(entries.first?.old == nil && entries.last?.new == operation.queuePriority, "round \(round): \(entries)")
            }
            for token in tokens.withLock({ $0 }) + [always] { token.invalidate() }
        }
    }

    @Test func completionBlocksAreToldInTheOrderInWhichTheyWereSet() {
        for round in 0..<40 {
            let (operation, log) = (Operation(), Log<(hadBlock: Bool, hasBlock: Bool)>())
            let token = operation.observe(\.completionBlock, options: [.initial, .old, .new]) { _, change in
                let (old, new): ((@Sendable () -> Void)?, (@Sendable () -> Void)?) = (change.oldValue ?? nil, change.newValue ?? nil)
                log.append((old != nil, new != nil))
            }
            let setters = (0..<3).map { number in
                TestThread {
                    for index in 0..<200 {
                        if (index + number) % 2 == 0 { operation.completionBlock = nil } else { operation.completionBlock = {} }
                    }
                }
            }
            for setter in setters { setter.join() }
            let entries = log.entries
            #expect(zip(entries, entries.dropFirst()).allSatisfy { $0.hasBlock == $1.hadBlock }, "round \(round)")
            #expect(entries.last?.hasBlock == (operation.completionBlock != nil), "round \(round)")
            token.invalidate()
        }
    }

    @Test func eventsOfEachOperationAreInOrderWhateverTheThreads() {
        final class Recorder: OperationObserver {
            let told = Locked<[Operation: [OperationEvent]]>([:])
            func operationChanged(_ event: OperationEvent) { told.withLock { $0[event.operation, default: []].append(event) } }
        }
        let engine = Engine(workerCount: 2)
        let queue = OperationQueue(engine: engine)
        let recorder = Recorder()
        engine.addObserver(recorder)
        defer { engine.removeObserver(recorder) }
        let added = Log<Operation>()
        let threads = (0..<4).map { number in
            TestThread {
                for index in 0..<300 {
                    let operation = BlockOperation {}
                    if index % 2 == 0 { operation.addDependency(added.entries.last ?? Operation()) }
                    added.append(operation)
                    queue.addOperation(operation)
                    if (index + number) % 5 == 0 { added.entries.randomElement()?.cancel() }
                }
            }
        }
        for thread in threads { thread.join() }
        // Frees an operation that depends on one that is never started.
        queue.cancelAllOperations()
        queue.waitUntilAllOperationsAreFinished()
        #expect(engine.shutdown(deadline: .seconds(10)).isEmpty)
        let told = recorder.told.withLock { $0 }
        #expect(told.count == 1200)
        for (operation, events) in told {
            let kinds = events.map(\.kind)
            #expect(kinds.first == .added && kinds.last == .finished && Set(kinds).count == kinds.count, "\(kinds)")
            #expect(kinds.contains(.ready))
            #expect(kinds.contains(.started) || operation.isCancelled, "\(kinds)")
            #expect(zip(events, events.dropFirst()).allSatisfy { $0.time <= $1.time })
        }
    }

    @Test func queueCountsAreToldWithoutAGap() {
        let engine = Engine(workerCount: 2)
        let queue = OperationQueue(engine: engine)
        let told = Log<String>()
        let last = Locked(0)
        let token = queue.observe(\.operationCount, options: [.initial, .old, .new]) { _, change in
            last.withLock { last in
                if let old = change.oldValue, old != last { told.append("\(last) then \(old) to \(change.newValue!)") }
                last = change.newValue!
            }
        }
        let threads = (0..<4).map { _ in
            TestThread {
                for index in 0..<300 {
                    queue.addOperation {}
                    if index % 20 == 0 { queue.observe(\.operations, options: [.initial, .new]) { _, _ in }.invalidate() }
                }
            }
        }
        for thread in threads { thread.join() }
        queue.waitUntilAllOperationsAreFinished()
        #expect(engine.shutdown(deadline: .seconds(10)).isEmpty)
        #expect(told.entries.isEmpty && last.withLock { $0 } == 0)
        token.invalidate()
    }
}
