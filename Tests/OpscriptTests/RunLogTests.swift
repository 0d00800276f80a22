import Testing

@testable import OpEngine
@testable import opscript

@Suite struct RunLogTests {
    /// A log of one operation, on worker 7, that starts at 10 and finishes at 60.
    private func log(_ events: (time: UInt64, thread: Int, event: OperationRecord.Event)...) throws -> RunOperation {
        let log = RunLog(title: "", from: 0)
        let life: [(time: UInt64, thread: Int, event: OperationRecord.Event)] = [
            (0, 0, .thread(worker: nil, isMain: true)), (1, 3, .thread(worker: 7, isMain: false)),
            (2, 0, .queue(0, name: nil, maximum: nil, isSuspended: false)),
            (5, 0, .added(queue: 0, creator: nil, priority: .normal, isReady: true)), (10, 3, .started), (60, 3, .finished(.succeeded)),
        ]
        for record in (life + events).sorted(by: { $0.time < $1.time }) {
            log.receive(OperationRecord(time: record.time, thread: record.thread, operation: 0, event: record.event))
        }
        log.finish()
        return try #require(log.operations.first)
    }

    @Test("The times in which the worker was blocked add up, whoever noticed it")
    func blocked() throws {
        let operation = try log(
            (20, 3, .workerBlocked(7)), (30, 3, .workerReturned(7)), (40, 5, .workerBlocked(7)), (45, 3, .workerReturned(7)))
        #expect(operation.blockedTime == 15)
        #expect(operation.threadTime == 50)
    }

    @Test("A blocked time ends with the operation, and that of another worker does not count")
    func ends() throws {
        #expect(try log((50, 5, .workerBlocked(7)), (70, 3, .workerReturned(7))).blockedTime == 10)
        #expect(try log((20, 5, .workerBlocked(8)), (30, 3, .workerReturned(8))).blockedTime == 0)
        #expect(try log((2, 5, .workerBlocked(7)), (3, 3, .workerReturned(7))).blockedTime == 0)
        #expect(try log((20, 3, .workerBlocked(7)), (30, 3, .returned), (40, 3, .workerReturned(7))).blockedTime == 10)
    }

    @Test("An operation that was tried again counts once, with its last attempt; the former ones are kept with their times and errors")
    func attempts() throws {
        var log = RunLog(title: "", from: 0)
        let life: [(time: UInt64, thread: Int, event: OperationRecord.Event)] = [
            (1, 3, .thread(worker: 7, isMain: false)), (1, 4, .thread(worker: 8, isMain: false)),
            (5, 3, .added(queue: 0, creator: nil, priority: .normal, isReady: true)),
            (10, 3, .started), (20, 3, .error("first")), (25, 3, .attemptFailed),
            (40, 4, .started), (45, 4, .returned), (50, 3, .error("second")), (55, 3, .attemptFailed),
            (70, 3, .started), (90, 3, .finished(.succeeded)),
        ]
        var executing: [Int] = []
        for record in life {
            log.receive(OperationRecord(time: record.time, thread: record.thread, operation: 0, event: record.event))
            executing.append(log.totals.executing)
        }
        #expect(executing == [0, 0, 0, 1, 1, 0, 1, 1, 1, 0, 1, 0])
        log = log.latest(at: 95)
        log.finish()
        let operation = try #require(log.operations.first)
        #expect(log.operations.count == 1 && log.totals.finished == 1 && log.totals.succeeded == 1 && log.totals.workerTime == 15 + 5 + 20)
        #expect(operation.outcome == .succeeded && operation.error == nil && operation.started == 70 && operation.earlierTime == 60)
        #expect(operation.workerTime == 5 && operation.threadTime == 20)
        #expect(log.attempts.map(\.thread) == [3, 4] && log.attempts.map(\.started) == [10, 40] && log.attempts.map(\.left) == [25, 45])
        #expect(log.attempts.map { log.errors[$0.error ?? 0].text } == ["first", "second"])
    }

    @Test("An operation that was cancelled between two attempts is not executing, and has not run since")
    func cancelledBetweenAttempts() throws {
        let log = RunLog(title: "", from: 0)
        let life: [(UInt64, OperationRecord.Event)] = [
            (1, .added(queue: 0, creator: nil, priority: .normal, isReady: true)), (10, .started), (20, .attemptFailed), (30, .cancelled),
            (50, .finished(.cancelled)),
        ]
        for (time, event) in life { log.receive(OperationRecord(time: time, thread: 0, operation: 0, event: event)) }
        log.finish()
        #expect(log.totals.executing == 0 && log.totals.waiting == 0 && log.totals.cancelled == 1 && log.queues[0].waiting == 0)
        #expect(log.operations.map(\.hasStarted) == [false] && log.attempts.count == 1)
    }

    @Test("An operation that starts on a blocked thread, inside the wait of another one, is not blocked; the other one was until then")
    func nested() throws {
        let log = RunLog(title: "", from: 0)
        func receive(_ event: OperationRecord.Event, of operation: Int = -1, at time: UInt64) {
            log.receive(OperationRecord(time: time, thread: 0, operation: operation, event: event))
        }
        receive(.thread(worker: 1, isMain: false), at: 0)
        for operation in 0...1 { receive(.added(queue: 0, creator: nil, priority: .normal, isReady: true), of: operation, at: 0) }
        receive(.started, of: 0, at: 10)
        receive(.workerBlocked(1), at: 20)
        receive(.started, of: 1, at: 30)
        receive(.workerReturned(1), at: 40)
        receive(.finished(.succeeded), of: 1, at: 50)
        receive(.workerBlocked(1), at: 52)
        receive(.finished(.succeeded), of: 0, at: 60)
        #expect(log.operations.map(\.blockedTime) == [18, 0])
    }

    @Test("A log that forgets operations keeps those that run, and what it knows about them")
    func forgets() throws {
        let log = RunLog(title: "", from: 0)
        var time: UInt64 = 0
        func receive(_ event: OperationRecord.Event, of operation: Int = -1, on thread: Int) {
            time += 1
            log.receive(OperationRecord(time: time, thread: thread, operation: operation, event: event))
        }
        func add(_ operation: Int, name: String) {
            receive(.added(queue: 0, creator: nil, priority: .normal, isReady: true), of: operation, on: 0)
            receive(.name(name), of: operation, on: 0)
        }
        for worker in 1...2 { receive(.thread(worker: worker, isMain: false), on: worker) }
        for index in 0..<20_000 {
            add(1, name: "short")
            receive(.started, of: 1, on: 1)
            receive(.finished(.succeeded), of: 1, on: 1)
            if index == 10_000 {
                add(2, name: "long")
                receive(.started, of: 2, on: 2)
            }
            log.forget()
        }
        #expect(log.operations.count < 10_000)
        receive(.workerBlocked(2), on: 0)
        receive(.workerReturned(2), on: 2)
        receive(.finished(.succeeded), of: 2, on: 2)
        let long = log.operations.filter { log.label(of: $0).text == "long" }
        #expect(long.map(\.blockedTime) == [1] && long.map(\.outcome) == [.succeeded])
        #expect(log.operations.allSatisfy { log.label(of: $0).text == "long" || $0.blockedTime == 0 })
    }

    /// Collects the events that an observer gets.
    private final class Listener: RunObserver {
        var lines: [String] = []

        func operationChanged(_ index: Int, from old: RunOperation?, in log: RunLog) {
            lines.append("\(old.map { "\($0.phase)" } ?? "new") -> \(log.operations[index].phase) at \(log.end)")
        }
        func dependencyFound(of index: Int, on dependency: Int, in log: RunLog) {
            lines.append("\(log.operations[index].serial) on \(log.operations[dependency].serial)")
        }
        func programStarted(_ number: Int, by operation: Int?, in log: RunLog) {}
        func programEnded(_ number: Int, _ detail: String, in log: RunLog) {}
    }

    @Test(
        "Observers are told each phase of an operation once, and of dependencies on operations that exist, however many others have ended since"
    )
    func observers() {
        let listener = Listener()
        let log = RunLog(title: "", from: 0, observers: [listener])
        var time: UInt64 = 0
        func receive(_ event: OperationRecord.Event, of operation: Int) {
            time += 1
            log.receive(OperationRecord(time: time, thread: 0, operation: operation, event: event))
        }
        receive(.added(queue: 0, creator: nil, priority: .normal, isReady: false), of: 0)
        for event in [OperationRecord.Event.ready, .ready, .started, .started, .returned, .returned] { receive(event, of: 0) }
        for event in [OperationRecord.Event.attemptFailed, .started, .finished(.succeeded), .finished(.failed)] { receive(event, of: 0) }
        #expect(
            listener.lines == [
                "new -> waiting at 1", "waiting -> ready at 2", "ready -> running at 4", "running -> open at 6",
                "open -> betweenAttempts at 8", "betweenAttempts -> running at 9", "running -> finished at 10",
            ])
        for _ in 0..<20_000 {
            receive(.added(queue: 0, creator: nil, priority: .normal, isReady: true), of: 1)
            receive(.started, of: 1)
            receive(.finished(.succeeded), of: 1)
            log.forget()
        }
        #expect(log.operations.count < 10_000)
        listener.lines = []
        receive(.dependency(0), of: 1)
        #expect(listener.lines == ["20000 on 0"])
    }
}
