import Synchronization

/// A run as a worker knows it: whether its coordinator is there, and what the coordinator has not confirmed.
final class WorkerRun: Sendable {
    struct Entry {
        let number, attempt: UInt64
        let entry: Report.Entry
        /// Where the stream learns that the task is done, when the coordinator has confirmed that.
        let acknowledgement: String?
    }

    struct State {
        enum Life { case unknown, alive, over }

        var life = Life.unknown
        /// Called when it is known whether the coordinator is there.
        var waiters: [@Sendable (Bool) -> Void] = []
        var lastHeard: Double
        var lastBeat: UInt64 = 0
        /// What was not reported yet.
        var entries: [Entry] = []
        /// What was reported and is not confirmed, by sequence number, the oldest first.
        var unconfirmed: [(report: Report, acknowledgements: [String], sentAt: Double)] = []
        var lastSequence: UInt64 = 0
        /// Blobs of outcomes that the coordinator does not have yet.
        var blobs: [UInt64: [Blob]] = [:]
    }

    let name: String
    private unowned let worker: ClusterWorker
    private let state: Mutex<State>
    /// Held while a report is taken and sent: the coordinator takes reports only in their order.
    private let sending = Mutex(())

    /// While so many reports are not confirmed, what comes is collected for the next.
    private static let mostUnconfirmed = 4
    private static let secondsPerTry = 1.0

    init(_ name: String, worker: ClusterWorker) {
        (self.name, self.worker) = (name, worker)
        state = Mutex(State(lastHeard: worker.now))
    }

    var lastHeard: Double { state.withLock { $0.lastHeard } }
    /// Whether everything that was said has been heard.
    var isQuiet: Bool { state.withLock { $0.entries.isEmpty && $0.unconfirmed.isEmpty && $0.blobs.isEmpty } }

    // MARK: the coordinator

    /// Calls `body` when it is known whether the coordinator is there. A job may be older than that.
    func whenAlive(_ body: @escaping @Sendable (Bool) -> Void) {
        let (known, isFirst) = state.withLock { state -> (Bool?, Bool) in
            switch state.life {
            case .alive: return (true, false)
            case .over: return (false, false)
            case .unknown:
                state.waiters.append(body)
                return (nil, state.waiters.count == 1)
            }
        }
        if let known { return body(known) }
        guard isFirst else { return }
        let nonce = UInt64.random(in: .min ... .max)
        worker.exchange.request(.greet(run: name, nonce: nonce), to: Subject.run(name), every: 1, tries: 20) { [self] reply in
            if case .message(.greeted(nonce)) = reply { become(.alive) } else { worker.endRun(name) }
        }
        reportAgainLater()
    }

    private func become(_ life: State.Life) {
        let waiters = state.withLock { state in
            state.life = life
            state.lastHeard = worker.now
            defer { state.waiters = [] }
            return state.waiters
        }
        for waiter in waiters { waiter(life == .alive) }
    }

    /// Notes that the coordinator was heard. Returns false for an old message.
    func hear(_ count: UInt64) -> Bool {
        state.withLock { state in
            guard count > state.lastBeat else { return false }
            state.lastBeat = count
            state.lastHeard = worker.now
            return true
        }
    }

    func close() {
        state.withLock { state in
            state.entries = []
            state.unconfirmed = []
            state.blobs = [:]
        }
        become(.over)
    }

    // MARK: reports

    func report(_ task: WorkerTask, _ entry: Report.Entry) {
        state.withLock { state in
            guard state.life != .over else { return }
            var acknowledgement: String?
            if case .outcome(let payload, _, _) = entry {
                acknowledgement = task.acknowledgement
                if !payload.contents.isEmpty { state.blobs[task.job.number] = payload.contents }
            }
            state.entries.append(
                Entry(number: task.job.number, attempt: task.job.attempt, entry: entry, acknowledgement: acknowledgement))
        }
        send()
    }

    /// Sends what was not reported, unless much is not confirmed.
    private func send() {
        sending.withLock { _ in
            guard let report = nextReport() else { return }
            publish(report)
        }
    }

    private func nextReport() -> Report? {
        state.withLock { state -> Report? in
            guard !state.entries.isEmpty, state.unconfirmed.count < Self.mostUnconfirmed else { return nil }
            state.lastSequence += 1
            let entries = state.takeEntries()
            let report = Report(
                worker: worker.id, sequence: state.lastSequence, entries: entries.map { ($0.number, $0.attempt, $0.entry) },
                sentAt: worker.now)
            state.unconfirmed.append((report, entries.compactMap(\.acknowledgement), worker.now))
            return report
        }
    }

    private func publish(_ report: Report) {
        worker.exchange.publish(.report(report), to: Subject.run(name), reply: "\(Subject.worker(worker.id)).\(name)")
    }

    func confirm(_ sequence: UInt64) {
        let acknowledgements = state.withLock { state -> [String] in
            state.lastHeard = worker.now
            let confirmed = state.unconfirmed.prefix { $0.report.sequence <= sequence }
            state.unconfirmed.removeFirst(confirmed.count)
            return confirmed.flatMap(\.acknowledgements)
        }
        for subject in acknowledgements { JetStream.acknowledge(worker.exchange, subject, JetStream.acknowledged) }
        send()
    }

    func release(_ numbers: [UInt64]) {
        let released = state.withLock { state in numbers.compactMap { state.blobs.removeValue(forKey: $0) } }
        withExtendedLifetime(released) {}
    }

    /// Reports everything again that is not confirmed: messages are lost with a connection.
    func reportAgain() {
        sending.withLock { _ in for report in takeUnconfirmed() { publish(report) } }
    }

    private func takeUnconfirmed() -> [Report] {
        state.withLock { state in
            for index in state.unconfirmed.indices {
                state.unconfirmed[index].sentAt = worker.now
                state.unconfirmed[index].report.sentAt = worker.now
            }
            return state.unconfirmed.map(\.report)
        }
    }

    private func reportAgainLater() {
        guard state.withLock({ $0.life != .over }), worker.state.withLock({ !$0.isClosed }) else { return }
        let isOverdue = state.withLock { state in state.unconfirmed.first.map { worker.now - $0.sentAt >= Self.secondsPerTry } ?? false }
        if isOverdue && worker.exchange.fabric.isConnected { reportAgain() }
        worker.exchange.fabric.after(Self.secondsPerTry / 4) { [weak self] in self?.reportAgainLater() }
    }
}

extension WorkerRun.State {
    /// About as many bytes as a message may have beside its largest entry.
    private static var mostBytes: Int { 128 << 10 }

    /// The entries for one message.
    mutating func takeEntries() -> [WorkerRun.Entry] {
        var count = 0, bytes = 0
        while count < entries.count, bytes < Self.mostBytes {
            switch entries[count].entry {
            case .output(_, let text): bytes += text.count
            case .outcome(let payload, _, _): bytes += payload.bytes.count
            case .taken, .declined: bytes += 100
            }
            count += 1
        }
        defer { entries.removeFirst(count) }
        return Array(entries.prefix(count))
    }
}

extension ClusterWorker {
    func report(_ task: WorkerTask, _ entry: Report.Entry) { state.withLock { $0.runs[task.job.run] }?.report(task, entry) }
}
