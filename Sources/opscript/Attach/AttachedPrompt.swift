import CTerminal
import Glibc
import Synchronization

/// `opscript attach`: a prompt in another process.
final class AttachedPrompt: LinePrompt {
    private let process: pid_t
    private let connection: AttachConnection

    /// Whether Ctrl-C was pressed. The signal handler sets it.
    private static let wasInterrupted = Atomic<Bool>(false)

    /// Attaches to a process. Without an argument, attaches to the only process that can be attached to.
    static func run(_ arguments: [String]) throws(AttachError) {
        let process = try arguments.isEmpty ? onlyProcess() : parse(arguments)
        let prompt = try AttachedPrompt(process)
        prompt.run()
    }

    private static func parse(_ arguments: [String]) throws(AttachError) -> pid_t {
        guard arguments.count == 1, let process = pid_t(arguments[0]), process > 0 else {
            throw AttachError(message: "usage: opscript attach [PID]")
        }
        return process
    }

    private static func onlyProcess() throws(AttachError) -> pid_t {
        let all = try AttachSocket.processes()
        if all.count == 1 { return all[0] }
        if all.isEmpty {
            throw AttachError(message: "no process of yours can be attached to: start it with 'opscript --attach script.lua'")
        }
        let list = all.map { "  \($0)  \(commandLine(of: $0))" }.joined(separator: "\n")
        throw AttachError(message: "several processes can be attached to, so say which:\n\(list)")
    }

    private static func commandLine(of process: pid_t) -> String {
        guard let file = unsafe fopen("/proc/\(process)/cmdline", "re") else { return "" }
        defer { unsafe fclose(file) }
        var bytes = [UInt8](repeating: 0, count: 200)
        let count = unsafe fread(&bytes, 1, bytes.count, file)
        // Each word ends with a byte 0.
        return bytes.prefix(count).split { $0 < 0x20 }.map { String(decoding: $0, as: UTF8.self) }.joined(separator: " ")
    }

    private init(_ process: pid_t) throws(AttachError) {
        self.process = process
        connection = AttachConnection(try AttachSocket.connect(to: process))
    }

    /// Runs until the user detaches or the process ends.
    private func run() {
        guard show() == .done else { return }
        let editor = LineEditor(descriptor: connection.descriptor)
        defer { editor?.end() }
        if editor != nil { catchInterrupts() }
        var source = ""
        while true {
            let prompt = source.isEmpty ? "\(process)> " : "\(process)>> "
            switch editor?.read(prompt, for: self) ?? readLine() {
            case .line(":detach"), .end: return
            case .line(let line):
                if source.isEmpty, line.isEmpty { continue }
                source = source.isEmpty ? line.asFirstLine : "\(source)\n\(line)"
                connection.send(line: AttachConnection.encode(source))
                switch show() {
                case .more: break
                case .done: source = ""
                case .left: return
                }
            case .interrupted:
                source = ""
                Message.output("")
            case .left:
                _ = show()
                return
            }
        }
    }

    /// Waits for a reply and shows it. Ctrl-C withdraws the request.
    private func show() -> AttachConnection.Kind {
        let reply = connection.readReply {
            if Self.wasInterrupted.exchange(false, ordering: .relaxed) { connection.send(line: AttachConnection.interrupt) }
        }
        Message.output(reply?.text ?? "process \(process) has ended\n")
        return reply?.kind ?? .left
    }

    /// The next line of standard input, which is no terminal.
    private func readLine() -> LineEditor.Input { Swift.readLine().map { .line($0) } ?? .end }

    private func catchInterrupts() {
        // The handler must not be the first to use the variable, because that allocates.
        Self.wasInterrupted.store(false, ordering: .relaxed)
        var action = sigaction()
        // Safety: the handler only stores to an atomic variable.
        unsafe action.__sigaction_handler.sa_handler = { _ in AttachedPrompt.wasInterrupted.store(true, ordering: .relaxed) }
        unsafe sigaction(SIGINT, &action, nil)
    }

    // MARK: while the prompt waits for a key

    func wake() -> Int32 {
        if Self.wasInterrupted.exchange(false, ordering: .relaxed) { return Int32(CT_CLEAR_LINE) }
        // The process sends only replies to requests. Any other event means that it has ended.
        return Int32(connection.hasReceived ? CT_LEAVE : CT_GO_ON)
    }

    func completion(of line: String) -> Completion { PromptCommand.completion(of: line, among: AttachServer.commands) }
}
