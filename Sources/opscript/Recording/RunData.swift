import OpEngine
import Reports

/// The data of a whole run, or of the latest part of a run that has not ended, as JSON for the page of `ReportPage`.
///
/// All texts of the run are in the JSON, in which `<` is escaped. The page's script puts them into text nodes only.
struct RunData {
    /// The numbers of workers for which the page has an estimate.
    private static let workerCounts = [1, 2, 4, 8, 16]

    /// A log that has been finished.
    let log: RunLog
    let file: OutputFile

    /// Writes the JSON, which has no line breaks.
    func write() {
        let operations = log.operations
        file.append("{\"title\":")
        file.append(json: log.title)
        member("workers", log.workerCount)
        member("end", log.end)
        let totals = log.totals
        column("outcomes", [totals.succeeded, totals.failed, totals.cancelled, totals.waiting, totals.executing])
        member("skippedCount", totals.skipped)
        member("busy", totals.workerTime)
        column("cluster", [log.slots.workerCount, log.slots.capacity, Int(totals.clusterTime)])
        list("texts", log.texts.all) { file.append($0) }
        let files = SourceFiles()
        list("errors", log.errors.all) { file.append(json: ErrorReport(report: $0.text, files: files).lines.joined(separator: "\n")) }
        list("queues", log.queues) { queue in
            file.append("[")
            file.append(queue.name)
            file.append(",")
            file.append(queue.maximum ?? -1)
            file.append("]")
        }
        list("threads", threads) { thread in
            file.append("[")
            file.append(thread.number)
            file.append(",")
            file.append(json: thread.name)
            file.append("]")
        }
        column("number", log.isWhole ? [] : operations.map(\.serial))
        column("name", operations.map { Int($0.name ?? -1) })
        column("line", operations.map { Int($0.place ?? -1) })
        column("error", operations.map { Int($0.error ?? -1) })
        column("queue", operations.map(\.queue))
        let groups = groups
        column("group", operations.map { groups[$0.queue] ?? -1 })
        column("thread", operations.map(\.thread))
        column("outcome", operations.map(Self.number))
        column("skipped", operations.map { $0.isSkipped ? 1 : 0 })
        column("added", operations.map(\.added))
        column("dependencies", operations.map(\.dependencyTime))
        column("suspended", operations.map(\.suspendedTime))
        column("maximum", operations.map(\.maximumTime))
        column("worker", operations.map(\.workerTime))
        column("sent", operations.map(\.clusterTime))
        column("begin", operations.map(\.begin))
        column("left", operations.map(\.leftThread))
        column("finished", operations.map(\.finished))
        column("blocked", operations.map(\.blockedTime))
        list("attempts", log.attempts) { attempt in
            file.append("[")
            for (index, number) in [Int(attempt.operation), attempt.thread, Int(attempt.started), Int(attempt.left)].enumerated() {
                if index > 0 { file.append(",") }
                file.append(number)
            }
            file.append(",")
            file.append(Int(attempt.error ?? -1))
            file.append("]")
        }
        list("path", CriticalPath.steps(of: operations, edges: log.edges)) { step in
            file.append("[")
            file.append(step.operation)
            file.append(",\"")
            file.append(verbatim: step.reason.rawValue)
            file.append("\"]")
        }
        // A part of a run cannot be replayed.
        let tasks = log.isWhole ? tasks : []
        let counts = log.isWhole ? Set(Self.workerCounts + [log.workerCount]).sorted() : []
        let maxima = log.queues.map(\.maximum)
        list("replay", counts) { count in
            file.append("[")
            file.append(count)
            file.append(",")
            file.append(Replay.duration(of: tasks, maxima: maxima, workers: count, slots: max(1, log.slots.capacity)))
            file.append("]")
        }
        file.append("}")
    }

    /// For each queue, the index of the group whose members are in it; nil if the queue has no group, or the group is not in the log.
    private var groups: [Int?] {
        var groups = [Int?](repeating: nil, count: log.queues.count)
        for (index, operation) in log.operations.enumerated() { if let members = operation.members { groups[members] = index } }
        return groups
    }

    /// The threads that ran operations, workers last, and then the slots of the workers of a cluster.
    private var threads: [(number: Int, name: String)] {
        let used = Set(log.operations.map(\.thread) + log.attempts.map(\.thread)).subtracting([-1])
        let named = used.filter { $0 < RunLog.firstSlotThread }
            .map { (number: $0, name: log.threads.indices.contains($0) ? log.threads[$0].name : "thread \($0)") }
        let slots = log.slots.all.enumerated().filter { used.contains(RunLog.firstSlotThread + $0.offset) }
            .sorted { ($0.element.worker, $0.element.number) < ($1.element.worker, $1.element.number) }
        return named.sorted { ($0.name.utf8.count, $0.name) < ($1.name.utf8.count, $1.name) }
            + slots.map { (RunLog.firstSlotThread + $0.offset, $0.element.name) }
    }

    /// The input of the replay. An operation that has not run takes no time.
    private var tasks: [Replay.Task] {
        let operations = log.operations
        var tasks = operations.map { operation in
            let creator = operation.creator.map { operations[Int($0)] }
            let isByCreator = creator.map { $0.hasStarted && $0.started <= operation.added } ?? false
            let isElsewhere = operation.thread >= RunLog.firstSlotThread
            return Replay.Task(
                workerTime: log.isWorker(operation.thread) || isElsewhere ? max(1, operation.busyTime) : 0,
                runTime: operation.runTime + operation.earlierTime,
                queue: operation.queue, added: operation.added - (isByCreator ? creator?.started ?? 0 : 0),
                creator: isByCreator ? operation.creator.map { Int($0) } : nil, isElsewhere: isElsewhere)
        }
        // The run time includes the pauses between attempts. The task needs a worker only during the attempts.
        for attempt in log.attempts where log.isWorker(attempt.thread) || attempt.thread >= RunLog.firstSlotThread {
            tasks[Int(attempt.operation)].workerTime += attempt.busyTime
        }
        // A group takes no time of its own: its members wait for its start, and its dependents wait for its members.
        let groups = groups
        var members: [Int: [Int]] = [:]
        for (index, operation) in operations.enumerated() {
            guard let group = groups[operation.queue] else { continue }
            members[group, default: []].append(index)
            tasks[index].dependencies.append(group)
        }
        for group in members.keys { tasks[group].runTime = operations[group].threadTime }
        for edge in log.edges {
            var dependencies = [Int(edge.dependency)]
            while let dependency = dependencies.popLast() {
                tasks[Int(edge.operation)].dependencies.append(dependency)
                dependencies += members[dependency] ?? []
            }
        }
        return tasks
    }

    private static func number(_ operation: RunOperation) -> Int {
        switch operation.outcome {
        case .succeeded: 0
        case .failed: 1
        case .cancelled: 2
        case nil: operation.hasStarted ? 4 : 3
        }
    }

    // MARK: JSON

    private func member(_ name: StaticString, _ value: some FixedWidthInteger) {
        key(name)
        file.append(value)
    }

    private func column(_ name: StaticString, _ values: [some FixedWidthInteger]) { list(name, values) { file.append($0) } }

    private func list<Element>(_ name: StaticString, _ elements: [Element], _ write: (Element) -> Void) {
        key(name)
        file.append("[")
        for (index, element) in elements.enumerated() {
            if index > 0 { file.append(",") }
            write(element)
        }
        file.append("]")
    }

    private func key(_ name: StaticString) {
        file.append(",\"")
        file.append(name)
        file.append("\":")
    }
}
