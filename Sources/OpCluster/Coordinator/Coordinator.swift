import OpPlatform
import Synchronization

/// The member of a cluster that has the work: it publishes tasks, and receives their outcomes. It alone decides what has happened to a task, so
/// repeated and lost messages do not change that.
///
/// - Concurrency: safe from every thread. Handlers are called on any thread, one at a time, with no lock held.
public final class Coordinator: Sendable {
    /// A task to publish.
    public struct Task: Sendable {
        /// 0 is the lowest priority, and 4 the highest.
        public var priority: UInt8 = 2
        /// The queue's name, for a person who looks at the server.
        public var queue = ""
        /// Whether the task must never run twice. If so, it is lost with its worker.
        public var isAtMostOnce = false
        /// The task is lost when so many workers were lost with it.
        public var maximumDeliveries = 3
        /// The contents.
        public var payload: Payload

        /// Makes a task.
        public init(_ payload: Payload) { self.payload = payload }
    }

    /// The outcome of a task.
    public enum Outcome: Sendable {
        /// A worker has run it. Both times lie between the submission and now, in seconds of this member's clock.
        case ended(Payload, worker: WorkerDescription?, began: Double, ended: Double)
        /// It was stopped before a worker had begun with it.
        case stopped
        /// The workers that had it were lost.
        case lost(workers: [String])
        /// The server does not take it.
        case refused(String)
    }

    /// Gets the events of a task.
    public struct Handlers: Sendable {
        /// A worker has got the task. Called again if another worker gets it, and late while other handlers take long.
        public var taken: (@Sendable (WorkerDescription?) -> Void)?
        /// The body has written to stdout (1) or stderr (2).
        public var output: @Sendable (UInt8, [UInt8], WorkerDescription?) -> Void = { _, _, _ in }
        /// The task has ended. Called once, and last.
        public var ended: @Sendable (Outcome) -> Void

        /// Makes handlers.
        public init(ended: @escaping @Sendable (Outcome) -> Void) { self.ended = ended }
    }

    /// Handlers of events that concern no task.
    public struct Events: Sendable {
        /// Something that a person should know: the connection was lost, a worker has another key or version.
        public var notice: @Sendable (String) -> Void = { _ in }
        /// The number of slots has changed.
        public var slotsHaveChanged: @Sendable (Int) -> Void = { _ in }
        /// Answers a worker's question. The worker gets no answer unless the function calls `completion`.
        public var answer: @Sendable ([UInt8], _ completion: @escaping @Sendable ([UInt8]) -> Void) -> Void = { _, _ in }

        /// Makes handlers that do nothing.
        public init() {}
    }

    /// Calls handlers, in the coordinator's deliveries only. Events for a task can arrive after its outcome. The listener drops them.
    final class Listener: Sendable {
        private let handlers: Handlers
        private let hasEnded = Atomic<Bool>(false)

        init(_ handlers: Handlers) { self.handlers = handlers }

        var wantsTaken: Bool { handlers.taken != nil }

        func taken(_ worker: WorkerDescription?) { if !hasEnded.load(ordering: .relaxed) { handlers.taken?(worker) } }

        func output(_ stream: UInt8, _ bytes: [UInt8], _ worker: WorkerDescription?) {
            if !hasEnded.load(ordering: .relaxed) { handlers.output(stream, bytes, worker) }
        }

        func ended(_ outcome: Outcome) {
            hasEnded.store(true, ordering: .relaxed)
            handlers.ended(outcome)
        }
    }

    struct Entry {
        let task: Task
        let listener: Listener
        let submitted: Double
        var attempt: UInt64 = 0
        /// The number of the attempt's message in the stream, once the stream has it.
        var sequence: UInt64?
        /// Whether the stream has the attempt's message, as far as is known here.
        var isInStream = false
        /// Since when the server refuses the task.
        var refusedSince: Double?
        var passedOver: PassedOver?
        /// The worker that has the task now.
        var holder: String? { didSet { if let holder { lastHolder = (holder, attempt) } } }
        /// The worker that has the task, or had it last, and the attempt then.
        private(set) var lastHolder: (worker: String, attempt: UInt64)?
        /// The subject of the messages that tell the stream what becomes of the holder's job.
        var acknowledgement: String?
        /// How often workers have given the task back, except because their slots were busy.
        var declineCount = 0
        /// The workers that were lost with it.
        var lostWorkers: [String] = []
        var stop: StopRequest?
        /// The reply subject of the claim of the body that may begin with a task that must not run twice.
        var claim: String?
        /// The outcomes that have arrived. The coordinator fetches the blobs of the first one.
        var outcomes: [FoundOutcome] = []
    }

    /// A job that the stream has not delivered although it has delivered a later one of the priority.
    struct PassedOver {
        let since: Double
        /// The last job that a worker had taken when the stream had delivered all jobs of lost workers again. The stream delivers such jobs first. So
        /// if a worker takes a job later than `last`, the stream has skipped this job.
        var last: UInt64?
    }

    /// An outcome, before its blobs are here.
    struct FoundOutcome {
        let attempt: UInt64
        let payload: Payload
        let worker: String
        let began: Double, ended: Double
    }

    struct Peer {
        var description: WorkerDescription
        var lastHeard: Double
        /// When the worker's clock showed that it sent its last hello or report.
        var lastSent: Double
        var lastAsked = -Double.infinity
        /// The worker's session of this run, and the sequence number of the last report in it.
        var session: UInt64 = 0
        var lastReport: UInt64 = 0
        /// The sequence number of the last report that was confirmed, and whether a confirmation of later ones is planned.
        var lastConfirmed: UInt64 = 0
        var willConfirm = false
        /// The least difference that was seen between this clock and the worker's.
        var clockOffset: Double
        /// Since when the worker's subject has no subscriber.
        var silentSince: Double?
        var tasks: Set<UInt64> = []
    }

    struct State {
        var entries: [UInt64: Entry] = [:]
        var peers: [String: Peer] = [:]
        /// The workers that were lost in the last minutes. A worker that returns continues its reports with the next number.
        var formerPeers: [String: Peer] = [:]
        var lastNumber: UInt64 = 0
        var beatCount: UInt64 = 0
        var slotCount = 0
        var connectedSince: Double = 0
        var wasConnected = true
        /// The last time that the stream took or gave a task, and the time to ask for the stream's contents if no progress follows.
        var lastProgress: Double = 0
        var nextCount: Double = 0
        var countInterval = Coordinator.firstCountInterval
        /// The last job of each priority that a worker has taken, and when to check next for jobs that the stream has passed over.
        var lastTaken: [UInt8: UInt64] = [:], nextLook: Double = 0
        /// Since when there has always been a worker with a free slot.
        var idleSince: Double?
        /// The tasks that the server has refused, until they are published again.
        var refused: Set<UInt64> = []
        var toldNotices: Set<String> = []
        var isClosed = false
        /// The start, until it has succeeded or failed.
        var start: MemberStart?
    }

    /// The version of opscript that workers must have.
    let version: String
    /// The name of this run among others.
    public let run: String
    let exchange: Exchange
    let events: Events
    let state = Guarded(State())
    let deliveries = Deliveries()

    /// Seconds between two beats.
    static let beatInterval = 5.0
    /// Seconds between two checks of the workers.
    static let watchInterval = 0.25
    /// Seconds for which a worker's subject may have no subscriber before the worker counts as lost. Connecting to another server takes time.
    static let absence = 1.5
    /// The same after this member's own connection was lost: the server has probably lost all others with it.
    static let absenceAfterReconnection = 5.0
    /// Seconds without a word after which a worker counts as lost.
    static let silence = JetStream.acknowledgeWait
    /// Seconds for which a lost worker is remembered.
    static let longestAbsence = 300.0
    /// Seconds for which a hello is current. A worker sends one each second.
    static let longestHelloAge = 2.5
    /// Seconds without progress after which the coordinator asks for the stream's contents, at first and at most.
    static let firstCountInterval = 10.0, longestCountInterval = 300.0
    /// Seconds between two checks for jobs that the stream has passed over, and after which it has delivered the jobs of lost workers again.
    static let lookInterval = 5.0, longestPassingOver = JetStream.acknowledgeWait + 5

    /// Makes a coordinator that is not connected yet.
    public init(_ fabric: any Fabric, key: ClusterKey?, version: String, events: Events = Events()) {
        self.version = version
        self.events = events
        run = Subject.identifier(fabric.randomNumber())
        exchange = Exchange(fabric, key: key, version: version, keptBytes: 64 << 20)
    }

    /// Seconds of this member's clock.
    public var now: Double { exchange.fabric.now }

    /// Makes the stream, unless it exists, and asks for workers.
    ///
    /// - Parameter completion: called once, on any thread, with what is wrong; nil if all is well.
    public func start(completion: @escaping @Sendable (ClusterError?) -> Void) {
        let start = MemberStart(need: "a script needs a user that may do what coordinators do", completion)
        state.withLock { ($0.connectedSince, $0.start) = (now, start) }
        do throws(ClusterError) {
            try exchange.start([Subject.run(run), Subject.hello], self)
        } catch {
            start.fail(error.description)
            return
        }
        JetStream.setUp(exchange) { [self] refusal in
            if let denial = exchange.fabric.denial { start.deny(denial) }
            if let refusal { start.fail(JetStream.words(of: refusal)) }
            if start.hasFailed { return }
            exchange.publish(.find, to: Subject.find)
            beat()
            watch()
            start.succeed()
        }
    }

    /// Closes: the workers stop the tasks of this run, and the stream drops its jobs. Unfinished tasks are stopped. Handlers must not call this,
    /// because it waits for them.
    public func close() {
        let entries = state.withLock { state -> [UInt64: Entry]? in
            if state.isClosed { return nil }
            state.isClosed = true
            defer { state.entries = [:] }
            return state.entries
        }
        guard let entries else { return }
        for (_, entry) in entries.sorted(by: { $0.key < $1.key }) { deliveries.add { entry.listener.ended(.stopped) } }
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

    /// Tells a person something, once.
    func notice(_ text: String) {
        let isNew = state.withLock { state in
            if state.toldNotices.count > 1000 { state.toldNotices = [] }
            return state.toldNotices.insert(text).inserted
        }
        if isNew { events.notice(text) }
    }
}

/// Calls functions one after the other. A function that a thread adds while another one is running is called after that.
final class Deliveries: Sendable {
    private struct State {
        var waiting: [@Sendable () -> Void] = []
        var isRunning = false
        /// How many were called.
        var count: UInt64 = 0
        /// The value of `count` at the last call of `hasMoved`.
        var lastCount: UInt64?
    }

    private let state = Guarded(State())

    /// Whether no function is stuck: none is being called, or another one than at the last call of `hasMoved`.
    var hasMoved: Bool {
        state.withLock { state in
            defer { state.lastCount = state.isRunning ? state.count : nil }
            return !state.isRunning || state.lastCount != state.count
        }
    }

    func add(_ body: @escaping @Sendable () -> Void) {
        let isFirst = state.withLock { state in
            state.waiting.append(body)
            defer { state.isRunning = true }
            return !state.isRunning
        }
        guard isFirst else { return }
        while true {
            let bodies = state.withLock { state in
                defer { state.waiting = [] }
                if state.waiting.isEmpty { state.isRunning = false }
                return state.waiting
            }
            if bodies.isEmpty { return }
            for body in bodies {
                state.withLock { $0.count += 1 }
                body()
            }
        }
    }
}
