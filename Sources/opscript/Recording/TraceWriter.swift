import LuaBindings
import OpEngine

/// Writes a run as Chrome trace events, while it runs: the JSON array that Perfetto and chrome://tracing open.
///
/// Its memory depends on how many operations exist at the same time, not on how many there were.
final class TraceWriter {
    /// The shortest time between two samples of the counters.
    private static let counterInterval: UInt64 = 100_000
    /// The track of the first program. Threads have lower numbers.
    private static let firstProgramTrack = 1_000_000

    /// An operation that exists, or was the last one with its number.
    private struct Entry {
        var serial = 0
        var name: String?
        var place: String?
        var queue = -1
        var added: UInt64 = 0
        var ready: UInt64 = 0
        var started: UInt64 = 0
        var returned: UInt64 = 0
        var finished: UInt64 = 0
        var thread = -1
        var error: String?
        /// The number of the attempt that runs, or has run last.
        var attempt = 0
        var phase = Phase.unknown

        var label: String { name ?? place ?? "operation" }
    }

    private enum Phase { case unknown, waiting, ready, running, open, betweenAttempts, finished }

    private enum ThreadKind { case main, worker(Int), other }

    private struct Program {
        let name: String
        let owner: String?
        let began: UInt64
        let track: Int
    }

    private let file: OutputFile
    private let start: UInt64
    private var entries: [Entry] = []
    /// The threads that have run nothing yet.
    private var newThreads: [Int: ThreadKind] = [:]
    /// The thread of each worker, by its number.
    private var workerThreads: [Int: Int] = [:]
    /// Since when each blocked thread has been blocked.
    private var blockedThreads: [Int: UInt64] = [:]
    /// The name of each queue, by its number.
    private var queueNames: [String] = []
    private var programs: [Int: Program] = [:]
    /// Whether a program is on the track with this index.
    private var programTracks: [Bool] = []
    private var serial = 0
    private var flow = 0
    private var isFirstEvent = true
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
        self.start = start
        last = start
        file.append("[")
        writeMetadata("process_name", track: 0, name: title)
        file.flush()
    }

    // MARK: Records

    func receive(_ record: OperationRecord) {
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
            while queueNames.count <= number { queueNames.append("") }
            queueNames[number] = name ?? "queue \(number)"
        case .activityBegan(let number, let name): programBegan(number, name, record)
        case .activityEnded(let number, let detail): programEnded(number, detail, at: record.time)
        default: receiveOperation(record)
        }
    }

    private func receiveOperation(_ record: OperationRecord) {
        let number = record.operation, time = record.time
        while entries.count <= number { entries.append(Entry()) }
        switch record.event {
        case .place(let place, let isFinal):
            if isFinal || entries[number].phase == .finished || entries[number].place == nil {
                if entries[number].phase != .unknown { entries[number] = Entry() }
                entries[number].place = place.isEmpty ? nil : place
            }
        case .added(let queue, _, _, let isReady):
            let place = entries[number].phase == .unknown ? entries[number].place : nil
            serial += 1
            entries[number] = Entry(
                serial: serial, place: place, queue: queue, added: time, ready: isReady ? time : 0, phase: isReady ? .ready : .waiting)
            if isReady { ready += 1 } else { waiting += 1 }
            sampleCounters(at: time)
        case .name(let name): entries[number].name = name.isEmpty ? nil : name
        case .error(let text): entries[number].error = text
        case .ready:
            guard entries[number].phase == .waiting else { return }
            writeWait(of: entries[number], for: "dependencies", from: entries[number].added, to: time)
            entries[number].phase = .ready
            entries[number].ready = time
            waiting -= 1
            ready += 1
            sampleCounters(at: time)
        case .started:
            if entries[number].phase == .ready {
                writeWait(of: entries[number], for: "a worker", from: entries[number].ready, to: time)
                ready -= 1
            } else if entries[number].phase == .betweenAttempts {
                writeWait(of: entries[number], for: "another attempt", from: entries[number].finished, to: time)
                waiting -= 1
            } else if entries[number].phase == .waiting {
                waiting -= 1
            }
            entries[number].attempt += 1
            if !newThreads.isEmpty { announceThread(record.thread) }
            entries[number].phase = .running
            entries[number].started = time
            entries[number].thread = record.thread
            running += 1
            sampleCounters(at: time)
        case .dependency(let other): writeFlow(from: entries[other], to: entries[number], at: time)
        case .returned:
            guard entries[number].phase == .running else { return }
            writeBlocked(entries[number].thread, until: time)
            entries[number].returned = time
            entries[number].phase = .open
            running -= 1
            sampleCounters(at: time)
        case .attemptFailed:
            guard entries[number].phase == .running || entries[number].phase == .open else { return }
            finish(number, .failed, at: time)
            entries[number].phase = .betweenAttempts
            (entries[number].error, entries[number].returned) = (nil, 0)
            waiting += 1
        case .finished(let outcome): finish(number, outcome, at: time)
        default: break
        }
    }

    private func finish(_ number: Int, _ outcome: Operation.Outcome, at time: UInt64) {
        let entry = entries[number]
        switch entry.phase {
        case .waiting:
            writeWait(of: entry, for: "dependencies", from: entry.added, to: time)
            waiting -= 1
            sampleCounters(at: time)
        case .ready:
            writeWait(of: entry, for: "a worker", from: entry.ready, to: time)
            ready -= 1
            sampleCounters(at: time)
        case .running:
            writeBlocked(entry.thread, until: time)
            writeSlice(of: entry, until: time, outcome)
            running -= 1
            sampleCounters(at: time)
        case .open:
            writeSlice(of: entry, until: entry.returned, outcome)
            writeSpan("asynchronous", of: entry, from: entry.returned, to: time)
        case .betweenAttempts:
            writeWait(of: entry, for: "another attempt", from: entry.finished, to: time)
            waiting -= 1
        case .finished, .unknown: return
        }
        entries[number].phase = .finished
        entries[number].finished = time
    }

    /// Names the track of a thread before its first slice.
    private func announceThread(_ thread: Int) {
        guard let kind = newThreads.removeValue(forKey: thread) else { return }
        let (name, position) =
            switch kind {
            case .main: ("main", 0)
            case .worker(let number): ("worker \(number)", number)
            case .other: ("thread \(thread)", 100_000 + thread)
            }
        writeMetadata("thread_name", track: thread + 1, name: name)
        writeOrder(of: thread + 1, position)
    }

    private func programBegan(_ number: Int, _ name: String, _ record: OperationRecord) {
        var track = programTracks.firstIndex(of: false) ?? programTracks.count
        if track == programTracks.count {
            programTracks.append(true)
            writeMetadata("thread_name", track: TraceWriter.firstProgramTrack + track, name: "program \(track + 1)")
            writeOrder(of: TraceWriter.firstProgramTrack + track, TraceWriter.firstProgramTrack + track)
        }
        programTracks[track] = true
        track += TraceWriter.firstProgramTrack
        let owner = record.operation >= 0 && record.operation < entries.count ? entries[record.operation].label : nil
        programs[number] = Program(name: name, owner: owner, began: record.time, track: track)
    }

    private func programEnded(_ number: Int, _ detail: String, at time: UInt64) {
        guard let program = programs.removeValue(forKey: number) else { return }
        programTracks[program.track - TraceWriter.firstProgramTrack] = false
        beginSlice(program.name, "program", track: program.track, from: program.began, to: time)
        file.append("\"result\":")
        file.append(json: detail)
        if let owner = program.owner {
            file.append(",\"operation\":")
            file.append(json: owner)
        }
        file.append("}}")
    }

    /// Writes what is still open, and closes the file.
    func finish() {
        for number in entries.indices where entries[number].phase == .running || entries[number].phase == .open {
            let entry = entries[number]
            writeSlice(of: entry, until: entry.phase == .open ? entry.returned : last, nil)
        }
        for (number, _) in programs.sorted(by: { $0.key < $1.key }) { programEnded(number, "running at the end", at: last) }
        writeCounters(at: last)
        file.close()
    }

    /// Writes what is in the buffer, so that the file shows the run up to now.
    func flush() { file.flush() }

    // MARK: Events

    /// Begins an event. The caller appends further members and the closing brace.
    private func begin(_ phase: StaticString, track: Int, at time: UInt64) {
        file.append(isFirstEvent ? "\n{\"ph\":\"" : ",\n{\"ph\":\"")
        isFirstEvent = false
        file.append(phase)
        file.append("\",\"pid\":1,\"tid\":")
        file.append(track)
        file.append(",\"ts\":")
        file.append(microseconds: time < start ? 0 : time - start)
    }

    /// Begins a slice, up to its arguments. The caller appends these and two closing braces.
    private func beginSlice(_ name: String, _ category: StaticString, track: Int, from start: UInt64, to end: UInt64) {
        begin("X", track: track, at: start)
        file.append(",\"dur\":")
        file.append(microseconds: end - start)
        file.append(",\"cat\":\"")
        file.append(category)
        file.append("\",\"name\":")
        file.append(json: name)
        file.append(",\"args\":{")
    }

    private func writeMetadata(_ kind: StaticString, track: Int, name: String) {
        begin("M", track: track, at: start)
        file.append(",\"name\":\"")
        file.append(kind)
        file.append("\",\"args\":{\"name\":")
        file.append(json: name)
        file.append("}}")
    }

    private func writeOrder(of track: Int, _ position: Int) {
        begin("M", track: track, at: start)
        file.append(",\"name\":\"thread_sort_index\",\"args\":{\"sort_index\":")
        file.append(position)
        file.append("}}")
    }

    private func nameOfQueue(of entry: borrowing Entry) -> String {
        queueNames.indices.contains(entry.queue) ? queueNames[entry.queue] : ""
    }

    /// The time that an operation was on its thread.
    private func writeSlice(of entry: borrowing Entry, until end: UInt64, _ outcome: Operation.Outcome?) {
        beginSlice(entry.label, "operation", track: entry.thread + 1, from: entry.started, to: end)
        file.append("\"number\":")
        file.append(entry.serial)
        file.append(",\"queue\":")
        file.append(json: nameOfQueue(of: entry))
        file.append(",\"outcome\":\"")
        switch outcome {
        case .succeeded: file.append("succeeded\"")
        case .failed: file.append("failed\"")
        case .cancelled: file.append("cancelled\"")
        case nil: file.append("unfinished\"")
        }
        if entry.attempt > 1 {
            file.append(",\"attempt\":")
            file.append(entry.attempt)
        }
        if let place = entry.place {
            file.append(",\"place\":")
            file.append(json: place)
        }
        if let error = entry.error {
            file.append(",\"error\":")
            file.append(json: error)
        }
        file.append("}}")
    }

    /// The time that a thread was blocked, below the slice of its operation.
    private func writeBlocked(_ thread: Int, until end: UInt64) {
        guard let begin = blockedThreads.removeValue(forKey: thread) else { return }
        beginSlice("blocked", "blocked", track: thread + 1, from: begin, to: end)
        file.append("}}")
    }

    private func writeWait(of entry: borrowing Entry, for what: StaticString, from begin: UInt64, to end: UInt64) {
        if end <= begin { return }
        writeHalf("b", of: entry, at: begin)
        file.append("waiting in ")
        file.append(jsonBytesOf: nameOfQueue(of: entry))
        file.append("\",\"args\":{\"operation\":")
        file.append(json: entry.label)
        file.append(",\"for\":\"")
        file.append(what)
        file.append("\"}}")
        writeHalf("e", of: entry, at: end)
        file.append("waiting in ")
        file.append(jsonBytesOf: nameOfQueue(of: entry))
        file.append("\"}")
    }

    /// An operation that goes on without a thread.
    private func writeSpan(_ name: StaticString, of entry: borrowing Entry, from begin: UInt64, to end: UInt64) {
        writeHalf("b", of: entry, at: begin)
        file.append(name)
        file.append("\",\"args\":{\"operation\":")
        file.append(json: entry.label)
        file.append("}}")
        writeHalf("e", of: entry, at: end)
        file.append(name)
        file.append("\"}")
    }

    /// Begins an event up to the opening quote of its name.
    private func writeHalf(_ phase: StaticString, of entry: borrowing Entry, at time: UInt64) {
        begin(phase, track: 0, at: time)
        file.append(",\"cat\":\"queue\",\"id\":")
        file.append(entry.serial)
        file.append(",\"name\":\"")
    }

    /// An arrow from the end of a dependency to the start of its dependent.
    private func writeFlow(from source: borrowing Entry, to target: borrowing Entry, at time: UInt64) {
        guard source.phase == .finished, source.thread >= 0, target.phase == .running else { return }
        let end = source.returned > 0 ? source.returned : source.finished
        flow += 1
        begin("s", track: source.thread + 1, at: max(source.started, end - 1))
        writeFlowMembers()
        file.append("}")
        begin("f", track: target.thread + 1, at: time)
        writeFlowMembers()
        file.append(",\"bp\":\"e\"}")
    }

    private func writeFlowMembers() {
        file.append(",\"cat\":\"dependency\",\"name\":\"dependency\",\"id\":")
        file.append(flow)
    }

    // MARK: Counters

    private func sampleCounters(at time: UInt64) {
        if time >= lastCounters + TraceWriter.counterInterval { writeCounters(at: time) }
    }

    private func writeCounters(at time: UInt64) {
        lastCounters = time
        begin("C", track: 0, at: time)
        file.append(",\"name\":\"operations\",\"args\":{\"running\":")
        file.append(running)
        file.append(",\"ready\":")
        file.append(ready)
        file.append(",\"waiting\":")
        file.append(waiting)
        file.append("}}")
    }
}
