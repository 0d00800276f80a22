import OpEngine

/// The known facts of a run. A log keeps all of them if files are written at the end. Otherwise it keeps the latest part of the run, and all
/// unfinished operations.
///
/// A log turns the records of the engine into states of operations. `observers` write during the run. An operation takes about 200 bytes.
/// Equal names and lines are stored once.
final class RunLog: @unchecked Sendable {
    // Safety: `@unchecked Sendable` because one thread at a time uses a log. Another thread gets a log of its own from `latest`. The
    // variables that change with each record need no exclusivity checks, because observers only read.

    /// A queue, and how long it has held operations back so far.
    struct Queue {
        let number: Int
        /// The name that a user has given it.
        fileprivate(set) var givenName: String?
        fileprivate(set) var name: JSONText
        /// Whether the members of a group are in it.
        fileprivate(set) var isGroup = false
        /// The most operations that run at once; nil if the engine decides.
        fileprivate(set) var maximum: Int?
        fileprivate(set) var isSuspended = false
        /// How many operations wait for dependencies, are ready to start, and execute.
        fileprivate(set) var waiting = 0
        fileprivate(set) var ready = 0
        fileprivate(set) var executing = 0
        fileprivate var resumed: UInt64 = 0
        fileprivate var last: UInt64 = 0
        fileprivate var suspended: UInt64 = 0
        fileprivate var full: UInt64 = 0

        fileprivate init(number: Int) {
            self.number = number
            name = JSONText("queue \(number + 1)")
        }

        fileprivate mutating func rename() { name = JSONText(givenName ?? "\(isGroup ? "group" : "queue") \(number + 1)") }

        fileprivate mutating func advance(to time: UInt64) {
            if isSuspended {
                suspended += time - last
            } else if let maximum, executing >= maximum {
                full += time - last
            }
            last = time
        }
    }

    /// A failed attempt of an operation that was tried again. `RunOperation` has the last attempt.
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
        /// Its place in the order of all threads.
        let position: Int
        /// The operations that a worker runs, each inside a wait of the one before.
        fileprivate var running: [Int] = []
        /// The time at which the last of them was blocked; 0 if it is not blocked.
        fileprivate var blocked: UInt64 = 0

        fileprivate init(number: Int, worker: Int? = nil, isMain: Bool = false) {
            name = isMain ? "main" : worker.map { "worker \($0)" } ?? "thread \(number)"
            isWorker = worker != nil
            position = isMain ? 0 : worker ?? 100_000 + number
        }
    }

    /// A program that runs.
    struct Program {
        let name: JSONText
        /// The name of the operation that has started it; nil if none has.
        let owner: JSONText?
        let began: UInt64
    }

    /// An operation has the number of a thread or of a slot of a cluster's worker. Slots have numbers from this one on. Those of threads are lower.
    static let firstSlotThread = 1_000_000

    let title: String
    /// The most operations that the engine's pool runs at once.
    var workerCount = 1
    @safe @exclusivity(unchecked) private(set) var operations: [RunOperation] = []
    @safe @exclusivity(unchecked) private(set) var texts = TextTable()
    /// The errors of failed operations, each with its traceback.
    @safe @exclusivity(unchecked) private(set) var errors = TextTable()
    @safe @exclusivity(unchecked) private(set) var queues: [Queue] = []
    /// The dependencies of all operations that have started or finished.
    @safe @exclusivity(unchecked) private(set) var edges: [(operation: Int32, dependency: Int32)] = []
    /// The attempts that have failed and were followed by another, in order of their ends.
    private(set) var attempts: [Attempt] = []
    /// The threads by number.
    @safe @exclusivity(unchecked) private(set) var threads: [Thread] = []
    /// The slots of the workers of clusters.
    private(set) var slots = WorkerSlots()
    /// The programs that run, by number.
    private(set) var programs: [Int: Program] = [:]
    /// Sums over all operations, including those that this log has forgotten.
    @safe @exclusivity(unchecked) private(set) var totals = RunTotals()
    /// The time of the last record, and the thread that has caused it.
    @safe @exclusivity(unchecked) private(set) var end: UInt64 = 0
    @safe @exclusivity(unchecked) private(set) var thread = 0

    private let start: UInt64
    private let keepsAll: Bool
    private let observers: [any RunObserver]
    /// The thread of each worker, by its number.
    private var workerThreads: [Int: Int] = [:]
    /// The operation that a record's number means now; -1 for none.
    @safe @exclusivity(unchecked) private var indices: [Int] = []
    /// The places of operations that were not added yet, by the records' numbers; -1 if there is none.
    @safe @exclusivity(unchecked) private var places: [Int32] = []
    /// The queues of groups that were not added yet, by the records' numbers of the groups.
    @safe @exclusivity(unchecked) private var groupQueues: [Int: Int] = [:]
    /// The place that was recorded last: many operations are made in the same line.
    @safe @exclusivity(unchecked) private var lastPlace: (text: String, index: Int32) = ("", -1)
    /// `forget` removes operations as soon as there are this many.
    private var mostOperations = 2 * RunLog.latestCount

    /// Begins a log whose time 0 is `start`.
    ///
    /// - Parameter keepsAll: whether `forget` does nothing.
    init(title: String, from start: UInt64, keepsAll: Bool = false, observers: [any RunObserver] = []) {
        self.title = title
        self.start = start
        self.keepsAll = keepsAll
        self.observers = observers
    }

    /// Whether all operations of the run are in the log.
    var isWhole: Bool { operations.count == totals.added }

    /// The name of an operation, or else the line that made it.
    func label(of operation: RunOperation) -> JSONText {
        (operation.name ?? operation.place).map { texts[$0] } ?? RunLog.noName
    }

    private static let noName = JSONText("operation")

    // MARK: Records

    func receive(_ record: OperationRecord) {
        // Times never decrease, so that no difference is negative.
        end = max(end, max(record.time, start) - start)
        thread = record.thread
        let number = record.operation
        while indices.count <= number {
            indices.append(-1)
            places.append(-1)
        }
        let index = number < 0 ? -1 : indices[number]
        switch record.event {
        case .thread(let worker, let isMain):
            while threads.count <= thread { threads.append(Thread(number: threads.count)) }
            threads[thread] = Thread(number: thread, worker: worker, isMain: isMain)
            if let worker { workerThreads[worker] = thread }
        case .workerBlocked(let worker):
            if let thread = workerThreads[worker], !threads[thread].running.isEmpty { threads[thread].blocked = end }
        case .workerReturned(let worker):
            if let thread = workerThreads[worker] { endBlocking(of: thread) }
        case .queue(let queue, let name, let maximum, let isSuspended): change(queue, name, maximum: maximum, isSuspended: isSuspended)
        case .activityBegan(let program, let name):
            programs[program] = Program(name: JSONText(name), owner: index < 0 ? nil : label(of: operations[index]), began: end)
            totals.programBegan()
            tell { $0.programStarted(program, by: index < 0 ? nil : index, in: self) }
        case .activityEnded(let program, let detail):
            totals.programEnded()
            tell { $0.programEnded(program, detail, in: self) }
            programs[program] = nil
        case .place(let place, let isFinal):
            if !isFinal && places[number] >= 0 { return }
            if place != lastPlace.text { lastPlace = (place, place.isEmpty ? -1 : texts.index(of: place)) }
            places[number] = lastPlace.index
        case .group(let queue):
            makeQueue(queue)
            queues[queue].isGroup = true
            queues[queue].rename()
            // `index` may be that of a finished operation, which had the same number.
            if index >= 0, operations[index].phase != .finished { operations[index].members = queue } else { groupQueues[number] = queue }
        case .added(let queue, let creator, _, let isReady): add(number, to: queue, by: creator, isReady: isReady)
        case _ where index < 0: break
        case .name(let name):
            // A search for an equal name takes longer than a trace takes to write an operation, so only a log that keeps all searches.
            operations[index].name = name.isEmpty ? nil : keepsAll ? texts.index(of: name) : texts.append(JSONText(name))
        case .error(let text): operations[index].error = errors.index(of: text)
        case .dependency(let other):
            guard other < indices.count, indices[other] >= 0 else { return }
            edges.append((Int32(index), Int32(indices[other])))
            tell { $0.dependencyFound(of: index, on: indices[other], in: self) }
        case .ready:
            let old = operations[index]
            if becomeReady(index) { tell(index, from: old) }
        case .started: begin(index)
        case .returned:
            let old = operations[index]
            guard old.phase == .running else { return }
            leaveThread(index)
            operations[index].phase = .open
            operations[index].returned = end
            tell(index, from: old)
        case .ranElsewhere(let worker, let slotCount, let began, let ended):
            place(index, on: worker, slotCount, from: max(began, start) - start, to: max(ended, start) - start)
        case .attemptFailed: endAttempt(index)
        case .skipped where !operations[index].isSkipped:
            operations[index].isSkipped = true
            totals.skip()
            tell { $0.operationSkipped(index, in: self) }
        case .skipped: break
        case .cancelled: tell { $0.operationCancelled(index, in: self) }
        case .finished(let outcome): finish(index, outcome)
        }
    }

    @inline(__always)
    private func tell(_ call: (any RunObserver) -> Void) { for observer in observers { call(observer) } }

    private func tell(_ index: Int, from old: RunOperation?) { tell { $0.operationChanged(index, from: old, in: self) } }

    private func change(_ number: Int, _ name: String?, maximum: Int?, isSuspended: Bool) {
        makeQueue(number)
        let old = queues[number]
        queues[number].advance(to: end)
        if let name {
            queues[number].givenName = name
            queues[number].rename()
        }
        if old.isSuspended && !isSuspended { queues[number].resumed = end }
        (queues[number].maximum, queues[number].isSuspended) = (maximum, isSuspended)
        tell { $0.queueChanged(number, from: old, in: self) }
    }

    private func add(_ number: Int, to queue: Int, by creator: Int?, isReady: Bool) {
        makeQueue(queue)
        let index = operations.count
        operations.append(
            RunOperation(
                serial: totals.added, place: places[number] < 0 ? nil : places[number], queue: queue,
                members: groupQueues.removeValue(forKey: number),
                creator: creator.flatMap { $0 < indices.count && indices[$0] >= 0 ? Int32(indices[$0]) : nil }, added: end,
                ready: isReady ? end : .max, phase: .waiting))
        indices[number] = index
        places[number] = -1
        totals.add()
        queues[queue].waiting += 1
        if isReady { becomeReady(index) }
        tell(index, from: nil)
    }

    @discardableResult
    private func becomeReady(_ index: Int) -> Bool {
        guard operations[index].phase == .waiting else { return false }
        let queue = operations[index].queue
        queues[queue].advance(to: end)
        operations[index].phase = .ready
        operations[index].ready = end
        queues[queue].waiting -= 1
        queues[queue].ready += 1
        // The queue's totals so far. `endWait` subtracts them from the later ones.
        (operations[index].suspendedTime, operations[index].maximumTime) = (queues[queue].suspended, queues[queue].full)
        return true
    }

    private func endWait(_ index: Int) {
        becomeReady(index)
        let queue = operations[index].queue
        queues[queue].advance(to: end)
        queues[queue].ready -= 1
        operations[index].suspendedTime = queues[queue].suspended - operations[index].suspendedTime
        operations[index].maximumTime = queues[queue].full - operations[index].maximumTime
        operations[index].resumed = queues[queue].resumed
    }

    private func begin(_ index: Int) {
        let old = operations[index]
        switch old.phase {
        case .waiting, .ready:
            endWait(index)
            totals.start(afterWaiting: end - old.added)
        case .betweenAttempts:
            queues[old.queue].advance(to: end)
            queues[old.queue].waiting -= 1
            operations[index].earlierTime += end - old.started
            operations[index].finished = 0
            totals.startAgain()
        case .running, .open, .finished: return
        }
        queues[old.queue].executing += 1
        operations[index].phase = .running
        operations[index].attempt += 1
        operations[index].started = end
        operations[index].thread = thread
        if isWorker(thread) {
            endBlocking(of: thread)
            threads[thread].running.append(index)
        }
        tell(index, from: old)
    }

    private func endAttempt(_ index: Int) {
        guard operations[index].phase == .running || operations[index].phase == .open else { return }
        endRun(index)
        let operation = operations[index]
        queues[operation.queue].waiting += 1
        attempts.append(
            Attempt(
                operation: Int32(index), thread: operation.thread, started: operation.started, left: operation.leftThread,
                busyTime: operation.busyTime, error: operation.error))
        totals.endAttempt()
        operations[index].phase = .betweenAttempts
        (operations[index].returned, operations[index].blockedTime, operations[index].error) = (0, 0, nil)
        tell(index, from: operation)
    }

    /// Ends the time that an operation runs.
    private func endRun(_ index: Int) {
        if operations[index].phase == .running { leaveThread(index) }
        let queue = operations[index].queue
        queues[queue].advance(to: end)
        queues[queue].executing -= 1
        operations[index].finished = end
        if operations[index].thread >= RunLog.firstSlotThread {
            // The operation's time ends before its outcome travels back.
            (operations[index].finished, operations[index].returned) = (operations[index].returned, 0)
        }
        if isWorker(operations[index].thread) { totals.workerTime += operations[index].busyTime }
    }

    private func leaveThread(_ index: Int) {
        let thread = operations[index].thread
        guard isWorker(thread), threads[thread].running.last == index else { return }
        endBlocking(of: thread)
        threads[thread].running.removeLast()
    }

    private func endBlocking(of thread: Int) {
        let begin = threads[thread].blocked
        guard let index = threads[thread].running.last, begin > 0 else { return }
        operations[index].blockedTime += end - begin
        threads[thread].blocked = 0
        tell { $0.threadUnblocked(thread, since: begin, in: self) }
    }

    private func finish(_ index: Int, _ outcome: OperationOutcome?) {
        var old = operations[index]
        switch old.phase {
        case .waiting where outcome == nil:
            operations[index].ready = end
            queues[old.queue].waiting -= 1
        case .waiting, .ready: endWait(index)
        case .running, .open: endRun(index)
        case .betweenAttempts:
            queues[old.queue].waiting -= 1
            operations[index].earlierTime += end - old.started
            operations[index].thread = -1
        case .finished: return
        }
        let phase = old.phase
        if phase == .running || phase == .open { old = operations[index] } else { operations[index].finished = end }
        operations[index].phase = .finished
        operations[index].outcome = outcome
        if let outcome { totals.finish(outcome, after: operations[index].hasStarted ? operations[index].runTime : nil) }
        tell(index, from: old)
    }

    // MARK: Clusters

    /// Moves an operation from the thread that has sent it to a slot of the worker that has run it. The time before the body began counts as waiting.
    private func place(_ index: Int, on worker: String, _ slotCount: Int, from began: UInt64, to ended: UInt64) {
        if operations[index].phase == .running { leaveThread(index) } else if operations[index].phase != .open { return }
        if operations[index].returned == 0 { operations[index].returned = end }
        let old = operations[index]
        if isWorker(old.thread) { totals.workerTime += old.busyTime }
        let ended = min(max(ended, old.started), end), began = min(max(began, old.started), ended)
        let slot = slots.place(on: worker, slotCount: slotCount, from: began, to: ended, at: end)
        operations[index].phase = .open
        operations[index].thread = RunLog.firstSlotThread + slot.slot
        operations[index].clusterTime += slot.began - old.started
        (operations[index].started, operations[index].returned, operations[index].blockedTime) = (slot.began, max(slot.ended, 1), 0)
        totals.clusterTime += slot.ended - slot.began
        tell(index, from: old)
    }

    /// Ends the times of operations that have not finished.
    func finish() {
        edges.sort { ($0.operation, $0.dependency) < ($1.operation, $1.dependency) }
        for index in operations.indices { finish(index, nil) }
    }

    // MARK: Indices

    /// Whether a thread belongs to the engine's pool; false for -1, which stands for none.
    func isWorker(_ thread: Int) -> Bool { threads.indices.contains(thread) && threads[thread].isWorker }

    /// Makes the queue with a number. Two threads may record their first queues in another order than that of the numbers.
    private func makeQueue(_ number: Int) {
        while queues.count <= number { queues.append(Queue(number: queues.count)) }
    }

    // MARK: Forgetting

    /// The most finished operations that a part of a log has, and the most failed and unfinished operations that it has besides.
    private static let latestCount = 2000, failureCount = 200, unfinishedCount = 1000

    /// Forgets the oldest finished operations that do not exist any more. Does so only when there are many of them, so that the cost of each one is
    /// small.
    func forget() {
        if keepsAll { return }
        // An operation may be tried again for ever.
        if attempts.count > 2 * RunLog.latestCount { attempts.removeFirst(RunLog.latestCount) }
        if operations.count < mostOperations { return }
        var exist = [Bool](repeating: false, count: operations.count)
        for index in indices where index >= 0 { exist[index] = true }
        keep(selection(unfinishedCount: .max) { exist[$0] })
        mostOperations = 2 * (operations.count + RunLog.latestCount)
    }

    /// A log of the latest finished and failed operations, and of the first unfinished ones, for another thread. It ends at `time`, by the clock
    /// of the records.
    func latest(at time: UInt64) -> RunLog {
        let part = RunLog(title: title, from: start)
        part.workerCount = workerCount
        (part.operations, part.texts, part.errors) = (operations, texts, errors)
        (part.queues, part.edges, part.attempts, part.threads) = (queues, edges, attempts, threads)
        (part.slots, part.totals) = (slots, totals)
        part.end = max(end, max(time, start) - start)
        part.keep(selection(unfinishedCount: RunLog.unfinishedCount) { _ in false })
        return part
    }

    /// The indices of the latest finished operations, of the latest failed ones, of others that `isKept` asks for, and of the first ones that
    /// have not finished.
    private func selection(unfinishedCount: Int, _ isKept: (Int) -> Bool) -> [Int] {
        var (latest, failures, unfinished) = (0, 0, 0)
        var selected: [Int] = []
        for index in operations.indices.reversed() where operations[index].phase == .finished {
            let isFailure = operations[index].outcome == .failed
            if latest >= RunLog.latestCount && (!isFailure || failures >= RunLog.failureCount) && !isKept(index) { continue }
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

    /// Removes all operations except those at some indices, and the texts that no operation uses any more.
    private func keep(_ selected: [Int]) {
        var moved = [Int](repeating: -1, count: operations.count)
        for (new, old) in selected.enumerated() { moved[old] = new }
        var texts = TextTable.Move(self.texts), errors = TextTable.Move(self.errors)
        operations = selected.map { index in
            var operation = operations[index]
            operation.name = operation.name.map { texts.index(of: $0) }
            operation.place = operation.place.map { texts.index(of: $0) }
            operation.error = operation.error.map { errors.index(of: $0) }
            operation.creator = operation.creator.flatMap { moved[Int($0)] < 0 ? nil : Int32(moved[Int($0)]) }
            return operation
        }
        attempts = attempts.compactMap { attempt in
            guard moved[Int(attempt.operation)] >= 0 else { return nil }
            var attempt = attempt
            attempt.operation = Int32(moved[Int(attempt.operation)])
            attempt.error = attempt.error.map { errors.index(of: $0) }
            return attempt
        }
        edges = edges.compactMap { edge in
            let (operation, dependency) = (moved[Int(edge.operation)], moved[Int(edge.dependency)])
            return operation < 0 || dependency < 0 ? nil : (Int32(operation), Int32(dependency))
        }
        for number in places.indices where places[number] >= 0 { places[number] = texts.index(of: places[number]) }
        for number in indices.indices where indices[number] >= 0 { indices[number] = moved[indices[number]] }
        for thread in threads.indices { threads[thread].running = threads[thread].running.map { moved[$0] }.filter { $0 >= 0 } }
        lastPlace = ("", -1)
        (self.texts, self.errors) = (texts.table, errors.table)
    }
}
