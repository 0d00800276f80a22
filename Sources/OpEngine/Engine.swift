import CPlatform
import Glibc
import OpPlatform
import Synchronization

/// A pool of worker threads and a main queue. Engines in the same process are independent of each other.
@safe public final class Engine: @unchecked Sendable {
    // Safety: `@unchecked Sendable` because each stored property is a constant that is safe to use from any thread, or states what guards
    // it.

    /// The engine of `OperationQueue()` and `OperationQueue.main`. Its main thread is the process's.
    public static let shared = Engine(mainThread: getpid())

    /// The number of processors this process may use, limited by its affinity mask and the quota of its control group.
    public static var processorCount: Int { Processors.available }

    /// The maximum number of operations that run at once, not counting blocked ones.
    public var workerCount: Int { max(1, givenWorkerCount ?? Processors.available) }
    /// The maximum number of threads.
    var threadLimit: Int { max(workerCount, givenThreadLimit ?? workerCount + 8192) }
    private let givenWorkerCount: Int?
    private let givenThreadLimit: Int?
    /// The time that an idle thread sleeps before it ends.
    let idleTime: Duration
    /// The current number of threads, including blocked and idle ones.
    public var threadCount: Int { pool.withLock { $0.workers.count } }
    /// The numbers of the pool's threads that run operations, that are blocked, and that are idle or look for work. O(threads).
    public var threadCounts: (busy: Int, blocked: Int, idle: Int) {
        pool.withLock { pool in
            let (busy, blocked) = (pool.busy.count, pool.workers.count { $0.blockingCount > 0 })
            return (busy, blocked, pool.workers.count - busy - blocked)
        }
    }
    let hostMayAddOperations: Bool
    /// Decides which thread may run the main queue.
    package let entrance: Entrance
    /// The inbox of the thread that runs this engine's main queue.
    public let mainInbox: Inbox

    /// The reference by which the inboxes find their engine.
    let reference = EngineReference()
    let pool: Guarded<Pool>
    /// Replaces the threads of a simulated engine. Nil otherwise.
    let simulated: SimulatedWorkers?
    /// The number of operations that were cancelled because a dependency did not succeed.
    package var droppedCount: Int { dropped.load(ordering: .relaxed) }
    let dropped = Atomic<Int>(0)
    /// Whether the pool has scheduled queues. Atomic, to be read without the pool's lock.
    let hasWork = Atomic<Bool>(false)
    /// An operation is tiny if it takes no longer than this from the end of the one before it to its own end. See `Standby`.
    // Safety: only tests change it, before they add operations.
    nonisolated(unsafe) var tinyDuration = Duration.nanoseconds(120)
    /// Whether `startFirstWorker` has found that threads can be started, and none has ended since without another one.
    let hasStartedWorker = Atomic<Bool>(false)
    private let holds = Atomic<Int>(0)
    private let asynchronousOperations = Atomic<Int>(0)
    let admissions: Guarded<Admissions>
    let timers: Timers
    private let phase = Atomic<UInt8>(0)
    let eventObservers = EventObservers()
    let describesWait = Guarded<(@Sendable (Operation) -> String?)?>(nil)
    let describesPlaces = Guarded<(@Sendable () -> String?)?>(nil)

    private let mainCore = Guarded<OperationQueue.Core?>(nil)
    /// The ends of the list of queues that have operations. Guarded by `Registry.lock`.
    // Safety: a core on the list retains itself.
    nonisolated(unsafe) var firstActive: Unmanaged<OperationQueue.Core>?
    private nonisolated(unsafe) var lastActive: Unmanaged<OperationQueue.Core>?
    /// The number of finished operations that no queue on the list counts. Guarded by `Registry.lock`.
    // Safety: guarded by that lock.
    nonisolated(unsafe) var formerlyFinished = 0
    /// The queue of the engine's internal operations, which no count includes.
    private let helpers = Guarded(HelperQueue())

    private struct HelperQueue {
        weak var queue: OperationQueue?
    }

    /// Creates an engine whose main queue belongs to the calling thread. Threads are started on demand.
    ///
    /// - Parameters:
    ///   - workerCount: the maximum number of operations that run at once. Nil for `processorCount`.
    ///   - hostMayAddOperations: whether the host program may add operations at any time. If false, only operations, inbox jobs and callers of `hold`
    ///     can bring work, and a wait that nothing can end is reported instead of lasting for ever.
    ///   - threadLimit: the maximum number of threads, which exceeds `workerCount` because blocked threads are replaced. Nil for
    ///     `workerCount` plus 8192.
    ///   - idleTime: the time that an idle thread sleeps before it ends.
    public convenience init(
        workerCount: Int? = nil, hostMayAddOperations: Bool = true, threadLimit: Int? = nil, idleTime: Duration = .seconds(10)
    ) {
        self.init(
            workerCount: workerCount, hostMayAddOperations: hostMayAddOperations, threadLimit: threadLimit, idleTime: idleTime,
            mainThread: cplatform_thread_id())
    }

    /// - Parameter simulated: replaces the threads. `hostMayAddOperations` must be true then, because a simulation detects by itself that
    ///   nothing can happen any more, and no other thread may check that.
    init(
        workerCount: Int? = nil, hostMayAddOperations: Bool = true, threadLimit: Int? = nil, idleTime: Duration = .seconds(10),
        mainThread: pid_t, simulated: SimulatedWorkers? = nil
    ) {
        self.simulated = simulated
        admissions = Guarded(Admissions(simulated: simulated))
        timers = simulated?.timers ?? Timers()
        self.idleTime = idleTime
        givenWorkerCount = workerCount
        givenThreadLimit = threadLimit
        self.hostMayAddOperations = hostMayAddOperations
        entrance = Entrance(mainThread: mainThread)
        pool = Guarded(Pool())
        mainInbox = Inbox(parker: Parker(), reference: reference, entrance: entrance)
        reference.engine.refer(to: self)
        if !hostMayAddOperations { ManuallyStartedOperations.register(self) }
    }

    deinit {
        reference.engine.forget(self)
        if !hostMayAddOperations { ManuallyStartedOperations.unregister(self) }
        // A suspended main queue that no user holds is dropped with its engine, as any suspended queue is.
        mainQueueCore?.abandon()
    }

    // MARK: The main queue

    /// A queue whose operations run one at a time on the thread that drains `mainInbox`.
    public var mainQueue: OperationQueue {
        mainCore.withLock { main in
            if let queue = main?.queue { return queue }
            let core = main ?? OperationQueue.Core(engine: self, isMain: true)
            let queue = OperationQueue(engine: self, mainCore: core)
            core.reference.refer(to: queue)
            main = core
            return queue
        }
    }

    /// The core of `mainQueue`. Nil until `mainQueue` is used for the first time.
    var mainQueueCore: OperationQueue.Core? { mainCore.withLock { $0 } }

    /// A queue of internal operations: no count, no list and no record includes them, and shutting down does not cancel them.
    package var helperQueue: OperationQueue {
        helpers.withLock { helpers in
            if let queue = helpers.queue { return queue }
            let made = OperationQueue(engine: self)
            made.core.isHelper.store(true, ordering: .relaxed)
            helpers.queue = made
            return made
        }
    }

    // MARK: Scheduling

    func schedule(_ queue: ServedQueue, on group: ThreadGroup) {
        if let simulated { return simulated.schedule(queue, on: group) }
        let wake = pool.withLock { pool in
            let wake = pool.schedule(queue, on: group, engine: self)
            hasWork.store(true, ordering: .releasing)
            return wake
        }
        perform(wake)
        if queue.level.load(ordering: .relaxed) < ServedQueue.usualLevel { preempt(for: queue) }
    }

    /// Makes the workers look at the run queue after their present operation, because a queue of a high priority has arrived.
    @inline(never)
    private func preempt(for queue: ServedQueue) {
        let level = queue.level.load(ordering: .relaxed)
        for worker in pool.withLock({ pool in pool.busy.filter { $0.servedLevel > level && !$0.inbox.hasJobs } }) {
            _ = worker.inbox.post {}
        }
    }

    /// Starts a worker unless one exists, before the first operation is added. Returns false if the system cannot start a thread.
    @inline(never)
    func startFirstWorker() -> Bool {
        // A worker must not inherit a raised nice value.
        if ThreadStarter.isNeeded { return true }
        // A simulated engine has no threads.
        let isStarted = simulated != nil || (pool.withLock { $0.makeFirstWorker(self) }?.tryStart() ?? true)
        if isStarted { hasStartedWorker.store(true, ordering: .relaxed) }
        return isStarted
    }

    func perform(_ wake: Pool.Wake) {
        switch wake {
        case .none: break
        case .unpark(let worker): worker.parker.unpark()
        case .spawn(let worker): worker.start()
        case .startMonitor(let monitor): monitor.start()
        case .wakeMonitor(let monitor): monitor.parker.unpark()
        }
    }

    // MARK: Queues that have operations

    func activate(_ core: OperationQueue.Core) {
        Registry.lock.withLock {
            // Safety: the registry's lock guards the list, and every core on it retains itself.
            let entry = unsafe Unmanaged.passUnretained(core)
            unsafe core.previousActive = lastActive
            unsafe core.nextActive = nil
            if let last = unsafe lastActive {
                unsafe last._withUnsafeGuaranteedRef { unsafe $0.nextActive = entry }
            } else {
                unsafe firstActive = entry
            }
            unsafe lastActive = entry
        }
    }

    /// - Parameter added: the number of operations that were ever added to the queue. All of them have left it.
    func deactivate(_ core: OperationQueue.Core, added: Int) {
        Registry.lock.withLock {
            if !core.isHelper.load(ordering: .relaxed) { unsafe formerlyFinished += added - core.countedAsFinished }
            core.countedAsFinished = added
            // Safety: the registry's lock guards the list, and every core on it retains itself.
            let (previous, next) = unsafe (core.previousActive, core.nextActive)
            if let previous = unsafe previous {
                unsafe previous._withUnsafeGuaranteedRef { unsafe $0.nextActive = next }
            } else {
                unsafe firstActive = next
            }
            if let next = unsafe next {
                unsafe next._withUnsafeGuaranteedRef { unsafe $0.previousActive = previous }
            } else {
                unsafe lastActive = previous
            }
        }
    }

    // MARK: Quiescence

    /// Whether nothing will happen unless code outside the engine acts.
    ///
    /// True if no operation is executing or runnable, no asynchronous operation is executing (neither on this engine nor started manually
    /// anywhere), there are no holds, no worker waits until a deadline or blocks outside the engine, and all inboxes are empty. A worker blocked
    /// in any other wait counts as not executing.
    public var isQuiescent: Bool { pool.withLock { isQuiescent($0) } }

    func isQuiescent(_ pool: Pool) -> Bool {
        pool.awake == 0 && !pool.hasScheduled && pool.timedWaits == 0 && holds.load(ordering: .acquiring) == 0
            && asynchronousOperations.load(ordering: .acquiring) == 0 && reference.pendingJobs.load(ordering: .acquiring) == 0
            && !mainInbox.hasReadyOperations && (simulated?.isIdle ?? true) && ManuallyStartedOperations.isEmpty
            && !pool.anyStandsBy
    }

    /// Declares that something outside the engine, such as a timer, a process or a host, may still add or finish an operation. Must be
    /// balanced by `release`.
    public func hold() { holds.wrappingAdd(1, ordering: .relaxed) }

    /// Balances a `hold`.
    public func release() {
        if holds.wrappingSubtract(1, ordering: .acquiringAndReleasing).newValue == 0 { reportStall() }
    }

    func operationOutlivesStart() { asynchronousOperations.wrappingAdd(1, ordering: .acquiringAndReleasing) }

    func asynchronousOperationEnded() {
        if asynchronousOperations.wrappingSubtract(1, ordering: .acquiringAndReleasing).newValue == 0 { reportStall() }
    }

    /// Sets the function that describes the wait of an executing operation's body, such as `to receive from channel 'lines'`. The module
    /// above knows these waits.
    package func describeWaits(_ describe: @escaping @Sendable (Operation) -> String?) { describesWait.withLock { $0 = describe } }

    /// Sets the function that describes a wait for a place, such as `for a place: 'make' has the only one`. Nil if no program has places.
    package func describePlaces(_ describe: @escaping @Sendable () -> String?) { describesPlaces.withLock { $0 = describe } }

    /// The reason why no thread takes an operation that is ready, if programs or other users of the source have all places.
    var purposeOfWaitForPlace: String? { isEveryPlaceHeld || awaitsSource ? describesPlaces.withLock { $0 }?() : nil }

    // MARK: Shutdown

    /// Whether `shutdown` has begun. Operations that are added from then on are cancelled.
    var isEnding: Bool { phase.load(ordering: .acquiring) != 0 }
    /// Whether `shutdown` has stopped the workers. No operation can be added any more.
    var hasEnded: Bool { phase.load(ordering: .acquiring) == 2 }

    /// Cancels all operations, including barriers and those in suspended queues, waits until they have finished, and stops the threads.
    /// Runs the main queue meanwhile if called on its thread. Must not be called on a worker.
    ///
    /// - Parameters:
    ///   - deadline: the time to wait.
    ///   - stop: is called once, after half of that time, for each operation that has not finished by then.
    /// - Returns: the operations that had not finished after `deadline`. Threads that run them are left alone.
    public func shutdown(deadline: Duration, stop: (Operation) -> Void = { _ in }) -> [Operation] {
        let end = now + deadline
        var stopping: ContinuousClock.Instant? = now + deadline / 2
        phase.store(1, ordering: .releasing)
        while true {
            unfinishedOperations().cancelAll()
            for core in activeCores() { core.change(queue: core.queue) { $0.isEnding = true } }
            let cores = activeCores()
            if cores.isEmpty || now >= end { break }
            if let instant = stopping, now >= instant {
                stopping = nil
                unfinishedOperations().forEach(stop)
            }
            for core in cores { core.waitUntilEmpty(deadline: stopping ?? end) }
        }
        phase.store(2, ordering: .releasing)
        let (threads, sleeping) = pool.withLock { $0.end() }
        for parker in sleeping { parker.unpark() }
        for thread in threads where thread !== Worker.current?.thread { thread.join(until: end) }
        return unfinishedOperations()
    }
}

/// Guards the engines' lists of queues that have operations, and the moment when such a queue stops retaining itself.
enum Registry {
    static let lock = Lock()
}
