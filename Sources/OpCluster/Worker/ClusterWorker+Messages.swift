import OpPlatform

/// Messages of coordinators and of the stream.
extension ClusterWorker: Exchange.Handler {
    func handle(_ message: Message, on subject: String, replyTo reply: String) {
        switch message {
        case .ping(let run):
            // The next session tells the coordinator that this worker has none of its tasks.
            let session = state.withLock { state in state.runs[run]?.session ?? state.sessionCount + 1 }
            exchange.publish(.pong(session: session), to: reply)
        case .find: hello()
        case .confirm(let sequence, let refused):
            run(namedBy: subject)?.confirm(sequence, refused: refused)
        case .beat(let name, let count, let isLast):
            let run = state.withLock { $0.runs[name] }
            if let run, run.recordBeat(count), isLast { endRun(run, isOver: true) }
        case .stop(let name, let number, let attempt, let request):
            exchange.publish(.done, to: reply)
            stop(WorkerTask.Identity(run: name, number: number, attempt: attempt), request)
        case .release(let name, let number, let attempt):
            exchange.publish(.done, to: reply)
            state.withLock { $0.runs[name] }?.release(WorkerTask.Identity(run: name, number: number, attempt: attempt))
        case .recount(let name):
            exchange.publish(.done, to: reply)
            recount(name)
        default: break
        }
    }

    /// The run whose session is the last part of the subject.
    private func run(namedBy subject: String) -> WorkerRun? {
        let session = UInt64(subject.dropFirst(Subject.worker(id).count + 1))
        return state.withLock { state in state.runs.values.first { $0.session == session } }
    }

    private func stop(_ identity: WorkerTask.Identity, _ request: StopRequest) {
        let task = state.withLock { state in
            state.running[identity] ?? state.preparing[identity] ?? state.waiting.first { $0.identity == identity }
        }
        if let task { stop(task, request) }
    }

    /// Reports the tasks of a run again.
    private func recount(_ name: String) {
        let (run, tasks) = state.withLock { state -> (WorkerRun?, [WorkerTask]) in
            let tasks = Array(state.running.values) + Array(state.preparing.values) + state.waiting
            return (state.runs[name], tasks.filter { $0.run == name })
        }
        for task in tasks.sorted(by: { $0.number < $1.number }) where run != nil && task.session.withLock({ $0 }) === run {
            run?.report(task, .taken(acknowledgement: task.acknowledgement))
        }
    }

    func handle(unsealed message: IncomingMessage) {
        guard let priority = message.priorityOfPull ?? message.priorityOfJob else { return }
        if message.status != 0 { handlePullStatus(message.status, priority: priority) } else { accept(message, priority: priority) }
    }

    func handleForeign(_ difference: Exchange.Unopened, on subject: String) {
        // All clusters of a server share these subjects.
        guard subject == Subject.find || subject == Subject.beat else { return notice(Exchange.alteredNotice) }
        switch difference {
        case .foreign:
            notice("there are coordinators whose messages are sealed with another key than this worker's (--key): they are ignored")
        case .otherVersion: notice("there are coordinators of an opscript with other messages than this worker's: they are ignored")
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
        guard case .isBack = change else { return }
        // The server has forgotten the pulls.
        let runs = state.withLock { state in
            for priority in state.pulls.indices { state.pulls[priority] = [] }
            state.nextPull = 0
            return Array(state.runs.values)
        }
        for run in runs.sorted(by: { $0.session < $1.session }) { run.resendReports() }
        hello()
        pull()
    }
}

extension IncomingMessage {
    /// The priority at the end of the subject of a pull's answers.
    fileprivate var priorityOfPull: Int? { subject.hasPrefix(Subject.inbox(ClusterWorker.pullPrefix)) ? lastToken : nil }
    /// The priority at the end of a job's subject. A message that a consumer delivers has that subject.
    fileprivate var priorityOfJob: Int? { subject.hasPrefix(Subject.jobPrefix) ? lastToken : nil }

    private var lastToken: Int? {
        subject.utf8.last.flatMap { $0 >= 0x30 && $0 < 0x30 + UInt8(Subject.priorityCount) ? Int($0) - 0x30 : nil }
    }
}
