import Synchronization

/// What reaches a thread from outside. It belongs to one thread, which runs it.
public final class Inbox: @unchecked Sendable {
    // Safety: `@unchecked Sendable` because `jobs` has a lock and `engine` is written once, before the inbox is shared, and weak.

    /// How a `run` ended.
    public enum Outcome: Sendable, Hashable {
        /// The predicate was true.
        case satisfied
        /// The deadline has passed.
        case timedOut
        /// Nothing can make the predicate true any more.
        case stalled
    }

    /// Weak because the engine owns its inboxes; whoever holds only the inbox can still post.
    private(set) weak var engine: Engine?
    let parker: Parker
    private let isMain: Bool
    /// Jobs in all inboxes of the engine that have not been run to their end.
    private let pendingJobs: PendingJobs
    private let jobs = Guarded(Jobs())
    /// How many have been posted, and how many its thread has taken: changed with the lock held, and by that thread alone.
    private let postedCount = Atomic<Int>(0)
    private let takenCount = Atomic<Int>(0)
    /// Those that its thread has fetched, all that there were at once, and how many of them it has taken. Used on its thread only.
    @safe @exclusivity(unchecked) private var fetched: [Block?] = []
    @safe @exclusivity(unchecked) private var fetchedAndTaken = 0
    /// Jobs that have begun and not ended: nested, while one waits. Used on its thread only.
    @safe @exclusivity(unchecked) private var runningJobs = 0
    private let operationsReady = Atomic<Bool>(false)
    /// To hosts with a loop of their own.
    let announcements = Announcements()

    private struct Jobs {
        var pending: [Block?] = []
        /// The thread has ended: jobs are dropped.
        var isClosed = false
    }

    /// What the inboxes of one engine count together.
    final class PendingJobs: Sendable {
        let count = Atomic<Int>(0)
    }

    /// The inbox of a worker, or of a main thread, whose engine calls `belongs` before it shares it.
    init(parker: Parker, pendingJobs: PendingJobs, isMain: Bool) {
        self.parker = parker
        self.pendingJobs = pendingJobs
        self.isMain = isMain
    }

    func belongs(to engine: Engine) { self.engine = engine }

    /// The main queue, for the main inbox.
    var mainQueue: OperationQueue? { isMain ? engine?.mainQueue : nil }

    // MARK: From any thread

    /// Jobs run in the order in which they were posted, and wake the thread when it sleeps.
    public func post(_ job: @escaping @Sendable () -> Void) {
        pendingJobs.count.wrappingAdd(1, ordering: .acquiringAndReleasing)
        let isAccepted = jobs.withLock { jobs in
            if jobs.isClosed { return false }
            jobs.pending.append(Block(job))
            postedCount.store(postedCount.load(ordering: .relaxed) + 1, ordering: .sequentiallyConsistent)
            return true
        }
        if !isAccepted { return jobHasEnded() }
        parker.unpark()
        announcements.announce()
    }

    /// Makes a blocked `run` evaluate its predicate again. Lock-free and async-signal-safe.
    public func wake() { parker.unpark() }

    func operationsAreReady() {
        operationsReady.store(true, ordering: .sequentiallyConsistent)
        parker.unpark()
        announcements.announce()
    }

    /// Nothing to drain.
    var isEmpty: Bool {
        jobCount == 0 && !operationsReady.load(ordering: .sequentiallyConsistent)
    }

    var hasReadyOperations: Bool { operationsReady.load(ordering: .acquiring) }
    package var hasJobs: Bool { jobCount != 0 }

    /// Jobs that have not begun. From another thread it may be more than that.
    @inline(__always)
    private var jobCount: Int {
        let taken = takenCount.load(ordering: .sequentiallyConsistent)
        return postedCount.load(ordering: .sequentiallyConsistent) - taken
    }

    // MARK: On its thread

    /// Runs jobs, and on a main inbox ready operations of the main queue, one at a time in priority order, until `predicate` is true,
    /// which is evaluated between them; sleeps when there are none. A signal makes it look again.
    ///
    /// With a deadline it never returns `.stalled`; without one it does when the engine is quiescent and was made with
    /// `hostMayAddOperations: false`. On a worker another thread takes its place while it sleeps.
    public func run(until predicate: () -> Bool, deadline: ContinuousClock.Instant? = nil) -> Outcome {
        let context = ThreadContext.current
        // Nothing comes from an engine that has gone, but jobs may.
        let engine = self.engine
        defer { withExtendedLifetime(engine) {} }
        announcements.begin()
        defer { endDraining() }
        return asRunning(context) {
            while true {
                if predicate() { return .satisfied }
                if runOne(context) { continue }
                if let deadline, (engine?.now ?? .now) >= deadline { return .timedOut }
                if let outcome = sleep(context, deadline, predicate) { return outcome }
            }
        }
    }

    /// Runs what is there now, without sleeping. Returns how many jobs and operations it ran.
    public func drain() -> Int {
        let context = ThreadContext.current
        let engine = self.engine
        defer { withExtendedLifetime(engine) {} }
        announcements.begin()
        defer { endDraining() }
        return asRunning(context) {
            var left = jobCount
            var count = 0
            while left > 0, runJob(context) {
                left -= 1
                count += 1
            }
            while runOperation(context) { count += 1 }
            return count
        }
    }

    /// All jobs that are there, on a worker between two operations.
    func runJobs() {
        if !hasJobs { return }
        let context = ThreadContext.current
        while runJob(context) {}
    }

    private func asRunning<Result>(_ context: ThreadContext, _ body: () -> Result) -> Result {
        guard isMain else { return body() }
        context.runningInboxes.append(self)
        defer { context.runningInboxes.removeLast() }
        return body()
    }

    func runOne(_ context: ThreadContext) -> Bool { runJob(context) || runOperation(context) }

    private func runJob(_ context: ThreadContext) -> Bool {
        guard let job = takeJob() else { return false }
        runningJobs += 1
        context.whileRunning(nil, in: nil) { job.call() }
        runningJobs -= 1
        jobHasEnded()
        return true
    }

    @inline(__always)
    private func takeJob() -> Block? {
        if fetched.isEmpty {
            guard hasJobs else { return nil }
            jobs.withLock { swap(&fetched, &$0.pending) }
        }
        let job = fetched[fetchedAndTaken].take()
        fetchedAndTaken += 1
        if fetchedAndTaken == fetched.count {
            fetched.removeAll(keepingCapacity: fetched.count <= 64)
            fetchedAndTaken = 0
        }
        takenCount.store(takenCount.load(ordering: .relaxed) + 1, ordering: .relaxed)
        return job
    }

    /// The thread sleeps in `body`. Jobs that wait there are not about to do anything, nor are those behind a wait that runs none.
    func whileJobsSleep(runsJobs: Bool, _ body: () -> Bool) -> Bool {
        let asleep = runningJobs + (runsJobs ? 0 : jobCount)
        if asleep == 0 { return body() }
        pendingJobs.count.wrappingSubtract(asleep, ordering: .acquiringAndReleasing)
        defer { pendingJobs.count.wrappingAdd(asleep, ordering: .acquiringAndReleasing) }
        return body()
    }

    private func jobHasEnded() {
        if pendingJobs.count.wrappingSubtract(1, ordering: .acquiringAndReleasing).newValue == 0 { engine?.reportStall() }
    }

    /// The thread ends, or the engine has been shut down: runs what is left; what comes later is dropped.
    package func close() {
        repeat { runJobs() } while !closeIfEmpty()
    }

    /// What comes from here on is dropped. False: there is a job.
    func closeIfEmpty() -> Bool {
        jobs.withLock { jobs in
            jobs.isClosed = jobs.pending.isEmpty && fetched.isEmpty
            return jobs.isClosed
        }
    }

    /// The next operation of the main queue.
    private func runOperation(_ context: ThreadContext) -> Bool {
        guard isMain, operationsReady.exchange(false, ordering: .acquiringAndReleasing), let core = engine?.mainQueueCore else {
            return false
        }
        // Taking schedules the queue again, and so sets the flag, when there is more.
        return core.runOne(on: context, by: .outside)
    }

    /// Sleeps once; an outcome ends the run.
    private func sleep(_ context: ThreadContext, _ deadline: ContinuousClock.Instant?, _ predicate: () -> Bool) -> Outcome? {
        if isMain {
            if let engine, let simulated = engine.simulated {
                let outcome = simulated.run(context, self, until: predicate, deadline: deadline)
                return outcome == .timedOut ? nil : outcome
            }
            if engine?.isWorthWatching ?? false, parker.spin() { return nil }
            if let deadline {
                _ = parker.park(until: deadline)
                return nil
            }
            // Without its engine nothing comes any more. A predicate may have become true without a wake-up.
            let isStalled = engine.map { $0.sleepUnlessStalled(parker, canStall: true, inbox: self, runsJobs: true) } ?? true
            return isStalled ? (predicate() ? .satisfied : .stalled) : nil
        }
        let outcome = context.block(on: engine, parker: parker, deadline: deadline, canStall: true, runsJobs: true) {
            self.hasJobs || predicate()
        }
        return outcome == .satisfied ? nil : outcome
    }
}
