import TestSupport
import Testing

@testable import OpEngine
@testable import opscript

/// The rows of operations that workers of a cluster have run.
@Suite struct WorkerSlotsTests {
    @Test("Operations that come in the order of their ends need no more slots than ran at once, and none overlap")
    func fewest() {
        for seed in 1...200 {
            var random = SeededGenerator(seed: UInt64(seed))
            var free = [UInt64](repeating: 0, count: 3)
            var times: [(began: UInt64, ended: UInt64)] = []
            for _ in 0..<100 {
                let slot = Int.random(in: 0..<3, using: &random)
                let began = free[slot] + .random(in: 0...50, using: &random)
                free[slot] = began + .random(in: 0...100, using: &random)
                times.append((began, free[slot]))
            }
            var slots = WorkerSlots(), ends: [Int: UInt64] = [:]
            for time in times.sorted(by: { $0.ended < $1.ended }) {
                // The number of the worker's slots is unknown, so no slice is moved.
                let (slot, began, ended) = slots.place(
                    on: "w", slotCount: 0, from: time.began, to: time.ended, at: time.ended)
                #expect(ended == time.ended)
                #expect(began == time.began && ends[slot] ?? 0 <= began, "seed \(seed)")
                ends[slot] = time.ended
            }
            #expect(slots.all.count <= 3, "seed \(seed)")
        }
    }

    @Test("A worker's clock that is a little off moves operations, and needs no more slots than the worker has")
    func clocks() {
        var slots = WorkerSlots()
        func place(_ worker: String, _ slotCount: Int, _ began: UInt64, _ ended: UInt64, at now: UInt64) -> [UInt64] {
            let place = slots.place(on: worker, slotCount: slotCount, from: began, to: ended, at: now)
            return [UInt64(place.slot), place.began, place.ended]
        }
        #expect(place("w", 1, 100, 900, at: 950) == [0, 100, 900])
        #expect(place("w", 1, 850, 950, at: 1200) == [0, 900, 1000])
        #expect(place("w", 1, 920, 980, at: 1040) == [0, 1000, 1040])
        #expect(slots.all.map(\.name) == ["w, slot 1"] && slots.capacity == 1)
        // This outcome arrived at 999, and the last operation began at 1000. So the worker has more slots than it said, or a namesake.
        #expect(place("w", 1, 700, 800, at: 999) == [1, 700, 800])
        #expect(place("w", 1, 1040, 3_000_000_000, at: 3_000_000_000) == [0, 1040, 3_000_000_000])
        #expect(place("v", 4, 0, 1, at: 1) == [2, 0, 1])
        #expect(slots.all.map(\.name) == ["w, slot 1", "w, slot 2", "v, slot 1"] && slots.capacity == 6 && slots.workerCount == 2)
    }

    @Test("The time of an operation is that at its worker, and the time until then is one of waiting for the cluster")
    func times() throws {
        let log = RunLog(title: "", from: 100)
        let life: [(time: UInt64, operation: Int, event: OperationRecord.Event)] = [
            (101, -1, .thread(worker: 7, isMain: false)), (102, -1, .queue(0, name: nil, maximum: nil, isSuspended: false)),
            (105, 0, .added(queue: 0, creator: nil, priority: .normal, isReady: true)),
            (110, 0, .started), (112, 0, .returned),
            (150, 0, .ranElsewhere(worker: "w", slots: 2, began: 120, ended: 140)), (151, 0, .error("first")), (152, 0, .attemptFailed),
            (160, 0, .started),
            // The thread has not yet recorded that it has sent the operation, and the worker's clock is off.
            (190, 0, .ranElsewhere(worker: "w", slots: 2, began: 155, ended: 195)), (191, 0, .finished(.succeeded)), (192, 0, .returned),
            (195, 1, .added(queue: 0, creator: nil, priority: .normal, isReady: true)), (196, 1, .started), (197, 1, .finished(.succeeded)),
        ]
        for record in life {
            log.receive(OperationRecord(time: record.time, thread: 0, operation: record.operation, event: record.event))
        }
        log.finish()
        let operation = log.operations[0]
        #expect(
            operation.started == 60 && operation.finished == 90 && operation.runTime == 30 && operation.thread == RunLog.firstSlotThread)
        #expect(operation.clusterTime == 10 && operation.earlierTime == 40 && operation.workerTime == 5, "\(operation)")
        let attempt = try #require(log.attempts.first)
        #expect(attempt.started == 20 && attempt.left == 40 && attempt.busyTime == 20 && attempt.thread == RunLog.firstSlotThread)
        #expect(log.totals.clusterTime == 50 && log.totals.executing == 0 && log.totals.succeeded == 2)
        // The time that the thread has spent on sending, and on the operation that ran here.
        #expect(log.totals.workerTime == 2 + 30 + 1 && log.operations[1].thread == 0)
        #expect(log.slots.capacity == 2 && log.slots.all.count == 1)
    }
}
