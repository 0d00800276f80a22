import OpEngine

/// The events of a trace in JSON, each in a line of its own. Keeps nothing of earlier events.
struct TraceEvents {
    let file: OutputFile

    /// Begins the array with the name of the process.
    func writeFirst(title: String) {
        file.append("[\n{\"ph\":\"M\",\"pid\":1,\"name\":\"process_name\",\"args\":{\"name\":")
        file.append(json: title)
        file.append("}}")
    }

    /// Names a track. Tracks with lower positions are further up.
    func writeTrack(_ track: Int, _ name: String, _ position: Int) {
        begin("M", track: track, at: 0)
        file.append(",\"name\":\"thread_name\",\"args\":{\"name\":")
        file.append(json: name)
        file.append("}}")
        begin("M", track: track, at: 0)
        file.append(",\"name\":\"thread_sort_index\",\"args\":{\"sort_index\":")
        file.append(position)
        file.append("}}")
    }

    /// Begins an event. The caller appends further members and the closing brace.
    @inline(__always)
    private func begin(_ phase: StaticString, process: Int = 1, track: Int, at time: UInt64) {
        file.append(",\n{\"ph\":\"")
        file.append(phase)
        file.append("\",\"pid\":")
        file.append(process)
        file.append(",\"tid\":")
        file.append(track)
        file.append(",\"ts\":")
        file.append(microseconds: time)
    }

    // MARK: Slices

    /// Begins a slice, up to its arguments. The caller appends these and two closing braces.
    @inline(__always)
    private func beginSlice(_ name: JSONText, _ category: StaticString, process: Int = 1, track: Int, from begin: UInt64, to end: UInt64) {
        self.begin("X", process: process, track: track, at: begin)
        file.append(",\"dur\":")
        file.append(microseconds: end - begin)
        file.append(",\"cat\":\"")
        file.append(category)
        file.append("\",\"name\":")
        file.append(name)
        file.append(",\"args\":{")
    }

    /// The time that an operation was on its thread, or at a worker of a cluster.
    func writeSlice(of operation: borrowing RunOperation, in log: RunLog, _ outcome: OperationOutcome?) {
        beginSlice(
            log.label(of: operation), "operation", track: operation.thread + 1, from: operation.started, to: operation.leftThread)
        file.append("\"number\":")
        file.append(operation.serial + 1)
        file.append(",\"queue\":")
        file.append(log.queues[operation.queue].name)
        file.append(",\"outcome\":\"")
        switch outcome {
        case .succeeded: file.append(operation.isSkipped ? "skipped\"" : "succeeded\"")
        case .failed: file.append("failed\"")
        case .cancelled: file.append("cancelled\"")
        case nil: file.append("unfinished\"")
        }
        if operation.attempt > 1 {
            file.append(",\"attempt\":")
            file.append(operation.attempt)
        }
        // The slice of an operation without a name has the place as its name.
        if operation.name != nil, let place = operation.place {
            file.append(",\"place\":")
            file.append(log.texts[place])
        }
        if let error = operation.error {
            file.append(",\"error\":")
            file.append(log.errors[error])
        }
        file.append("}}")
    }

    /// The time in which a thread has sent an operation to the cluster.
    func writeSending(of operation: borrowing RunOperation, in log: RunLog) {
        beginSlice(JSONText("send"), "cluster", track: operation.thread + 1, from: operation.started, to: operation.leftThread)
        file.append("\"operation\":")
        file.append(log.label(of: operation))
        file.append("}}")
    }

    // MARK: Groups

    /// Begins the box of a group: viewers show it as a process of its own, which folds.
    func writeBox(of queue: Int, _ name: JSONText) {
        let process = queue + 2
        begin("M", process: process, track: 0, at: 0)
        file.append(",\"name\":\"process_name\",\"args\":{\"name\":\"group ")
        file.append(verbatim: name.escaped)
        file.append("\"}}")
        begin("M", process: process, track: 0, at: 0)
        file.append(",\"name\":\"process_sort_index\",\"args\":{\"sort_index\":")
        file.append(process)
        file.append("}}")
    }

    /// The time from the start to the end of a group or of a member, in the box of the group.
    func writeInBox(of queue: Int, row: Int, _ operation: borrowing RunOperation, in log: RunLog) {
        beginSlice(
            log.label(of: operation), "group", process: queue + 2, track: row, from: operation.started, to: operation.finished)
        file.append("\"number\":")
        file.append(operation.serial + 1)
        file.append("}}")
    }

    // MARK: Blocked threads and programs

    /// The time that a thread was blocked, below the slice of its operation.
    func writeBlocked(track: Int, from begin: UInt64, to end: UInt64) {
        beginSlice(JSONText("blocked"), "blocked", track: track, from: begin, to: end)
        file.append("}}")
    }

    func writeProgram(_ program: borrowing RunLog.Program, _ result: String, track: Int, to end: UInt64) {
        beginSlice(program.name, "program", track: track, from: program.began, to: end)
        file.append("\"result\":")
        file.append(json: result)
        if let owner = program.owner {
            file.append(",\"operation\":")
            file.append(owner)
        }
        file.append("}}")
    }

    // MARK: Times without a thread

    func writeWait(of operation: borrowing RunOperation, in log: RunLog, for what: StaticString, from begin: UInt64, to end: UInt64) {
        let queue = log.queues[operation.queue].name.escaped
        beginHalf("b", of: operation, at: begin)
        file.append("waiting in ")
        file.append(verbatim: queue)
        file.append("\",\"args\":{\"operation\":")
        file.append(log.label(of: operation))
        file.append(",\"for\":\"")
        file.append(what)
        file.append("\"}}")
        beginHalf("e", of: operation, at: end)
        file.append("waiting in ")
        file.append(verbatim: queue)
        file.append("\"}")
    }

    /// An operation that executes without a thread.
    func writeAsynchronous(_ operation: borrowing RunOperation, in log: RunLog) {
        beginHalf("b", of: operation, at: operation.returned)
        file.append("asynchronous\",\"args\":{\"operation\":")
        file.append(log.label(of: operation))
        file.append("}}")
        beginHalf("e", of: operation, at: operation.finished)
        file.append("asynchronous\"}")
    }

    /// Begins the event of one end of a time without a thread, up to the opening quote of its name.
    @inline(__always)
    private func beginHalf(_ phase: StaticString, of operation: borrowing RunOperation, at time: UInt64) {
        begin(phase, track: 0, at: time)
        file.append(",\"cat\":\"queue\",\"id\":")
        file.append(operation.serial + 1)
        file.append(",\"name\":\"")
    }

    // MARK: Arrows and counters

    /// An arrow from the end of a dependency to the start of its dependent.
    func writeFlow(_ number: Int, from source: borrowing RunOperation, to target: borrowing RunOperation) {
        beginFlow("s", "dependency", number, track: source.thread + 1, at: max(source.started + 1, source.leftThread) - 1)
        file.append("}")
        beginFlow("f", "dependency", number, track: target.thread + 1, at: target.started)
        file.append(",\"bp\":\"e\"}")
    }

    /// An arrow from the thread that has sent an operation to the slot that ran it.
    func writeFlow(_ number: Int, ofSent sent: borrowing RunOperation, to operation: borrowing RunOperation) {
        beginFlow("s", "send", number, track: sent.thread + 1, at: sent.started)
        file.append("}")
        beginFlow("f", "send", number, track: operation.thread + 1, at: operation.started)
        file.append(",\"bp\":\"e\"}")
    }

    private func beginFlow(_ phase: StaticString, _ name: StaticString, _ number: Int, track: Int, at time: UInt64) {
        begin(phase, track: track, at: time)
        file.append(",\"cat\":\"")
        file.append(name)
        file.append("\",\"name\":\"")
        file.append(name)
        file.append("\",\"id\":")
        file.append(number)
    }

    func writeCounters(running: Int, ready: Int, waiting: Int, at time: UInt64) {
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
