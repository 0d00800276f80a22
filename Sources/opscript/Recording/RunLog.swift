import OpEngine

/// Keeps a whole run in memory, for the files that are written at its end. Takes about 170 bytes for each operation. Equal names and lines
/// are stored once.
final class RunLog {
    /// A queue, and how long it has held operations back so far.
    struct Queue {
        var name: String
        /// The most operations that run at once; nil if the engine decides.
        var maximum: Int?
        fileprivate var isSuspended = false
        fileprivate var executing = 0
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

    let title: String
    private(set) var operations: [RunOperation] = []
    private(set) var texts: [String] = []
    private(set) var queues: [Queue] = []
    /// The dependencies of all operations. Those of an operation that has neither started nor finished are not recorded.
    private(set) var edges: [(operation: Int32, dependency: Int32)] = []
    /// The names of the threads by number.
    private(set) var threads: [Int: String] = [:]
    /// The threads of the engine's pool.
    private(set) var workers: Set<Int> = []
    /// The thread of each worker, by its number.
    private var workerThreads: [Int: Int] = [:]
    /// The operation that each thread runs, and since when it has been blocked; 0 if it is not.
    private var running: [Int: (operation: Int, blocked: UInt64)] = [:]
    /// The time of the last record.
    private(set) var end: UInt64 = 0

    private let start: UInt64
    private var textIndices: [String: Int32] = [:]
    private var queueIndices: [Int: Int] = [:]
    /// The operation that a record's number means now; -1 if there is none.
    private var indices: [Int] = []
    /// The places of operations that were not added yet, by the records' numbers.
    private var places: [Int: Int32] = [:]

    /// Begins a log whose time 0 is `start`.
    init(title: String, from start: UInt64) {
        self.title = title
        self.start = start
    }

    /// The name of an operation, or else the line that made it.
    func label(of operation: RunOperation) -> String { text(operation.name) ?? text(operation.place) ?? "operation" }

    func text(_ index: Int32?) -> String? { index.map { texts[Int($0)] } }

    // MARK: Records

    func receive(_ record: OperationRecord) {
        // Times never decrease, so that no difference is negative.
        let time = max(end, max(record.time, start) - start)
        end = time
        switch record.event {
        case .thread(let worker, let isMain):
            threads[record.thread] = isMain ? "main" : worker.map { "worker \($0)" } ?? "thread \(record.thread)"
            if let worker {
                workers.insert(record.thread)
                workerThreads[worker] = record.thread
            }
        case .workerBlocked(let worker):
            if let thread = workerThreads[worker] { running[thread]?.blocked = time }
        case .workerReturned(let worker):
            if let thread = workerThreads[worker] { endBlocking(of: thread, at: time) }
        case .queue(let number, let name, let maximum, let isSuspended):
            let queue = index(ofQueue: number)
            queues[queue].advance(to: time)
            if let name { queues[queue].name = name }
            if queues[queue].isSuspended && !isSuspended { queues[queue].resumed = time }
            (queues[queue].maximum, queues[queue].isSuspended) = (maximum, isSuspended)
        case .activityBegan, .activityEnded: break
        default: receiveOperation(record, at: time)
        }
    }

    private func receiveOperation(_ record: OperationRecord, at time: UInt64) {
        let number = record.operation
        while indices.count <= number { indices.append(-1) }
        let index = indices[number]
        switch record.event {
        case .place(let place, let isFinal):
            if isFinal || places[number] == nil { places[number] = place.isEmpty ? nil : intern(place) }
        case .added(let queue, let creator, _, let isReady):
            let creator = creator.flatMap { $0 < indices.count && indices[$0] >= 0 ? Int32(indices[$0]) : nil }
            indices[number] = operations.count
            operations.append(
                RunOperation(
                    place: places.removeValue(forKey: number), queue: self.index(ofQueue: queue), creator: creator, added: time,
                    ready: isReady ? time : .max, phase: .waiting))
            if isReady { becomeReady(operations.count - 1, at: time) }
        case _ where index < 0: break
        case .name(let name): operations[index].name = name.isEmpty ? nil : intern(name)
        case .error(let text): operations[index].error = intern(text)
        case .dependency(let other):
            if other < indices.count, indices[other] >= 0 { edges.append((Int32(index), Int32(indices[other]))) }
        case .ready: becomeReady(index, at: time)
        case .started: begin(index, on: record.thread, at: time)
        case .returned:
            guard operations[index].phase == .running else { return }
            leaveThread(index, at: time)
            operations[index].phase = .open
            operations[index].returned = time
        case .finished(let outcome): finish(index, outcome, at: time)
        default: break
        }
    }

    private func becomeReady(_ index: Int, at time: UInt64) {
        guard operations[index].phase == .waiting else { return }
        let queue = operations[index].queue
        queues[queue].advance(to: time)
        operations[index].phase = .ready
        operations[index].ready = time
        // The queue's totals so far. `endWait` subtracts them from the later ones.
        (operations[index].suspendedTime, operations[index].maximumTime) = (queues[queue].suspended, queues[queue].full)
    }

    private func endWait(_ index: Int, at time: UInt64) {
        becomeReady(index, at: time)
        guard operations[index].phase == .ready else { return }
        let queue = operations[index].queue
        queues[queue].advance(to: time)
        operations[index].suspendedTime = queues[queue].suspended - operations[index].suspendedTime
        operations[index].maximumTime = queues[queue].full - operations[index].maximumTime
        operations[index].resumed = queues[queue].resumed
    }

    private func begin(_ index: Int, on thread: Int, at time: UInt64) {
        guard operations[index].phase == .waiting || operations[index].phase == .ready else { return }
        endWait(index, at: time)
        queues[operations[index].queue].executing += 1
        operations[index].phase = .running
        operations[index].started = time
        operations[index].thread = thread
        if workers.contains(thread) { running[thread] = (index, 0) }
    }

    private func leaveThread(_ index: Int, at time: UInt64) {
        let thread = operations[index].thread
        guard running[thread]?.operation == index else { return }
        endBlocking(of: thread, at: time)
        running[thread] = nil
    }

    private func endBlocking(of thread: Int, at time: UInt64) {
        guard let (operation, blocked) = running[thread], blocked > 0 else { return }
        operations[operation].blockedTime += time - blocked
        running[thread]?.blocked = 0
    }

    private func finish(_ index: Int, _ outcome: Operation.Outcome?, at time: UInt64) {
        let queue = operations[index].queue
        switch operations[index].phase {
        case .waiting where outcome == nil: operations[index].ready = time
        case .waiting, .ready: endWait(index, at: time)
        case .running, .open:
            if operations[index].phase == .running { leaveThread(index, at: time) }
            queues[queue].advance(to: time)
            queues[queue].executing -= 1
        case .finished: return
        }
        operations[index].phase = .finished
        operations[index].finished = time
        operations[index].outcome = outcome
    }

    /// Ends the times of operations that have not finished.
    func finish() {
        edges.sort { ($0.operation, $0.dependency) < ($1.operation, $1.dependency) }
        for index in operations.indices { finish(index, nil, at: end) }
    }

    // MARK: Indices

    private func index(ofQueue number: Int) -> Int {
        if let index = queueIndices[number] { return index }
        queueIndices[number] = queues.count
        queues.append(Queue(name: "queue \(number + 1)"))
        return queues.count - 1
    }

    private func intern(_ text: String) -> Int32 {
        if let index = textIndices[text] { return index }
        let index = Int32(texts.count)
        texts.append(text)
        textIndices[text] = index
        return index
    }
}
