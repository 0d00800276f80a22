import CTerminal
import Glibc
import LuaBindings
import Reports

/// The prompt on a terminal. While it waits for a key, callbacks and operations of the main queue run. All output appears above the line
/// that is being typed.
final class LivePrompt {
    private let runtime: Runtime
    private let text: PromptText
    private var history = History()
    private var hasAskedBeforeLeaving = false

    /// Nil if standard input or output is no capable terminal, or if the line editor cannot start. The terminal is unchanged then. The
    /// runtime's console must be open.
    init?(_ runtime: Runtime) {
        self.runtime = runtime
        text = PromptText(runtime: runtime)
        guard isatty(STDIN_FILENO) != 0, isatty(STDOUT_FILENO) != 0, Environment.hasCapableTerminal, ct_relay_begin(STDOUT_FILENO) else {
            return nil
        }
        Runtime.beforeDeath { ct_relay_abandon() }
        let host = unsafe ct_prompt_host(
            context: Unmanaged.passUnretained(self).toOpaque(), descriptor: runtime.wakeDescriptor,
            wake: { unsafe LivePrompt.of($0).wake() },
            complete: { context, line in
                if let line = unsafe line { unsafe LivePrompt.of(context).complete(String(cString: line)) }
            })
        guard unsafe withUnsafePointer(to: host, { unsafe ct_prompt_begin($0) }) else {
            ct_relay_end()
            return nil
        }
        for line in history.lines() { unsafe ct_prompt_remember(line) }
    }

    private static func of(_ context: UnsafeMutableRawPointer?) -> LivePrompt {
        guard let context = unsafe context else { fatalError("opscript bug: a prompt without its host") }
        // Safety: `run` is executing on this object.
        return unsafe Unmanaged<LivePrompt>.fromOpaque(context).takeUnretainedValue()
    }

    /// Runs until the user leaves, or until a signal or `os.exit` ends it.
    func run() throws(LuaError) {
        defer {
            ct_prompt_end_all()
            ct_relay_end()
        }
        while true {
            switch try read("_PROMPT", default: "> ") {
            case .line(let line):
                hasAskedBeforeLeaving = false
                if try perform(line) { return }
            case .interrupted: Message.output("")
            case .end: if mayLeave() { return }
            case .left: return
            }
        }
    }

    private enum Input {
        case line(String)
        case interrupted, end, left
    }

    private func read(_ variable: String, default text: String) throws(LuaError) -> Input {
        let prompt = self.text(variable, default: text)
        try runtime.catchInterrupts()
        if runtime.requestedExitStatus != nil { return .left }
        var line: UnsafePointer<CChar>?
        switch unsafe ct_prompt_read(prompt, &line) {
        case CT_LINE:
            let text = unsafe line.map { unsafe String(cString: $0) } ?? ""
            if history.add(text) { unsafe ct_prompt_remember(text) }
            return .line(text)
        case CT_INTERRUPTED: return .interrupted
        case CT_LEFT: return .left
        default: return .end
        }
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
            // As in Lua 5.2, a line that starts with `=` is an expression.
            var source = line.hasPrefix("=") ? "return \(line.dropFirst())" : line
            while evaluate(source, mayContinue: true) {
                guard case .line(let more) = try read("_PROMPT2", default: ">> ") else { break }
                source += "\n\(more)"
            }
        }
        try runtime.drain()
        return false
    }

    /// Runs `source`. Returns whether it is incomplete.
    @discardableResult
    private func evaluate(_ source: String, mayContinue: Bool = false) -> Bool {
        do throws(LuaError) {
            try runtime.catchInterrupts()
            try runtime.runLine(source)
        } catch {
            if error.isIncomplete, mayContinue { return true }
            // The terminal has shown ^C in the same row.
            if runtime.lastInterrupt != nil { Message.write("\n") }
            if runtime.requestedExitStatus == nil { Message.write(ErrorReport(error, source: source).text) }
        }
        return false
    }

    /// Whether Ctrl-D leaves. It asks once if operations are left.
    private func mayLeave() -> Bool {
        let count = runtime.unfinishedOperationCount
        if count == 0 || hasAskedBeforeLeaving { return true }
        hasAskedBeforeLeaving = true
        let subject = count == 1 ? "1 operation has" : "\(count) operations have"
        Message.write("\(subject) not finished: Ctrl-D again waits for that, :quit stops everything, :ops shows them\n")
        return false
    }

    // MARK: while the prompt waits for a key

    private func wake() -> Int32 {
        _ = try? runtime.drain()
        ct_flush()
        if runtime.requestedExitStatus != nil { return Int32(CT_LEAVE) }
        guard let signal = runtime.lastInterrupt else { return Int32(CT_GO_ON) }
        if signal != SIGINT { return Int32(CT_LEAVE) }
        try? runtime.catchInterrupts()
        return Int32(CT_CLEAR_LINE)
    }

    private func complete(_ line: String) {
        let completion =
            line.hasPrefix(":") ? PromptCommand.completion(of: line, in: runtime) : Completion(of: line, in: runtime)
        unsafe ct_prompt_complete(completion.insertion, completion.columns(width: Int(ct_columns(STDOUT_FILENO))))
    }
}
