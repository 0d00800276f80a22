import OpEngine

/// Writes the events of operations on stderr during the run, a line for each event.
///
/// The writer keeps no data of earlier events.
final class LogWriter: RunObserver {
    /// The level of logging. Each level includes those before it.
    enum Level: String, CaseIterable, Comparable {
        case error, warning, info, debug

        static func < (left: Level, right: Level) -> Bool { allCases.firstIndex(of: left)! < allCases.firstIndex(of: right)! }
    }

    private let level: Level
    /// An operation that was added, and the thread that has added it. Its line is not yet written, because the next record may be its name.
    private var added: (index: Int, thread: Int)?
    private var lines = ""

    init(_ level: Level) { self.level = level }

    // MARK: Operations

    func operationChanged(_ index: Int, from old: RunOperation?, in log: RunLog) {
        writeAdded(in: log)
        guard let old else {
            added = (index, log.thread)
            return
        }
        let operation = log.operations[index], label = label(of: operation, in: log)
        switch operation.phase {
        case .waiting: break
        case .ready: write(.debug, log, "\(label) is ready")
        case .running: write(.debug, log, "\(label) started")
        case .open where operation.thread == old.thread: write(.debug, log, "\(label) goes on without a thread")
        case .open:
            let worker = log.slots.all[operation.thread - RunLog.firstSlotThread].workerName
            write(.debug, log, "\(label) has run on \(worker) for \(LogWriter.seconds(operation.returned - operation.started)) s")
        case .betweenAttempts: write(.warning, log, "\(label) failed and is tried again: \(firstLine(of: old.error, in: log))")
        case .finished:
            switch operation.outcome {
            case .succeeded:
                let duration = operation.hasStarted ? " after \(LogWriter.seconds(operation.runTime)) s" : ""
                write(.debug, log, "\(label) finished\(duration)")
            case .failed: write(.error, log, "\(label) failed: \(firstLine(of: operation.error, in: log))")
            case .cancelled: write(.warning, log, "\(label) was cancelled")
            case nil: break
            }
        }
    }

    /// Writes that an operation was added, now that its name is known.
    private func writeAdded(in log: RunLog) {
        guard let (index, thread) = exchange(&added, with: nil) else { return }
        let operation = log.operations[index], queue = LogWriter.label(of: log.queues[operation.queue])
        let author = operation.creator.map { " by \(label(of: log.operations[Int($0)], in: log))" } ?? ""
        write(.debug, log, at: operation.added, on: thread, "\(label(of: operation, in: log)) was added to \(queue)\(author)")
    }

    func operationSkipped(_ index: Int, in log: RunLog) {
        writeAdded(in: log)
        write(.debug, log, "\(label(of: log.operations[index], in: log)) is skipped, because its work is done")
    }

    func operationCancelled(_ index: Int, in log: RunLog) {
        writeAdded(in: log)
        write(.debug, log, "\(label(of: log.operations[index], in: log)) is told to cancel")
    }

    private func label(of operation: RunOperation, in log: RunLog) -> String {
        if let name = operation.name { return "'\(log.texts[name].text)'" }
        return operation.place.map { "an operation <\(log.texts[$0].text)>" } ?? "an operation"
    }

    private func firstLine(of error: Int32?, in log: RunLog) -> Substring {
        error.flatMap { log.errors[$0].text.split(separator: "\n", maxSplits: 1).first } ?? "without an error"
    }

    // MARK: Queues and programs

    func queueChanged(_ index: Int, from old: RunLog.Queue, in log: RunLog) {
        writeAdded(in: log)
        let queue = log.queues[index], label = LogWriter.label(of: queue)
        if old.maximum != queue.maximum {
            write(.info, log, "\(label) \(queue.maximum.map { "runs at most \($0) at once" } ?? "has no maximum")")
        }
        if old.isSuspended != queue.isSuspended { write(.info, log, "\(label) was \(queue.isSuspended ? "suspended" : "resumed")") }
    }

    private static func label(of queue: RunLog.Queue) -> String {
        queue.givenName.map { "\(queue.isGroup ? "group" : "queue") '\($0)'" } ?? queue.name.text
    }

    func programStarted(_ number: Int, by operation: Int?, in log: RunLog) {
        writeAdded(in: log)
        let author = operation.map { " by \(label(of: log.operations[$0], in: log))" } ?? ""
        write(.info, log, "program '\(log.programs[number]?.name.text ?? "")' was started\(author)")
    }

    func programEnded(_ number: Int, _ detail: String, in log: RunLog) {
        writeAdded(in: log)
        write(.info, log, "program '\(log.programs[number]?.name.text ?? "")' ended: \(detail)")
    }

    // MARK: Lines

    private func write(_ level: Level, _ log: RunLog, _ text: @autoclosure () -> String) {
        write(level, log, at: log.end, on: log.thread, text())
    }

    private func write(_ level: Level, _ log: RunLog, at time: UInt64, on thread: Int, _ text: @autoclosure () -> String) {
        guard level <= self.level else { return }
        let seconds = LogWriter.seconds(time), thread = log.threads.indices.contains(thread) ? log.threads[thread].name : "thread"
        lines += "[\(String(repeating: " ", count: max(0, 12 - seconds.utf8.count)))\(seconds)] \(thread): "
        // A name may have any character, and control characters could change the terminal.
        lines.unicodeScalars.append(contentsOf: text().unicodeScalars.map { $0.properties.generalCategory == .control ? "?" : $0 })
        lines += "\n"
    }

    private static func seconds(_ nanoseconds: UInt64) -> String { String(seconds: nanoseconds, decimals: 6) }

    /// Writes the lines so far.
    func flush(_ log: RunLog) {
        writeAdded(in: log)
        if lines.isEmpty { return }
        Message.write(lines)
        lines = ""
    }
}
