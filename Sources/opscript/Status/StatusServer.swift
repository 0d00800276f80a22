import CHTTP
import Glibc
import LuaBindings
import OpPlatform
import Synchronization

/// Serves the page about a run during the run, and metrics. Its thread sleeps unless a client asks.
///
/// The recorder's thread passes on a part of its log when a client waits for one: once a second while a page is open. The server's thread does
/// all other work, and waits for no client.
@safe final class StatusServer: @unchecked Sendable {
    // Safety: `@unchecked Sendable` because only the server's thread uses `metrics`, and `server` apart from waking it. `start` sets `server`
    // before the thread starts, and `finish` uses it after its end. The recorder's thread reads `server` once it has seen that `isAwaited` is
    // set, which the server's thread does. The rest is constant or has locks.

    private static let interval = Duration.seconds(1)
    /// The end of the command waits at most so long until open pages have the end of the run.
    private static let lastMilliseconds: Int32 = 100

    private let address: StatusAddress
    private let listener: Int32
    private let token = [UInt64.random(in: 0 ... .max), .random(in: 0 ... .max)].map { String($0, radix: 16, digits: 16) }.joined()
    private var server: OpaquePointer?
    private let ended: Pipe
    private let isAwaited = Atomic<Bool>(false)
    /// The part of the log that the recorder's thread has passed on, and whether it is the last one.
    private let passed = Guarded<(log: RunLog, isLast: Bool)?>(nil)
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

    /// Begins to serve, and prints the address. Returns false if the system refuses.
    func start(_ monitor: RunMonitor) -> Bool {
        // Safety: the callback gets this object only from `ch_run`, which only a method of this object calls.
        let context = unsafe Unmanaged.passUnretained(self).toOpaque()
        unsafe server = ch_start(
            listener,
            { context, request in
                guard let context = unsafe context, let request = unsafe request else { return }
                unsafe Unmanaged<StatusServer>.fromOpaque(context)._withUnsafeGuaranteedRef { unsafe $0.answer(request) }
            }, context)
        guard unsafe server != nil else { return false }
        guard tryStartThread({ [self] in serve(monitor) }) else {
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

    /// Whether a client waits for a part of the log.
    var isAsked: Bool { isAwaited.load(ordering: .acquiring) }

    /// Passes on the latest part of the log. Call it once with the last part, after the recorder has stopped, and then call `finish`.
    func pass(_ part: RunLog, isLast: Bool) {
        guard unsafe server != nil else { return }
        isAwaited.store(false, ordering: .relaxed)
        passed.withLock { $0 = (part, isLast) }
        unsafe ch_wake(server)
    }

    /// Waits until the server has ended.
    func finish() {
        if unsafe server != nil, ended.isClosed(within: 2000) { unsafe ch_free(server) }
    }

    // MARK: on the server's thread

    private func serve(_ monitor: RunMonitor) {
        defer { ended.closeWriting() }
        guard let server = unsafe server else { return }
        // The run has priority. On Linux this concerns the calling thread only.
        setpriority(__priority_which_t(PRIO_PROCESS.rawValue), 0, 10)
        var next = ContinuousClock.now
        var isOver = false
        while !isOver {
            let demand = unsafe ch_current_demand(server)
            let now = ContinuousClock.now
            if demand.is_urgent || (demand.streams > 0 && now >= next) { isAwaited.store(true, ordering: .releasing) }
            // Once it is asked, the recorder's thread wakes this one.
            let isWaiting = isAsked || demand.streams == 0
            unsafe ch_run(server, isWaiting ? -1 : Int32((next - now) / .milliseconds(1)) + 1)
            let part = passed.withLock { passed in
                defer { passed = nil }
                return passed
            }
            guard let part else { continue }
            unsafe publish(part.log, isLast: part.isLast, workers: monitor.workers(), clusters: monitor.clusters(), to: server)
            next = .now + StatusServer.interval
            isOver = part.isLast
        }
        unsafe ch_stop(server, StatusServer.lastMilliseconds)
    }

    /// Sends a part to the waiting clients.
    private func publish(
        _ part: RunLog, isLast: Bool, workers: RunMonitor.Workers, clusters: RunMonitor.Clusters?, to server: OpaquePointer
    ) {
        let pages = unsafe Int(ch_current_demand(server).streams)
        metrics = Array(Metrics(log: part, workers: workers, clusters: clusters, pages: pages).text.utf8)
        unsafe ch_resume(server)
        if pages == 0 { return }
        part.finish()
        let event = OutputFile()
        event.append("data: ")
        RunData(log: part, file: event).write()
        event.append("\n\n")
        if isLast { event.append("event: end\ndata: end\n\n") }
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
}
