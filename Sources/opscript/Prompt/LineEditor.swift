import CTerminal
import Glibc
import Reports

/// The calls that a line editor makes while it waits for a key.
protocol LinePrompt: AnyObject {
    /// Runs the callbacks that have arrived, also after a signal. Returns `CT_GO_ON`, `CT_CLEAR_LINE` or `CT_LEAVE`.
    func wake() -> Int32
    /// Completes the text before the cursor.
    func completion(of line: String) -> Completion
}

/// Reads lines on a terminal, with editing, history and completion. While it waits for a key, the output of the process appears above the
/// line that is being typed. A process has one at a time.
final class LineEditor {
    /// The action of the user.
    enum Input {
        case line(String)
        case interrupted, end
        /// `wake` has returned `CT_LEAVE`.
        case left
    }

    private var history = History()
    /// The prompt that the present call of `read` calls.
    private var prompt: (any LinePrompt)?

    /// Nil if standard input or output is no capable terminal, or if the editor cannot start. The terminal is unchanged then.
    ///
    /// - Parameter descriptor: becomes readable when a prompt has work to do while it waits for a key.
    init?(descriptor: Int32) {
        guard isatty(STDIN_FILENO) != 0, isatty(STDOUT_FILENO) != 0, Environment.hasCapableTerminal, ct_relay_begin(STDOUT_FILENO) else {
            return nil
        }
        let host = unsafe ct_prompt_host(
            context: Unmanaged.passUnretained(self).toOpaque(), descriptor: descriptor,
            wake: { unsafe LineEditor.of($0).prompt?.wake() ?? Int32(CT_GO_ON) },
            complete: { context, line in
                if let line = unsafe line { unsafe LineEditor.of(context).showCompletion(of: String(cString: line)) }
            })
        guard unsafe withUnsafePointer(to: host, { unsafe ct_prompt_begin($0) }) else {
            ct_relay_end()
            return nil
        }
        for line in history.lines() { unsafe ct_prompt_remember(line) }
    }

    /// Gives the terminal back.
    func end() {
        ct_prompt_end_all()
        ct_relay_end()
    }

    /// Reads a line, after `text`, and adds it to the history.
    func read(_ text: String, for prompt: any LinePrompt) -> Input {
        self.prompt = prompt
        defer { self.prompt = nil }
        var line: UnsafePointer<CChar>?
        switch unsafe ct_prompt_read(text, &line) {
        case CT_LINE:
            let text = unsafe line.map { unsafe String(cString: $0) } ?? ""
            if history.add(text) { unsafe ct_prompt_remember(text) }
            return .line(text)
        case CT_INTERRUPTED: return .interrupted
        case CT_LEFT: return .left
        default: return .end
        }
    }

    private static func of(_ context: UnsafeMutableRawPointer?) -> LineEditor {
        guard let context = unsafe context else { fatalError("opscript bug: a line editor without its context") }
        // Safety: `read` is executing on this object.
        return unsafe Unmanaged<LineEditor>.fromOpaque(context).takeUnretainedValue()
    }

    private func showCompletion(of line: String) {
        guard let completion = prompt?.completion(of: line) else { return }
        unsafe ct_prompt_complete(completion.insertion, completion.columns(width: Int(ct_columns(STDOUT_FILENO))))
    }
}
