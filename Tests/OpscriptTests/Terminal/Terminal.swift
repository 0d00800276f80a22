import Glibc
import Testing

/// A terminal of tmux with a shell in it, as a person sees it. `$OPSCRIPT` is the command under test.
final class Terminal {
    private let socket: String
    fileprivate let directory: ScratchDirectory

    /// - Parameter home: the directory of the history and the sockets; nil for a new one.
    init(columns: Int = 80, home: ScratchDirectory? = nil, environment: [String: String] = [:]) throws {
        directory = try home ?? ScratchDirectory()
        socket = "\(try ScratchDirectory.uniqueName())"
        // The server of tmux must not keep the descriptor by which `Command` sees that all programs have ended.
        let start = Command(
            program: "/bin/sh", name: "sh",
            arguments: [
                "-c", #"exec 3>&-; exec tmux -u -L "$1" -f /dev/null new-session -d -x "$2" -y 24 bash --norc --noprofile -i"#, "sh",
                socket,
                "\(columns)",
            ],
            environment: [
                "LC_ALL": "C.UTF-8", "PS1": "$ ", "OPSCRIPT": Paths.opscript, "XDG_STATE_HOME": directory.path,
                "XDG_RUNTIME_DIR": directory.path,
                "HOME": directory.path, "TERM": "screen", "HISTFILE": "",
            ].merging(environment) { $1 })
        let outcome = try start.run()
        guard outcome.status == 0 else { throw CommandError(description: "tmux: \(outcome)") }
        try expect { $0.last == "$" }
    }

    deinit { _ = try? tmux("kill-server") }

    @discardableResult
    private func tmux(_ words: String...) throws -> Outcome {
        try Command(program: "tmux", name: "tmux", arguments: ["-u", "-L", socket] + words, environment: ["LC_ALL": "C.UTF-8"]).run()
    }

    /// Types text, with a return at the end.
    func enter(_ text: String) throws {
        try type(text)
        try press("Enter")
    }

    /// Types a line at the prompt and waits for the next prompt.
    func evaluate(_ text: String, sourceLocation: SourceLocation = #_sourceLocation) throws {
        let before = try rows
        try enter(text)
        try expect(sourceLocation: sourceLocation) { $0 != before && $0.last == ">" }
    }

    /// Types text.
    func type(_ text: String) throws { try tmux("send-keys", "-l", "--", text) }

    /// Pastes text, which the terminal marks as pasted.
    func paste(_ text: String) throws {
        try tmux("set-buffer", "--", text)
        try tmux("paste-buffer", "-p")
    }

    /// Presses keys, by tmux's names for them.
    func press(_ keys: String...) throws {
        for key in keys { try tmux("send-keys", key) }
    }

    func resize(columns: Int) throws { try tmux("resize-window", "-x", "\(columns)") }

    /// The rows that are not empty, without the spaces at their ends.
    var rows: [String] {
        get throws {
            try tmux("capture-pane", "-p").text.split(separator: "\n").map { row in
                String(row.reversed().drop { $0 == " " }.reversed())
            }
            .filter { !$0.isEmpty }
        }
    }

    /// Waits until the cursor is in this column, from 0.
    func expectCursor(column: Int, sourceLocation: SourceLocation = #_sourceLocation) throws {
        let end = ContinuousClock.now + .seconds(30)
        var found = ""
        repeat {
            found = try tmux("display-message", "-p", "#{cursor_x}").lines.first ?? ""
            if found == "\(column)" { return }
        } while ContinuousClock.now < end
        Issue.record("the cursor is in column \(found), not \(column)", sourceLocation: sourceLocation)
    }

    /// Looks until the screen is as wanted, for at most 30 seconds.
    func expect(sourceLocation: SourceLocation = #_sourceLocation, _ isWanted: ([String]) -> Bool) throws {
        let end = ContinuousClock.now + .seconds(30)
        var shown: [String] = []
        repeat {
            shown = try rows
            if isWanted(shown) { return }
        } while ContinuousClock.now < end
        Issue.record("the screen is\n\(shown.joined(separator: "\n"))", sourceLocation: sourceLocation)
        throw CommandError(description: "the screen did not become what it should")
    }

    /// Waits until the last rows are these.
    func expect(sourceLocation: SourceLocation = #_sourceLocation, last wanted: String...) throws {
        try expect(sourceLocation: sourceLocation) { $0.suffix(wanted.count) == wanted[...] }
    }

    /// Starts the prompt and waits for it.
    func startPrompt(_ arguments: String = "") throws {
        try enter("clear; \"$OPSCRIPT\" \(arguments)")
        try expect { $0.last == ">" }
    }

    /// Waits for the shell, and for the status and the modes that the terminal must have there.
    func expectShell(status: Int, sourceLocation: SourceLocation = #_sourceLocation) throws {
        try expect(sourceLocation: sourceLocation) { $0.last == "$" }
        try enter("echo \"status $?\" $(stty -a | grep -ow -e '-*echo' -e '-*icanon' -e '-*isig')")
        try expect(sourceLocation: sourceLocation, last: "status \(status) isig icanon echo", "$")
    }
}

extension ScratchDirectory {
    /// A name that no other test run uses.
    static func uniqueName() throws -> String {
        "opscript-tests-\(getpid())-\(UInt32.random(in: 0 ... .max))"
    }
}

extension Terminal {
    /// Makes an empty file in the directory of `XDG_STATE_HOME`.
    func touch(_ name: String) throws { try directory.write("", to: name) }
}
