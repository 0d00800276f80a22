import CHTTP
import Glibc
import LuaBindings
import Synchronization

/// Serves the page about a run while it goes on, and metrics. Its thread sleeps unless somebody asks.
///
/// The recorder's thread passes on a part of its log when a client waits for it, once a second for those that have the page open. Everything
/// else happens on the server's thread, which waits for no client.
@safe final class StatusServer: @unchecked Sendable {
    // Safety: `@unchecked Sendable` because only the server's thread uses `metrics` and `sends`, and `server` apart from waking it. `start` sets
    // `server` and `run` before the thread starts. The rest is constant or atomic.

    /// What the thread needs to know of the run.
    struct Run {
        let workerCount: Int
        let monitor: RunMonitor
    }

    /// A part of the recorder's log, which nobody else refers to.
    private struct Part: @unchecked Sendable {
        // Safety: it is made for the server's thread.
        let log: RunLog
        /// Whether the run has ended.
        let isLast: Bool
    }

    private static let interval = Duration.seconds(1)
    /// How long the end of the command waits for open pages to get the end of the run.
    private static let lastMilliseconds: Int32 = 100

    private let address: StatusAddress
    private let listener: Int32
    private let token = [UInt64.random(in: 0 ... .max), .random(in: 0 ... .max)].map { hexadecimal($0) }.joined()
    private var server: OpaquePointer?
    private var run: Run?
    private let ended: Pipe
    private let isAsked = Atomic<Bool>(false)
    private let part = Mutex<Part?>(nil)
    /// The metrics of the latest part.
    private var metrics: [UInt8] = []

    /// Begins to listen.
    ///
    /// - Throws: an error that names the address and the reason.
    init(_ address: StatusAddress) throws(RecordingError) {
        self.address = address
        guard let ended = Pipe() else { throw RecordingError(message: "--status: \(unsafe String(cString: strerror(errno)))") }
        self.ended = ended
        listener = unsafe ch_listen(address.host, Int32(address.port))
        if listener < 0 {
            let reason = unsafe String(cString: strerror(-listener))
            throw RecordingError(message: "--status: cannot listen at \(address.host), port \(address.port): \(reason)")
        }
    }

    /// Begins to serve, and says where. Returns false if the system refuses.
    func start(_ run: Run) -> Bool {
        self.run = run
        // Safety: the callback gets this object only from `ch_run`, which only a method of this object calls.
        let context = unsafe Unmanaged.passUnretained(self).toOpaque()
        unsafe server = ch_start(
            listener,
            { context, request in
                guard let context = unsafe context, let request = unsafe request else { return }
                unsafe Unmanaged<StatusServer>.fromOpaque(context)._withUnsafeGuaranteedRef { unsafe $0.answer(request) }
            }, context)
        guard unsafe server != nil else { return false }
        guard CommandThread.start({ [self] in serve() }) else {
            unsafe ch_stop(server, 0)
            unsafe ch_free(server)
            unsafe server = nil
            return false
        }
        let port = Int(ch_port(listener))
        if !address.isLoopback {
            Message.write(
                "opscript: --status: other machines can reach \(address.host); the token keeps them out, but travels unencrypted\n")
        }
        Message.write("status: \(StatusAddress.url(host: address.host, port: port, token: token))\n")
        return true
    }

    // MARK: on the recorder's thread

    /// Passes on the present state of the log if a client waits for it.
    func offer(_ log: RunLog) {
        if isAsked.load(ordering: .relaxed) { pass(log, isLast: false) }
    }

    /// Passes on the last state of the log and ends the server. Call once, after the recorder has stopped.
    func finish(_ log: RunLog) {
        guard unsafe server != nil else { return }
        pass(log, isLast: true)
        if ended.isClosed(within: 2000) { unsafe ch_free(server) }
    }

    private func pass(_ log: RunLog, isLast: Bool) {
        isAsked.store(false, ordering: .relaxed)
        let latest = Part(log: log.latest(at: Recording.now), isLast: isLast)
        part.withLock { $0 = latest }
        unsafe ch_wake(server)
    }

    // MARK: on the server's thread

    private func serve() {
        defer { ended.closeWriting() }
        guard let server = unsafe server else { return }
        // The run has priority. On Linux this concerns the calling thread only.
        setpriority(__priority_which_t(PRIO_PROCESS.rawValue), 0, 10)
        var next = ContinuousClock.now
        var isOver = false
        while !isOver {
            let demand = unsafe ch_current_demand(server)
            let now = ContinuousClock.now
            if demand.is_urgent || (demand.streams > 0 && now >= next) { isAsked.store(true, ordering: .relaxed) }
            // Once asked, the recorder's thread ends the waiting.
            let isWaiting = isAsked.load(ordering: .relaxed) || demand.streams == 0
            unsafe ch_run(server, isWaiting ? -1 : Int32((next - now) / .milliseconds(1)) + 1)
            guard let part = takePart() else { continue }
            unsafe publish(part, to: server)
            next = .now + StatusServer.interval
            isOver = part.isLast
        }
        unsafe ch_stop(server, StatusServer.lastMilliseconds)
    }

    /// The part that the recorder's thread has passed on, if it has.
    private func takePart() -> Part? {
        part.withLock { part in
            defer { part = nil }
            return part
        }
    }

    /// Sends a part to those who wait for it.
    private func publish(_ part: Part, to server: OpaquePointer) {
        guard let run else { return }
        let log = part.log
        let pages = unsafe Int(ch_current_demand(server).streams)
        metrics = Array(Metrics(log: log, workers: run.monitor.workers(), pages: pages).text.utf8)
        unsafe ch_resume(server)
        if pages == 0 { return }
        log.finish()
        let event = OutputFile()
        event.append("data: ")
        RunData(log: log, workerCount: run.workerCount, file: event).write()
        event.append("\n\n")
        if part.isLast { event.append("event: end\ndata: end\n\n") }
        event.flush()
        unsafe event.bytes.withUnsafeBytes { unsafe ch_publish(server, $0.baseAddress, $0.count) }
    }

    private func answer(_ request: OpaquePointer) {
        guard let host = unsafe text(ch_header(request, "Host")), StatusAddress.isHarmless(hostHeader: host) else {
            return unsafe reply(request, 403, "The header Host must be an IP address or localhost.\n")
        }
        guard unsafe text(ch_method(request)) == "GET" else { return unsafe reply(request, 405, "This is read only: GET.\n") }
        guard let given = unsafe text(ch_argument(request, "token")), isToken(given) else {
            return unsafe reply(request, 403, "The token of the address that the command has printed is missing or wrong.\n")
        }
        switch unsafe text(ch_path(request)) {
        case "/":
            let page = OutputFile()
            ReportPage.writeLive(to: page)
            page.flush()
            unsafe reply(request, 200, page.bytes, type: "text/html; charset=utf-8")
        case "/events": unsafe ch_stream(request)
        case "/metrics":
            guard unsafe ch_has_waited(request) else { return unsafe ch_wait(request) }
            unsafe reply(request, 200, metrics, type: "text/plain; version=0.0.4; charset=utf-8")
        default: unsafe reply(request, 404, "There are /, /events and /metrics.\n")
        }
    }

    private func reply(_ request: OpaquePointer, _ status: UInt32, _ text: String) {
        unsafe reply(request, status, Array(text.utf8), type: "text/plain; charset=utf-8")
    }

    private func reply(_ request: OpaquePointer, _ status: UInt32, _ bytes: [UInt8], type: String) {
        unsafe bytes.withUnsafeBytes { unsafe ch_reply(request, status, type, $0.baseAddress, $0.count) }
    }

    private func text(_ text: UnsafePointer<CChar>?) -> String? { unsafe text.map { unsafe String(cString: $0) } }

    /// Compares in a time that does not tell how much is right.
    private func isToken(_ given: String) -> Bool {
        guard given.utf8.count == token.utf8.count else { return false }
        return zip(given.utf8, token.utf8).reduce(0) { $0 | ($1.0 ^ $1.1) } == 0
    }

    private static func hexadecimal(_ number: UInt64) -> String {
        let digits = String(number, radix: 16)
        return String(repeating: "0", count: 16 - digits.count) + digits
    }
}
