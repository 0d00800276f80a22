import OpPlatform

/// Messages of workers.
extension Coordinator: Exchange.Handler {
    func handle(_ message: Message, on subject: String, replyTo reply: String) {
        switch message {
        case .report(let report): handle(report)
        case .hello(let worker): handle(worker)
        case .greet(run): exchange.publish(.done, to: reply)
        case .claim(run, let number, let attempt, let worker, let session):
            let isGranted = grant(number, attempt: attempt, to: worker, session: session, asker: reply)
            exchange.publish(.claimed(isGranted), to: reply)
        case .ask(run, let question):
            events.answer(question) { [exchange] answer in exchange.publish(.answer(answer), to: reply) }
        default: break
        }
    }

    func handle(unsealed message: IncomingMessage) {}

    func handleForeign(_ difference: Exchange.Unopened, on subject: String) {
        // All clusters of a server share this subject.
        guard subject == Subject.hello else { return notice(Exchange.alteredNotice) }
        switch difference {
        case .foreign: notice("there are workers whose messages are sealed with another key than this one's (--key): they get no work")
        case .otherVersion: notice("there are workers of an opscript with other messages than this one's (\(version)): they get no work")
        case .malformed: notice("the cluster's server passes on messages that are damaged, or not opscript's: they are ignored")
        }
    }

    func connectionHasChanged(_ change: ConnectionChange) {
        // A refusal by the server is permanent: the member reports it once.
        if case .fault(let text) = change { return notice(text) }
        if case .denied(let denial) = change {
            if let text = state.withLock({ $0.start })?.deny(denial) { notice(text) }
            return
        }
        if !change.text.isEmpty { events.notice(change.text) }
    }

    // MARK: workers

    private func handle(_ worker: WorkerDescription) {
        guard worker.version == version else {
            return notice(
                "the worker \(worker.name) on \(worker.host) is opscript \(worker.version), and this is \(version): it gets no work")
        }
        let now = now
        let (isBack, changed) = state.withLock { state -> (Bool, Int?) in
            let isBack = state.recordContact(from: worker, at: now)
            return (isBack, state.countSlots())
        }
        if isBack { recount(worker.id) }
        if let changed { deliveries.add { [events] in events.slotsHaveChanged(changed) } }
    }

    /// Asks a worker that was lost for its tasks, because other workers may run them by now.
    func recount(_ worker: String) {
        exchange.request(.recount(run: run), to: Subject.worker(worker), every: 2, tries: 15) { _ in }
    }

    // MARK: reports

    fileprivate enum Step {
        case taken(Listener, WorkerDescription?)
        case output(Listener, UInt8, [UInt8], WorkerDescription?)
        case outcome(UInt64, FoundOutcome)
        case release(UInt64, FoundOutcome)
        case again(UInt64, Task, attempt: UInt64, declineCount: Int)
        case finish(UInt64, attempt: UInt64, Outcome)
    }

    private func handle(_ report: Report) {
        let now = now, reply = Subject.session(report.session, ofWorker: report.worker)
        let (steps, confirmation, dropped, isBack) = state.withLock { state -> ([Step], Confirmation, [UInt64], Bool) in
            guard !state.isClosed else { return ([], .none, [], false) }
            let isBack = state.recordContact(from: report, at: now)
            guard let dropped = state.startSession(report.session, of: report.worker) else { return ([], .none, [], isBack) }
            let last = state.peers[report.worker]?.lastReport ?? 0
            // A report that was confirmed is confirmed again. After a gap, the report is dropped: the worker sends it again, with the missing ones.
            guard report.sequence <= last + 1 else { return ([], .none, dropped, isBack) }
            var steps: [Step] = []
            if report.sequence == last + 1 {
                state.peers[report.worker]?.lastReport = report.sequence
                steps = report.entries.compactMap { state.apply($0, from: report.worker, at: now) }
            }
            return (steps, state.confirmation(of: report, isNew: report.sequence > last), dropped, isBack)
        }
        redeliver(dropped, lostBy: report.worker)
        if isBack { recount(report.worker) }
        // The worker forgets a report that is confirmed. The coordinator has applied this one above.
        switch confirmation {
        case .none: break
        case .now(let refused): exchange.publish(.confirm(report.sequence, refused: refused), to: reply)
        case .later:
            exchange.fabric.after(Self.confirmationDelay) { [weak self] in
                self?.confirmLast(of: report.worker, session: report.session)
            }
        }
        for step in steps { perform(step, report.worker) }
    }

    /// When to confirm a report.
    fileprivate enum Confirmation {
        case now(refused: [TaskAttempt])
        /// A moment later: the worker does not wait for this confirmation, and one message can confirm several reports.
        case later
        /// Not with a message of its own.
        case none
    }

    /// Seconds until a confirmation that the worker does not wait for.
    private static let confirmationDelay = 0.05

    private func confirmLast(of worker: String, session: UInt64) {
        let sequence = state.withLock { state -> UInt64? in
            guard !state.isClosed, let peer = state.peers[worker], peer.session == session else { return nil }
            state.peers[worker]?.willConfirm = false
            state.peers[worker]?.lastConfirmed = peer.lastReport
            return peer.lastReport > peer.lastConfirmed ? peer.lastReport : nil
        }
        if let sequence { exchange.publish(.confirm(sequence, refused: []), to: Subject.session(session, ofWorker: worker)) }
    }

    private func perform(_ step: Step, _ worker: String) {
        switch step {
        case .taken(let listener, let description):
            if listener.wantsTaken { deliveries.add { listener.taken(description) } }
        case .output(let listener, let stream, let bytes, let description): deliveries.add { listener.output(stream, bytes, description) }
        case .outcome(let number, let found): fetch(found, of: number)
        case .release(let number, let found): release(number, found)
        case .again(let number, let task, let attempt, let declineCount):
            // A pause, because every worker may decline the task.
            if declineCount <= 3 { return publish(number, task, attempt: attempt) }
            exchange.fabric.after(min(0.1 * Double(declineCount), 2)) { [weak self] in self?.publish(number, task, attempt: attempt) }
        case .finish(let number, let attempt, let outcome): finish(number, outcome, by: worker, attempt: attempt)
        }
    }

    /// Gets the blobs of an outcome, and finishes the task.
    private func fetch(_ found: FoundOutcome, of number: UInt64) {
        let description = state.withLock { ($0.peers[found.worker] ?? $0.formerPeers[found.worker])?.description }
        exchange.fetch(found.payload.blobs, from: Subject.worker(found.worker)) { [self] blobs in
            if let blobs {
                var complete = found.payload
                complete.contents = blobs
                let outcome = Outcome.ended(complete, worker: description, began: found.began, ended: found.ended)
                return finish(number, outcome, by: found.worker, attempt: found.attempt)
            }
            let (next, isStopped, isHeld) = state.withLock { state -> (FoundOutcome?, Bool, Bool) in
                state.entries[number]?.outcomes.removeFirst()
                let entry = state.entries[number]
                let isHeld = entry?.holder == found.worker && entry?.attempt == found.attempt
                return (entry?.outcomes.first, entry?.holder == nil && entry?.stop != nil, isHeld)
            }
            release(number, found)
            if let next { return fetch(next, of: number) }
            if isHeld { redeliver([number], lostBy: found.worker) } else if isStopped { finish(number, .stopped) }
        }
    }

    private func grant(_ number: UInt64, attempt: UInt64, to worker: String, session: UInt64, asker: String) -> Bool {
        let (isGranted, dropped) = state.withLock { state -> (Bool, [UInt64]) in
            // A worker that the coordinator does not know is not watched: it must say hello first.
            guard state.peers[worker] != nil, let dropped = state.startSession(session, of: worker) else { return (false, []) }
            guard let entry = state.entries[number], entry.attempt == attempt, !dropped.contains(number) else { return (false, dropped) }
            // If the answer was lost, the same body gets it again.
            if let claim = entry.claim { return (claim == asker && entry.holder == worker, dropped) }
            guard entry.stop == nil, entry.holder == nil || entry.holder == worker else { return (false, dropped) }
            state.entries[number]?.claim = asker
            state.entries[number]?.holder = worker
            state.peers[worker]?.tasks.insert(number)
            return (true, dropped)
        }
        redeliver(dropped, lostBy: worker)
        return isGranted
    }
}

extension Coordinator.State {
    /// How often workers may give a task back.
    private static var mostDeclines: Int { 50 }

    /// Applies an entry of a report. Returns the step that follows, which is taken without the lock.
    fileprivate mutating func apply(_ entry: (number: UInt64, attempt: UInt64, entry: Report.Entry), from worker: String, at now: Double)
        -> Coordinator.Step?
    {
        let (number, attempt) = (entry.number, entry.attempt)
        guard let known = entries[number] else {
            switch entry.entry {
            case .outcome(let payload, let began, let ended):
                return .release(number, found(attempt, payload, worker, began, ended, since: 0, now))
            case .taken, .output, .declined: return nil
            }
        }
        switch entry.entry {
        case .taken(let acknowledgement):
            (lastProgress, countInterval) = (now, Coordinator.firstCountInterval)
            if let sequence = known.sequence, attempt == known.attempt {
                lastTaken[known.task.priority] = max(sequence, lastTaken[known.task.priority] ?? 0)
            }
            // The attempt was abandoned, or the stream has given the task to another worker as well. The first holder keeps it.
            guard attempt == known.attempt, known.holder == nil || known.holder == worker else {
                // A worker that drops a job removes it from the stream.
                if attempt == known.attempt { entries[number]?.isInStream = false }
                return nil
            }
            entries[number]?.holder = worker
            entries[number]?.acknowledgement = acknowledgement
            peers[worker]?.tasks.insert(number)
            return known.holder == nil || known.claim != nil && known.acknowledgement == nil
                ? .taken(known.listener, peers[worker]?.description) : nil
        case .output(let stream, let bytes):
            // Only the last holder's output counts. That worker may have been lost, and may have returned before another one got the task.
            guard let last = known.lastHolder, last == (worker, attempt) else { return nil }
            return .output(known.listener, stream, bytes, peers[worker]?.description)
        case .outcome(let payload, let began, let ended):
            let found = found(attempt, payload, worker, began, ended, since: known.submitted, now)
            if known.task.isAtMostOnce && known.holder != worker { return .release(number, found) }
            if payload.blobs.isEmpty {
                return .finish(
                    number, attempt: attempt,
                    .ended(payload, worker: peers[worker]?.description, began: found.began, ended: found.ended))
            }
            entries[number]?.outcomes.append(found)
            return known.outcomes.isEmpty ? .outcome(number, found) : nil
        case .declined(let isBusy):
            guard known.holder == worker, attempt == known.attempt else { return nil }
            peers[worker]?.tasks.remove(number)
            entries[number]?.startNextAttempt()
            let declineCount = known.declineCount + (isBusy ? 0 : 1)
            entries[number]?.declineCount = declineCount
            if known.stop != nil { return .finish(number, attempt: attempt, .stopped) }
            if declineCount > Self.mostDeclines {
                let text = "the workers give the operation back, since they cannot get its values or do not begin with it"
                return .finish(number, attempt: attempt, .refused(text))
            }
            return .again(number, known.task, attempt: attempt + 1, declineCount: declineCount)
        }
    }

    /// Decides when to confirm a report.
    fileprivate mutating func confirmation(of report: Report, isNew: Bool) -> Coordinator.Confirmation {
        guard let peer = peers[report.worker] else { return .none }
        let isAwaited = report.entries.contains { if case .taken = $0.entry { true } else { false } }
        // A worker with four unconfirmed reports sends no further one.
        if !isNew || isAwaited || report.sequence > peer.lastConfirmed + 1 {
            peers[report.worker]?.lastConfirmed = max(peer.lastConfirmed, report.sequence)
            return .now(refused: refused(in: report))
        }
        peers[report.worker]?.willConfirm = true
        return peer.willConfirm ? .none : .later
    }

    /// The tasks that the worker has reported as taken and must not begin with.
    private func refused(in report: Report) -> [TaskAttempt] {
        report.entries.compactMap { entry in
            guard case .taken = entry.entry else { return nil }
            let isHolder = entries[entry.number].map { $0.holder == report.worker && $0.attempt == entry.attempt } ?? false
            return isHolder ? nil : TaskAttempt(number: entry.number, attempt: entry.attempt)
        }
    }

    /// The offset of the worker's clock is an estimate. The times are clamped, so that none is before its cause, and keep their duration.
    private func found(
        _ attempt: UInt64, _ payload: Payload, _ worker: String, _ began: Double, _ ended: Double, since submitted: Double, _ now: Double
    ) -> Coordinator.FoundOutcome {
        let offset = peers[worker]?.clockOffset ?? 0
        let duration = min(max(ended - began, 0), now - submitted)
        let begin = min(max(began + offset, submitted), now - duration)
        // The rounded sum may lie after `now`.
        return Coordinator.FoundOutcome(attempt: attempt, payload: payload, worker: worker, began: begin, ended: min(begin + duration, now))
    }

    /// Records the session of a worker. Returns the tasks of its former session, which it has dropped; nil if the worker is in a later session.
    mutating func startSession(_ session: UInt64, of worker: String) -> [UInt64]? {
        guard let peer = peers[worker], session >= peer.session else { return nil }
        if session == peer.session { return [] }
        peers[worker]?.session = session
        peers[worker]?.lastReport = 0
        peers[worker]?.lastConfirmed = 0
        peers[worker]?.willConfirm = false
        peers[worker]?.tasks = []
        return peer.tasks.sorted()
    }

    /// Records the description that a worker sends. Returns whether the worker had been lost.
    fileprivate mutating func recordContact(from worker: WorkerDescription, at now: Double) -> Bool {
        let isBack = recordContact(worker.id, sentAt: worker.sentAt, at: now, worker)
        if peers[worker.id]?.lastSent == worker.sentAt { peers[worker.id]?.description = worker }
        return isBack
    }

    fileprivate mutating func recordContact(from report: Report, at now: Double) -> Bool {
        let unknown = WorkerDescription(
            id: report.worker, name: report.worker, host: "", process: 0, version: "", slots: 0, taskCount: 0, endedCount: 0, load: 0,
            sentAt: report.sentAt)
        return recordContact(report.worker, sentAt: report.sentAt, at: now, unknown)
    }

    private mutating func recordContact(_ worker: String, sentAt: Double, at now: Double, _ description: WorkerDescription) -> Bool {
        // A message that was sent before another one that has arrived is no sign of life: the server may repeat those of a dead worker.
        if let known = peers[worker] ?? formerPeers[worker], sentAt <= known.lastSent { return false }
        let offset = now - sentAt
        var isBack = false
        if peers[worker] == nil {
            let former = formerPeers.removeValue(forKey: worker)
            isBack = former != nil
            peers[worker] = former ?? Coordinator.Peer(description: description, lastHeard: now, lastSent: sentAt, clockOffset: offset)
        }
        peers[worker]?.lastSent = sentAt
        peers[worker]?.lastHeard = now
        peers[worker]?.silentSince = nil
        // The fastest message has the best estimate of the offset.
        if let least = peers[worker]?.clockOffset, offset < least { peers[worker]?.clockOffset = offset }
        return isBack
    }

    /// Counts the slots. Returns their number if it has changed.
    mutating func countSlots() -> Int? {
        let count = peers.values.reduce(0) { $0 + $1.description.slots }
        if count == slotCount { return nil }
        slotCount = count
        return count
    }
}

extension Coordinator.Entry {
    /// Removes the holder. The caller publishes the next attempt.
    mutating func startNextAttempt() {
        attempt += 1
        (holder, acknowledgement, claim, sequence, isInStream, passedOver) = (nil, nil, nil, nil, false, nil)
    }
}
