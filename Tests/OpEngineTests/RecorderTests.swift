import Synchronization
import TestLimits
import TestSupport
import Testing

@testable import OpEngine

/// The records that a recorder has passed on.
private final class Records: OperationRecordReceiver {
    private let all = Locked<[OperationRecord]>([])

    func receive(_ record: OperationRecord) { all.withLock { $0.append(record) } }
    func finishBatch() {}
    func describe(_ error: any Error) -> String { "described: \(error)" }

    var list: [OperationRecord] { all.withLock { $0 } }

    /// The events with the number of an operation, in order. The events of a later operation with the same number follow.
    func events(of operation: Int) -> [OperationRecord] { list.filter { $0.operation == operation } }

    /// The number of the operation with this name.
    func number(named wanted: String) -> Int? {
        list.first { if case .name(wanted) = $0.event { true } else { false } }?.operation
    }
}

/// A recorder records one engine of the process at a time.
@Suite(.serialized) struct RecorderTests {
    private struct Mistake: Error {}

    private func record(_ body: (Engine) throws -> Void) throws -> Records {
        let engine = Engine(workerCount: 2)
        let records = Records()
        let recorder = try #require(Recorder(engine, receiver: records))
        try body(engine)
        recorder.stop()
        #expect(engine.shutdown(deadline: .seconds(10)).isEmpty)
        return records
    }

    private func word(_ event: OperationRecord.Event) -> String {
        switch event {
        case .added: "added"
        case .name: "name"
        case .dependency: "dependency"
        case .ready: "ready"
        case .started: "started"
        case .returned: "returned"
        case .cancelled: "cancelled"
        case .error(let text): text
        case .finished(let outcome): "\(outcome)"
        default: "other"
        }
    }

    @Test("Operations with keys, conditions and a limited rate are recorded, and finish")
    func admitted() throws {
        let records = try record { engine in
            let queue = OperationQueue(engine: engine)
            queue.rateLimit = RateLimit(count: 1000)
            for _ in 0..<3 {
                let operation = BlockOperation {}
                operation.exclusiveKeys = ["key"]
                operation.addDependency(BlockOperation {})
                operation.removeDependency(operation.dependencies[0])
                queue.addOperation(operation)
            }
            queue.waitUntilAllOperationsAreFinished()
        }
        let numbers = Set(records.list.compactMap { if case .added = $0.event { $0.operation } else { nil } })
        for number in numbers {
            #expect(records.events(of: number).map { word($0.event) }.suffix(2) == ["started", "succeeded"], "\(number)")
        }
    }

    @Test("Operations that are recorded and observed change while they start", .endsWithin(seconds: 60))
    func changedWhileRecorded() throws {
        _ = try record { engine in
            let queue = OperationQueue(engine: engine)
            for _ in 0..<2000 {
                let operation = BlockOperation {}
                let token = operation.observe(\.isExecuting) { _, _ in }
                let setter = TestThread { for name in ["a", "b", "c", "d"] { operation.name = name } }
                queue.addOperation(operation)
                operation.waitUntilFinished()
                setter.join()
                token.invalidate()
            }
        }
    }

    @Test("A run at a worker elsewhere is recorded with times that are not after the record")
    func elsewhere() throws {
        let records = try record { engine in
            let queue = OperationQueue(engine: engine)
            let operation = BlockOperation {}
            operation.addExecutionBlock { [unowned operation] in
                operation.recordRun(elsewhere: "a worker with a long name", slots: 40, began: 1.5, ended: 2.5)
                operation.recordRun(elsewhere: "", slots: -1, began: -1, ended: 1e9)
            }
            queue.addOperations([operation], waitUntilFinished: true)
            BlockOperation {}.recordRun(elsewhere: "not recorded", slots: 1, began: 0, ended: 0)
        }
        let runs = records.list.compactMap { record -> (String, Int, UInt64, UInt64)? in
            guard case .ranElsewhere(let worker, let slots, let began, let ended) = record.event else { return nil }
            #expect(ended <= record.time)
            return (worker, slots, began, ended)
        }
        #expect(runs.count == 2 && runs[0] == ("a worker with a long name", 40, 1_500_000_000, 2_500_000_000))
        #expect(runs[1].0.isEmpty && runs[1].1 == 0 && runs[1].2 == 0 && runs[1].3 > 0)
    }

    @Test("The records of an operation tell its life in order")
    func life() throws {
        let records = try record { engine in
            let queue = OperationQueue(engine: engine)
            queue.isSuspended = true
            let first = BlockOperation {}
            let second = BlockOperation { throw Mistake() }
            let third = BlockOperation {}
            (first.name, second.name, third.name) = ("first", "second", "third")
            second.addDependency(first)
            queue.addOperations([first, second, third], waitUntilFinished: false)
            third.cancel()
            queue.isSuspended = false
            queue.waitUntilAllOperationsAreFinished()
        }
        let lives = try ["first", "second", "third"].map { name in
            try records.events(of: #require(records.number(named: name))).map { word($0.event) }
        }
        #expect(lives[0] == ["added", "name", "started", "succeeded"])
        #expect(lives[1] == ["added", "name", "ready", "started", "dependency", "described: Mistake()", "failed"])
        #expect(lives[2] == ["added", "name", "cancelled", "cancelled"])
    }

    /// Executes without the superclass's `start`, and is cancelled then.
    private final class Cancelled: Operation, @unchecked Sendable {
        // Safety: `@unchecked Sendable` because nothing is added to its superclass.
        override func start() {
            cancel()
            end()
        }
    }

    @Test("The dependencies of a cancelled operation are recorded once")
    func dependenciesOfCancelled() throws {
        let records = try record { engine in
            let queue = OperationQueue(engine: engine)
            queue.isSuspended = true
            let first = BlockOperation {}
            let executing = [BlockOperation { Operation.current?.cancel() }, Cancelled()]
            let waiting = [BlockOperation {}, Cancelled()]
            let ended = AsyncOperation()
            for (operation, name) in zip(executing + waiting + [ended], ["a", "b", "c", "d", "e"]) {
                operation.name = name
                operation.addDependency(first)
            }
            queue.addOperations([first] + executing + waiting + [ended], waitUntilFinished: false)
            for operation in waiting { operation.cancel() }
            ended.finish()
            queue.isSuspended = false
            queue.waitUntilAllOperationsAreFinished()
        }
        let lives = try ["a", "b", "c", "d", "e"].map { name in
            try records.events(of: #require(records.number(named: name))).map { word($0.event) }
        }
        for life in lives[..<2] { #expect(life == ["added", "name", "ready", "started", "dependency", "cancelled", "cancelled"]) }
        for life in lives[2..<4] { #expect(life == ["added", "name", "ready", "cancelled", "dependency", "cancelled"]) }
        #expect(lives[4] == ["added", "name", "dependency", "succeeded"])
    }

    @Test("A worker that is blocked, declared or noticed, is recorded while its operation runs")
    func blocking() throws {
        let released = Gate()
        let records = try record { engine in
            let queue = OperationQueue(engine: engine)
            queue.maxConcurrentOperationCount = 8
            let declared = BlockOperation { Engine.blocking {} }
            declared.name = "declared"
            queue.addOperation(declared)
            queue.waitUntilAllOperationsAreFinished()
            // Two workers sleep in a call that the engine does not know, so the third operation runs only if they are replaced.
            for name in ["one", "two"] {
                let noticed = BlockOperation { released.wait() }
                noticed.name = name
                queue.addOperation(noticed)
            }
            queue.addOperation { released.open(2) }
            queue.waitUntilAllOperationsAreFinished()
        }
        var workers: [Int: Int] = [:]
        for record in records.list {
            if case .thread(let worker?, _) = record.event { workers[worker] = record.thread }
        }
        func blocked(during name: String) throws -> [OperationRecord] {
            let own = try records.events(of: #require(records.number(named: name)))
            let start = try #require(own.first(where: { word($0.event) == "started" }))
            let end = try #require(own.first(where: { word($0.event) == "succeeded" }))
            return records.list.filter { record in
                guard case .workerBlocked(let worker) = record.event else { return false }
                return workers[worker] == start.thread && record.time >= start.time && record.time <= end.time
            }
        }
        #expect(try !blocked(during: "declared").isEmpty)
        #expect(try !(blocked(during: "one") + blocked(during: "two")).isEmpty)
        // Each blocked thread has returned, in this order.
        for worker in workers.keys {
            var isBlocked = false
            for record in records.list {
                switch record.event {
                case .workerBlocked(worker):
                    #expect(!isBlocked)
                    isBlocked = true
                case .workerReturned(worker):
                    #expect(isBlocked)
                    isBlocked = false
                default: break
                }
            }
        }
    }

    @Test("Nothing is lost and nothing is out of order, however many threads add and run operations")
    func random() throws {
        let seed = UInt64.random(in: 0..<1_000_000)
        let count = TestLength.size(20_000)
        let failed = Atomic<Int>(0)
        let records = try record { engine in
            let queues = (0..<3).map { _ in OperationQueue(engine: engine) }
            queues[1].maxConcurrentOperationCount = 1
            let producers = (0..<3).map { producer in
                TestThread {
                    var random = SeededGenerator(seed: seed &+ UInt64(producer))
                    var last: Operation?
                    for _ in 0..<count {
                        let fails = Int.random(in: 0..<8, using: &random) == 0
                        if fails { failed.wrappingAdd(1, ordering: .relaxed) }
                        let operation = BlockOperation { if fails { throw Mistake() } }
                        if let last, Bool.random(using: &random) { operation.addDependency(last) }
                        queues.randomElement(using: &random)?.addOperation(operation)
                        last = operation
                    }
                }
            }
            for producer in producers { producer.join() }
            for queue in queues { queue.waitUntilAllOperationsAreFinished() }
        }
        var (added, failures, last) = (0, 0, UInt64(0))
        /// The dependencies of each number; an operation may have the number of one that was deallocated.
        var expected: [Int: String] = [:]
        var wrong: [String] = []
        for record in records.list {
            if record.time < last { wrong.append("a record goes back in time") }
            last = record.time
            let word = word(record.event)
            switch record.event {
            case .added:
                added += 1
                if let missing = expected[record.operation] { wrong.append("added again before \(missing)") }
                expected[record.operation] = "started"
            case .started:
                if expected[record.operation] != "started" { wrong.append("started without being added") }
                expected[record.operation] = "finished"
            case .finished(let outcome):
                if outcome == .failed { failures += 1 }
                if expected.removeValue(forKey: record.operation) != "finished" { wrong.append("\(word) without having started") }
            default: break
            }
        }
        #expect(wrong.isEmpty, "seed \(seed)")
        #expect(expected.isEmpty, "seed \(seed)")
        #expect(added == 3 * count, "seed \(seed)")
        #expect(failures == failed.load(ordering: .relaxed), "seed \(seed)")
    }

    @Test("Each address has a number of its own, counted in order of first use, whatever page was looked up last")
    func numbers() {
        let seed = UInt64.random(in: 0..<1_000_000)
        var random = SeededGenerator(seed: seed)
        var addresses: [UInt64] = []
        for block: UInt64 in 1...60 {
            for place: UInt64 in 0..<50 { addresses.append(block * 1_000_000_000 + place * 112) }
        }
        addresses.shuffle(using: &random)
        var numbers = OperationNumbers()
        var pages = [OperationNumbers.Page.none, .none]
        for (index, address) in addresses.enumerated() { #expect(numbers.number(of: address, &pages[index % 2]) == index, "seed \(seed)") }
        for index in addresses.indices.shuffled(using: &random) {
            #expect(numbers.number(of: addresses[index], &pages[index % 2]) == index, "seed \(seed)")
        }
    }

    /// Its release ends a recording.
    private final class Stopping: OperationRecordReceiver {
        private let recorder: Locked<Recorder?>
        init(_ recorder: Locked<Recorder?>) { self.recorder = recorder }
        deinit { recorder.withLock { $0 }?.stop() }
        func receive(_ record: OperationRecord) {}
        func finishBatch() {}
        func describe(_ error: any Error) -> String { "" }
    }

    @Test("A thread records nothing after the end, also if that is the moment when it makes its buffer", .endsWithin(seconds: 60))
    func endDuringTheFirstRecord() throws {
        let engine = Engine(workerCount: 1), numbers = Log<Int?>(), second = Locked<Recorder?>(nil)
        onThreads(1) { _ in
            do {
                let first = Recorder(engine, receiver: Stopping(second))
                numbers.append(Recorder.activityBegan("first", by: nil))
                first?.stop()
            }
            let made = Recorder(engine, receiver: Records())
            second.withLock { $0 = made }
            // The new buffer replaces that of the first recorder, which is released with its receiver.
            for _ in 0..<2 { numbers.append(Recorder.activityBegan("second", by: nil)) }
        }
        #expect(numbers.entries.count == 3 && numbers.entries[0] == 0 && numbers.entries[2] == nil)
        second.withLock { $0 = nil }
    }

    @Test("One recorder records at a time; the next one begins anew")
    func one() throws {
        let engine = Engine(workerCount: 1)
        let queue = OperationQueue(engine: engine)
        let records = (0..<2).map { _ in Records() }
        for own in records {
            let recorder = try #require(Recorder(engine, receiver: own))
            #expect(Recorder(engine, receiver: Records()) == nil)
            queue.addOperation {}
            queue.waitUntilAllOperationsAreFinished()
            recorder.stop()
            recorder.stop()
            queue.addOperation {}
            queue.waitUntilAllOperationsAreFinished()
        }
        for own in records {
            #expect(own.events(of: 0).map { word($0.event) } == ["added", "started", "succeeded"])
            #expect(own.list.allSatisfy { $0.operation <= 0 })
        }
        #expect(engine.shutdown(deadline: .seconds(10)).isEmpty)
    }
}
