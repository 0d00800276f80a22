import Glibc
import OpPlatform
import TestSupport

/// A program that runs beside the tests until one of them ends it. It does not outlive this object, or the process of the tests.
final class Daemon: Sendable {
    private struct State {
        var lines: [String] = []
        var isOver = false
        var waiters: [(text: String, isFound: Awaited<Bool>)] = []
        var hasEnded = false
    }

    let identifier: pid_t
    private let child: ChildProcess
    private let state = Locked(State())

    /// Starts a program. If there is a text, waits until the program writes it to stdout or stderr.
    init(_ command: Command, readyWhen text: String?) throws {
        let nothing = try ScratchFile(holding: Array(command.input.utf8)), output = try ChildProcess.makePipe()
        child = try command.start(streams: [nothing.descriptor, output.write, output.write])
        close(output.write)
        identifier = child.identifier
        ProcessGuard.watch(identifier)
        TestSupport.startThread { [state, descriptor = output.read] in Self.read(descriptor, into: state) }
        if let text { try wait(for: text) }
    }

    deinit { kill() }

    private static func read(_ descriptor: Int32, into state: Locked<State>) {
        let reader = LineReader(descriptor)
        while let line = try? reader.line(within: nil) {
            let found = state.withLock { state in
                state.lines.append(line)
                defer { state.waiters.removeAll { line.contains($0.text) } }
                return state.waiters.filter { line.contains($0.text) }
            }
            for waiter in found { waiter.isFound.give(true) }
        }
        let disappointed = state.withLock { state in
            state.isOver = true
            return exchange(&state.waiters, with: [])
        }
        for waiter in disappointed { waiter.isFound.give(false) }
    }

    /// The lines that the program has written.
    var lines: [String] { state.withLock { $0.lines } }

    /// Waits until the program has written a line with a text.
    func wait(for text: String) throws {
        let isFound = Awaited<Bool>()
        state.withLock { state in
            if state.lines.contains(where: { $0.contains(text) }) {
                isFound.give(true)
            } else if state.isOver {
                isFound.give(false)
            } else {
                state.waiters.append((text, isFound))
            }
        }
        if !isFound.get() { throw CommandError(description: "'\(text)' was not written, but: \(lines.suffix(20))") }
    }

    /// Waits for the end, at most so many seconds. Returns whether the program has ended.
    func hasEnded(within seconds: Double) -> Bool { child.hasEnded(within: seconds) }

    func send(_ signal: Int32) { if !state.withLock({ $0.hasEnded }) { Glibc.kill(identifier, signal) } }

    /// Waits for the end, and returns the status. Nil if the program had to be killed after so many seconds, or in a second call.
    func wait(seconds: Int) throws -> Int32? {
        if state.withLock({ exchange(&$0.hasEnded, with: true) }) { return nil }
        defer { ProcessGuard.forget(identifier) }
        return try child.wait(seconds: seconds)
    }

    /// Ends the program at once, as a machine that fails does.
    func kill() {
        send(SIGKILL)
        _ = try? wait(seconds: 0)
    }
}
