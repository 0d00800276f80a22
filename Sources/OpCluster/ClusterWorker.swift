import Synchronization

/// The end of a cluster that does the work: it takes jobs from the stream, has them run, and reports what comes of them.
///
/// - Concurrency: safe from every thread.
public final class ClusterWorker: Sendable {
    /// Runs tasks. Called on the fabric's thread, with no lock held.
    public protocol Runner: AnyObject, Sendable {
        /// Begins to run a task. `task.end` must be called once, on any thread.
        func run(_ task: WorkerTask)
        /// Stops a task that runs.
        func stop(_ task: WorkerTask, _ request: StopRequest)
        /// A run is over. None of its tasks comes any more.
        func runHasEnded(_ run: String)
    }

    /// What concerns no task.
    public struct Events: Sendable {
        /// Something that a person should know.
        public var notice: @Sendable (String) -> Void = { _ in }
        /// Says how loaded the machine is.
        public var load: @Sendable () -> Double = { 0 }

        /// Makes handlers that do nothing.
        public init() {}
    }

    struct State {
        /// The runs that tasks have come from.
        var runs: [String: WorkerRun] = [:]
        /// The runs that are over, so that their messages are not taken for new ones.
        var endedRuns: [String] = []
        /// The tasks that wait for a slot, the next one last.
        var waiting: [WorkerTask] = []
        var running: [WorkerTask.Identity: WorkerTask] = [:]
        /// The tasks whose blobs or permission are on their way.
        var preparing: [WorkerTask.Identity: WorkerTask] = [:]
        /// How many messages of each priority were asked for and have not come, and until when the server remembers that.
        var pulls = [Pull](repeating: Pull(), count: Subject.priorityCount)
        var endedCount = 0
        /// The average seconds of a body, the last ones counting most.
        var averageSeconds = 0.1
        var isDraining = false
        var isClosed = false
        var toldNotices: Set<String> = []
    }

    struct Pull {
        var count = 0
        var end: Double = 0
    }

    let slots: Int
    let exchange: Exchange
    let runner: any Runner
    let events: Events
    let state = Mutex(State())
    private let description: WorkerDescription

    static let pullPrefix = "pull"
    static let helloInterval = 1.0, pullSeconds = 20.0, progressInterval = 5.0
    /// Seconds without a word of a coordinator after which its run is over here.
    static let coordinatorSilence = 45.0
    /// Bodies that take less than this are fetched ahead, so that a slot need not wait for the network.
    static let aheadSeconds = 0.02
    static let mostAhead = 64

    /// Makes a worker that is not connected yet.
    ///
    /// - Parameters:
    ///   - slots: the number of tasks to run at once.
    ///   - keptBytes: the number of bytes of large values that are kept for later tasks.
    public init(
        _ fabric: any Fabric, key: ClusterKey?, description: WorkerDescription, slots: Int, keptBytes: Int, runner: any Runner,
        events: Events = Events()
    ) {
        self.slots = slots
        self.runner = runner
        self.events = events
        exchange = Exchange(fabric, key: key, keptBytes: keptBytes)
        var description = description
        description.id = exchange.id
        self.description = description
    }

    var now: Double { exchange.fabric.now }
    var id: String { exchange.id }

    /// Begins to take jobs.
    ///
    /// - Parameter completion: called once, on any thread, with what is wrong; nil if all is well.
    public func start(completion: @escaping @Sendable (ClusterError?) -> Void) {
        do throws(ClusterError) {
            let subjects = [
                Subject.worker(id), Subject.worker(id) + ".*", Subject.beat, Subject.find, Subject.inbox(Self.pullPrefix + id) + ".*",
            ]
            try exchange.start(subjects, self)
        } catch { return completion(error) }
        JetStream.setUp(exchange) { [self] refusal in
            if let refusal { return completion(ClusterError(JetStream.words(of: refusal))) }
            sayHello()
            workOn()
            pull()
            completion(nil)
        }
    }

    /// Takes no more jobs, gives back those that have not begun, and calls `completion` when the others have ended.
    public func drain(completion: @escaping @Sendable () -> Void) {
        let waiting = state.withLock { state in
            state.isDraining = true
            defer { state.waiting = [] }
            return state.waiting
        }
        for task in waiting { decline(task) }
        hello()
        waitUntilEmpty(completion)
    }

    private func waitUntilEmpty(_ completion: @escaping @Sendable () -> Void) {
        let isEmpty = state.withLock { state in
            state.running.isEmpty && state.preparing.isEmpty && state.runs.values.allSatisfy { $0.isQuiet }
        }
        if isEmpty { return completion() }
        exchange.fabric.after(0.05) { [weak self] in self?.waitUntilEmpty(completion) }
    }

    /// Ends at once. What runs counts as lost.
    public func close() {
        state.withLock { $0.isClosed = true }
        exchange.close(waiting: 1)
    }

    /// Interrupts everything that runs.
    public func interrupt() {
        for task in state.withLock({ Array($0.running.values) }) { runner.stop(task, .interrupt) }
    }

    /// What this worker has to do now, for a person.
    public var status: WorkerDescription { describe() }

    // MARK: presence

    private func describe() -> WorkerDescription {
        var present = description
        state.withLock { state in
            present.slots = state.isDraining ? 0 : slots
            present.taskCount = state.running.count + state.preparing.count + state.waiting.count
            present.endedCount = state.endedCount
        }
        present.load = events.load()
        present.sentAt = now
        return present
    }

    private func hello() { exchange.publish(.hello(describe()), to: Subject.hello) }

    private func sayHello() {
        guard state.withLock({ !$0.isClosed }) else { return }
        hello()
        exchange.fabric.after(Self.helloInterval) { [weak self] in self?.sayHello() }
    }

    /// Tells the stream that this worker still works on its jobs, and looks for runs whose coordinator is gone.
    private func workOn() {
        let now = now
        let (tasks, silent) =
            state.withLock { state -> ([WorkerTask], [WorkerRun])? in
                if state.isClosed { return nil }
                let tasks = Array(state.running.values) + Array(state.preparing.values) + state.waiting
                return (tasks, state.runs.values.filter { now - $0.lastHeard > Self.coordinatorSilence })
            } ?? ([], [])
        for task in tasks { JetStream.acknowledge(exchange, task.acknowledgement, JetStream.inProgress) }
        for run in silent { endRun(run.name) }
        if state.withLock({ !$0.isClosed }) { exchange.fabric.after(Self.progressInterval) { [weak self] in self?.workOn() } }
    }

    func notice(_ text: String) {
        let isNew = state.withLock { state in
            if state.toldNotices.count > 1000 { state.toldNotices = [] }
            return state.toldNotices.insert(text).inserted
        }
        if isNew { events.notice(text) }
    }

    // MARK: taking jobs

    /// How many tasks to have, those that wait included.
    private static func wanted(slots: Int, averageSeconds: Double) -> Int {
        let ahead = averageSeconds >= aheadSeconds ? 0 : min(Int(aheadSeconds / max(averageSeconds, 1e-5)), mostAhead)
        return slots * (1 + ahead)
    }

    /// Asks the stream for jobs, as many as there is room for.
    func pull() {
        let now = now
        let requests = state.withLock { state -> [(priority: Int, count: Int)] in
            if state.isClosed || state.isDraining || !exchange.fabric.isConnected { return [] }
            let present = state.running.count + state.preparing.count + state.waiting.count
            let room = Self.wanted(slots: slots, averageSeconds: state.averageSeconds) - present
            guard room > 0 else { return [] }
            var requests: [(Int, Int)] = []
            for priority in state.pulls.indices.reversed() {
                if state.pulls[priority].end <= now { state.pulls[priority] = Pull(count: 0, end: now + Self.pullSeconds) }
                // Not one message at a time if many come.
                guard state.pulls[priority].count * 2 <= room, state.pulls[priority].count < room else { continue }
                let count = room - state.pulls[priority].count
                state.pulls[priority].count += count
                state.pulls[priority].end = max(state.pulls[priority].end, now + Self.pullSeconds)
                requests.append((priority, count))
            }
            return requests
        }
        for (priority, count) in requests {
            JetStream.pull(
                exchange, priority: priority, count: count, seconds: Self.pullSeconds,
                inbox: "\(Subject.inbox(Self.pullPrefix + id)).\(priority)")
        }
    }

    /// Takes a job that has come.
    private func take(_ message: IncomingMessage, priority: Int) {
        state.withLock { $0.pulls[priority].count = max($0.pulls[priority].count - 1, 0) }
        guard case .success(.job(let job)) = exchange.opened(message.bytes) else {
            notice("a job is not sealed with this worker's key (--key), or is damaged: it is thrown away")
            return JetStream.acknowledge(exchange, message.reply, JetStream.terminated)
        }
        let task = WorkerTask(job, acknowledgement: message.reply, worker: self)
        let (run, isDuplicate, isOver) = state.withLock { state -> (WorkerRun?, Bool, Bool) in
            let isDuplicate =
                state.running[task.identity] != nil || state.preparing[task.identity] != nil
                || state.waiting.contains { $0.identity == task.identity }
            if state.isDraining || state.isClosed { return (nil, isDuplicate, false) }
            if state.endedRuns.contains(job.run) { return (nil, isDuplicate, true) }
            if !isDuplicate { state.preparing[task.identity] = task }
            if let known = state.runs[job.run] { return (known, isDuplicate, false) }
            let run = WorkerRun(job.run, worker: self)
            state.runs[job.run] = run
            return (run, isDuplicate, false)
        }
        // The same message again, because the stream did not hear that this worker works on it. The first one counts.
        if isDuplicate { return }
        guard let run else {
            return JetStream.acknowledge(exchange, message.reply, isOver ? JetStream.terminated : JetStream.rejected)
        }
        run.whenAlive { [self] isAlive in
            guard isAlive else { return drop(task) }
            run.report(task, .taken(acknowledgement: task.acknowledgement))
            prepare(task)
        }
    }

    /// Gets what the task needs before it can run.
    private func prepare(_ task: WorkerTask) {
        exchange.fetch(task.job.payload.blobs, from: Subject.run(task.job.run)) { [self] blobs in
            guard let blobs else { return decline(task) }
            task.blobs = blobs
            let isNeeded = state.withLock { state in
                guard state.preparing.removeValue(forKey: task.identity) != nil else { return false }
                // In the order of their priorities, and equal ones as they have come.
                let position = state.waiting.firstIndex { $0.job.priority >= task.job.priority } ?? state.waiting.endIndex
                state.waiting.insert(task, at: position)
                return true
            }
            if isNeeded { runNext() }
        }
    }

    /// Runs what fits the slots.
    func runNext() {
        while true {
            let next = state.withLock { state -> WorkerTask? in
                guard state.running.count < slots, let task = state.waiting.popLast() else { return nil }
                state.running[task.identity] = task
                return task
            }
            guard let next else { break }
            begin(next)
        }
        pull()
    }

    private func begin(_ task: WorkerTask) {
        guard task.job.isAtMostOnce else {
            task.began = now
            return runner.run(task)
        }
        let claim = Message.claim(run: task.job.run, number: task.job.number, attempt: task.job.attempt, worker: id)
        exchange.request(claim, to: Subject.run(task.job.run), every: 1, tries: 5) { [self] reply in
            guard case .message(.claimed(true)) = reply, state.withLock({ $0.running[task.identity] != nil }) else {
                // Perhaps it was claimed and the answer was lost. Then it is the coordinator who counts it as lost.
                return decline(task)
            }
            task.began = now
            runner.run(task)
        }
    }

    /// Gives a task back that has not begun.
    private func decline(_ task: WorkerTask) {
        let run = state.withLock { state in
            state.forget(task)
            return state.runs[task.job.run]
        }
        run?.report(task, .declined)
        JetStream.acknowledge(exchange, task.acknowledgement, JetStream.terminated)
        runNext()
    }

    /// Forgets a task that nobody needs.
    private func drop(_ task: WorkerTask) {
        state.withLock { $0.forget(task) }
        JetStream.acknowledge(exchange, task.acknowledgement, JetStream.terminated)
        runNext()
    }

    // MARK: ends

    /// A body has ended.
    func end(_ task: WorkerTask, _ payload: Payload) {
        for blob in payload.contents { exchange.offer(blob) }
        let ended = now
        let run = state.withLock { state -> WorkerRun? in
            guard state.running.removeValue(forKey: task.identity) != nil else { return nil }
            state.endedCount += 1
            state.averageSeconds = 0.8 * state.averageSeconds + 0.2 * (ended - task.began)
            return state.runs[task.job.run]
        }
        run?.report(task, .outcome(payload, began: task.began, ended: ended))
        runNext()
    }

    /// Ends what is left of a run.
    func endRun(_ name: String) {
        let (run, tasks, running) = state.withLock { state -> (WorkerRun?, [WorkerTask], [WorkerTask]) in
            guard let run = state.runs.removeValue(forKey: name) else { return (nil, [], []) }
            state.endedRuns.append(name)
            if state.endedRuns.count > 1000 { state.endedRuns.removeFirst() }
            let isOfRun = { (task: WorkerTask) in task.job.run == name }
            let others = state.waiting.filter(isOfRun) + state.preparing.values.filter(isOfRun)
            for task in others { state.forget(task) }
            return (run, others, state.running.values.filter(isOfRun))
        }
        guard let run else { return }
        run.close()
        for task in tasks + running { JetStream.acknowledge(exchange, task.acknowledgement, JetStream.terminated) }
        for task in running { runner.stop(task, .drop) }
        runner.runHasEnded(name)
        runNext()
    }
}

extension ClusterWorker.State {
    mutating func forget(_ task: WorkerTask) {
        running[task.identity] = nil
        preparing[task.identity] = nil
        waiting.removeAll { $0 === task }
    }
}

extension ClusterWorker: Exchange.Handler {
    func handle(_ message: Message, on subject: String, replyTo reply: String) {
        switch message {
        case .ping: exchange.publish(.pong, to: reply)
        case .find: hello()
        case .confirm(let sequence):
            // The subject of the answer names the run.
            let name = String(
                subject.dropFirst(subject.lastIndex(of: ".").map { subject.distance(from: subject.startIndex, to: $0) + 1 } ?? 0))
            state.withLock { $0.runs[name] }?.confirm(sequence)
        case .beat(let run, let count, let isLast):
            guard let known = state.withLock({ $0.runs[run] }), known.hear(count) else { return }
            if isLast { endRun(run) }
        case .stop(let run, let number, let attempt, let request): stop(run, number, attempt, request)
        case .release(let run, let numbers): state.withLock { $0.runs[run] }?.release(numbers)
        default: break
        }
    }

    private func stop(_ run: String, _ number: UInt64, _ attempt: UInt64, _ request: StopRequest) {
        let identity = WorkerTask.Identity(run: run, number: number, attempt: attempt)
        let (running, other) = state.withLock { state in
            (state.running[identity], state.preparing[identity] ?? state.waiting.first { $0.identity == identity })
        }
        if let running { runner.stop(running, request) }
        // One that has not begun never will.
        if let other { if request == .drop { drop(other) } else { decline(other) } }
    }

    func handle(unsealed message: IncomingMessage) {
        guard message.subject.hasPrefix(Subject.inbox(Self.pullPrefix + id)) || !message.reply.isEmpty || message.status != 0,
            let priority = message.priorityOfPull ?? message.priorityOfJob
        else { return }
        if message.status != 0 {
            // The server has forgotten what was asked for.
            state.withLock { $0.pulls[priority] = Pull() }
            return pull()
        }
        take(message, priority: priority)
    }

    func handleForeign(on subject: String) {}

    func connectionHasChanged(_ text: String) {
        if !text.isEmpty { events.notice(text) }
        guard exchange.fabric.isConnected else { return }
        // The server does not know what was asked of it before.
        let runs = state.withLock { state in
            for priority in state.pulls.indices { state.pulls[priority] = Pull() }
            return Array(state.runs.values)
        }
        for run in runs { run.reportAgain() }
        hello()
        pull()
    }
}

extension IncomingMessage {
    /// The priority at the end of the subject of a pull's answers.
    fileprivate var priorityOfPull: Int? { subject.hasPrefix("_INBOX.") ? lastToken : nil }
    /// The priority at the end of a job's subject. A message that a consumer gives has that subject.
    fileprivate var priorityOfJob: Int? { subject.hasPrefix("opscript.job.") ? lastToken : nil }

    private var lastToken: Int? {
        subject.utf8.last.flatMap { $0 >= 0x30 && $0 < 0x30 + UInt8(Subject.priorityCount) ? Int($0) - 0x30 : nil }
    }
}
