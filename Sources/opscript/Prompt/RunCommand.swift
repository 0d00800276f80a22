import LuaBindings
import OpEngine

/// A line with a colon that shows or changes the operations of a run. Needs no Lua state, so any thread may perform it.
enum RunCommand {
    case operations, queues
    case why(String)
    case cancel(String)
    case interrupt(String)
    case maximum(String, queue: String)
    case priority(String, operation: String)

    /// Each command with its arguments and its meaning.
    static let names = [
        (":ops", "", "the operations that have not finished, and why those wait that do"),
        (":queues", "", "the queues that have operations"),
        (":why", " NAME", "why an operation does not run"),
        (":cancel", " NAME", "cancels an operation"),
        (":interrupt", " NAME", "cancels an operation and stops its body"),
        (":maximum", " QUEUE N", "lets a queue run at most N operations at once; -1 for as many as there are workers"),
        (":priority", " NAME P", "changes an operation's priority: \(priorityNames)"),
    ]

    /// Nil if no command has this name, or if an argument is missing.
    init?(_ line: String) {
        let parts = line.split(separator: " ", maxSplits: 1).map(String.init)
        let rest = parts.count > 1 ? parts[1].trimmed : ""
        switch parts.first {
        case ":ops" where rest.isEmpty: self = .operations
        case ":queues" where rest.isEmpty: self = .queues
        case ":why" where !rest.isEmpty: self = .why(rest)
        case ":cancel" where !rest.isEmpty: self = .cancel(rest)
        case ":interrupt" where !rest.isEmpty: self = .interrupt(rest)
        case ":maximum":
            guard let (name, value) = Self.splitLast(rest) else { return nil }
            self = .maximum(value, queue: name)
        case ":priority":
            guard let (name, value) = Self.splitLast(rest) else { return nil }
            self = .priority(value, operation: name)
        default: return nil
        }
    }

    /// The last word is the value. The words before it are the name, which may have spaces.
    private static func splitLast(_ text: String) -> (name: String, value: String)? {
        guard let space = text.lastIndex(of: " ") else { return nil }
        let name = String(text[..<space]).trimmed
        return name.isEmpty ? nil : (name, String(text[text.index(after: space)...]))
    }

    /// Performs the command and returns the reply: whole lines.
    func perform(on run: RunMonitor) -> String {
        switch self {
        case .operations: return Self.lines(run.describeOperations(limit: 50), orElse: "no operation is unfinished")
        case .queues: return Self.lines(run.describeQueues(), orElse: "no queue has operations")
        case .why(let name):
            return forEachOperation(named: name, in: run) { operation in
                run.reasonNotRunning(operation).map { "it \($0)" } ?? (operation.isFinished ? "it has finished" : "it runs")
            }
        case .cancel(let name):
            return forEachOperation(named: name, in: run) { operation in
                operation.cancel()
                return "cancelled"
            }
        case .interrupt(let name):
            return forEachOperation(named: name, in: run) { operation in
                if let operation = operation as? LuaOperation { operation.interrupt() } else { operation.cancel() }
                return "interrupted"
            }
        case .priority(let text, let name):
            guard let priority = Self.priorities.first(where: { $0.name == text })?.priority else {
                return "there is no priority '\(text)': it is \(Self.priorityNames)\n"
            }
            return forEachOperation(named: name, in: run) { operation in
                operation.queuePriority = priority
                return "has the priority \(text)"
            }
        case .maximum(let text, let name):
            guard let maximum = Int(text), maximum >= -1 else {
                return "'\(text)' is no maximum: it is a number of operations, or -1 for as many as there are workers\n"
            }
            let queues = run.busyQueues().filter { ($0.name ?? "") == name }
            if queues.isEmpty { return "no queue that has operations is called '\(name)'; :queues shows them\n" }
            return queues.map { queue in
                queue.maxConcurrentOperationCount = maximum
                // The main queue keeps its own maximum.
                let now = queue.maxConcurrentOperationCount
                return "'\(name)': at most \(now < 0 ? "as many operations as workers" : "\(now)") at once\n"
            }.joined()
        }
    }

    private static let priorities: [(name: String, priority: Operation.QueuePriority)] = [
        ("veryLow", .veryLow), ("low", .low), ("normal", .normal), ("high", .high), ("veryHigh", .veryHigh),
    ]
    private static let priorityNames = priorities.dropLast().map(\.name).joined(separator: ", ") + " or " + priorities.last!.name

    /// Calls `action` for each unfinished operation of this name. Operations may share a name.
    private func forEachOperation(named name: String, in run: RunMonitor, _ action: (Operation) -> String) -> String {
        let operations = run.unfinishedOperations().filter { $0.name == name }
        if operations.isEmpty { return "no unfinished operation is called '\(name)'; :ops shows them\n" }
        return operations.map { "'\(name)': \(action($0))\n" }.joined()
    }

    private static func lines(_ lines: [String], orElse text: String) -> String {
        (lines.isEmpty ? [text] : lines).joined(separator: "\n") + "\n"
    }
}

extension String {
    /// The text without the spaces around it.
    fileprivate var trimmed: String {
        let end = lastIndex { $0 != " " }.map { index(after: $0) } ?? startIndex
        return String(self[..<end].drop { $0 == " " })
    }
}
