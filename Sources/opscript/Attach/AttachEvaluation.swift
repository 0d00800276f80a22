import CTerminal
import Glibc
import LuaBindings
import OpEngine
import OpPlatform
import Reports

/// A text that an attached prompt has sent. The main state evaluates the text while it waits, between two pieces of work.
final class AttachEvaluation: Sendable {
    private enum Phase { case waiting, running, interrupted, ended }

    private let source: String
    private let connection: AttachConnection
    private let phase = Guarded(Phase.waiting)

    init(_ source: String, for connection: AttachConnection) {
        self.source = source
        self.connection = connection
    }

    /// Asks the main state to evaluate the text and then to send the reply.
    func begin(in runtime: Runtime) {
        runtime.engine.mainInbox.post { self.run(in: runtime) }
    }

    /// Withdraws the evaluation: it does not begin, or ends with the error `interrupted!`.
    func interrupt() {
        let wasWaiting = phase.withLock { phase in
            switch phase {
            case .waiting:
                phase = .ended
                return true
            case .running:
                phase = .interrupted
                // The lock is held, so the evaluation cannot end before the signal is set.
                ct_interrupt()
                return false
            case .interrupted, .ended: return false
            }
        }
        if wasWaiting { reply(.done, "given up: the main state was busy\n") }
    }

    // MARK: in the main state

    private func run(in runtime: Runtime) {
        // `catchInterrupts` would forget a signal that ends the run.
        let isEnding = runtime.lastInterrupt != nil
        let wasWaiting = phase.withLock { phase in
            guard phase == .waiting else { return false }
            phase = isEnding ? .ended : .running
            return true
        }
        guard wasWaiting else { return }
        if isEnding { return reply(.done, "the run is being interrupted\n") }
        var (kind, text) = (AttachConnection.Kind.done, "")
        do throws(LuaError) {
            try runtime.catchInterrupts()
            let values = try runtime.callConsole("evaluate", [.string(source)])
            if values.first?.text == "more" { kind = .more }
            text = values.last?.text ?? ""
        } catch {
            let printed = (try? runtime.callConsole("takeOutput", []))?.first?.text ?? ""
            text = printed + report(error)
        }
        let wasInterrupted = phase.withLock { phase in
            defer { phase = .ended }
            return phase == .interrupted
        }
        if wasInterrupted { try? runtime.catchInterrupts() }
        reply(kind, text)
    }

    /// The error without the frames of the code that the main state was waiting in.
    private func report(_ error: LuaError) -> String {
        var frames = error.traceback.split(separator: "\n").prefix { !$0.hasPrefix("\tprompt:") }
        if let last = frames.last, last.hasSuffix(" in local 'chunk'") {
            frames[frames.endIndex - 1] = last.dropLast("local 'chunk'".count) + "main chunk"
        }
        return ErrorReport(message: error.message, traceback: frames.joined(separator: "\n"), source: source).text
    }

    private func reply(_ kind: AttachConnection.Kind, _ text: String) {
        connection.send(AttachConnection.Reply(kind: kind, text: text))
    }
}
