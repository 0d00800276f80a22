import Glibc
import LuaBindings

/// An interactive session without a line editor: reads lines, runs them and prints the values of expressions, as `lua -i` does.
struct Session {
    private let runtime: Runtime

    init(_ runtime: Runtime) { self.runtime = runtime }

    /// Runs the session until the end of the input.
    func run() throws(LuaError) {
        runtime.releaseInterrupts()
        while !runtime.isForked, let line = readLine(prompt: "_PROMPT", default: "> ") {
            var source = line.asFirstLine
            while let more = evaluate(source) { source += "\n\(more)" }
            if !runtime.isForked { try runtime.drain() }
        }
        print()
    }

    /// Runs `source`. Returns the next line if `source` is incomplete.
    private func evaluate(_ source: String) -> String? {
        do throws(LuaError) {
            try runtime.catchInterrupts()
            defer { runtime.releaseInterrupts() }
            try runtime.runLine(source, isPlain: true)
        } catch {
            if error.isIncomplete, let more = readLine(prompt: "_PROMPT2", default: ">> ") { return more }
            Message.write("\(error.report)\n")
        }
        return nil
    }

    /// A line without its newline; nil at the end of the input.
    private func readLine(prompt variable: String, default text: String) -> String? {
        Message.prompt(PromptText(runtime: runtime)(variable, default: text))
        let line = Swift.readLine()
        // A terminal shows what is typed. The line editor of `lua` shows what comes from elsewhere.
        if let line, isatty(STDIN_FILENO) == 0 { Message.prompt(line + "\n") }
        return line
    }
}
