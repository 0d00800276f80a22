import Glibc
import LuaBindings

/// A line at the prompt that begins with a colon.
enum PromptCommand {
    case help, operations, queues, quit
    case time(String)
    case load(String)

    private static let names = [
        (":help", "", "shows this"),
        (":ops", "", "the operations that have not finished, and why those wait that do"),
        (":queues", "", "the queues that have operations"),
        (":time", " EXPR", "evaluates an expression and says how long that took"),
        (":load", " FILE", "runs a file"),
        (":quit", "", "cancels all operations and leaves; Ctrl-D leaves and lets them finish"),
    ]

    /// Nil if there is no such command.
    init?(_ line: String) {
        let parts = line.split(separator: " ", maxSplits: 1).map(String.init)
        let rest = parts.count > 1 ? String(parts[1].drop(while: { $0 == " " })) : ""
        switch parts.first {
        case ":help": self = .help
        case ":ops": self = .operations
        case ":queues": self = .queues
        case ":quit": self = .quit
        case ":time" where !rest.isEmpty: self = .time(rest)
        case ":load" where !rest.isEmpty: self = .load(rest)
        default: return nil
        }
    }

    /// The reply to an unknown command.
    static func unknown(_ line: String) -> String {
        let word = String(line.prefix { $0 != " " })
        if let (name, argument, _) = names.first(where: { $0.0 == word }) { return "\(name) needs its argument:\(argument)\n" }
        return "there is no command '\(word)'; there are " + names.map { $0.0 + $0.1 }.joined(separator: ", ") + "\n"
    }

    /// Completes the name of a command, or its argument: an expression or a file name.
    static func completion(of line: String, in runtime: Runtime) -> Completion {
        if line.hasPrefix(":load ") { return Completion(of: "\"" + line.dropFirst(6), in: runtime) }
        if line.hasPrefix(":time ") { return Completion(of: String(line.dropFirst(6)), in: runtime) }
        return Completion(fragment: line, names.map { $0.0 + ($0.1.isEmpty ? "" : " ") }.filter { $0.hasPrefix(line) })
    }

    func perform(in runtime: Runtime, evaluate: (String) -> Void) throws(LuaError) {
        switch self {
        case .help:
            let lines = Self.names.map { name, argument, meaning in
                "  \(name)\(argument)".padded(to: 16) + meaning
            }
            Message.output((lines + ["Tab completes, Ctrl-R searches the history, Ctrl-C stops what runs."]).joined(separator: "\n") + "\n")
        case .operations: Self.show(runtime.describeOperations(limit: 50), orElse: "no operation is unfinished")
        case .queues: Self.show(runtime.describeQueues(), orElse: "no queue has operations")
        case .time(let expression):
            let start = ContinuousClock.now
            evaluate(expression)
            let taken = ContinuousClock.now - start
            let microseconds = taken.components.seconds * 1_000_000 + taken.components.attoseconds / 1_000_000_000_000
            Message.output("\(Self.seconds(microseconds)) s\n")
        case .load(let file):
            do throws(LuaError) {
                try runtime.catchInterrupts()
                try runtime.run(file: file)
            } catch { if runtime.requestedExitStatus == nil { Message.write(ErrorReport(error, source: "").text) } }
        case .quit: break
        }
    }

    private static func seconds(_ microseconds: Int64) -> String {
        let digits = String(microseconds % 1_000_000)
        return "\(microseconds / 1_000_000)." + String(repeating: "0", count: 6 - digits.count) + digits
    }

    private static func show(_ lines: [String], orElse text: String) {
        Message.output((lines.isEmpty ? [text] : lines).joined(separator: "\n") + "\n")
    }
}

extension String {
    /// The text, padded with at least one space to `count` characters.
    fileprivate func padded(to count: Int) -> String { self + String(repeating: " ", count: max(1, count - self.count)) }
}
