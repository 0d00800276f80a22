import Synchronization

/// The end of a cluster that has the work: it publishes tasks, and takes their outcomes. It decides alone what has happened to a task; what
/// workers and the server do twice, or not at all, changes nothing of that.
///
/// - Concurrency: safe from every thread. Handlers are called on the fabric's thread, one at a time, with no lock held.
public final class Coordinator: Sendable {
    /// What to publish.
    public struct Task: Sendable {
        /// 0 is the lowest priority, and 4 the highest.
        public var priority: UInt8 = 2
        /// The queue's name, for those who look at the server.
        public var queue = ""
        /// Whether the task must never run twice. It is lost with its worker then.
        public var isAtMostOnce = false
        /// How many workers may be lost with the task before it is lost as well.
        public var maximumDeliveries = 3
        /// The contents.
        public var payload: Payload

        /// Makes a task.
        public init(_ payload: Payload) { self.payload = payload }
    }

    /// What has become of a task.
    public enum Outcome: Sendable {
        /// A worker has run it. The times are seconds of this member's clock, after the task was submitted and not after now.
        case ended(Payload, worker: WorkerDescription?, began: Double, ended: Double)
        /// It was stopped before a worker had begun with it.
        case stopped
        /// The workers that had it were lost.
        case lost(workers: [String])
        /// The server does not take it.
        case refused(String)
    }

    /// Gets what happens to a task.
    public struct Handlers: Sendable {
        /// A worker has taken the task.
        public var taken: @Sendable (WorkerDescription?) -> Void = { _ in }
        /// The body has written to stdout (1) or stderr (2).
        public var output: @Sendable (UInt8, [UInt8], WorkerDescription?) -> Void = { _, _, _ in }
        /// The task has ended. Called once, and last.
        public var ended: @Sendable (Outcome) -> Void

        /// Makes handlers.
        public init(ended: @escaping @Sendable (Outcome) -> Void) { self.ended = ended }
    }

    /// What concerns no task.
    public struct Events: Sendable {
        /// Something that a person should know: the connection was lost, a worker has another key or version.
        public var notice: @Sendable (String) -> Void = { _ in }
        /// The number of slots has changed.
        public var slotsHaveChanged: @Sendable (Int) -> Void = { _ in }
        /// Answers what a worker asks; nil for no answer.
        public var answer: @Sendable ([UInt8], _ completion: @escaping @Sendable ([UInt8]) -> Void) -> Void = { _, _ in }

        /// Makes handlers that do nothing.
        public init() {}
    }

    struct Entry {
        let task: Task
        let handlers: Handlers
        let submitted: Double
        var attempt: UInt64 = 0
        /// Who has the task now.
        var holder: String?
        /// Where the stream learns what becomes of the message that the holder has taken.
        var acknowledgement: String?
        /// The workers that were lost with it.
        var lostWorkers: [String] = []
        var stop: StopRequest?
        /// Whether a worker was allowed to begin with a task that must not run twice.
        var isClaimed = false
        /// Whether the outcome's blobs are on their way.
        var isFetching = false
    }

    struct Peer {
        var description: WorkerDescription
        var lastHeard: Double
        /// The sequence number of the last report.
        var lastReport: UInt64 = 0
        /// The least difference that was seen between this clock and the worker's.
        var clockOffset: Double
        /// Since when nobody has answered on the worker's subject.
        var silentSince: Double?
        var tasks: Set<UInt64> = []
    }

    struct State {
        var entries: [UInt64: Entry] = [:]
        var peers: [String: Peer] = [:]
        var lastNumber: UInt64 = 0
        var beatCount: UInt64 = 0
        var slotCount = 0
        var connectedSince: Double = 0
        var wasConnected = true
        var toldNotices: Set<String> = []
        var isClosed = false
    }

    /// The version of opscript that workers must have.
    let version: String
    /// The name of this run among others.
    public let run = Subject.identifier()
    let exchange: Exchange
    let events: Events
    let state = Mutex(State())

    /// Seconds between two messages that say that this coordinator is there.
    static let beatInterval = 5.0
    /// Seconds between two looks at the workers.
    static let watchInterval = 0.25
    /// Seconds that nobody may listen on a worker's subject before it counts as gone. A worker that connects to another server needs some.
    static let absence = 1.5
    /// Seconds without a word after which a worker counts as lost.
    static let silence = JetStream.acknowledgeWait

    /// Makes a coordinator that is not connected yet.
    public init(_ fabric: any Fabric, key: ClusterKey?, version: String, events: Events = Events()) {
        self.version = version
        self.events = events
        exchange = Exchange(fabric, key: key, keptBytes: 64 << 20)
    }

    /// Seconds of this member's clock.
    public var now: Double { exchange.fabric.now }

    /// Makes the stream, unless it is there, and looks for workers.
    ///
    /// - Parameter completion: called once, on any thread, with what is wrong; nil if all is well.
    public func start(completion: @escaping @Sendable (ClusterError?) -> Void) {
        state.withLock { $0.connectedSince = now }
        do throws(ClusterError) {
            try exchange.start([Subject.run(run), Subject.hello], self)
        } catch { return completion(error) }
        JetStream.setUp(exchange) { [self] refusal in
            if let refusal { return completion(ClusterError(JetStream.words(of: refusal))) }
            exchange.publish(.find, to: Subject.find)
            beat()
            watch()
            completion(nil)
        }
    }

    /// Ends: the workers stop what they do for this run, and its jobs go from the stream. Tasks that have not ended are stopped.
    public func close() {
        let entries = state.withLock { state -> [UInt64: Entry]? in
            if state.isClosed { return nil }
            state.isClosed = true
            defer { state.entries = [:] }
            return state.entries
        }
        guard let entries else { return }
        for (_, entry) in entries { entry.handlers.ended(.stopped) }
        exchange.publish(.beat(run: run, .max, isLast: true), to: Subject.beat)
        if exchange.fabric.isConnected { JetStream.purge(exchange, run: run) {} }
        exchange.close(waiting: 2)
    }

    /// The number of tasks that the known workers run at once.
    public var slotCount: Int { state.withLock { $0.slotCount } }

    /// The workers that this coordinator knows, by name.
    public var workers: [WorkerDescription] {
        state.withLock { $0.peers.values.map(\.description) }.sorted { ($0.host, $0.name) < ($1.host, $1.name) }
    }

    /// The worker that has a task; nil if none has taken it.
    public func worker(of number: UInt64) -> WorkerDescription? {
        state.withLock { state in state.entries[number]?.holder.flatMap { state.peers[$0]?.description } }
    }

    /// Calls `body` after so many seconds, on any thread.
    public func after(_ seconds: Double, _ body: @escaping @Sendable () -> Void) { exchange.fabric.after(seconds, body) }

    // MARK: tasks

    /// Publishes a task.
    ///
    /// - Parameter willPublish: called with the number of the task, before a worker can have it.
    /// - Returns: the number, for `stop`.
    @discardableResult
    public func submit(_ task: Task, _ handlers: Handlers, willPublish: (UInt64) -> Void = { _ in }) -> UInt64 {
        for blob in task.payload.contents { exchange.offer(blob) }
        let now = now
        let number = state.withLock { state -> UInt64? in
            if state.isClosed { return nil }
            state.lastNumber += 1
            state.entries[state.lastNumber] = Entry(task: task, handlers: handlers, submitted: now)
            return state.lastNumber
        }
        guard let number else {
            handlers.ended(.stopped)
            return 0
        }
        willPublish(number)
        publish(number, task, attempt: 0)
        return number
    }

    /// Seconds between two attempts to publish, and their number.
    private static let secondsPerTry = 2.0, tries = 15

    func publish(_ number: UInt64, _ task: Task, attempt: UInt64) {
        let job = Job(
            run: run, number: number, attempt: attempt, priority: task.priority, isAtMostOnce: task.isAtMostOnce, payload: task.payload)
        let subject = Subject.job(run: run, queue: Subject.token(task.queue), priority: task.priority)
        exchange.store(.job(job), to: subject, id: "\(run).\(number).\(attempt)", every: Self.secondsPerTry, tries: Self.tries) {
            [self] reply in
            let refusal: String
            switch reply {
            case .unsealed(let answer):
                guard let refused = JetStream.refusal(in: answer) else { return }
                refusal = JetStream.words(of: refused)
            case .noResponders: refusal = "its stream is gone"
            case .timeout: refusal = "it does not answer"
            case .message: return
            }
            handleRefusal(of: number, attempt: attempt, refusal)
        }
    }

    /// Seconds after which a task that the server has refused is published again, and how often.
    private static let refusalInterval = 1.0, refusalTries: UInt64 = 10

    /// The server may have no room now, or have lost the stream with its disk.
    private func handleRefusal(of number: UInt64, attempt: UInt64, _ refusal: String) {
        let entry = state.withLock { state -> Entry? in
            guard let entry = state.entries[number], entry.attempt == attempt, entry.holder == nil else { return nil }
            return entry
        }
        guard let entry else { return }
        if attempt >= Self.refusalTries + UInt64(entry.lostWorkers.count) {
            return end(number, .refused("the server does not take the operation: \(refusal)"))
        }
        notice("the server does not take operations now: \(refusal); trying again")
        exchange.fabric.after(Self.refusalInterval) { [self] in
            JetStream.setUp(exchange) { [self] _ in publishAgain(number, attempt) }
        }
    }

    private func publishAgain(_ number: UInt64, _ attempt: UInt64) {
        let task = state.withLock { state -> Task? in
            guard let entry = state.entries[number], entry.attempt == attempt, entry.holder == nil else { return nil }
            state.entries[number]?.attempt += 1
            return entry.task
        }
        if let task { publish(number, task, attempt: attempt + 1) }
    }

    /// Stops a task. One that no worker has ends at once; another one when its worker says so. Repeating this does no harm.
    public func stop(_ number: UInt64, _ request: StopRequest) {
        let (holder, isOver, attempt) = state.withLock { state -> (String?, Bool, UInt64) in
            guard let entry = state.entries[number] else { return (nil, false, 0) }
            if entry.stop == nil || request != .cancel { state.entries[number]?.stop = request }
            return (entry.holder, entry.holder == nil && !entry.isClaimed, entry.attempt)
        }
        if let holder { exchange.publish(.stop(run: run, number: number, attempt: attempt, request), to: Subject.worker(holder)) }
        if isOver { end(number, .stopped) }
    }

    /// Lets workers get a blob as long as the caller keeps it.
    public func offer(_ blob: Blob) { exchange.offer(blob) }

    /// Ends a task as stopped, whatever its worker does.
    public func abandon(_ number: UInt64) {
        stop(number, .drop)
        end(number, .stopped)
    }

    /// Forgets a task and tells what has become of it.
    func end(_ number: UInt64, _ outcome: Outcome) {
        let entry = state.withLock { state -> Entry? in
            guard let entry = state.entries.removeValue(forKey: number) else { return nil }
            if let holder = entry.holder { state.peers[holder]?.tasks.remove(number) }
            return entry
        }
        entry?.handlers.ended(outcome)
    }

    /// Tells a person something, once.
    func notice(_ text: String) {
        let isNew = state.withLock { $0.toldNotices.insert(text).inserted }
        if isNew { events.notice(text) }
    }
}
