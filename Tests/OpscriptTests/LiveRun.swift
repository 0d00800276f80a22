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

/// The data that an open page gets.
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
