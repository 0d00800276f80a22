import OpPlatform
import Synchronization

/// Receives work for one thread from other threads. Only the owning thread runs the work: the worker, the thread that made the engine, or in a
/// runtime's main inbox the thread that is inside the runtime.
public final class Inbox: @unchecked Sendable {
    // Safety: `@unchecked Sendable` because `jobs` has a lock, and the other variables are used only on the owning thread.

    /// The reason why a `run` ended.
    public enum Outcome: Sendable, Hashable {
        /// The predicate was true.
        case satisfied
        /// The deadline passed.
        case timedOut
        /// Nothing can make the predicate true any more.
        case stalled
    }

    /// Not retained, because the engine owns its inboxes. A user who holds only the inbox can still post.
    var engine: Engine? { reference.engine.object }
    private let reference: EngineReference
    let parker: Parker
    private let entrance: Entrance?
    private var isMain: Bool { entrance != nil }
    private let jobs = Guarded(Jobs())
    /// The number of jobs that were posted, and of those that the owning thread has taken. `postedCount` changes only with the lock of
    /// `jobs` held, `takenCount` only on the owning thread.
    private let postedCount = Atomic<Int>(0)
    private let takenCount = Atomic<Int>(0)
    /// The jobs that the owning thread has fetched in one go, and how many of them it has taken. Used only on the owning thread.
    @safe @exclusivity(unchecked) private var fetched: [Block?] = []
    @safe @exclusivity(unchecked) private var fetchedAndTaken = 0
    /// The number of jobs that may wait at the same time, each inside the wait of the one before. Each takes room on the thread's stack.
    private static let maxNestedJobs = 16
    /// The number of jobs that may wait inside each other if nothing else goes on for `patience`: the last wait may wait for a job that has not
    /// begun. Lua has room for about a hundred callbacks.
    private static let mostJobs = 80
    private static let patience = Duration.milliseconds(50)
    /// The number of jobs that have begun and not finished. Jobs nest when one waits. Used only on the owning thread.
    @safe @exclusivity(unchecked) private var runningJobs = 0
    private let operationsReady = Atomic<Bool>(false)
    /// Notifies hosts with their own event loop.
    let announcements = Announcements()

    private struct Jobs {
        var pending: [Block?] = []
        /// Whether the thread has ended, so that new jobs are dropped.
        var isClosed = false
    }

    /// Creates the inbox of a worker, or of the main queue if there is an entrance.
    init(parker: Parker, reference: EngineReference, entrance: Entrance?) {
        (self.parker, self.reference, self.entrance) = (parker, reference, entrance)
    }

    // MARK: From any thread

    /// Posts a job to be run on the owning thread. Jobs run in the order of posting. Wakes the thread if it sleeps.
    ///
    /// - Returns: false if the owning thread has ended, so that the job will never run.
    @discardableResult
    public func post(_ job: @escaping @Sendable () -> Void) -> Bool {
        reference.pendingJobs.wrappingAdd(1, ordering: .acquiringAndReleasing)
        let isAccepted = jobs.withLock { jobs in
            if jobs.isClosed { return false }
            jobs.pending.append(Block(job))
            postedCount.store(postedCount.load(ordering: .relaxed) + 1, ordering: .sequentiallyConsistent)
            return true
        }
        if !isAccepted {
            jobHasEnded()
            return false
        }
        parker.unpark()
        announcements.announce()
        return true
    }

    /// Makes a blocked `run` evaluate its predicate again. Lock-free and async-signal-safe.
    public func wake() { parker.unpark() }

    func operationsAreReady() {
        operationsReady.store(true, ordering: .sequentiallyConsistent)
        parker.unpark()
        announcements.announce()
    }

    /// Whether there is nothing to drain.
    package var isEmpty: Bool {
        jobCount == 0 && !operationsReady.load(ordering: .sequentiallyConsistent)
    }

    var hasReadyOperations: Bool { operationsReady.load(ordering: .acquiring) }
    package var hasJobs: Bool { jobCount != 0 }
    /// Whether the thread has work to run before it may sleep.
    package var hasWork: Bool { hasJobs || hasReadyOperations }

    /// The number of jobs that have not begun. Other threads may see too high a number.
    @inline(__always)
    private var jobCount: Int {
        let taken = takenCount.load(ordering: .sequentiallyConsistent)
        return postedCount.load(ordering: .sequentiallyConsistent) - taken
    }

    // MARK: On the owning thread

    /// Whether `run` and `drain` run jobs: false inside the waits of many other jobs.
    package var mayNest: Bool { runningJobs < Inbox.maxNestedJobs }

    /// Runs jobs, and in a main inbox also ready operations of the main queue in order of priority, until `predicate` is true. Evaluates
    /// `predicate` between them, and after a signal. Sleeps while there is nothing to run. Must be called on the owning thread.
    ///
    /// With a deadline, never returns `.stalled`. Without one, returns `.stalled` if the engine is quiescent and was created with
    /// `hostMayAddOperations: false`, or if nothing is left to do in a simulation. While a worker sleeps in this method, another thread takes over
    /// its share of the work.
    ///
    /// A job that calls this method waits, and other jobs begin inside its wait. If 16 jobs wait so, further ones begin only after the last wait
    /// has lasted 50 ms, and none if 80 wait. The stack of the thread therefore has room for any number of jobs that wait.
    public func run(until predicate: () -> Bool, deadline: ContinuousClock.Instant? = nil) -> Outcome {
        run(inPlace: false, until: predicate, deadline: deadline)
    }

    /// Like `run(until:deadline:)`.
    ///
    /// - Parameters:
    ///   - inPlace: whether a sleeping worker keeps its place for a program that it waits for: no other thread takes over its share of the work.
    ///   - runsJobs: whether to run jobs and operations, or to leave them.
    package func run(
        inPlace: Bool, runsJobs: Bool = true, until predicate: () -> Bool, deadline: ContinuousClock.Instant?
    ) -> Outcome {
        serving("Inbox.run(until:deadline:)") { context, engine in
            var patience: ContinuousClock.Instant?
            // The deadline does not hinder the jobs that are there now. Jobs that post further ones must not put it off for ever.
            var jobsLeft = jobCount
            while true {
                if predicate() { return .satisfied }
                var mayRun = runsJobs && mayNest
                if runsJobs, !mayNest, hasWork, runningJobs < Inbox.mostJobs {
                    let now = engine?.now ?? .now, end = patience ?? now + Inbox.patience
                    mayRun = now >= end
                    patience = mayRun ? nil : end
                } else {
                    patience = nil
                }
                if mayRun, jobsLeft > 0 || hasReadyOperations || deadline == nil, runOne(context) {
                    jobsLeft -= 1
                    continue
                }
                if let deadline, (engine?.now ?? .now) >= deadline { return .timedOut }
                if mayRun, runOne(context) { continue }
                let limit = patience.map { min($0, deadline ?? $0) } ?? deadline
                let outcome = sleep(context, limit, inPlace: inPlace, runsJobs: mayRun, predicate)
                if let outcome, outcome != .timedOut || limit == deadline { return outcome }
            }
        }
    }

    /// Runs the jobs that are in the inbox now, and ready operations of the main queue until none is left. Does not sleep. Returns the number of
    /// both. Must be called on the owning thread.
    public func drain() -> Int { drain(while: { true }) }

    /// Like `drain`, but asks before each job and each operation whether to run it. The rest is announced again.
    package func drain(while mayContinue: () -> Bool) -> Int {
        serving("Inbox.drain()") { context, _ in
            guard mayNest else { return 0 }
            var left = jobCount
            var count = 0
            while left > 0, mayContinue(), runJob(context) {
                left -= 1
                count += 1
            }
            while hasReadyOperations, mayContinue(), runOperation(context) { count += 1 }
            return count
        }
    }

    /// Calls `body`, which runs jobs and operations, inside the runtime. Keeps the engine meanwhile. Without its engine, an inbox receives no
    /// operations, but it may receive jobs.
    private func serving<Result>(_ name: StaticString, _ body: (ThreadContext, Engine?) -> Result) -> Result {
        let runtime = entrance.flatMap { $0.isOpen ? $0 : nil }
        runtime?.enter(name)
        defer { runtime?.leave() }
        let context = ThreadContext.current, engine = engine
        defer { withExtendedLifetime(engine) {} }
        announcements.begin()
        defer { endDraining() }
        return asRunning(context) { body(context, engine) }
    }

    /// Runs all jobs. A worker calls this method between two operations.
    func runJobs() {
        if !hasJobs { return }
        let context = ThreadContext.current
        while runJob(context) {}
    }

    private func asRunning<Result>(_ context: ThreadContext, _ body: () -> Result) -> Result {
        guard isMain else { return body() }
        let core = context.currentCore
        context.mainRuns.append(ThreadContext.MainRun(inbox: self, operation: context.operation, core: core))
        defer { context.mainRuns.removeLast() }
        if let core, core === engine?.mainQueueCore { return core.whileNested(body) }
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

    /// Calls `body`, in which the thread sleeps. Meanwhile, the jobs that the thread is running do not count as pending, because they wait, too.
    /// Jobs still in the inbox do not count either, unless the sleeping thread would run them.
    func whileJobsSleep(runsJobs: Bool, _ body: () -> Bool) -> Bool {
        let asleep = runningJobs + (runsJobs ? 0 : jobCount)
        if asleep == 0 { return body() }
        reference.pendingJobs.wrappingSubtract(asleep, ordering: .acquiringAndReleasing)
        defer { reference.pendingJobs.wrappingAdd(asleep, ordering: .acquiringAndReleasing) }
        return body()
    }

    private func jobHasEnded() {
        if reference.pendingJobs.wrappingSubtract(1, ordering: .acquiringAndReleasing).newValue == 0 { engine?.reportStall() }
    }

    /// Runs the remaining jobs when the thread ends or the engine has been shut down. Later jobs are dropped.
    package func close() {
        repeat { runJobs() } while !closeIfEmpty()
    }

    /// Closes the inbox, so that later jobs are dropped. Returns false if a job is left.
    func closeIfEmpty() -> Bool {
        jobs.withLock { jobs in
            jobs.isClosed = jobs.pending.isEmpty && fetched.isEmpty
            return jobs.isClosed
        }
    }

    /// Runs the next operation of the main queue, if there is one.
    private func runOperation(_ context: ThreadContext) -> Bool {
        guard isMain, operationsReady.exchange(false, ordering: .acquiringAndReleasing), let core = engine?.mainQueueCore else {
            return false
        }
        // Taking an operation schedules the queue again if there are more, which sets the flag again.
        return core.runOne(on: context, by: .outside, finishesLater: false)
    }

    /// Sleeps once. Returns an outcome if the run must end.
    private func sleep(
        _ context: ThreadContext, _ deadline: ContinuousClock.Instant?, inPlace: Bool, runsJobs: Bool, _ predicate: () -> Bool
    ) -> Outcome? {
        if isMain {
            if let engine, let simulated = engine.simulated {
                let outcome = simulated.run(context, self, until: predicate, deadline: deadline)
                return outcome == .timedOut ? nil : outcome
            }
            if parker.spin(for: engine) { return nil }
            if let deadline {
                _ = parker.park(until: deadline)
                return nil
            }
            // Without its engine, the inbox gets no operations any more. The predicate may have become true without a wake-up.
            let isStalled = engine.map { $0.sleepUnlessStalled(parker, canStall: true, inbox: self, runsJobs: runsJobs) } ?? true
            return isStalled ? (predicate() ? .satisfied : .stalled) : nil
        }
        func mayWake() -> Bool { runsJobs && hasJobs || predicate() }
        let outcome =
            inPlace
            ? context.blockInPlace(parker: parker, deadline: deadline, until: mayWake)
            : context.block(on: engine, parker: parker, deadline: deadline, canStall: true, runsJobs: runsJobs, until: mayWake)
        return outcome == .satisfied ? nil : outcome
    }
}
