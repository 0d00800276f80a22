import OpPlatform

/// The member of a cluster that does the work: it takes jobs from the stream, has a runner run them, and reports their outcomes.
///
/// - Concurrency: safe from every thread.
public final class ClusterWorker: Sendable {
    /// Runs tasks. Called on any thread, such as the one that has finished another task, with no lock of the worker held.
    public protocol Runner: AnyObject, Sendable {
        /// Begins to run a task. `task.finish` must be called once, on any thread.
        func run(_ task: WorkerTask)
        /// Stops a task that runs, or has just ended.
        func stop(_ task: WorkerTask, _ request: StopRequest)
        /// A task that was stopped some time ago has not ended. Others get its slot, so the task must not make them wait.
        func detach(_ task: WorkerTask)
        /// A run is over at this worker. None of its tasks starts any more, and the outcomes of running ones are not needed.
        func runHasEnded(_ run: String)
    }

    /// Handlers of events that concern no task.
    public struct Events: Sendable {
        /// Something that a person should know.
        public var notice: @Sendable (String) -> Void = { _ in }
        /// Says how loaded the machine is.
        public var load: @Sendable () -> Double = { 0 }

        /// Makes handlers that do nothing.
        public init() {}
    }

    struct State {
        /// The runs that have sent tasks, and are not over.
        var runs: [String: WorkerRun] = [:]
        /// The number of sessions so far.
        var sessionCount: UInt64 = 0
        /// For each run that has ended here, the time since which its coordinator is silent.
        var silentRuns: [String: Double] = [:]
        /// The tasks that wait for a slot, the next one last.
        var waiting: [WorkerTask] = []
        var running: [WorkerTask.Identity: WorkerTask] = [:]
        /// The running tasks that do not end after a stop, and have lost their slot.
        var detached: Set<WorkerTask.Identity> = []
        /// The tasks that wait for an answer of their coordinator, or for their blobs.
        var preparing: [WorkerTask.Identity: WorkerTask] = [:]
        /// The subjects that acknowledge the jobs that are done. The worker sends these messages with its next pull, because waking a sleeping server
        /// takes longer than letting it read on.
        var acknowledgements: [String] = []
        /// The tasks that have ended, until the coordinator knows that.
        var ended: [WorkerTask.Identity: WorkerTask] = [:]
        /// The pulls that the server has, of each priority.
        var pulls = [[Pull]](repeating: [], count: Subject.priorityCount)
        /// Before this time the worker pulls nothing, since the server has refused a pull.
        var nextPull: Double = 0
        var endedCount = 0
        /// The average seconds of a body. The last bodies count most.
        var averageSeconds = 0.1
        var isDraining = false
        var isClosed = false
        /// The start, until it has succeeded or failed.
        var start: MemberStart?
        var toldNotices: Set<String> = []

        /// The number of slots that are in use.
        var runningCount: Int { running.count - detached.count }
        /// The number of tasks that have a slot, or are to get one.
        var taskCount: Int { runningCount + preparing.count + waiting.count }
    }

    /// A request for messages: the number of those that have not arrived, and the time when the server forgets the request.
    struct Pull {
        var count: Int
        let end: Double
    }

    let slots: Int
    let exchange: Exchange
    let runner: any Runner
    let events: Events
    let state = Guarded(State())
    private let description: WorkerDescription

    static let pullPrefix = "pull"
    /// A server that dies forgets the pulls, so they are short.
    static let helloInterval = 1.0, pullSeconds = 10.0, progressInterval = 5.0
    /// Seconds between two checks for pulls that are over.
    static let pullInterval = 1.0
    /// Seconds without a word of a coordinator after which its run is over here.
    static let coordinatorSilence = 45.0
    /// Seconds after which a job whose coordinator does not answer is tried again, by any worker.
    static let greetInterval = 5.0
    /// A worker fetches ahead the tasks that it will probably begin within so many seconds, so that no slot waits for the network.
    static let aheadSeconds = 0.02
    /// The most tasks that a worker fetches ahead for each slot.
    static let mostAhead = 64
    /// For slots whose bodies take more seconds than this, nothing is fetched ahead. They wait for less than a hundredth of the time, and another
    /// worker may have a free slot earlier.
    static let longestAhead = 0.1
    /// Seconds that a stopped body may take to end before others get its slot. Commands that it waits for are killed after two seconds.
    static let stopSeconds = 4.0

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
        exchange = Exchange(fabric, key: key, version: description.version, keptBytes: keptBytes)
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
        let start = MemberStart(need: "a worker needs a user that may do what workers do", completion)
        state.withLock { $0.start = start }
        do throws(ClusterError) {
            let subjects = [
                Subject.worker(id), Subject.worker(id) + ".*", Subject.beat, Subject.find, Subject.inbox(Self.pullPrefix + id) + ".*",
            ]
            try exchange.start(subjects, self)
        } catch {
            start.fail(error.description)
            return
        }
        JetStream.setUp(exchange) { [self] refusal in
            if let denial = exchange.fabric.denial { start.deny(denial) }
            if let refusal { start.fail(JetStream.words(of: refusal)) }
            if start.hasFailed { return }
            sayHello()
            extendAcknowledgements()
            pullAgain()
            start.succeed()
        }
    }

    /// Takes no more jobs, gives back those that have not begun, and calls `completion` when the others have ended.
    public func drain(completion: @escaping @Sendable () -> Void) {
        let tasks = state.withLock { state in
            state.isDraining = true
            let running = state.running.values.filter { !$0.isBegun }
            return (state.waiting + state.preparing.values + running).sorted { $0.number < $1.number }
        }
        for task in tasks { decline(task) }
        hello()
        waitUntilEmpty(completion)
    }

    private func waitUntilEmpty(_ completion: @escaping @Sendable () -> Void) {
        let (isEmpty, runs) = state.withLock { state in
            let isEmpty =
                state.preparing.isEmpty && state.waiting.isEmpty
                && state.running.values.allSatisfy { $0.isDropped && state.detached.contains($0.identity) }
            return (state.isClosed || isEmpty, Array(state.runs.values))
        }
        if isEmpty && runs.allSatisfy(\.isQuiet) { return completion() }
        exchange.fabric.after(0.05) { [self] in waitUntilEmpty(completion) }
    }

    /// Closes at once. Running tasks count as lost. A thread that receives messages must not call this, because the call waits for that thread.
    public func close() {
        let runs = state.withLock { state in
            state.isClosed = true
            return Array(state.runs.values)
        }
        for run in runs { run.close() }
        sendAcknowledgements()
        exchange.close(waiting: 1)
        let left = state.withLock { state in
            defer {
                (state.runs, state.waiting, state.running, state.preparing, state.ended) = ([:], [], [:], [:], [:])
                state.detached = []
            }
            return state.runs
        }
        // Otherwise the runner would keep the tasks, and these would keep the worker.
        for run in left.values where run.wasAlive { runner.runHasEnded(run.name) }
    }

    /// The worker's present description, for a person.
    public var status: WorkerDescription { describe() }

    // MARK: presence

    private func describe() -> WorkerDescription {
        var present = description
        state.withLock { state in
            present.slots = state.isDraining ? 0 : slots
            present.taskCount = state.taskCount
            present.endedCount = state.endedCount
        }
        present.load = events.load()
        present.sentAt = now
        return present
    }

    func hello() { exchange.publish(.hello(describe()), to: Subject.hello) }

    private func sayHello() {
        guard state.withLock({ !$0.isClosed }) else { return }
        hello()
        exchange.fabric.after(Self.helloInterval) { [weak self] in self?.sayHello() }
    }

    /// Tells the stream that this worker still works on its jobs, and looks for runs whose coordinator is gone.
    private func extendAcknowledgements() {
        let (tasks, runs, isClosed) = state.withLock { state in
            let tasks = Array(state.running.values) + Array(state.preparing.values) + state.waiting + Array(state.ended.values)
            return (tasks, Array(state.runs.values), state.isClosed)
        }
        if isClosed { return }
        // Sorted, so that a simulation can be repeated.
        for subject in tasks.map(\.acknowledgement).sorted() { JetStream.acknowledge(exchange, subject, JetStream.inProgress) }
        for run in runs.sorted(by: { $0.session < $1.session }) where run.isSilent(for: Self.coordinatorSilence) {
            endRun(run, isOver: false)
        }
        exchange.fabric.after(Self.progressInterval) { [weak self] in self?.extendAcknowledgements() }
    }

    func notice(_ text: String) {
        let isNew = state.withLock { state in
            if state.toldNotices.count > 1000 { state.toldNotices = [] }
            return state.toldNotices.insert(text).inserted
        }
        if isNew { events.notice(text) }
    }
}
