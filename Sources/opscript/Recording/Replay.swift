/// Estimates how long a recorded run takes with another number of workers.
///
/// In virtual time, each operation takes the time that it took in the run. It starts as soon as its dependencies have finished, its queue's
/// maximum allows it, and a worker is free. If several can start, the one that became ready first starts. The estimate ignores priorities,
/// suspensions and the time to switch between operations. It also ignores that operations may wait for one another or slow one another
/// down. While an operation was blocked, another thread could take its place, so it needs a worker only for the rest of its time. An
/// operation that ran on a cluster needs a slot of the cluster in place of a worker. The number of slots is that of the run.
///
/// `ReplayTests` compares the estimate with `Engine.Simulation`. The command does not use that engine here, because the engine knows neither
/// times nor a number of workers, so it would only replace the ready lists. `exit` on a worker may also write a report, in the middle of an
/// operation of another engine.
struct Replay {
    /// An operation. Times are nanoseconds.
    struct Task {
        /// The time for which it needs a worker, or a slot; 0 if it ran on a thread that is not a worker.
        var workerTime: UInt64
        /// The time from its start to its end.
        var runTime: UInt64
        /// The index of its queue.
        var queue: Int
        /// When it was added, counted from the beginning or, if it has a creator, from the creator's start.
        var added: UInt64
        /// The task that added it.
        var creator: Int?
        var dependencies: [Int] = []
        /// Whether it ran on a cluster.
        var isElsewhere = false
        var need: Need { workerTime == 0 ? .nothing : isElsewhere ? .slot : .worker }
    }

    /// The resource that a task needs to start.
    enum Need: Int, CaseIterable { case nothing, worker, slot }

    private enum Event: Int { case added, leftWorker, finished }

    private struct Moment: Comparable {
        let time: UInt64
        let order: Int
        let task: Int
        let event: Event

        static func < (a: Moment, b: Moment) -> Bool { (a.time, a.order) < (b.time, b.order) }
    }

    /// The first ready task of a queue that has room.
    private struct Head: Comparable {
        let order: Int
        let queue: Int

        static func < (a: Head, b: Head) -> Bool { a.order < b.order }
    }

    private struct Queue {
        var room: Int
        var ready: [(order: Int, task: Int)] = []
        var next = 0
        var isListed = false
    }

    private let tasks: [Task]
    /// How many tasks of each need can start.
    private var free: [Int]
    private var queues: [Queue]
    private var missing: [Int]
    private var dependents: [[Int32]]
    private var created: [[Int32]]
    private var moments = Heap<Moment>()
    /// The queues that have a ready task and room, by the need of their first task.
    private var heads = [Heap<Head>](repeating: Heap(), count: Need.allCases.count)
    private var order = 0

    /// The time from the beginning to the end of the last task.
    ///
    /// - Parameters:
    ///   - maxima: the most tasks of each queue that run at once; nil for any number.
    static func duration(of tasks: [Task], maxima: [Int?], workers: Int, slots: Int = .max) -> UInt64 {
        var replay = Replay(tasks, maxima, [.max, workers, slots])
        return replay.run()
    }

    private init(_ tasks: [Task], _ maxima: [Int?], _ free: [Int]) {
        self.tasks = tasks
        self.free = free
        queues = maxima.map { Queue(room: $0 ?? .max) }
        // The addition of the task counts as one more dependency.
        missing = tasks.map { $0.dependencies.count + 1 }
        dependents = [[Int32]](repeating: [], count: tasks.count)
        created = dependents
        for (index, task) in tasks.enumerated() {
            for dependency in task.dependencies { dependents[dependency].append(Int32(index)) }
            if let creator = task.creator { created[creator].append(Int32(index)) } else { schedule(index, .added, at: task.added) }
        }
    }

    private mutating func run() -> UInt64 {
        var end: UInt64 = 0
        while let first = moments.first {
            let now = first.time
            while let moment = moments.first, moment.time == now {
                _ = moments.removeFirst()
                switch moment.event {
                case .added: release(moment.task)
                case .leftWorker: free[tasks[moment.task].need.rawValue] += 1
                case .finished:
                    end = now
                    let queue = tasks[moment.task].queue
                    queues[queue].room += queues[queue].room == .max ? 0 : 1
                    list(queue)
                    for dependent in dependents[moment.task] { release(Int(dependent)) }
                }
            }
            while let queue = queueToStart { startFirst(of: queue, at: now) }
        }
        return end
    }

    /// Takes a queue whose first task can start.
    private var queueToStart: Int? {
        mutating get {
            for need in heads.indices where free[need] > 0 { if let head = heads[need].removeFirst() { return head.queue } }
            return nil
        }
    }

    private mutating func schedule(_ task: Int, _ event: Event, at time: UInt64) {
        order += 1
        moments.insert(Moment(time: time, order: order, task: task, event: event))
    }

    /// Counts one dependency of a task as done. After the last one, the task is ready.
    private mutating func release(_ task: Int) {
        missing[task] -= 1
        if missing[task] > 0 { return }
        order += 1
        queues[tasks[task].queue].ready.append((order, task))
        list(tasks[task].queue)
    }

    private mutating func list(_ queue: Int) {
        guard !queues[queue].isListed, queues[queue].room > 0, queues[queue].next < queues[queue].ready.count else { return }
        queues[queue].isListed = true
        let first = queues[queue].ready[queues[queue].next]
        let head = Head(order: first.order, queue: queue)
        heads[tasks[first.task].need.rawValue].insert(head)
    }

    private mutating func startFirst(of queue: Int, at now: UInt64) {
        let task = queues[queue].ready[queues[queue].next].task
        queues[queue].next += 1
        queues[queue].room -= queues[queue].room == .max ? 0 : 1
        queues[queue].isListed = false
        list(queue)
        if tasks[task].need != .nothing {
            free[tasks[task].need.rawValue] -= 1
            schedule(task, .leftWorker, at: now + tasks[task].workerTime)
        }
        schedule(task, .finished, at: now + tasks[task].runTime)
        for other in created[task] { schedule(Int(other), .added, at: now + tasks[Int(other)].added) }
    }
}
