import Testing

@testable import opscript

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

    @Test("A task that can never start is left out")
    func cycle() {
        #expect(durations([task(5, after: 1), task(5, after: 0), task(7)], 1) == [7])
        #expect(durations([], 4) == [0])
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
