import LuaBindings
import OpEngine

/// Writes a run as Chrome trace events, while it runs: the JSON array that Perfetto and chrome://tracing open.
///
/// Its memory depends on how many operations exist at the same time, not on how many there were.
struct TraceWriter {
    /// The shortest time between two samples of the counters.
    private static let counterInterval: UInt64 = 100_000
    /// The tracks of the first slot of a cluster's worker, and of the first program. Threads have lower numbers.
    private static let firstSlotTrack = 500_000, firstProgramTrack = 1_000_000

    private enum ThreadKind { case main, worker(Int), other }

    private struct Program {
        let name: JSONText
        let owner: JSONText?
        let began: UInt64
        let track: Int
    }

    private let file: OutputFile
    private let events: TraceEvents
    private var operations: [TraceOperation] = []
    /// The place that was recorded last: many operations are made in the same line.
    private var lastPlace: (text: String, json: JSONText?) = ("", nil)
    /// The threads that have run nothing yet.
    private var newThreads: [Int: ThreadKind] = [:]
    /// The thread of each worker, by its number.
    private var workerThreads: [Int: Int] = [:]
    /// Since when each blocked thread has been blocked.
    private var blockedThreads: [Int: UInt64] = [:]
    /// The name of each queue, by its number.
    private var queueNames: [JSONText] = []
    /// A group: the process under which its members are shown, and whether each row below its own has a member now.
    private struct Box {
        let process: Int
        var isAnnounced = false
        var rows: [Bool] = []
    }

    private var boxes: [Box] = []
    /// The box of each queue that is a group's, by its number.
    private var boxOfQueue: [Int: Int] = [:]
    /// The boxes of groups that were not added yet, by the records' numbers of the groups.
    private var unaddedBoxes: [Int: Int] = [:]
    private var slots = WorkerSlots()
    private var programs: [Int: Program] = [:]
    /// Whether a program is on the track with this index.
    private var programTracks: [Bool] = []
    private var serial = 0
    private var flow = 0
    private var last: UInt64 = 0
    private var lastCounters: UInt64 = 0
    private var (waiting, ready, running) = (0, 0, 0)

    /// Begins a trace.
    ///
    /// - Parameters:
    ///   - start: the time that becomes 0.
    ///   - title: the name of the process in the viewer.
    init(_ file: OutputFile, from start: UInt64, title: String) {
        self.file = file
        events = TraceEvents(file: file, start: start)
        last = start
        events.writeFirst(title: title)
        file.flush()
    }

    // MARK: Records

    mutating func receive(_ record: OperationRecord) {
        last = max(last, record.time)
        switch record.event {
        case .thread(let worker, let isMain):
            newThreads[record.thread] = isMain ? .main : worker.map { .worker($0) } ?? .other
            if let worker { workerThreads[worker] = record.thread }
        case .workerBlocked(let worker):
            if let thread = workerThreads[worker] { blockedThreads[thread] = record.time }
        case .workerReturned(let worker):
            if let thread = workerThreads[worker] { writeBlocked(thread, until: record.time) }
        case .queue(let number, let name, _, _):
            while queueNames.count <= number { queueNames.append(JSONText("")) }
            queueNames[number] = JSONText(name ?? "queue \(number + 1)")
        case .activityBegan(let number, let name): programBegan(number, name, record)
        case .activityEnded(let number, let detail): programEnded(number, detail, at: record.time)
        default: receiveOperation(record)
        }
    }

    private mutating func receiveOperation(_ record: OperationRecord) {
        let number = record.operation, time = record.time
        while operations.count <= number { operations.append(TraceOperation()) }
        switch record.event {
        case .place(let place, let isFinal):
            if isFinal || operations[number].phase == .finished || operations[number].place == nil {
                if operations[number].phase != .unknown { operations[number] = TraceOperation() }
                if place != lastPlace.text { lastPlace = (place, place.isEmpty ? nil : JSONText(place)) }
                operations[number].place = lastPlace.json
            }
        case .group(let queue):
            boxOfQueue[queue] = boxes.count
            if operations[number].phase == .finished || operations[number].phase == .unknown {
                unaddedBoxes[number] = boxes.count
            } else {
                operations[number].box = boxes.count
            }
            boxes.append(Box(process: boxes.count + 2))
        case .added(let queue, _, _, let isReady):
            let place = operations[number].phase == .unknown ? operations[number].place : nil
            serial += 1
            operations[number] = TraceOperation(
                serial: serial, place: place, queue: queue, added: time, ready: isReady ? time : 0, phase: isReady ? .ready : .waiting)
            if let box = unaddedBoxes.removeValue(forKey: number) { operations[number].box = box }
            if isReady { ready += 1 } else { waiting += 1 }
            sampleCounters(at: time)
        case .name(let name): operations[number].name = name.isEmpty ? nil : JSONText(name)
        case .error(let text): operations[number].error = JSONText(text)
        case .ready:
            guard operations[number].phase == .waiting else { return }
            writeWait(of: number, for: "dependencies", from: operations[number].added, to: time)
            operations[number].phase = .ready
            operations[number].ready = time
            waiting -= 1
            ready += 1
            sampleCounters(at: time)
        case .started:
            if operations[number].phase == .ready {
                writeWait(of: number, for: "a worker", from: operations[number].ready, to: time)
                ready -= 1
            } else if operations[number].phase == .betweenAttempts {
                writeWait(of: number, for: "another attempt", from: operations[number].finished, to: time)
                waiting -= 1
            } else if operations[number].phase == .waiting {
                waiting -= 1
            }
            operations[number].attempt += 1
            if !newThreads.isEmpty { announceThread(record.thread) }
            operations[number].phase = .running
            operations[number].started = time
            operations[number].thread = record.thread
            if operations[number].row < 0, let box = boxOfQueue[operations[number].queue] { enter(box, number) }
            running += 1
            sampleCounters(at: time)
        case .skipped: operations[number].isSkipped = true
        case .dependency(let other): writeFlow(from: other, to: number, at: time)
        case .returned:
            guard operations[number].phase == .running else { return }
            writeBlocked(operations[number].thread, until: time)
            operations[number].returned = time
            operations[number].phase = .open
            running -= 1
            sampleCounters(at: time)
        case .ranElsewhere(let worker, let slotCount, let began, let ended):
            guard operations[number].phase == .running || operations[number].phase == .open else { return }
            place(number, on: worker, slotCount, from: began, to: ended, at: time)
        case .attemptFailed:
            guard operations[number].phase == .running || operations[number].phase == .open else { return }
            finish(number, .failed, at: time)
            operations[number].phase = .betweenAttempts
            (operations[number].error, operations[number].returned, operations[number].elsewhere) = (nil, 0, nil)
            waiting += 1
        case .finished(let outcome): finish(number, outcome, at: time)
        default: break
        }
    }

    private mutating func finish(_ number: Int, _ outcome: Operation.Outcome, at time: UInt64) {
        switch operations[number].phase {
        case .waiting:
            writeWait(of: number, for: "dependencies", from: operations[number].added, to: time)
            waiting -= 1
        case .ready:
            writeWait(of: number, for: "a worker", from: operations[number].ready, to: time)
            ready -= 1
        case .running:
            writeBlocked(operations[number].thread, until: time)
            writeSlice(of: number, until: time, outcome)
            writeSending(of: number, until: time)
            running -= 1
        case .open:
            writeSlice(of: number, until: operations[number].returned, outcome)
            if operations[number].elsewhere == nil { events.writeAsynchronous(operations[number], to: time) }
            writeSending(of: number, until: operations[number].returned)
        case .betweenAttempts:
            writeWait(of: number, for: "another attempt", from: operations[number].finished, to: time)
            waiting -= 1
        case .finished, .unknown: return
        }
        operations[number].phase = .finished
        operations[number].finished = time
        writeBoxes(of: number, until: time)
        sampleCounters(at: time)
    }

    // MARK: Clusters

    /// Finds a track for an operation that a worker of a cluster has run.
    private mutating func place(
        _ number: Int, on worker: String, _ slotCount: Int, from began: UInt64, to ended: UInt64, at time: UInt64
    ) {
        let began = max(began, operations[number].started)
        let (slot, isNew, begin, end) = slots.place(on: worker, slotCount: slotCount, from: began, to: max(ended, began), at: time)
        let track = TraceWriter.firstSlotTrack + slot
        if isNew {
            let row = slots.all[slot]
            events.writeTrack(track, row.name, 200_000 + 1000 * row.worker + row.number)
        }
        operations[number].elsewhere = (track, begin, end)
    }

    /// Shows where an operation that ran on a cluster was sent, and how long it waited for a worker.
    private mutating func writeSending(of number: Int, until end: UInt64) {
        guard let elsewhere = operations[number].elsewhere else { return }
        events.writeSending(of: operations[number], to: end)
        writeWait(of: number, for: "the cluster", from: end, to: elsewhere.began)
        flow += 1
        events.writeFlow(flow, ofSent: operations[number])
    }

    // MARK: Groups

    /// Gives a member a row of its group's box.
    private mutating func enter(_ box: Int, _ number: Int) {
        let row = boxes[box].rows.firstIndex(of: false) ?? boxes[box].rows.count
        if row == boxes[box].rows.count { boxes[box].rows.append(true) } else { boxes[box].rows[row] = true }
        operations[number].row = row
    }

    /// Shows an operation that has ended, or whose attempt has, in the box of its group, and a group as the first row of its own.
    private mutating func writeBoxes(of number: Int, until end: UInt64) {
        let (own, row) = (operations[number].box, operations[number].row)
        if own >= 0, operations[number].started > 0 {
            announceBox(own, operations[number].label)
            events.writeInBox(boxes[own].process, row: 0, operations[number], to: end)
        }
        guard row >= 0, let box = boxOfQueue[operations[number].queue] else { return }
        announceBox(box, queueNames.indices.contains(operations[number].queue) ? nameOfQueue(of: number) : JSONText(""))
        events.writeInBox(boxes[box].process, row: row + 1, operations[number], to: end)
        boxes[box].rows[row] = false
        operations[number].row = -1
    }

    private mutating func announceBox(_ box: Int, _ name: JSONText) {
        if exchange(&boxes[box].isAnnounced, with: true) { return }
        events.writeBox(boxes[box].process, name)
    }

    private mutating func programBegan(_ number: Int, _ name: String, _ record: OperationRecord) {
        var track = programTracks.firstIndex(of: false) ?? programTracks.count
        if track == programTracks.count {
            programTracks.append(true)
            let number = TraceWriter.firstProgramTrack + track
            events.writeTrack(number, "program \(track + 1)", number)
        }
        programTracks[track] = true
        track += TraceWriter.firstProgramTrack
        let owner = record.operation >= 0 && record.operation < operations.count ? operations[record.operation].label : nil
        programs[number] = Program(name: JSONText(name), owner: owner, began: record.time, track: track)
    }

    private mutating func programEnded(_ number: Int, _ detail: String, at time: UInt64) {
        guard let program = programs.removeValue(forKey: number) else { return }
        programTracks[program.track - TraceWriter.firstProgramTrack] = false
        events.writeProgram(program.name, of: program.owner, detail, track: program.track, from: program.began, to: time)
    }

    /// Writes what is still open, and closes the file.
    mutating func finish() {
        for number in operations.indices where operations[number].phase == .running || operations[number].phase == .open {
            writeBoxes(of: number, until: last)
            writeSlice(of: number, until: operations[number].phase == .open ? operations[number].returned : last, nil)
        }
        for (number, _) in programs.sorted(by: { $0.key < $1.key }) { programEnded(number, "running at the end", at: last) }
        writeCounters(at: last)
        file.close()
    }

    /// Writes what is in the buffer, so that the file shows the run up to now.
    func flush() { file.flush() }

    // MARK: Events

    // These are `mutating` so that no call copies the writer.

    /// Names the track of a thread before its first slice.
    private mutating func announceThread(_ thread: Int) {
        guard let kind = newThreads.removeValue(forKey: thread) else { return }
        let (name, position) =
            switch kind {
            case .main: ("main", 0)
            case .worker(let number): ("worker \(number)", number)
            case .other: ("thread \(thread)", 100_000 + thread)
            }
        events.writeTrack(thread + 1, name, position)
    }

    @inline(__always)
    private func nameOfQueue(of number: Int) -> JSONText {
        let queue = operations[number].queue
        return queueNames.indices.contains(queue) ? queueNames[queue] : JSONText("")
    }

    private mutating func writeSlice(of number: Int, until end: UInt64, _ outcome: Operation.Outcome?) {
        events.writeSlice(of: operations[number], in: nameOfQueue(of: number), until: end, outcome)
    }

    private mutating func writeWait(of number: Int, for what: StaticString, from begin: UInt64, to end: UInt64) {
        if end > begin { events.writeWait(of: operations[number], in: nameOfQueue(of: number), for: what, from: begin, to: end) }
    }

    private mutating func writeBlocked(_ thread: Int, until end: UInt64) {
        guard !blockedThreads.isEmpty, let begin = blockedThreads.removeValue(forKey: thread) else { return }
        events.writeBlocked(track: thread + 1, from: begin, to: end)
    }

    private mutating func writeFlow(from source: Int, to target: Int, at time: UInt64) {
        guard operations[source].phase == .finished, operations[source].thread >= 0, operations[target].phase == .running else { return }
        flow += 1
        events.writeFlow(flow, from: operations[source], to: operations[target], at: time)
    }

    // MARK: Counters

    private mutating func sampleCounters(at time: UInt64) {
        if time >= lastCounters + TraceWriter.counterInterval { writeCounters(at: time) }
    }

    private mutating func writeCounters(at time: UInt64) {
        lastCounters = time
        events.writeCounters(running: running, ready: ready, waiting: waiting, at: time)
    }
}
