import CTerminal
import Glibc
import LuaBindings
import Reports

/// The prompt on a terminal. While it waits for a key, callbacks and operations of the main queue run. All output appears above the line
/// that is being typed.
final class LivePrompt: LinePrompt {
    private let runtime: Runtime
    private let text: PromptText
    private let editor: LineEditor
    private var hasAskedBeforeLeaving = false
    /// The lines that were evaluated. Lua numbers lines in the order of typing, so an error in a function of an earlier line shows that line.
    private var typed: [Substring] = []

    static var greeting: String {
        let lua = Runtime.luaCopyright.split(separator: " ").prefix(2).joined(separator: " ")
        return "opscript \(Runtime.version) with \(lua); :help shows the commands"
    }

    /// Nil if standard input or output is no capable terminal, or if the line editor cannot start. The terminal is unchanged then. The
    /// runtime's console must be open.
    init?(_ runtime: Runtime) {
        self.runtime = runtime
        text = PromptText(runtime: runtime)
        guard let editor = LineEditor(descriptor: runtime.wakeDescriptor) else { return nil }
        self.editor = editor
        Runtime.beforeDeath { ct_relay_abandon() }
    }

    /// Runs until the user leaves, or until a signal or `os.exit` ends it.
    func run() throws(LuaError) {
        defer { editor.end() }
        while true {
            switch try read("_PROMPT", default: "> ") {
            case .line(let line):
                hasAskedBeforeLeaving = false
                if try perform(line) || runtime.isForked { return }
            case .interrupted: Message.output("")
            case .end: if mayLeave() { return }
            case .left: return
            }
        }
    }

    private func read(_ variable: String, default text: String) throws(LuaError) -> LineEditor.Input {
        tellFailures()
        let prompt = self.text(variable, default: text)
        try runtime.catchInterrupts()
        if runtime.requestedExitStatus != nil { return .left }
        return editor.read(prompt, for: self)
    }

    /// Runs a line or a command. Returns whether to leave.
    private func perform(_ line: String) throws(LuaError) -> Bool {
        if line.hasPrefix(":"), !line.hasPrefix("::") {
            guard let command = PromptCommand(line) else {
                Message.write(PromptCommand.unknown(line))
                return false
            }
            if case .quit = command {
                runtime.interruptAllOperations()
                return true
            }
            try command.perform(in: runtime) { self.evaluate($0) }
        } else {
            var source = line.asFirstLine
            while evaluate(source, mayContinue: true) {
                guard case .line(let more) = try read("_PROMPT2", default: ">> ") else { break }
                source += "\n\(more)"
            }
        }
        if !runtime.isForked { try runtime.drain() }
        return false
    }

    /// Runs `source`. Returns whether it is incomplete.
    @discardableResult
    private func evaluate(_ source: String, mayContinue: Bool = false) -> Bool {
        let lines = typed + source.split(separator: "\n", omittingEmptySubsequences: false)
        do throws(LuaError) {
            try runtime.catchInterrupts()
            try runtime.runLine(String(repeating: "\n", count: typed.count) + source)
            typed = lines
        } catch {
            if error.isIncomplete, mayContinue { return true }
            typed = lines
            // The terminal has shown ^C in the same row.
            if !runtime.isForked, runtime.lastInterrupt != nil { Message.write("\n") }
            if runtime.requestedExitStatus == nil { Message.write(ErrorReport(error, source: lines.joined(separator: "\n")).text) }
        }
        return false
    }

    /// Says which operations have failed without code that has read their errors. Those that were interrupted on request are no news.
    private func tellFailures() {
        let failures = runtime.takeUnreadFailures().filter { $0.kind != .interrupted }
        for group in FailureGroup.all(of: failures) { Message.write(group.report(prefix: "")) }
    }

    /// Whether Ctrl-D leaves the prompt. The first Ctrl-D does not if operations are unfinished.
    private func mayLeave() -> Bool {
        let count = runtime.unfinishedOperationCount
        if count == 0 || hasAskedBeforeLeaving { return true }
        hasAskedBeforeLeaving = true
        let subject = count == 1 ? "1 operation has" : "\(count) operations have"
        Message.write("\(subject) not finished: Ctrl-D again waits for that, :quit stops everything, :ops shows them\n")
        return false
    }

    // MARK: while the prompt waits for a key

    func wake() -> Int32 {
        _ = try? runtime.drain()
        tellFailures()
        ct_flush()
        if runtime.requestedExitStatus != nil { return Int32(CT_LEAVE) }
        guard let signal = runtime.lastInterrupt else { return Int32(CT_GO_ON) }
        if signal != SIGINT { return Int32(CT_LEAVE) }
        try? runtime.catchInterrupts()
        return Int32(CT_CLEAR_LINE)
    }

    func completion(of line: String) -> Completion {
        line.hasPrefix(":") ? PromptCommand.completion(of: line, in: runtime) : Completion(of: line, in: runtime)
    }
}
