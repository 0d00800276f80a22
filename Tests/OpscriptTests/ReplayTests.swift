import OpEngine
import TestSupport
import Testing

@testable import opscript

/// An operation that executes without a thread until the test finishes it.
private final class HeldOperation: AsyncOperation, @unchecked Sendable {
    // Safety: the body is a constant, and is called on the thread of the test.
    private let body: () -> Void
    init(_ body: @escaping () -> Void) { self.body = body }
    override func main() { body() }
}

@Suite struct ReplayTests {
    private func task(
        _ time: UInt64, queue: Int = 0, added: UInt64 = 0, by creator: Int? = nil, after dependencies: Int..., running: UInt64? = nil
    ) -> Replay.Task {
        Replay.Task(
            workerTime: time, runTime: running ?? time, queue: queue, added: added, creator: creator, dependencies: dependencies)
    }

    private func durations(_ tasks: [Replay.Task], maxima: [Int?] = [nil], _ workers: Int...) -> [UInt64] {
        workers.map { Replay.duration(of: tasks, maxima: maxima, workers: $0) }
    }

    @Test("Dependencies and the number of workers decide the time")
    func dependencies() {
        let diamond = [task(10), task(20), task(30), task(5, after: 0, 1, 2)]
        #expect(durations(diamond, 1, 2, 3, 16) == [65, 45, 35, 35])
    }

    @Test("The tasks that became ready first start first")
    func order() {
        #expect(durations([task(10), task(10), task(10), task(30)], 2) == [40])
        #expect(durations([task(30), task(10), task(10), task(10)], 2) == [30])
    }

    @Test("A queue's maximum holds its tasks back, and no others")
    func maximum() {
        let tasks = [task(10), task(10), task(10), task(7, queue: 1), task(7, queue: 1)]
        #expect(durations(tasks, maxima: [1, nil], 1, 2, 8) == [44, 30, 30])
        #expect(durations(tasks, maxima: [2, 1], 8) == [20])
    }

    @Test("Tasks are added when they were, or as long after the start of their creator")
    func adding() {
        #expect(durations([task(10, added: 100)], 1) == [110])
        #expect(durations([task(50), task(10), task(10, added: 5, by: 1)], 1, 2) == [70, 50])
    }

    @Test("An asynchronous task gives its worker back, and a task on another thread takes none")
    func withoutWorker() {
        #expect(durations([task(1, running: 100), task(10)], 1) == [100])
        #expect(durations([task(0, queue: 1, running: 20), task(0, queue: 1, running: 20), task(30)], maxima: [nil, 1], 1) == [40])
    }

    @Test("A task that ran on a cluster needs one of its slots, and no worker")
    func cluster() {
        var tasks = [task(10), task(10), task(10), task(30, queue: 1), task(5, queue: 1, after: 0, 1, 2)]
        for index in 0..<3 { tasks[index].isElsewhere = true }
        #expect([1, 2, 3].map { Replay.duration(of: tasks, maxima: [nil, nil], workers: 2, slots: $0) } == [35, 30, 30])
        #expect([1, 8].map { Replay.duration(of: tasks, maxima: [nil, nil], workers: $0, slots: 1) } == [35, 35])
        #expect(Replay.duration(of: tasks, maxima: [1, nil], workers: 8, slots: 8) == 35)
    }

    @Test("A task that can never start is left out")
    func cycle() {
        #expect(durations([task(5, after: 1), task(5, after: 0), task(7)], 1) == [7])
        #expect(durations([], 4) == [0])
    }

    /// The time that the tasks take if the simulated engine starts them as soon as it can, while one of the workers is free.
    private func simulatedDuration(of tasks: [Replay.Task], maxima: [Int?], workers: Int) -> UInt64 {
        let simulation = Engine.Simulation(seed: 0)
        let queues = maxima.map { maximum in
            let queue = OperationQueue(engine: simulation.engine)
            queue.maxConcurrentOperationCount = maximum ?? tasks.count
            return queue
        }
        var events: [(time: UInt64, happen: () -> Void)] = []
        var (now, freeWorkers) = (UInt64(0), workers)
        var operations: [HeldOperation] = []
        func add(_ index: Int, at time: UInt64) { events.append((time, { queues[tasks[index].queue].addOperation(operations[index]) })) }
        for (index, task) in tasks.enumerated() {
            let operation = HeldOperation {
                freeWorkers -= 1
                events.append((now + task.workerTime, { freeWorkers += 1 }))
                events.append((now + task.runTime, { operations[index].finish() }))
                for other in tasks.indices where tasks[other].creator == index { add(other, at: now + tasks[other].added) }
            }
            for dependency in task.dependencies { operation.addDependency(operations[dependency]) }
            operations.append(operation)
            if task.creator == nil { add(index, at: task.added) }
        }
        while let next = events.map(\.time).min() {
            now = next
            while let index = events.firstIndex(where: { $0.time == now }) { events.remove(at: index).happen() }
            while freeWorkers > 0, simulation.step() {}
        }
        return now
    }

    @Test("A replay takes as long as the engine does", arguments: [1, 3])
    func likeTheEngine(queueCount: Int) {
        let seed = UInt64.random(in: 0 ... .max)
        var random = SeededGenerator(seed: seed)
        for round in 0..<TestLength.size(1000) {
            var tasks: [Replay.Task] = []
            for index in 0..<Int.random(in: 1...15, using: &random) {
                let time = UInt64.random(in: 1...1_000_000, using: &random)
                let creator = index > 0 && Int.random(in: 0..<4, using: &random) == 0 ? Int.random(in: 0..<index, using: &random) : nil
                let isEarly = creator == nil && Bool.random(using: &random)
                let dependencies = (0..<index).filter { _ in Int.random(in: 0..<5, using: &random) == 0 }
                tasks.append(
                    Replay.Task(
                        workerTime: Bool.random(using: &random) ? time : UInt64.random(in: 1...time, using: &random), runTime: time,
                        queue: Int.random(in: 0..<queueCount, using: &random),
                        added: isEarly ? 0 : UInt64.random(in: 0...1_000_000, using: &random), creator: creator, dependencies: dependencies)
                )
            }
            let maxima = (0..<queueCount).map { _ in Bool.random(using: &random) ? Int.random(in: 1...4, using: &random) : nil }
            // With several queues and few workers, the seed of the simulation decides which queue is next.
            let workers = queueCount == 1 ? Int.random(in: 1...5, using: &random) : tasks.count
            #expect(
                Replay.duration(of: tasks, maxima: maxima, workers: workers)
                    == simulatedDuration(of: tasks, maxima: maxima, workers: workers), "seed \(seed), round \(round)")
        }
    }

    @Test("Many tasks take no longer than the work allows, and no less")
    func bounds() {
        let seed = UInt64.random(in: 0 ... .max)
        var state = seed
        func random(_ limit: Int) -> Int {
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            return Int(state >> 33) % limit
        }
        var tasks: [Replay.Task] = []
        var ends: [UInt64] = []
        for index in 0..<5000 {
            let dependencies = index == 0 ? [] : Array(Set((0..<random(3)).map { _ in random(index) }))
            var task = task(UInt64(1 + random(50)))
            task.dependencies = dependencies
            tasks.append(task)
            ends.append((dependencies.map { ends[$0] }.max() ?? 0) + task.runTime)
        }
        let work = tasks.reduce(0) { $0 + $1.workerTime }
        let longest = ends.max() ?? 0
        for workers in [1, 2, 4, 8, 5000] {
            let time = Replay.duration(of: tasks, maxima: [nil], workers: workers)
            // Graham's bound for list scheduling.
            #expect(max(longest, work / UInt64(workers)) <= time && time <= work / UInt64(workers) + longest, "seed \(seed)")
        }
        #expect(Replay.duration(of: tasks, maxima: [nil], workers: 1) == work, "seed \(seed)")
        #expect(Replay.duration(of: tasks, maxima: [nil], workers: 5000) == longest, "seed \(seed)")
    }
}
