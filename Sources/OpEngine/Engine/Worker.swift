import CPlatform
import Glibc
import Synchronization

/// A thread of an engine's pool.
public final class Worker: @unchecked Sendable {
    // Safety: `@unchecked Sendable` because each stored property says who uses it.

    /// How many operations of one queue a worker runs before it looks at the others.
    private static let turn = 64

    /// The worker that runs on the calling thread; nil on other threads.
    public static var current: Worker? {
        // Safety: a thread's worker lives as long as the thread.
        unsafe ThreadContext.current.worker
    }

    /// Counts from 1 in each engine; not used again.
    public let number: Int
    /// The engine it works for.
    public let engine: Engine
    /// Jobs that this thread runs between two operations. A job wakes it when it sleeps.
    public let inbox: Inbox
    /// For the layer above. To be used on this worker's thread only, where it is also released when the thread ends.
    public var context: AnyObject?
    /// While true, the thread does not retire. To be set on this worker's thread.
    public var keepsAlive = false

    /// Which nice value its thread has.
    let group: ThreadGroup
    let parker: Parker
    /// Used on this worker's thread only.
    private var batchingDelay = BatchingDelay()
    /// The same.
    private var wakeAffinity = WakeAffinity()
    /// Guarded by the engine's lock.
    var isParked = false
    /// It was woken to look for work, or spins. Guarded by the engine's lock.
    var isSearching = false
    /// For how many reasons it does not count as awake, though it has not parked: it waits, or is blocked. Guarded by the engine's lock.
    var absences = 0
    /// Its thread was found blocked. Guarded by the engine's lock.
    var isReplaced = false
    /// A job in its inbox is to report that it is back. Guarded by the engine's lock.
    var willReport = false
    /// What the monitor has found out about its thread. Used by that only.
    var sample = ThreadSample()
    /// Its thread waits for a lock of the engine, whose holder goes on soon.
    let waitsForLock = Atomic<Bool>(false)
    /// The kernel's number of its thread; 0 before that runs.
    let threadNumber = Atomic<pid_t>(0)
    let thread = JoinableThread()

    init(number: Int, group: ThreadGroup, engine: Engine) {
        self.number = number
        self.group = group
        self.engine = engine
        parker = Parker()
        inbox = Inbox(parker: parker, pendingJobs: engine.pendingJobs, isMain: false)
        inbox.belongs(to: engine)
    }

    // MARK: The thread

    /// Starts the thread.
    func start() {
        if group != .foreground { ThreadStarter.prepare() }
        ThreadStarter.startThread {
            self.run()
        } orElse: { [self] in
            let (wake, isAlone) = engine.pool.withLock { ($0.couldNotStart(self), $0.workers.isEmpty) }
            if isAlone { fatalError("opscript: cannot start a thread") }
            engine.perform(wake)
        }
    }

    private func run() {
        threadNumber.store(cplatform_thread_id(), ordering: .releasing)
        group.enter()
        let context = ThreadContext.make(worker: self)
        work(context)
        inbox.close()
        self.context = nil
        unsafe context.worker = nil
        engine.pool.withLock { $0.threadEnds(of: self) }
        thread.end()
    }

    // MARK: Working

    private func work(_ context: ThreadContext) {
        /// Whose operations it ran last. To let that go may run anybody's code, which may wait: never while this worker counts as one
        /// that looks for work or sleeps.
        var last: OperationQueue.Core?
        var hasSpun = false
        while true {
            runJobs()
            switch engine.next(for: self, hasSpun: hasSpun) {
            case .serve(let core, let group, let wake):
                engine.perform(wake)
                let isOther = last.map { $0 !== core } ?? false
                if isOther {
                    // What runs when the last one goes may wait for what is to be taken here.
                    core.entryHasArrived()
                    context.whileServing(core) { last = nil }
                }
                serve(core, as: group, context, arriving: !isOther)
                last = group == self.group && group == .foreground ? core : nil
                hasSpun = false
            case .spin:
                hasSpun = true
                guard let core = last else {
                    spin()
                    break
                }
                if spin(at: core) {
                    serveAfterSignal(core, context)
                    hasSpun = false
                }
            case .park(let wake):
                engine.perform(wake)
                if last != nil {
                    engine.perform(engine.pool.withLock { $0.cancelPark(self) })
                    last = nil
                    break
                }
                engine.reportStall()
                if park() { return }
                hasSpun = false
            case .end: return
            }
        }
    }

    /// What is in its inbox, between looking for work and finding some. It may take long, or wait for other operations: somebody else looks
    /// meanwhile.
    private func runJobs() {
        guard inbox.hasJobs else { return }
        engine.perform(engine.pool.withLock { $0.endSearching(self) })
        inbox.runJobs()
    }

    /// The queue at which it lingered has called it. Others may have come back from waits meanwhile: then there are enough without it.
    private func serveAfterSignal(_ core: OperationQueue.Core, _ context: ThreadContext) {
        let (isNeeded, wake) = engine.pool.withLock { $0.wasSignalled(self) }
        engine.perform(wake)
        if isNeeded { serve(core, as: .foreground, context, arriving: true) } else { engine.schedule(core, on: .foreground) }
    }

    /// - Parameter arriving: it comes with an entry of the engine's list.
    private func serve(_ core: OperationQueue.Core, as group: ThreadGroup, _ context: ThreadContext, arriving: Bool) {
        context.whileServing(core) { serveTurn(core, as: group, context, arriving: arriving) }
    }

    @inline(__always)
    private func serveTurn(_ core: OperationQueue.Core, as group: ThreadGroup, _ context: ThreadContext, arriving: Bool) {
        var next = unsafe core.take(arriving: arriving, by: group)
        var left = Worker.turn
        while let operation = unsafe next {
            left -= 1
            // Safety: `take` says who keeps it.
            unsafe next = operation._withUnsafeGuaranteedRef {
                unsafe $0.run(on: context, from: core, thenTakingBy: left > 0 ? group : nil)
            }
            if unsafe next != nil { continue }
            if inbox.hasJobs {
                context.letOthersTake()
                inbox.runJobs()
                // It may have come back from where it was blocked, and others have its work.
                if engine.pool.withLock({ $0.hasTooManyAwake }) { return core.scheduleIfRunnable() }
            }
            if left == 0 { return core.scheduleIfRunnable() }
            unsafe next = core.take(arriving: false, by: group)
        }
    }

    /// Looks for work without sleeping, some microseconds.
    private func spin() { _ = parker.spin { isNeededElsewhere } }

    /// The same, and meanwhile who adds to `core` calls this worker. True: somebody has.
    private func spin(at core: OperationQueue.Core) -> Bool {
        guard core.beginSpinning() else { return false }
        if let iterations = parker.spin(until: { core.isSpinningWorkerSignalled || isNeededElsewhere }) {
            batchingDelay.foundWork(after: iterations)
            if core.isSpinningWorkerSignalled && batchingDelay.iterations > 0 { accumulateOperations(in: core) }
        } else {
            batchingDelay.foundNothing()
        }
        return core.endSpinning()
    }

    /// See `BatchingDelay`.
    private func accumulateOperations(in core: OperationQueue.Core) {
        let half = batchingDelay.iterations / 2
        let operationsArrived = spins(half, for: core) && core.receivesOperations(while: { spins(half, for: core) })
        if !isNeededElsewhere { batchingDelay.hasWaited(operationsArrived: operationsArrived) }
    }

    /// False: somebody waits for the queue or for one of its operations, or the worker is needed elsewhere.
    private func spins(_ iterations: Int, for core: OperationQueue.Core) -> Bool {
        for _ in 0..<iterations {
            if core.hasNewWaiter || isNeededElsewhere { return false }
            cplatform_relax()
        }
        return true
    }

    private var isNeededElsewhere: Bool { engine.hasWork.load(ordering: .relaxed) || inbox.hasJobs }

    /// Sleeps until there is work. True: the thread ends.
    private func park() -> Bool {
        while true {
            let reason = parker.park(until: keepsAlive ? nil : ContinuousClock.now + engine.idleTime)
            if reason == .timedOut && engine.pool.withLock({ $0.retire(self) }) { return true }
            if reason == .interrupted { continue }
            if reason == .notified && wakeAffinity.wasWoken(onWakersProcessor: parker.isOnWakersProcessor) { cplatform_leave_processor() }
            engine.pool.withLock { $0.unparkedItself(self) }
            return false
        }
    }
}

extension Engine {
    func next(for worker: Worker, hasSpun: Bool) -> Pool.Next {
        pool.withLock { pool in
            let next = pool.next(for: worker, hasSpun: hasSpun)
            let hasScheduled = pool.hasScheduled
            if hasWork.load(ordering: .relaxed) != hasScheduled { hasWork.store(hasScheduled, ordering: .relaxed) }
            return next
        }
    }
}
