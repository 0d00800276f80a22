import Synchronization

/// What workers say.
extension Coordinator: Exchange.Handler {
    func handle(_ message: Message, on subject: String, replyTo reply: String) {
        switch message {
        case .report(let report): handle(report, replyTo: reply)
        case .hello(let worker): handle(worker)
        case .greet(run, let nonce): exchange.publish(.greeted(nonce: nonce), to: reply)
        case .claim(run, let number, let attempt, let worker):
            exchange.publish(.claimed(grant(number, attempt: attempt, to: worker)), to: reply)
        case .ask(run, let question):
            events.answer(question) { [exchange] answer in exchange.publish(.answer(answer), to: reply) }
        default: break
        }
    }

    func handle(unsealed message: IncomingMessage) {}

    func handleForeign(on subject: String) {
        guard subject == Subject.hello || subject == Subject.run(run) else { return }
        notice("there are workers whose messages are sealed with another key than this one's (--key): they get no work")
    }

    func connectionHasChanged(_ text: String) { if !text.isEmpty { events.notice(text) } }

    // MARK: workers

    private func handle(_ worker: WorkerDescription) {
        guard worker.version == version else {
            return notice(
                "the worker \(worker.name) on \(worker.host) is opscript \(worker.version), and this is \(version): it gets no work")
        }
        let now = now
        let changed = state.withLock { state -> Int? in
            state.hear(worker, at: now)
            return state.countSlots()
        }
        if let changed { events.slotsHaveChanged(changed) }
    }

    // MARK: reports

    private func handle(_ report: Report, replyTo reply: String) {
        enum Step {
            case taken(Handlers, WorkerDescription?)
            case output(Handlers, UInt8, [UInt8], WorkerDescription?)
            case drop(UInt64, attempt: UInt64)
            case stop(UInt64, attempt: UInt64, StopRequest)
            case outcome(UInt64, Payload, began: Double, ended: Double)
            case again(UInt64, Task, attempt: UInt64)
            case end(UInt64, Outcome)
        }
        let now = now
        let steps = state.withLock { state -> [Step]? in
            guard !state.isClosed else { return nil }
            state.hear(report, at: now)
            let last = state.peers[report.worker]?.lastReport ?? 0
            // One that was confirmed already is confirmed again. One that comes too early comes again.
            if report.sequence <= last { return [] }
            guard report.sequence == last + 1 else { return nil }
            state.peers[report.worker]?.lastReport = report.sequence
            var steps: [Step] = []
            for (number, attempt, entry) in report.entries {
                let worker = state.peers[report.worker]?.description
                guard let known = state.entries[number] else {
                    if case .taken = entry { steps.append(.drop(number, attempt: attempt)) }
                    continue
                }
                switch entry {
                case .taken(let acknowledgement):
                    // A worker that is slow to say so may have an attempt that was given up.
                    guard attempt == known.attempt, known.holder == nil || known.holder == report.worker || !known.task.isAtMostOnce else {
                        steps.append(.drop(number, attempt: attempt))
                        continue
                    }
                    if let former = known.holder, former != report.worker { state.peers[former]?.tasks.remove(number) }
                    state.entries[number]?.holder = report.worker
                    state.entries[number]?.acknowledgement = acknowledgement
                    state.peers[report.worker]?.tasks.insert(number)
                    steps.append(.taken(known.handlers, worker))
                    if let request = known.stop { steps.append(.stop(number, attempt: attempt, request)) }
                case .output(let stream, let bytes):
                    // Not twice, from two workers.
                    if known.holder == report.worker { steps.append(.output(known.handlers, stream, bytes, worker)) }
                case .outcome(let payload, let began, let ended):
                    if known.isFetching || known.task.isAtMostOnce && known.holder != report.worker { continue }
                    let offset = state.peers[report.worker]?.clockOffset ?? 0
                    // Where the worker's clock is on ours is an estimate. Nothing may seem to happen before its cause.
                    let begin = min(max(began + offset, known.submitted), now)
                    steps.append(.outcome(number, payload, began: begin, ended: min(max(ended + offset, begin), now)))
                case .declined:
                    guard known.holder == report.worker, attempt == known.attempt else { continue }
                    state.peers[report.worker]?.tasks.remove(number)
                    state.entries[number]?.holder = nil
                    state.entries[number]?.isClaimed = false
                    if known.stop != nil {
                        steps.append(.end(number, .stopped))
                    } else {
                        state.entries[number]?.attempt += 1
                        steps.append(.again(number, known.task, attempt: attempt + 1))
                    }
                }
            }
            return steps
        }
        guard let steps else { return }
        // The worker forgets what is confirmed, so it is confirmed only once it is noted.
        exchange.publish(.confirm(report.sequence), to: reply)
        for step in steps {
            switch step {
            case .taken(let handlers, let worker): handlers.taken(worker)
            case .output(let handlers, let stream, let bytes, let worker): handlers.output(stream, bytes, worker)
            case .drop(let number, let attempt):
                exchange.publish(.stop(run: run, number: number, attempt: attempt, .drop), to: Subject.worker(report.worker))
            case .stop(let number, let attempt, let request):
                exchange.publish(.stop(run: run, number: number, attempt: attempt, request), to: Subject.worker(report.worker))
            case .outcome(let number, let payload, let began, let ended):
                handleOutcome(of: number, payload, from: report.worker, began: began, ended: ended)
            case .again(let number, let task, let attempt): publish(number, task, attempt: attempt)
            case .end(let number, let outcome): end(number, outcome)
            }
        }
    }

    private func handleOutcome(of number: UInt64, _ payload: Payload, from worker: String, began: Double, ended: Double) {
        let description = state.withLock { $0.peers[worker]?.description }
        if payload.blobs.isEmpty { return end(number, .ended(payload, worker: description, began: began, ended: ended)) }
        state.withLock { $0.entries[number]?.isFetching = true }
        exchange.fetch(payload.blobs, from: Subject.worker(worker)) { [self] blobs in
            exchange.publish(.release(run: run, [number]), to: Subject.worker(worker))
            guard let blobs else {
                state.withLock { $0.entries[number]?.isFetching = false }
                return lose([number], with: worker)
            }
            var complete = payload
            complete.contents = blobs
            end(number, .ended(complete, worker: description, began: began, ended: ended))
        }
    }

    private func grant(_ number: UInt64, attempt: UInt64, to worker: String) -> Bool {
        state.withLock { state in
            guard let entry = state.entries[number], entry.attempt == attempt, entry.stop == nil else { return false }
            // An answer that was lost is given again, to the same worker only.
            if entry.isClaimed { return entry.holder == worker }
            state.entries[number]?.isClaimed = true
            state.entries[number]?.holder = worker
            state.peers[worker]?.tasks.insert(number)
            return true
        }
    }
}

extension Coordinator.State {
    mutating func hear(_ worker: WorkerDescription, at now: Double) {
        let offset = now - worker.sentAt
        if peers[worker.id] == nil {
            peers[worker.id] = Coordinator.Peer(description: worker, lastHeard: now, clockOffset: offset)
        }
        peers[worker.id]?.description = worker
        hear(worker.id, offset, at: now)
    }

    mutating func hear(_ report: Report, at now: Double) {
        let offset = now - report.sentAt
        if peers[report.worker] == nil {
            let unknown = WorkerDescription(
                id: report.worker, name: report.worker, host: "", process: 0, version: "", slots: 0, taskCount: 0, endedCount: 0, load: 0,
                fileToken: "", sentAt: report.sentAt)
            peers[report.worker] = Coordinator.Peer(description: unknown, lastHeard: now, clockOffset: offset)
        }
        hear(report.worker, offset, at: now)
    }

    private mutating func hear(_ worker: String, _ offset: Double, at now: Double) {
        peers[worker]?.lastHeard = now
        peers[worker]?.silentSince = nil
        // The message that was fastest says most about the clocks.
        if let least = peers[worker]?.clockOffset, offset < least { peers[worker]?.clockOffset = offset }
    }

    /// Counts the slots. Returns their number if it has changed.
    mutating func countSlots() -> Int? {
        let count = peers.values.reduce(0) { $0 + $1.description.slots }
        if count == slotCount { return nil }
        slotCount = count
        return count
    }
}
