import OpEngine

/// Keeps a run in memory: all of it for the files that are written at its end, or its latest part for the status page. Takes about 180 bytes
/// for each operation. Equal names and lines are stored once.
struct RunLog: Sendable {
    /// A queue, and how long it has held operations back so far.
    struct Queue {
        var name: String
        /// The most operations that run at once; nil if the engine decides.
        var maximum: Int?
        fileprivate(set) var isSuspended = false
        /// The index of the operation if the queue is that of a group which was added; nil for other queues.
        fileprivate(set) var group: Int?
        /// How many operations wait for dependencies, are ready to start, and execute.
        fileprivate(set) var waiting = 0
        fileprivate(set) var ready = 0
        fileprivate(set) var executing = 0
        fileprivate var resumed: UInt64 = 0
        fileprivate var last: UInt64 = 0
        fileprivate var suspended: UInt64 = 0
        fileprivate var full: UInt64 = 0

        init(name: String) { self.name = name }

        fileprivate mutating func advance(to time: UInt64) {
            if isSuspended {
                suspended += time - last
            } else if let maximum, executing >= maximum {
                full += time - last
            }
            last = time
        }
    }

    /// An attempt of an operation that was tried again. The operation has the last one.
    struct Attempt {
        var operation: Int32
        let thread: Int
        let started: UInt64
        let left: UInt64
        let busyTime: UInt64
        /// The index of the error.
        var error: Int32?
    }

    /// A thread that has recorded something.
    struct Thread {
        let name: String
        /// Whether it is a thread of the engine's pool.
        let isWorker: Bool
        /// The operation that a worker runs, and since when it has been blocked; -1 if there is none, and 0 if it is not.
        fileprivate var running = -1
        fileprivate var blocked: UInt64 = 0

        fileprivate init(name: String, isWorker: Bool) { (self.name, self.isWorker) = (name, isWorker) }
    }

    /// The number of the first slot of a cluster's worker where an operation has the number of a thread. Those of threads are lower.
    static let firstSlotThread = 1_000_000

    let title: String
    /// The most operations that the engine's pool runs at once.
    var workerCount = 1
    private(set) var operations: [RunOperation] = []
    private(set) var texts: [String] = []
    /// The errors of failed operations, each with its traceback.
    private(set) var errors: [String] = []
    private(set) var queues: [Queue] = []
    /// The dependencies of all operations. Those of an operation that has neither started nor finished are not recorded.
    private(set) var edges: [(operation: Int32, dependency: Int32)] = []
    /// The attempts that have failed and were followed by another, in order of their ends.
    private(set) var attempts: [Attempt] = []
    /// The threads by number.
    private(set) var threads: [Thread] = []
    /// The slots of the workers of clusters.
    private(set) var slots = WorkerSlots()
    /// Sums over all operations, including those that this log has forgotten.
    private(set) var totals = RunTotals()
    /// The thread of each worker, by its number.
    private var workerThreads: [Int: Int] = [:]
    /// The time of the last record.
    private(set) var end: UInt64 = 0
    /// The place of each operation in the order in which all were added; empty for a log that never forgets.
    private(set) var numbers: [Int] = []

    private let start: UInt64
    private let forgets: Bool
    private var textIndices: [String: Int32] = [:]
    private var errorIndices: [String: Int32] = [:]
    /// The operation that a record's number means now; -1 if there is none.
    private var indices: [Int] = []
    /// The places of operations that were not added yet, by the records' numbers; -1 if there is none.
    private var places: [Int32] = []
    /// The queues of groups that were not added yet, by the records' numbers of the groups.
    private var groupQueues: [Int: Int] = [:]
    /// The place that was recorded last: many operations are made in the same line.
    private var lastPlace: (text: String, index: Int32) = ("", -1)

    /// Begins a log whose time 0 is `start`.
    ///
    /// - Parameter forgets: whether `forget` will be called.
    init(title: String, from start: UInt64, forgets: Bool = false) {
        self.title = title
        self.start = start
        self.forgets = forgets
    }

    /// Whether all operations of the run are in the log.
    var isWhole: Bool { operations.count == totals.added }

    /// The name of an operation, or else the line that made it.
    func label(of operation: RunOperation) -> String { text(operation.name) ?? text(operation.place) ?? "operation" }

    func text(_ index: Int32?) -> String? { index.map { texts[Int($0)] } }

    // MARK: Records

    mutating func receive(_ record: OperationRecord) {
        // Times never decrease, so that no difference is negative.
        let time = max(end, max(record.time, start) - start)
        end = time
        switch record.event {
        case .thread(let worker, let isMain):
            while threads.count <= record.thread { threads.append(Thread(name: "thread \(threads.count)", isWorker: false)) }
            if let worker {
                threads[record.thread] = Thread(name: "worker \(worker)", isWorker: true)
                workerThreads[worker] = record.thread
            } else if isMain {
                threads[record.thread] = Thread(name: "main", isWorker: false)
            }
        case .workerBlocked(let worker):
            if let thread = workerThreads[worker], threads[thread].running >= 0 { threads[thread].blocked = time }
        case .workerReturned(let worker):
            if let thread = workerThreads[worker] { endBlocking(of: thread, at: time) }
        case .queue(let queue, let name, let maximum, let isSuspended):
            makeQueue(queue)
            queues[queue].advance(to: time)
            if let name { queues[queue].name = name }
            if queues[queue].isSuspended && !isSuspended { queues[queue].resumed = time }
            (queues[queue].maximum, queues[queue].isSuspended) = (maximum, isSuspended)
        case .activityBegan: totals.programBegan()
        case .activityEnded: totals.programEnded()
        default: receiveOperation(record, at: time)
        }
    }

    private mutating func receiveOperation(_ record: OperationRecord, at time: UInt64) {
        let number = record.operation
        while indices.count <= number {
            indices.append(-1)
            places.append(-1)
        }
        let index = indices[number]
        switch record.event {
        case .place(let place, let isFinal):
            if !isFinal && places[number] >= 0 { return }
            if place != lastPlace.text { lastPlace = (place, place.isEmpty ? -1 : intern(place)) }
            places[number] = lastPlace.index
        case .group(let queue):
            makeQueue(queue)
            if queues[queue].name == RunLog.name(ofQueue: queue) { queues[queue].name = "group \(queue + 1)" }
            // A finished operation has had the same number.
            if index >= 0, operations[index].phase != .finished { queues[queue].group = index } else { groupQueues[number] = queue }
        case .added(let queue, let creator, _, let isReady):
            if let inner = groupQueues.removeValue(forKey: number) { queues[inner].group = operations.count }
            let creator = creator.flatMap { $0 < indices.count && indices[$0] >= 0 ? Int32(indices[$0]) : nil }
            makeQueue(queue)
            indices[number] = operations.count
            operations.append(
                RunOperation(
                    place: places[number] < 0 ? nil : places[number], queue: queue, creator: creator, added: time,
                    ready: isReady ? time : .max,
                    phase: .waiting))
            places[number] = -1
            if forgets { numbers.append(totals.added) }
            totals.add()
            queues[queue].waiting += 1
            if isReady { becomeReady(operations.count - 1, at: time) }
        case _ where index < 0: break
        case .name(let name): operations[index].name = name.isEmpty ? nil : intern(name)
        case .error(let text): operations[index].error = RunLog.intern(text, in: &errors, &errorIndices)
        case .dependency(let other):
            if other < indices.count, indices[other] >= 0 { edges.append((Int32(index), Int32(indices[other]))) }
        case .ready: becomeReady(index, at: time)
        case .started: begin(index, on: record.thread, at: time)
        case .returned:
            guard operations[index].phase == .running else { return }
            leaveThread(index, at: time)
            operations[index].phase = .open
            operations[index].returned = time
        case .ranElsewhere(let worker, let slotCount, let began, let ended):
            place(index, on: worker, slotCount, from: max(began, start) - start, to: max(ended, start) - start, at: time)
        case .attemptFailed: endAttempt(index, at: time)
        case .skipped where !operations[index].isSkipped:
            operations[index].isSkipped = true
            totals.skip()
        case .finished(let outcome): finish(index, outcome, at: time)
        default: break
        }
    }

    private mutating func becomeReady(_ index: Int, at time: UInt64) {
        guard operations[index].phase == .waiting else { return }
        let queue = operations[index].queue
        queues[queue].advance(to: time)
        operations[index].phase = .ready
        operations[index].ready = time
        queues[queue].waiting -= 1
        queues[queue].ready += 1
        // The queue's totals so far. `endWait` subtracts them from the later ones.
        (operations[index].suspendedTime, operations[index].maximumTime) = (queues[queue].suspended, queues[queue].full)
    }

    private mutating func endWait(_ index: Int, at time: UInt64) {
        becomeReady(index, at: time)
        guard operations[index].phase == .ready else { return }
        let queue = operations[index].queue
        queues[queue].advance(to: time)
        operations[index].suspendedTime = queues[queue].suspended - operations[index].suspendedTime
        operations[index].maximumTime = queues[queue].full - operations[index].maximumTime
        operations[index].resumed = queues[queue].resumed
    }

    private mutating func begin(_ index: Int, on thread: Int, at time: UInt64) {
        let queue = operations[index].queue
        switch operations[index].phase {
        case .waiting, .ready:
            endWait(index, at: time)
            queues[queue].ready -= 1
            totals.start(afterWaiting: time - operations[index].added)
        case .betweenAttempts:
            queues[queue].advance(to: time)
            queues[queue].waiting -= 1
            operations[index].earlierTime += time - operations[index].started
            totals.startAgain()
        case .running, .open, .finished: return
        }
        queues[queue].executing += 1
        operations[index].phase = .running
        operations[index].started = time
        operations[index].thread = thread
        if isWorker(thread) { (threads[thread].running, threads[thread].blocked) = (index, 0) }
    }

    private mutating func endAttempt(_ index: Int, at time: UInt64) {
        guard operations[index].phase == .running || operations[index].phase == .open else { return }
        if operations[index].phase == .running { leaveThread(index, at: time) }
        let queue = operations[index].queue
        queues[queue].advance(to: time)
        queues[queue].executing -= 1
        queues[queue].waiting += 1
        operations[index].finished = time
        endRunElsewhere(index)
        let operation = operations[index]
        attempts.append(
            Attempt(
                operation: Int32(index), thread: operation.thread, started: operation.started, left: operation.leftThread,
                busyTime: operation.busyTime, error: operation.error))
        // An operation may be tried again for ever.
        if forgets, attempts.count > 2 * RunLog.latestCount { attempts.removeFirst(RunLog.latestCount) }
        if isWorker(operation.thread) { totals.workerTime += operation.busyTime }
        totals.endAttempt()
        operations[index].phase = .betweenAttempts
        (operations[index].finished, operations[index].returned, operations[index].blockedTime) = (0, 0, 0)
        operations[index].error = nil
    }

    private mutating func leaveThread(_ index: Int, at time: UInt64) {
        let thread = operations[index].thread
        guard isWorker(thread), threads[thread].running == index else { return }
        endBlocking(of: thread, at: time)
        threads[thread].running = -1
    }

    private mutating func endBlocking(of thread: Int, at time: UInt64) {
        guard threads[thread].running >= 0, threads[thread].blocked > 0 else { return }
        operations[threads[thread].running].blockedTime += time - threads[thread].blocked
        threads[thread].blocked = 0
    }

    private mutating func finish(_ index: Int, _ outcome: Operation.Outcome?, at time: UInt64) {
        let queue = operations[index].queue
        switch operations[index].phase {
        case .waiting where outcome == nil:
            operations[index].ready = time
            queues[queue].waiting -= 1
        case .waiting, .ready:
            endWait(index, at: time)
            queues[queue].ready -= 1
        case .running, .open:
            if operations[index].phase == .running { leaveThread(index, at: time) }
            queues[queue].advance(to: time)
            queues[queue].executing -= 1
        case .betweenAttempts:
            queues[queue].waiting -= 1
            operations[index].earlierTime += time - operations[index].started
            operations[index].thread = -1
        case .finished: return
        }
        operations[index].phase = .finished
        operations[index].finished = time
        operations[index].outcome = outcome
        endRunElsewhere(index)
        if isWorker(operations[index].thread) { totals.workerTime += operations[index].busyTime }
        if let outcome { totals.finish(outcome, after: operations[index].hasStarted ? operations[index].runTime : nil) }
    }

    // MARK: Clusters

    /// Moves an operation from the thread that has sent it to a slot of the worker that has run it: the time until then is one of waiting.
    private mutating func place(
        _ index: Int, on worker: String, _ slotCount: Int, from began: UInt64, to ended: UInt64, at time: UInt64
    ) {
        if operations[index].phase == .running { leaveThread(index, at: time) } else if operations[index].phase != .open { return }
        var operation = operations[index]
        if operation.returned == 0 { operation.returned = time }
        if isWorker(operation.thread) { totals.workerTime += operation.busyTime }
        let ended = min(max(ended, operation.started), time), began = min(max(began, operation.started), ended)
        let (slot, _, begin, end) = slots.place(on: worker, slotCount: slotCount, from: began, to: ended, at: time)
        operation.phase = .open
        operation.thread = RunLog.firstSlotThread + slot
        operation.clusterTime += begin - operation.started
        (operation.started, operation.returned, operation.blockedTime) = (begin, max(end, 1), 0)
        totals.clusterTime += end - begin
        operations[index] = operation
    }

    /// The time on the way back is none of the operation's.
    private mutating func endRunElsewhere(_ index: Int) {
        guard operations[index].thread >= RunLog.firstSlotThread else { return }
        (operations[index].finished, operations[index].returned) = (operations[index].returned, 0)
    }

    /// Ends the times of operations that have not finished.
    mutating func finish() {
        edges.sort { ($0.operation, $0.dependency) < ($1.operation, $1.dependency) }
        for index in operations.indices { finish(index, nil, at: end) }
    }

    // MARK: Indices

    /// Whether a thread belongs to the engine's pool; false for -1, which stands for none.
    func isWorker(_ thread: Int) -> Bool { threads.indices.contains(thread) && threads[thread].isWorker }

    /// Makes the queue with a number. Two threads may record their first queues in another order than that of the numbers.
    private mutating func makeQueue(_ number: Int) {
        while queues.count <= number { queues.append(Queue(name: RunLog.name(ofQueue: queues.count))) }
    }

    private static func name(ofQueue number: Int) -> String { "queue \(number + 1)" }

    private mutating func intern(_ text: String) -> Int32 { RunLog.intern(text, in: &texts, &textIndices) }

    private static func intern(_ text: String, in texts: inout [String], _ indices: inout [String: Int32]) -> Int32 {
        if let index = indices[text] { return index }
        let index = Int32(texts.count)
        texts.append(text)
        indices[text] = index
        return index
    }

    // MARK: Forgetting

    /// The number of finished operations that a part of a log has at most, and how many failed and unfinished ones besides.
    private static let latestCount = 2000, failureCount = 200, unfinishedCount = 1000

    /// Forgets the oldest of the finished operations, once they are so many that this costs each of them little.
    mutating func forget() {
        let unfinished = totals.added - totals.finished
        if operations.count - unfinished < 2 * RunLog.latestCount + unfinished { return }
        let indices = keep(selection(unfinishedCount: .max))
        self.indices = self.indices.map { $0 < 0 ? -1 : indices[$0] }
    }

    /// A log of the latest finished and failed operations, and of those that come next, for another thread. It ends at `time`, by the clock of
    /// the records.
    func latest(at time: UInt64) -> RunLog {
        var part = self
        (part.indices, part.places) = ([], [])
        part.end = max(end, max(time, start) - start)
        _ = part.keep(selection(unfinishedCount: RunLog.unfinishedCount))
        return part
    }

    /// The indices of the latest finished operations, of the latest failed ones, and of the first ones that have not finished.
    private func selection(unfinishedCount: Int) -> [Int] {
        var (latest, failures, unfinished) = (0, 0, 0)
        var selected: [Int] = []
        for index in operations.indices.reversed() where operations[index].phase == .finished {
            let isFailure = operations[index].outcome == .failed
            if latest >= RunLog.latestCount && (!isFailure || failures >= RunLog.failureCount) { continue }
            latest += 1
            if isFailure { failures += 1 }
            selected.append(index)
        }
        for index in operations.indices where operations[index].phase != .finished && unfinished < unfinishedCount {
            unfinished += 1
            selected.append(index)
        }
        return selected.sorted()
    }

    /// Removes all operations but those at some indices, and the texts that no operation has any more. Returns the new index of each
    /// operation, or -1.
    private mutating func keep(_ selected: [Int]) -> [Int] {
        var indices = [Int](repeating: -1, count: operations.count)
        for (new, old) in selected.enumerated() { indices[old] = new }
        let (formerTexts, formerErrors) = (texts, errors)
        (texts, errors, textIndices, errorIndices) = ([], [], [:], [:])
        // Where each text is now. Most operations have been made in a few lines.
        var newTexts = [Int32](repeating: -1, count: formerTexts.count)
        func kept(_ text: Int32) -> Int32 {
            if newTexts[Int(text)] < 0 { newTexts[Int(text)] = intern(formerTexts[Int(text)]) }
            return newTexts[Int(text)]
        }
        operations = selected.map { index in
            var operation = operations[index]
            operation.name = operation.name.map(kept)
            operation.place = operation.place.map(kept)
            operation.error = operation.error.map { RunLog.intern(formerErrors[Int($0)], in: &errors, &errorIndices) }
            operation.creator = operation.creator.flatMap { indices[Int($0)] < 0 ? nil : Int32(indices[Int($0)]) }
            return operation
        }
        numbers = selected.map { numbers[$0] }
        for queue in queues.indices {
            if let group = queues[queue].group { queues[queue].group = indices[group] < 0 ? nil : indices[group] }
        }
        for thread in threads.indices where threads[thread].running >= 0 {
            threads[thread].running = indices[threads[thread].running]
        }
        for number in places.indices where places[number] >= 0 { places[number] = kept(places[number]) }
        lastPlace = ("", -1)
        attempts = attempts.compactMap { attempt in
            guard indices[Int(attempt.operation)] >= 0 else { return nil }
            var attempt = attempt
            attempt.operation = Int32(indices[Int(attempt.operation)])
            attempt.error = attempt.error.map { RunLog.intern(formerErrors[Int($0)], in: &errors, &errorIndices) }
            return attempt
        }
        edges = edges.compactMap { edge in
            let (operation, dependency) = (indices[Int(edge.operation)], indices[Int(edge.dependency)])
            return operation < 0 || dependency < 0 ? nil : (Int32(operation), Int32(dependency))
        }
        return indices
    }
}
