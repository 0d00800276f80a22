import OpEngine

/// Writes what happens to operations on stderr while it happens, a line for each event.
///
/// Its memory depends on how many operations exist at the same time, not on how many there were.
final class LogWriter {
    /// What is logged: each level includes those before it.
    enum Level: String, CaseIterable, Comparable {
        case error, warning, info, debug

        static func < (left: Level, right: Level) -> Bool { allCases.firstIndex(of: left)! < allCases.firstIndex(of: right)! }
    }

    /// What is known of an operation that exists, or was the last one with its number.
    private struct Entry {
        var name: String?
        var place: String?
        var error: String?
        var started: UInt64 = 0
        var wasAdded = false
    }

    private struct Queue {
        var label: String
        var maximum: Int?
        var isSuspended = false
    }

    private let level: Level
    private let start: UInt64
    private var entries: [Entry] = []
    private var queues: [Int: Queue] = [:]
    /// The queues that are those of groups.
    private var groups: Set<Int> = []
    private var threads: [Int: String] = [:]
    private var programs: [Int: String] = [:]
    /// An operation that was added, whose name may be the next record.
    private var added: (record: OperationRecord, queue: Int, creator: Int?)?
    private var lines = ""

    /// - Parameter start: the time that lines show as 0.
    init(_ level: Level, from start: UInt64) {
        (self.level, self.start) = (level, start)
    }

    // MARK: Records

    func receive(_ record: OperationRecord) {
        if let (previous, queue, creator) = added {
            added = nil
            let isName = if case .name = record.event { record.operation == previous.operation } else { false }
            if isName { receiveOperation(record) }
            let author = creator.map { " by \(label(of: $0))" } ?? ""
            write(.debug, previous, "\(label(of: previous.operation)) was added to \(queues[queue]?.label ?? "a queue")\(author)")
            if isName { return }
        }
        switch record.event {
        case .thread(let worker, let isMain):
            threads[record.thread] = isMain ? "main" : worker.map { "worker \($0)" } ?? "thread \(record.thread)"
        case .group(let queue): groups.insert(queue)
        case .queue(let number, let name, let maximum, let isSuspended):
            let kind = groups.contains(number) ? "group" : "queue"
            receiveQueue(
                record, number,
                Queue(label: name.map { "\(kind) '\($0)'" } ?? "\(kind) \(number + 1)", maximum: maximum, isSuspended: isSuspended))
        case .activityBegan(let number, let name):
            programs[number] = name
            let author = record.operation >= 0 ? " by \(label(of: record.operation))" : ""
            write(.info, record, "program '\(name)' was started\(author)")
        case .activityEnded(let number, let detail):
            write(.info, record, "program '\(programs.removeValue(forKey: number) ?? "")' ended: \(detail)")
        default: receiveOperation(record)
        }
    }

    private func receiveQueue(_ record: OperationRecord, _ number: Int, _ queue: Queue) {
        let old = queues.updateValue(queue, forKey: number)
        if old == nil || old?.maximum != queue.maximum, let maximum = queue.maximum {
            write(.info, record, "\(queue.label) runs at most \(maximum) at once")
        } else if old != nil, old?.maximum != queue.maximum {
            write(.info, record, "\(queue.label) has no maximum")
        }
        if queue.isSuspended != (old?.isSuspended ?? false) {
            write(.info, record, "\(queue.label) was \(queue.isSuspended ? "suspended" : "resumed")")
        }
    }

    private func receiveOperation(_ record: OperationRecord) {
        let number = record.operation
        while entries.count <= number { entries.append(Entry()) }
        switch record.event {
        case .place(let place, let isFinal):
            if entries[number].wasAdded { entries[number] = Entry() }
            if isFinal || entries[number].place == nil { entries[number].place = place.isEmpty ? nil : place }
        case .added(let queue, let creator, _, _):
            entries[number] = Entry(place: entries[number].wasAdded ? nil : entries[number].place, wasAdded: true)
            added = (record, queue, creator)
        case .name(let name): entries[number].name = name.isEmpty ? nil : name
        case .error(let text): entries[number].error = text
        case .ready: write(.debug, record, "\(label(of: number)) is ready")
        case .started:
            entries[number].started = record.time
            write(.debug, record, "\(label(of: number)) started")
        case .ranElsewhere(let worker, _, let began, let ended):
            write(.debug, record, "\(label(of: number)) has run on \(worker) for \(LogWriter.seconds(ended - began)) s")
        case .attemptFailed:
            write(.warning, record, "\(label(of: number)) failed and is tried again: \(firstLine(of: entries[number].error))")
            entries[number].error = nil
        case .skipped: write(.debug, record, "\(label(of: number)) is skipped, because its work is done")
        case .returned: write(.debug, record, "\(label(of: number)) goes on without a thread")
        case .cancelled: write(.debug, record, "\(label(of: number)) is told to cancel")
        case .finished(.cancelled): write(.warning, record, "\(label(of: number)) was cancelled")
        case .finished(.failed): write(.error, record, "\(label(of: number)) failed: \(firstLine(of: entries[number].error))")
        case .finished(.succeeded): write(.debug, record, "\(label(of: number)) finished\(duration(of: number, record))")
        default: break
        }
    }

    private func label(of number: Int) -> String {
        guard entries.indices.contains(number) else { return "an operation" }
        if let name = entries[number].name { return "'\(name)'" }
        return entries[number].place.map { "an operation <\($0)>" } ?? "an operation"
    }

    private func duration(of number: Int, _ record: OperationRecord) -> String {
        let started = entries[number].started
        return started == 0 ? "" : " after \(LogWriter.seconds(record.time - min(started, record.time))) s"
    }

    private func firstLine(of error: String?) -> Substring { error?.split(separator: "\n", maxSplits: 1).first ?? "without an error" }

    // MARK: Lines

    private func write(_ level: Level, _ record: OperationRecord, _ text: String) {
        guard level <= self.level else { return }
        let time = LogWriter.seconds(record.time - min(start, record.time))
        lines += "[\(String(repeating: " ", count: max(0, 12 - time.utf8.count)))\(time)] \(threads[record.thread] ?? "thread"): "
        // A name may have anything in it, so control characters could change the terminal.
        lines.unicodeScalars.append(contentsOf: text.unicodeScalars.map { $0.properties.generalCategory == .control ? "?" : $0 })
        lines += "\n"
    }

    private static func seconds(_ nanoseconds: UInt64) -> String { String(seconds: nanoseconds, decimals: 6) }

    /// Writes the lines so far.
    func flush() {
        if lines.isEmpty { return }
        Message.write(lines)
        lines = ""
    }
}
