import Glibc
import LuaBindings
import Reports

/// A line at the prompt that begins with a colon.
enum PromptCommand {
    case help, quit
    case doc(String)
    case time(String)
    case load(String)
    case run(RunCommand)

    private static let names =
        [(":help", "", "shows this")] + RunCommand.names + [
            (":doc", " NAME", "describes a function or a field of opscript"),
            (":time", " EXPR", "evaluates an expression and says how long that took"),
            (":load", " FILE", "runs a file"),
            (":quit", "", "cancels all operations and leaves; Ctrl-D leaves and lets them finish"),
        ]

    private static let hints = """
        Tab completes, Ctrl-R searches the history, Ctrl-C stops what runs. _ is the last value.
        A local variable outside of blocks stays for the next lines, and travels with the functions that use it.

        """

    /// Nil if no command has this name.
    init?(_ line: String) {
        let parts = line.split(separator: " ", maxSplits: 1).map(String.init)
        let rest = parts.count > 1 ? String(parts[1].drop(while: { $0 == " " })) : ""
        switch parts.first {
        case ":help": self = .help
        case ":quit": self = .quit
        case ":doc" where !rest.isEmpty: self = .doc(rest)
        case ":time" where !rest.isEmpty: self = .time(rest)
        case ":load" where !rest.isEmpty: self = .load(rest)
        default:
            guard let command = RunCommand(line) else { return nil }
            self = .run(command)
        }
    }

    /// The reply to an unknown command.
    static func unknown(_ line: String) -> String {
        unknown(line, among: names)
    }

    /// The reply to a line that is none of these commands, or has the wrong arguments.
    static func unknown(_ line: String, among names: [(String, String, String)]) -> String {
        let word = String(line.prefix { $0 != " " })
        guard let (name, arguments, _) = names.first(where: { $0.0 == word }) else {
            return "there is no command '\(word)'; there are " + names.map { $0.0 + $0.1 }.joined(separator: ", ") + "\n"
        }
        return arguments.isEmpty ? "\(name) takes no argument\n" : "usage: \(name)\(arguments)\n"
    }

    /// The text of `:help`.
    static func help(of names: [(String, String, String)]) -> String {
        names.map { name, arguments, meaning in "  \(name)\(arguments)".padded(to: 20) + meaning + "\n" }.joined()
    }

    /// Completes the name of a command, or its argument: an expression or a file name.
    static func completion(of line: String, in runtime: Runtime) -> Completion {
        if line.hasPrefix(":load ") { return Completion(of: "\"" + line.dropFirst(6), in: runtime) }
        if line.hasPrefix(":doc ") || line.hasPrefix(":time ") {
            return Completion(of: String(line.drop { $0 != " " }.dropFirst()), in: runtime)
        }
        return completion(of: line, among: names)
    }

    /// Completes the name of one of these commands.
    static func completion(of line: String, among names: [(String, String, String)]) -> Completion {
        Completion(fragment: line, names.map { $0.0 + ($0.1.isEmpty ? "" : " ") }.filter { $0.hasPrefix(line) })
    }

    func perform(in runtime: Runtime, evaluate: (String) -> Void) throws(LuaError) {
        switch self {
        case .help:
            Message.output(Self.help(of: Self.names) + Self.hints)
        case .run(let command): Message.output(command.perform(on: runtime.monitor))
        case .doc(let name):
            let lines = Reference().lines(about: name) ?? ["nothing in opscript is called '\(name)'; Tab completes names"]
            Message.output(lines.joined(separator: "\n") + "\n")
        case .time(let expression):
            let start = ContinuousClock.now
            evaluate(expression)
            let taken = ContinuousClock.now - start
            Message.output("\(String(seconds: UInt64(taken / .nanoseconds(1)), decimals: 6)) s\n")
        case .load(let file):
            do throws(LuaError) {
                try runtime.catchInterrupts()
                try runtime.run(file: file)
            } catch { if runtime.requestedExitStatus == nil { Message.write(ErrorReport(error, source: "").text) } }
        case .quit: break
        }
    }
}

extension String {
    /// The text, padded with at least one space to `count` characters.
    fileprivate func padded(to count: Int) -> String { self + String(repeating: " ", count: max(1, count - self.count)) }
}
