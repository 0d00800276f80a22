import OpEngine

/// Writes a run as Chrome trace events, while it runs: the JSON array that Perfetto and chrome://tracing open.
///
/// Its memory depends on how many operations run at the same time, not on how many there were.
final class TraceWriter: RunObserver {
    /// The shortest time between two samples of the counters.
    private static let counterInterval: UInt64 = 100_000
    /// The track of the first program. The tracks before it are those of threads and of the slots of a cluster: `RunOperation.thread` plus 1.
    private static let firstProgramTrack = 2_000_000

    /// The box of a group: whether it has a name, and which rows below the group's own row have a member now.
    private struct Box {
        var isAnnounced = false
        var rows: [Bool] = []
    }

    // Safety: the variables that change with each operation need no exclusivity checks, because no method calls code that leads back here.

    private let file: OutputFile
    private let events: TraceEvents
    /// Whether the track of each thread has a name.
    @safe @exclusivity(unchecked) private var announcedThreads: [Bool] = []
    private var announcedSlotCount = 0
    /// The boxes of groups, by the number of the members' queue.
    private var boxes: [Int: Box] = [:]
    /// The row of each member that runs in the box of its group, by the number of the operation.
    private var rows: [Int: Int] = [:]
    /// The track of each program that runs, by the program's number; and for each track of programs, whether a program is on it.
    private var tracks: [Int: Int] = [:]
    private var programTracks: [Bool] = []
    private var flow = 0
    @safe @exclusivity(unchecked) private var lastCounters: UInt64 = 0
    /// The number of operations in each phase.
    @safe @exclusivity(unchecked) private var counts = [Int](repeating: 0, count: 6)

    /// Begins a trace. `title` is the name of the process in the viewer.
    init(_ file: OutputFile, title: String) {
        self.file = file
        events = TraceEvents(file: file)
        events.writeFirst(title: title)
        file.flush()
    }

    /// Writes the open events, and closes the file. Call this once the log has finished.
    func finish(_ log: RunLog) {
        for number in log.programs.keys.sorted() { programEnded(number, "running at the end", in: log) }
        writeCounters(at: log.end)
        file.close()
    }

    /// Writes the contents of the buffer, so that the file shows the run up to now.
    func flush() { file.flush() }

    // MARK: Operations

    func operationChanged(_ index: Int, from old: RunOperation?, in log: RunLog) {
        let operation = log.operations[index]
        if let old {
            write(old, before: operation, in: log)
            counts[old.phase.rawValue] -= 1
        }
        counts[operation.phase.rawValue] += 1
        if operation.phase == .running {
            announceThread(operation.thread, in: log)
            if log.queues[operation.queue].isGroup, rows[operation.serial] == nil { enterRow(operation) }
        }
        if log.end >= lastCounters + TraceWriter.counterInterval { writeCounters(at: log.end) }
    }

    /// Writes the events that have ended with the phase of an operation.
    private func write(_ old: RunOperation, before new: RunOperation, in log: RunLog) {
        let isAtEnd = new.phase == .finished && new.outcome == nil
        switch old.phase {
        case .running where new.phase == .open, .open where new.phase == .open:
            if new.thread != old.thread { writeSending(old, new, in: log) }
        case .running, .open:
            let outcome = new.phase == .finished ? new.outcome : .failed
            events.writeSlice(of: old, in: log, outcome)
            if old.returned > 0, !isAtEnd { events.writeAsynchronous(old, in: log) }
            writeBoxes(of: old, in: log)
        case .waiting where new.phase != .running && !isAtEnd:
            writeWait(of: old, for: "dependencies", from: old.added, to: log.end, in: log)
        case .ready where !isAtEnd: writeWait(of: old, for: "a worker", from: old.ready, to: log.end, in: log)
        case .betweenAttempts where !isAtEnd: writeWait(of: old, for: "another attempt", from: old.finished, to: log.end, in: log)
        default: break
        }
    }

    private func writeWait(of operation: RunOperation, for what: StaticString, from begin: UInt64, to end: UInt64, in log: RunLog) {
        if end > begin { events.writeWait(of: operation, in: log, for: what, from: begin, to: end) }
    }

    /// Shows where an operation that has run on a cluster was sent, and how long it waited for a worker there.
    private func writeSending(_ sent: RunOperation, _ operation: RunOperation, in log: RunLog) {
        while announcedSlotCount < log.slots.all.count {
            let slot = log.slots.all[announcedSlotCount]
            let track = RunLog.firstSlotThread + announcedSlotCount + 1
            events.writeTrack(track, slot.name, 200_000 + 1000 * slot.worker + slot.number)
            announcedSlotCount += 1
        }
        events.writeSending(of: sent, in: log)
        writeWait(of: sent, for: "the cluster", from: sent.returned, to: operation.started, in: log)
        flow += 1
        events.writeFlow(flow, ofSent: sent, to: operation)
    }

    func dependencyFound(of index: Int, on dependency: Int, in log: RunLog) {
        let source = log.operations[dependency], target = log.operations[index]
        guard source.phase == .finished, source.hasStarted, target.phase == .running else { return }
        flow += 1
        events.writeFlow(flow, from: source, to: target)
    }

    // MARK: Threads

    /// Names the track of a thread before its first slice.
    private func announceThread(_ thread: Int, in log: RunLog) {
        while announcedThreads.count <= thread { announcedThreads.append(false) }
        if announcedThreads[thread] || !log.threads.indices.contains(thread) { return }
        announcedThreads[thread] = true
        events.writeTrack(thread + 1, log.threads[thread].name, log.threads[thread].position)
    }

    func threadUnblocked(_ thread: Int, since begin: UInt64, in log: RunLog) {
        events.writeBlocked(track: thread + 1, from: begin, to: log.end)
    }

    // MARK: Groups

    /// Gives a member a row of its group's box.
    private func enterRow(_ operation: RunOperation) {
        var box = boxes[operation.queue] ?? Box()
        let row = box.rows.firstIndex(of: false) ?? box.rows.count
        if row == box.rows.count { box.rows.append(true) } else { box.rows[row] = true }
        boxes[operation.queue] = box
        rows[operation.serial] = row
    }

    /// Shows an operation whose attempt has ended in the box of its group. Shows a group as the first row of its own box.
    private func writeBoxes(of operation: RunOperation, in log: RunLog) {
        if let members = operation.members {
            announceBox(of: members, log.label(of: operation))
            events.writeInBox(of: members, row: 0, operation, in: log)
        }
        let queue = log.queues[operation.queue]
        guard queue.isGroup, let row = rows.removeValue(forKey: operation.serial) else { return }
        announceBox(of: operation.queue, JSONText(queue.givenName ?? "\(queue.number + 1)"))
        events.writeInBox(of: operation.queue, row: row + 1, operation, in: log)
        boxes[operation.queue]?.rows[row] = false
    }

    private func announceBox(of queue: Int, _ name: JSONText) {
        if exchange(&boxes[queue, default: Box()].isAnnounced, with: true) { return }
        events.writeBox(of: queue, name)
    }

    // MARK: Programs

    func programStarted(_ number: Int, by operation: Int?, in log: RunLog) {
        let index = programTracks.firstIndex(of: false) ?? programTracks.count
        let track = TraceWriter.firstProgramTrack + index
        if index == programTracks.count {
            programTracks.append(true)
            events.writeTrack(track, "program \(index + 1)", track)
        }
        programTracks[index] = true
        tracks[number] = track
    }

    func programEnded(_ number: Int, _ detail: String, in log: RunLog) {
        guard let track = tracks.removeValue(forKey: number), let program = log.programs[number] else { return }
        programTracks[track - TraceWriter.firstProgramTrack] = false
        events.writeProgram(program, detail, track: track, to: log.end)
    }

    // MARK: Counters

    private func writeCounters(at time: UInt64) {
        lastCounters = time
        func count(_ phase: RunOperation.Phase) -> Int { counts[phase.rawValue] }
        events.writeCounters(running: count(.running), ready: count(.ready), waiting: count(.waiting) + count(.betweenAttempts), at: time)
    }
}
