import CPlatform
import Glibc
import OpPlatform
import Synchronization

/// A thread of an engine's pool.
public final class Worker: @unchecked Sendable {
    // Safety: `@unchecked Sendable` because each stored property states which thread uses it or what guards it.

    /// The worker of the calling thread. Nil on other threads.
    public static var current: Worker? {
        // Safety: a thread's worker lives as long as the thread.
        unsafe ThreadContext.current.worker
    }

    /// The worker's number within its engine, counting from 1. Never reused.
    public let number: Int
    /// The engine that the worker belongs to.
    public let engine: Engine
    /// Jobs that this thread runs between two operations. Posting a job wakes the thread.
    public let inbox: Inbox
    /// Storage for the module above. Use it only on this worker's thread, which also releases it when the thread ends.
    public var context: AnyObject?
    /// While true, the thread does not end when it is idle. Set it only on this worker's thread.
    public var keepsAlive = false

    /// The thread group, which determines the thread's nice value.
    let group: ThreadGroup
    let parker: Parker
    /// Guarded by the lock of the engine's pool.
    var isParked = false
    /// Whether the worker stands by, so that its sleep is short. Guarded by the lock of the engine's pool.
    var standsBy = false
    /// Whether the worker was woken to search for work, or spins. Guarded by the lock of the engine's pool.
    var isSearching = false
    /// How many reasons keep the worker from counting as awake while it is not parked: its waits, and its blocked thread. Guarded by the lock of the
    /// engine's pool.
    var blockingCount = 0
    /// The priority of the queue that the worker serves. Guarded by the lock of the engine's pool.
    var servedLevel: UInt8 = 0
    /// Whether the monitor found the thread blocked. Guarded by the lock of the engine's pool.
    var isReplaced = false
    /// Whether the inbox has the job by which a replaced worker reports that it is back. Guarded by the lock of the engine's pool.
    var willReport = false
    /// The monitor's knowledge about the thread. Used only by the monitor.
    var sample = ThreadSample()
    /// Whether the thread waits for a lock of the engine. The holder will release it soon.
    let waitsForLock = Atomic<Bool>(false)
    /// Whether the thread waits for a program, which has the worker's place. The worker is not replaced then.
    let waitsInPlace = Atomic<Bool>(false)
    /// Whether the worker's operation has started a program in its place, or waited for one there, since the monitor's last sample.
    let hasUsedPlace = Atomic<Bool>(false)
    /// The kernel's number of the thread. 0 until the thread runs.
    let threadNumber = Atomic<pid_t>(0)
    /// See `works(through:)`.
    let process = Atomic<pid_t>(0)
    let thread = JoinableThread()

    init(number: Int, group: ThreadGroup, engine: Engine) {
        self.number = number
        self.group = group
        self.engine = engine
        parker = Parker()
        inbox = Inbox(parker: parker, reference: engine.reference, entrance: nil)
    }

    /// Names a process that works for this thread; 0 for none. The thread waits for the process. The worker counts as blocked only while the process
    /// is blocked, too. Call it only on this worker's thread.
    package func works(through process: Int32) { self.process.store(process, ordering: .releasing) }

    /// Ends a wait for a program, or the start of one, in the worker's place.
    func endsWaitInPlace() {
        hasUsedPlace.store(true, ordering: .relaxed)
        waitsInPlace.store(false, ordering: .releasing)
    }

    // MARK: The thread

    /// Starts the thread.
    func start() {
        if group != .foreground { ThreadStarter.prepare() }
        startThread(as: thread) {
            self.run()
        } orElse: { [self] in
            let (wake, isAlone) = engine.pool.withLock { ($0.couldNotStart(self), $0.workers.isEmpty) }
            if isAlone { failToStart() }
            engine.perform(wake)
        }
    }

    /// Starts the thread of a worker that nothing has scheduled yet. Returns false if the system cannot start it.
    func tryStart() -> Bool {
        let isStarted = tryStartThread(as: thread) { self.run() }
        if !isStarted {
            engine.hasStartedWorker.store(false, ordering: .relaxed)
            // Another thread may have added an operation meanwhile, which relied on this worker.
            let (wake, isLost) = engine.pool.withLock { ($0.couldNotStart(self), $0.workers.isEmpty && $0.hasScheduled) }
            if isLost { failToStart() }
            engine.perform(wake)
        }
        return isStarted
    }

    private func run() {
        threadNumber.store(cplatform_thread_id(), ordering: .releasing)
        group.enter()
        let context = ThreadContext.make(worker: self)
        // Safety: an atomic of an object does not move, and the thread keeps its worker alive.
        unsafe withUnsafePointer(to: waitsForLock) { unsafe LockWaits.announce(in: $0) }
        work(context)
        inbox.close()
        self.context = nil
        unsafe context.worker = nil
        engine.pool.withLock { $0.threadEnds(of: self) }
        unsafe LockWaits.announce(in: nil)
    }

    // MARK: Running operations

    /// Looks for work until the pool ends the thread. Each round has two steps:
    ///
    /// 1. **Jobs.** The worker runs the jobs in its inbox. A job may take long or wait, so the worker stops searching first.
    /// 2. **The pool decides** under its lock what the worker does next (`Pool.next`):
    ///    - **serve** a scheduled queue: run a turn of its operations, or stand by if another worker runs them fast enough (`Standby`). The pool
    ///      wakes the next worker in the same step if more work waits, so one wake-up leads to another.
    ///    - **spin**, if it found nothing for the first time since it ran something or slept: poll for work for some microseconds.
    ///    - **park**: sleep until a thread wakes it, or for `Engine.idleTime`, after which the thread ends.
    ///    - **end**, because the engine shuts down.
    ///
    /// These races could lose work or a wake-up:
    ///
    /// - *A queue is scheduled while the worker decides to park.* Scheduling and parking take the pool's lock. If scheduling is first, `next`
    ///   finds the queue; if parking is first, `schedule` finds the worker idle and wakes it.
    /// - *A queue is scheduled while the worker spins.* The worker counts as searching, so `schedule` wakes no other worker, but sets
    ///   `Engine.hasWork`, which the spin polls. If the spin has just ended, `next` finds the queue.
    /// - *A wake-up arrives before the worker sleeps.* The parker keeps it, and `park` returns at once. A wake-up that is late is harmless: the
    ///   worker makes one more round.
    /// - *A job arrives while the worker ends.* `retire` closes the inbox under the pool's lock, and only if it is empty. Later jobs are refused.
    /// - *An operation becomes ready while the worker leaves its queue.* `take` returns nil under the lock of the queue, and the queue does not count
    ///   as scheduled then. The thread that makes the operation ready takes that lock, and schedules the queue.
    /// - *The worker waits during its turn, for an operation of the same queue.* No other worker was woken for the queue's operations, because this
    ///   one was going to take them. Before it waits, it schedules the queue for others (`ThreadContext.scheduleServedQueue`).
    /// - *Foreign code waits on a worker that searches.* While one worker searches, the pool wakes no other, so that code could wait for ever. So a
    ///   worker that runs a job does not count as searching. The release of a queue may run foreign code, too: the worker releases the queue that it
    ///   has served at the end of the turn, when it does not search.
    private func work(_ context: ThreadContext) {
        var maySpin = true
        while true {
            runJobs()
            switch engine.next(for: self, maySpin: maySpin) {
            case .serve(let queue, let group, let wake):
                engine.perform(wake)
                queue.serve(on: self, as: group, context)
                maySpin = true
            case .spin:
                context.trials = .init()
                parker.spinning.spin { isNeeded }
                maySpin = false
            case .park(let wake):
                engine.perform(wake)
                context.trials = .init()
                engine.reportStall()
                if park() { return }
                maySpin = true
            case .end: return
            }
        }
    }

    /// Runs the jobs in the inbox. A job may run for long or wait for operations. So the worker first stops searching, and another one may search
    /// meanwhile.
    private func runJobs() {
        guard inbox.hasJobs else { return }
        engine.perform(engine.pool.withLock { $0.endSearching(self) })
        inbox.runJobs()
    }

    /// Whether a spinning worker has something to do.
    private var isNeeded: Bool { engine.hasWork.load(ordering: .relaxed) || inbox.hasJobs }

    /// Sleeps until there is work. Returns true if the thread must end.
    private func park() -> Bool {
        while true {
            let reason = parker.park(until: keepsAlive ? nil : ContinuousClock.now + engine.idleTime)
            if reason == .timedOut && engine.pool.withLock({ $0.retire(self) }) { return true }
            if reason == .interrupted { continue }
            engine.pool.withLock { $0.unparkedItself(self) }
            return false
        }
    }
}

extension Engine {
    func next(for worker: Worker, maySpin: Bool) -> Pool.Next {
        pool.withLock { pool in
            let next = pool.next(for: worker, maySpin: maySpin)
            let hasScheduled = pool.hasScheduled
            if hasWork.load(ordering: .relaxed) != hasScheduled { hasWork.store(hasScheduled, ordering: .relaxed) }
            return next
        }
    }
}
