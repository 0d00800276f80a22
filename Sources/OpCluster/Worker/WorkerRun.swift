import OpPlatform

/// A run at a worker: whether its coordinator lives, and the reports that the coordinator has not confirmed.
final class WorkerRun: Sendable {
    typealias Entry = (task: WorkerTask, entry: Report.Entry)

    struct State {
        enum Life { case unknown, alive, over }

        var life = Life.unknown
        var wasAlive = false
        /// Called when it is known whether the coordinator lives.
        var waiters: [@Sendable (Bool) -> Void] = []
        var lastHeard: Double
        var lastBeat: UInt64 = 0
        /// The entries that were not reported yet.
        var entries: [Entry] = []
        /// The reports that are not confirmed, by sequence number, the oldest first.
        var unconfirmed: [Unconfirmed] = []
        var lastSequence: UInt64 = 0
        var willResend = false
        /// The number of bytes of the output in `entries`.
        var outputCount = 0
        /// The bodies that wait until there is room for more output.
        var writers: [Awaited<Void>] = []
        /// Blobs of outcomes that the coordinator does not have yet.
        var blobs: [WorkerTask.Identity: [Blob]] = [:]
    }

    struct Unconfirmed {
        var report: Report
        /// The tasks that the report names as taken, and those with an outcome in it.
        let taken: [WorkerTask], ended: [WorkerTask]
        let firstSentAt: Double
        var sentAt: Double
    }

    let name: String
    /// Grows with each run of the worker, so each run has a session of its own.
    let session: UInt64
    private let worker: ClusterWorker
    private let state: Guarded<State>
    /// Held while a report is made and sent: the coordinator accepts reports only in their order.
    private let sending = Guarded(())

    private static let secondsPerTry = 1.0
    /// Bytes of output that are kept for a coordinator that is slower than the bodies. A body that writes more waits.
    private static let mostOutput = 16 << 20

    init(_ name: String, session: UInt64, worker: ClusterWorker) {
        (self.name, self.session, self.worker) = (name, session, worker)
        state = Guarded(State(lastHeard: worker.now))
    }

    /// Whether the coordinator has answered, so that tasks may have begun. Stays true when the run is over.
    var wasAlive: Bool { state.withLock { $0.wasAlive } }

    /// Whether the coordinator has said nothing for so long, or has not confirmed a report for twice as long.
    func isSilent(for seconds: Double) -> Bool {
        let now = worker.now
        return state.withLock { state in
            state.life == .alive
                && (now - state.lastHeard > seconds || state.unconfirmed.first.map { now - $0.firstSentAt > 2 * seconds } ?? false)
        }
    }

    /// Whether the coordinator has confirmed all reports and released all blobs.
    var isQuiet: Bool { state.withLock { $0.entries.isEmpty && $0.unconfirmed.isEmpty && $0.blobs.isEmpty } }

    /// Whether the run is over here.
    var isOver: Bool { state.withLock { $0.life == .over } }

    // MARK: the coordinator

    /// Calls `body` when it is known whether the coordinator lives. A job in the stream may be older than the coordinator's death.
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
        worker.exchange.request(.greet(run: name), to: Subject.run(name), every: 1, tries: 5) { [self] reply in
            guard case .message(.done) = reply else { return worker.endRun(self, isOver: false) }
            worker.markAlive(name)
            markAlive()
        }
    }

    private func markAlive() {
        let waiters = state.withLock { state -> [@Sendable (Bool) -> Void] in
            if state.life == .over { return [] }
            (state.life, state.wasAlive) = (.alive, true)
            state.lastHeard = worker.now
            return exchange(&state.waiters, with: [])
        }
        for waiter in waiters { waiter(true) }
    }

    /// Records a beat of the coordinator. Returns false for an old beat.
    func recordBeat(_ count: UInt64) -> Bool {
        state.withLock { state in
            guard count > state.lastBeat else { return false }
            state.lastBeat = count
            state.lastHeard = worker.now
            return true
        }
    }

    func close() {
        let (waiters, writers) = state.withLock { state in
            // The lists are emptied under the same lock. Otherwise, this object and a later task would keep each other alive.
            state.life = .over
            (state.entries, state.unconfirmed, state.blobs, state.outputCount) = ([], [], [:], 0)
            return (exchange(&state.waiters, with: []), state.dequeueWriters())
        }
        for waiter in waiters { waiter(false) }
        for writer in writers { writer.give(()) }
    }

    // MARK: reports

    func report(_ task: WorkerTask, _ entry: Report.Entry) {
        state.withLock { state in
            guard state.life != .over else { return }
            switch entry {
            case .outcome(let payload, _, _):
                if !payload.contents.isEmpty { state.blobs[task.identity] = payload.contents }
            case .output(_, let bytes): state.outputCount += bytes.count
            case .taken, .declined: break
            }
            state.entries.append((task, entry))
        }
        send()
    }

    /// Waits, on the thread of a body, until there is room for more output.
    func awaitRoomForOutput() {
        let room = state.withLock { state -> Awaited<Void>? in
            guard state.outputCount > Self.mostOutput, state.life != .over else { return nil }
            let room = Awaited<Void>()
            state.writers.append(room)
            return room
        }
        room?.get()
    }

    /// Sends the next report, unless too many are unconfirmed.
    private func send() {
        let isSent = sending.withLock { _ in
            guard let (report, writers) = nextReport() else { return false }
            publish(report)
            for writer in writers { writer.give(()) }
            return true
        }
        if isSent { scheduleResend() }
    }

    /// The next report, and the writers that may go on then.
    private func nextReport() -> (Report, writers: [Awaited<Void>])? {
        state.withLock { state in
            guard state.hasReport else { return nil }
            state.lastSequence += 1
            let (now, entries) = (worker.now, state.dequeueEntries())
            let reported = entries.map { (number: $0.task.job.number, attempt: $0.task.job.attempt, entry: $0.entry) }
            let report = Report(
                worker: worker.id, session: session, sequence: state.lastSequence, entries: reported, sentAt: now)
            var taken: [WorkerTask] = [], ended: [WorkerTask] = []
            for (task, entry) in entries {
                switch entry {
                case .taken: taken.append(task)
                case .outcome: ended.append(task)
                case .output, .declined: break
                }
            }
            state.unconfirmed.append(Unconfirmed(report: report, taken: taken, ended: ended, firstSentAt: now, sentAt: now))
            return (report, state.outputCount <= Self.mostOutput / 2 ? state.dequeueWriters() : [])
        }
    }

    private func publish(_ report: Report) {
        worker.exchange.publish(.report(report), to: Subject.run(name))
    }

    /// The coordinator has applied a report. Earlier reports are confirmed, too, unless they name taken tasks: the coordinator may refuse those.
    func confirm(_ sequence: UInt64, refused: [TaskAttempt]) {
        let isConfirmed = { (sent: Unconfirmed) in
            sent.report.sequence == sequence || sent.report.sequence < sequence && sent.taken.isEmpty
        }
        let confirmed = state.withLock { state in
            state.lastHeard = worker.now
            defer { state.unconfirmed.removeAll(where: isConfirmed) }
            return state.unconfirmed.filter(isConfirmed)
        }
        worker.releaseEnded(confirmed.flatMap(\.ended))
        let taken = confirmed.flatMap(\.taken)
        if !taken.isEmpty {
            let refused = Set(refused)
            let isRefused = { (task: WorkerTask) in
                !refused.isEmpty && refused.contains(TaskAttempt(number: task.job.number, attempt: task.job.attempt))
            }
            worker.handleConsent(to: taken.filter { !isRefused($0) }, refused: taken.filter(isRefused))
        }
        send()
    }

    func release(_ task: WorkerTask.Identity) {
        let released = state.withLock { $0.blobs.removeValue(forKey: task) }
        withExtendedLifetime(released) {}
    }

    /// Sends all unconfirmed reports again: messages are lost with a connection.
    func resendReports() {
        sending.withLock { _ in for report in restampUnconfirmed() { publish(report) } }
    }

    private func restampUnconfirmed() -> [Report] {
        state.withLock { state in
            for index in state.unconfirmed.indices {
                state.unconfirmed[index].sentAt = worker.now
                state.unconfirmed[index].report.sentAt = worker.now
            }
            return state.unconfirmed.map(\.report)
        }
    }

    /// Plans a check for overdue reports, unless one is planned.
    private func scheduleResend() {
        let isPlanned = state.withLock { state in
            defer { state.willResend = true }
            return state.willResend
        }
        if isPlanned { return }
        worker.exchange.fabric.after(Self.secondsPerTry / 4) { [weak self] in self?.resendOverdueReports() }
    }

    private func resendOverdueReports() {
        let (isOverdue, isNeeded) = state.withLock { state in
            state.willResend = false
            let oldest = state.unconfirmed.first
            let isOverdue = oldest.map { worker.now - $0.sentAt >= Self.secondsPerTry } ?? false
            return (isOverdue, oldest != nil)
        }
        if isOverdue && worker.exchange.fabric.isConnected { resendReports() }
        if isNeeded { scheduleResend() }
    }
}

extension WorkerRun.State {
    /// While so many reports are not confirmed, new entries wait for the next one.
    private static var mostUnconfirmed: Int { 4 }

    /// Whether there is something to report now.
    var hasReport: Bool { !entries.isEmpty && unconfirmed.count < Self.mostUnconfirmed }

    /// About as many bytes as a message may have beside its largest entry.
    private static var mostBytes: Int { 128 << 10 }

    mutating func dequeueWriters() -> [Awaited<Void>] { exchange(&writers, with: []) }

    /// The entries for one message.
    mutating func dequeueEntries() -> [WorkerRun.Entry] {
        var count = 0, bytes = 0
        while count < entries.count, bytes < Self.mostBytes {
            switch entries[count].entry {
            case .output(_, let text):
                bytes += text.count
                outputCount -= min(text.count, outputCount)
            case .outcome(let payload, _, _): bytes += payload.bytes.count + payload.blobs.count * 40
            case .taken, .declined: bytes += 100
            }
            count += 1
        }
        defer { entries.removeFirst(count) }
        return Array(entries.prefix(count))
    }
}
