import Glibc

/// A run with a status page. Its script prints `ready` at some time, and goes on whenever it gets a line or the end of its input.
final class LiveRun {
    let port: Int
    let token: String
    /// The address of the page.
    let url: String
    private let directory: ScratchDirectory
    private let child: RunningCommand

    /// Starts the script, and returns when it is ready.
    init(_ script: String, _ options: String...) throws {
        directory = try ScratchDirectory()
        var command = Command.opscript()
        command.arguments = ["--status", "0"] + options + [try directory.write(script, to: "run.lua")]
        child = try RunningCommand(command)
        url = String(try child.errors.line().dropFirst("status: ".count))
        guard let match = url.wholeMatch(of: /http:\/\/127\.0\.0\.1:(\d+)\/\?token=([0-9a-f]{32})/), let port = Int(match.1) else {
            throw CommandError(description: "no address of a status page: \(url)")
        }
        (self.port, token) = (port, String(match.2))
        try waitFor("ready")
    }

    private func waitFor(_ expected: String) throws {
        let line = try child.output.line()
        if line != expected { throw CommandError(description: "expected '\(expected)', found '\(line)'") }
    }

    /// Lets the script go on until it prints a line.
    func goOn(until line: String) throws {
        child.type("\n")
        try waitFor(line)
    }

    /// Lets the script go on to its end. Returns the status.
    func finish() throws -> Int32 { try child.wait() }

    private func curl(_ path: String, token: String?, _ options: [String]) -> Command {
        let query = token.map { "?token=\($0)" } ?? ""
        return Command(
            program: "curl", name: "curl",
            arguments: ["-s", "-g", "--max-time", "50"] + options + ["http://127.0.0.1:\(port)\(path)\(query)"])
    }

    /// The body of an answer.
    func get(_ path: String) throws -> String { try curl(path, token: token, []).run().text }

    /// The status of an answer.
    func status(_ path: String, _ options: String...) throws -> Int? { try status(path, token: token, options) }

    /// The status of an answer to a request with another token, or without one.
    func status(_ path: String, token: String?) throws -> Int? { try status(path, token: token, []) }

    private func status(_ path: String, token: String?, _ options: [String]) throws -> Int? {
        Int(try curl(path, token: token, options + ["-o", "/dev/null", "-w", "%{http_code}"]).run().text)
    }

    /// Opens the stream of events.
    func openEvents() throws -> EventStream { EventStream(try RunningCommand(curl("/events", token: token, ["-N"]))) }

    /// Sends bytes, and keeps the connection open without ever reading from it.
    func connect(sending request: String) throws -> RunningCommand {
        let client = try RunningCommand(
            .shell(
                "exec bash -c 'exec 3<>/dev/tcp/127.0.0.1/$1 && printf %s \"$2\" >&3 && echo sent && read' bash \"$@\"", "\(port)", request)
        )
        _ = try client.output.line()
        return client
    }

    /// Waits until a page is open.
    func waitForPage() throws {
        let end = ContinuousClock.now + .seconds(50)
        while !(try get("/metrics").contains("opscript_status_pages 1\n")) {
            if ContinuousClock.now > end { throw CommandError(description: "no page was opened") }
        }
    }
}

/// What an open page gets.
struct EventStream {
    private let client: RunningCommand

    init(_ client: RunningCommand) { self.client = client }

    /// Reads events until one contains a text.
    func event(containing text: String) throws -> String {
        while true {
            var event = ""
            while case let line = try client.output.line(), !line.isEmpty { event += (event.isEmpty ? "" : "\n") + line }
            if event.contains(text) { return event }
        }
    }
}

/// A command that runs beside the test.
final class RunningCommand {
    let output: LineReader
    let errors: LineReader
    private let input: Int32
    private let child: ChildProcess
    private var hasEnded = false

    init(_ command: Command) throws {
        let (input, output, errors) = (try ChildProcess.makePipe(), try ChildProcess.makePipe(), try ChildProcess.makePipe())
        child = try command.start(streams: [input.read, output.write, errors.write])
        for descriptor in [input.read, output.write, errors.write] { close(descriptor) }
        self.input = input.write
        (self.output, self.errors) = (LineReader(output.read), LineReader(errors.read))
    }

    deinit {
        if !hasEnded { _ = try? wait() }
    }

    /// Writes to the command's standard input.
    func type(_ text: String) {
        let bytes = Array(text.utf8)
        unsafe write(input, bytes, bytes.count)
    }

    /// Closes the command's standard input, waits for the end and returns the status. Call once.
    func wait() throws -> Int32 {
        hasEnded = true
        close(input)
        guard let status = try child.wait(seconds: 60) else { throw CommandError(description: "the command did not end") }
        return status
    }
}

/// The lines that arrive at the reading end of a pipe.
final class LineReader {
    private let descriptor: Int32
    private var bytes: [UInt8] = []
    private var next = 0

    init(_ descriptor: Int32) { self.descriptor = descriptor }

    deinit { close(descriptor) }

    /// The next line. Fails at the end, or after a minute without one.
    func line() throws -> String {
        var scanned = next
        while true {
            if let end = bytes[scanned...].firstIndex(of: UInt8(ascii: "\n")) {
                defer { next = end + 1 }
                return String(decoding: bytes[next..<end], as: UTF8.self)
            }
            scanned = bytes.count
            var event = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
            guard unsafe poll(&event, 1, 60_000) == 1 else { throw CommandError(description: "no line after a minute") }
            var chunk = [UInt8](repeating: 0, count: 65536)
            let count = unsafe read(descriptor, &chunk, chunk.count)
            guard count > 0 else {
                throw CommandError(description: "no more lines after: \(String(decoding: bytes, as: UTF8.self).suffix(500))")
            }
            bytes += chunk[..<count]
        }
    }
}
