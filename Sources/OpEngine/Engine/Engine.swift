import CPlatform
import Glibc
import Synchronization

/// A pool of worker threads and a main queue. Several engines in one process do not disturb each other.
@safe public final class Engine: @unchecked Sendable {
    // Safety: `@unchecked Sendable` because each stored property is a constant that is safe from every thread, or says what guards it.

    /// What `OperationQueue()` and `OperationQueue.main` use. Its main thread is the process's.
    public static let shared = Engine(
        workerCount: nil, hostMayAddOperations: true, threadLimit: nil, idleTime: .seconds(10), mainThread: getpid())

    /// How many processors this process may use: its affinity and the cgroup's quota count.
    public static var processorCount: Int { Processors.available }

    /// How many operations run at once when none is blocked.
    public var workerCount: Int { max(1, givenWorkerCount ?? Processors.available) }
    /// How many threads there may be.
    var threadLimit: Int { max(workerCount, givenThreadLimit ?? workerCount + 8192) }
    private let givenWorkerCount: Int?
    private let givenThreadLimit: Int?
    /// How long a thread without work sleeps before it ends.
    let idleTime: Duration
    /// How many threads there are now, blocked and idle ones included.
    public var threadCount: Int { pool.withLock { $0.workers.count } }
    let hostMayAddOperations: Bool
    /// The thread that runs the main queue.
    let mainThread: pid_t
    /// The inbox of the thread that owns this engine's main queue.
    public let mainInbox: Inbox

    let pool: Guarded<Pool>
    /// What it has instead of threads; nil unless it is simulated.
    let simulated: SimulatedWorkers?
    /// Whether the pool has scheduled queues, for those who look without its lock.
    let hasWork = Atomic<Bool>(false)
    private let holds = Atomic<Int>(0)
    private let asynchronousOperations = Atomic<Int>(0)
    let pendingJobs = Inbox.PendingJobs()
    private let phase = Atomic<UInt8>(0)
    let eventObservers = EventObservers()

    private let mainCore = Guarded<OperationQueue.Core?>(nil)
    /// The first queue that has operations. Guarded by `Registry.lock`.
    // Safety: an active queue keeps itself.
    private nonisolated(unsafe) var firstActive: Unmanaged<OperationQueue.Core>?
    private nonisolated(unsafe) var lastActive: Unmanaged<OperationQueue.Core>?
    /// For the engine's own operations, which nobody counts.
    private let helpers = Guarded(HelperQueue())

    private struct HelperQueue {
        weak var queue: OperationQueue?
    }

    /// Makes an engine whose main queue belongs to the calling thread. Threads are started when there is work.
    ///
    /// - Parameters:
    ///   - workerCount: how many operations run at once; nil: `processorCount`.
    ///   - hostMayAddOperations: false when only operations, inbox jobs and holders can bring work, so that a wait which nothing
    ///     can end is reported instead of lasting for ever.
    ///   - threadLimit: how many threads there may be, because blocked ones are replaced; nil: 8192 more than `workerCount`.
    ///   - idleTime: how long a thread without work sleeps before it ends.
    public convenience init(
        workerCount: Int? = nil, hostMayAddOperations: Bool = true, threadLimit: Int? = nil, idleTime: Duration = .seconds(10)
    ) {
        self.init(
            workerCount: workerCount, hostMayAddOperations: hostMayAddOperations, threadLimit: threadLimit, idleTime: idleTime,
            mainThread: cplatform_thread_id())
    }

    /// An engine without threads. It finds out itself when nothing can happen any more; no other thread is to look.
    convenience init(simulatedBy simulated: SimulatedWorkers) {
        self.init(
            workerCount: 1, hostMayAddOperations: true, threadLimit: nil, idleTime: .zero, mainThread: cplatform_thread_id(),
            simulated: simulated)
    }

    private init(
        workerCount: Int?, hostMayAddOperations: Bool, threadLimit: Int?, idleTime: Duration, mainThread: pid_t,
        simulated: SimulatedWorkers? = nil
    ) {
        self.simulated = simulated
        self.idleTime = idleTime
        givenWorkerCount = workerCount
        givenThreadLimit = threadLimit
        self.hostMayAddOperations = hostMayAddOperations
        self.mainThread = mainThread
        pool = Guarded(Pool())
        mainInbox = Inbox(parker: Parker(), pendingJobs: pendingJobs, isMain: true)
        mainInbox.belongs(to: self)
        if !hostMayAddOperations { StartedByHand.register(self) }
    }

    deinit {
        if !hostMayAddOperations { StartedByHand.unregister(self) }
        // A suspended main queue that nobody holds goes with its engine, as any suspended queue goes.
        mainQueueCore?.abandon()
    }

    // MARK: The main queue

    /// Its operations run one at a time on the thread that drains `mainInbox`.
    public var mainQueue: OperationQueue {
        mainCore.withLock { main in
            if let queue = main?.queue { return queue }
            let core = main ?? OperationQueue.Core(engine: self, isMain: true)
            let queue = OperationQueue(engine: self, mainCore: core)
            core.attach(queue)
            main = core
            return queue
        }
    }

    /// The queue behind `mainQueue`, once somebody has asked for it.
    var mainQueueCore: OperationQueue.Core? { mainCore.withLock { $0 } }

    /// A queue for execution blocks, outside every maximum and every count.
    var helperQueue: OperationQueue {
        helpers.withLock { helpers in
            if let queue = helpers.queue { return queue }
            let made = OperationQueue(engine: self)
            made.core.isHelper.store(true, ordering: .relaxed)
            helpers.queue = made
            return made
        }
    }

    // MARK: Scheduling

    func schedule(_ core: OperationQueue.Core, on group: ThreadGroup) {
        if let simulated { return simulated.schedule(core, on: group) }
        let wake = pool.withLock { pool in
            let wake = pool.schedule(core, on: group, engine: self)
            hasWork.store(true, ordering: .releasing)
            return wake
        }
        perform(wake)
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
            // Safety: guarded by the lock; an active queue keeps itself.
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

    func deactivate(_ core: OperationQueue.Core) {
        Registry.lock.withLock {
            // Safety: as above.
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

    func activeCores() -> [OperationQueue.Core] {
        Registry.lock.withLock {
            var all: [OperationQueue.Core] = []
            var next = unsafe firstActive
            while let entry = unsafe next {
                // Safety: as above.
                let core = unsafe entry.takeUnretainedValue()
                if !core.isHelper.load(ordering: .relaxed) { all.append(core) }
                unsafe next = core.nextActive
            }
            return all
        }
    }

    /// How many operations have been added to queues of this engine and have not finished. O(queues).
    public var unfinishedOperationCount: Int {
        activeCores().reduce(0) { $0 + $1.state.withLock { $0.count } }
    }

    /// The operations that have been added to queues of this engine and have not finished, in order of addition for each queue. O(n).
    public func unfinishedOperations() -> [Operation] { activeCores().flatMap { $0.members() } }

    /// Cancels the operations in all queues of this engine, except barriers; what executes last. O(n).
    public func cancelAllOperations() { unfinishedOperations().filter { !$0.isBarrier }.cancelAll() }

    // MARK: Quiescence

    /// Whether a worker runs something, or is about to, and leaves a processor to a thread that looks for the end of it.
    var isWorthWatching: Bool { pool.withLock { $0.awake > 0 && $0.awake < Processors.available } }

    /// Whether nothing will happen by itself: nothing is executing or runnable, no asynchronous operation is executing, here or started
    /// by hand anywhere, there is no hold, and all inboxes are empty. A worker that is blocked in a wait counts as not executing.
    public var isQuiescent: Bool { pool.withLock { nothingIsUnderWay($0) } }

    func nothingIsUnderWay(_ pool: Pool) -> Bool {
        pool.awake == 0 && !pool.hasScheduled && pool.timedWaits == 0 && holds.load(ordering: .acquiring) == 0
            && asynchronousOperations.load(ordering: .acquiring) == 0 && pendingJobs.count.load(ordering: .acquiring) == 0
            && !mainInbox.hasReadyOperations && (simulated?.isIdle ?? true) && StartedByHand.isEmpty
    }

    /// Someone outside (a timer, a process, a host) could still add or finish something. Balanced by `release`.
    public func hold() { holds.wrappingAdd(1, ordering: .relaxed) }

    /// Takes back a `hold`.
    public func release() {
        if holds.wrappingSubtract(1, ordering: .acquiringAndReleasing).newValue == 0 { reportStall() }
    }

    func operationOutlivesStart() { asynchronousOperations.wrappingAdd(1, ordering: .acquiringAndReleasing) }

    func asynchronousOperationEnded() {
        if asynchronousOperations.wrappingSubtract(1, ordering: .acquiringAndReleasing).newValue == 0 { reportStall() }
    }

    // MARK: The end

    /// `shutdown` has begun: what is added is cancelled.
    var isEnding: Bool { phase.load(ordering: .acquiring) != 0 }
    /// `shutdown` has stopped the workers: nothing can be added.
    var hasEnded: Bool { phase.load(ordering: .acquiring) == 2 }

    /// Cancels everything, barriers and suspended queues included, lets it end, and stops the threads. Called on the main queue's
    /// thread, it runs the main queue meanwhile. Not to be called on a worker.
    ///
    /// - Returns: the operations that had not ended after `deadline`; threads that run them are left alone.
    public func shutdown(deadline: Duration) -> [Operation] {
        let end = now + deadline
        phase.store(1, ordering: .releasing)
        while true {
            unfinishedOperations().cancelAll()
            for core in activeCores() { core.change(queue: core.queue) { $0.isEnding = true } }
            let cores = activeCores()
            if cores.isEmpty || now >= end { break }
            for core in cores { core.waitUntilEmpty(deadline: end) }
        }
        phase.store(2, ordering: .releasing)
        let (threads, sleeping) = pool.withLock { $0.end() }
        for parker in sleeping { parker.unpark() }
        for thread in threads where thread !== Worker.current?.thread { thread.join(until: end) }
        return unfinishedOperations()
    }
}

/// Guards the lists of queues that have operations, and the moment when such a queue ceases to keep itself.
enum Registry {
    static let lock = Lock()
}
