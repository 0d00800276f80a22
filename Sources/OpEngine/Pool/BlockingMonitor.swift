import OpPlatform

/// Detects workers that are blocked in calls unknown to the engine, and lets other workers replace them.
///
/// An operation may sleep in a system call or wait for a lock that is not the engine's. If all workers do so, nothing runs although work is
/// waiting. The monitor is a thread that exists while work waits for a worker, and until all replaced workers have returned. The monitor
/// samples the worker threads:
///
/// - A thread that sleeps, and has used no processor time since the last sample, is blocked. Another worker replaces it.
/// - A thread that has just started a program in its place, or waited for one there, is not blocked for a second, because the program may still run.
/// - A thread that computes is not blocked, however long it takes. Neither is a thread that waits for a processor.
/// - A thread that waits for a processor may hold the lock that a sleeping thread waits for. The sleeping thread is not replaced until the
///   other one has run.
///
/// A blocked thread is replaced at the next sample if a queue that waits for a worker has an explicit maximum, otherwise after some
/// milliseconds, because most blocking calls return sooner. A replaced worker finds a job in its inbox when its operation has finished. The
/// job reports that the worker has returned. Operations that do not block pay nothing for the monitor. One sample costs a few microseconds.
final class BlockingMonitor: @unchecked Sendable {
    // Safety: `@unchecked Sendable` because only the monitor's thread uses the variables.

    /// The pause between samples while a queue with an explicit maximum allows more operations: the shortest while threads block, the
    /// longest while they compute.
    private static let shortestPause = Duration.microseconds(100)
    private static let longestUrgentPause = Duration.milliseconds(2)
    /// The pause between samples otherwise.
    private static let usualPause = Duration.milliseconds(4)
    /// The pause while no work waits. After `idleRounds` such rounds without a blocked worker the monitor's thread ends.
    private static let idlePause = Duration.milliseconds(10)
    private static let idleRounds = 10
    /// The pause after `idleRounds` idle rounds while some workers are still blocked. The monitor goes on, because these workers may compute
    /// when their calls return.
    private static let restingPause = Duration.milliseconds(100)
    /// The maximum number of replaced workers that are sampled per round.
    private static let replacedPerRound = 32
    /// One additional worker may start for every `blockedPerSurplus` blocked ones, at most `maxSurplus` per round. This applies only while
    /// a queue with an explicit maximum allows more operations and no worker computes, because the additional worker will then probably
    /// block too. Thousands of sleeping operations thus start without needing a round for each handful.
    private static let blockedPerSurplus = 8
    private static let maxSurplus = 32

    private let engine: Engine
    let thread = JoinableThread()
    let parker = Parker()
    private var pause = shortestPause
    private var idleRoundCount = 0
    /// The number of workers that may be awake beyond the usual number.
    private var surplus = 0
    /// Workers that were replaced and that the monitor believes to be blocked.
    private var replaced: [Worker] = []
    private var nextReplaced = 0

    init(engine: Engine) { self.engine = engine }

    /// Starts the monitor's thread. If no thread can be started, only declared blocking is replaced until the pool starts the next monitor.
    func start() {
        startThread(as: thread) {
            while let pause = self.round() { _ = self.parker.park(until: .now + pause) }
        } orElse: { [engine] in
            engine.pool.withLock { $0.endWatch() }
        }
    }

    private enum Situation {
        case workWaits(busy: [Worker], isUrgent: Bool)
        case idle(busy: [Worker])
        case over
    }

    /// Performs one round. Returns the pause before the next one, or nil if the monitor is no longer needed.
    private func round() -> Duration? {
        let now = ContinuousClock.now
        findReturnedWorkers(now)
        withdrawIdleQueue()
        let situation = engine.pool.withLock { pool -> Situation in
            if pool.isShortOfWorkers && !pool.mustEnd {
                idleRoundCount = 0
                return .workWaits(busy: pool.busy, isUrgent: pool.runQueues.hasExplicitMaximumInLine)
            }
            idleRoundCount += 1
            let hasLasted = idleRoundCount >= BlockingMonitor.idleRounds
            if hasLasted && replaced.isEmpty || pool.mustEnd {
                pool.endWatch()
                return .over
            }
            pool.isMonitorResting = hasLasted
            return .idle(busy: pool.busy)
        }
        switch situation {
        case .workWaits(let busy, let isUrgent):
            for worker in busy { worker.takeSample(at: now) }
            defer { engine.perform(engine.pool.withLock { [engine] in $0.retryPlaces(engine) }) }
            return replaceBlocked(among: busy, isUrgent, now)
        case .idle(let busy):
            allow(surplus: 0, besides: busy)
            return idleRoundCount < BlockingMonitor.idleRounds ? BlockingMonitor.idlePause : BlockingMonitor.restingPause
        case .over: return nil
        }
    }

    /// Takes the first queue out of the line if none of its operations can start: a worker that served the queue before has taken the
    /// operation for which the queue was scheduled. Otherwise the monitor would continue in vain until a worker serves that queue.
    private func withdrawIdleQueue() {
        guard let queue = engine.pool.withLock(\.firstInLine), !queue.isRunnable else { return }
        // No worker looks for an operation that is added between the two steps. The hold keeps a wait for that operation from failing as stalled.
        engine.hold()
        if engine.pool.withLock({ $0.runQueues.withdraw(queue) }) { queue.reschedule() }
        engine.release()
    }

    private func replaceBlocked(among busy: [Worker], _ isUrgent: Bool, _ now: ContinuousClock.Instant) -> Duration {
        let blocked = ThreadSample.blocked(busy.map(\.sample), for: isUrgent ? .zero : BlockingMonitor.usualPause, at: now)
        for index in blocked { replace(busy[index]) }
        let allBlock = isUrgent && !busy.contains { $0.sample.kind == .computes }
        let most = min(replaced.count / BlockingMonitor.blockedPerSurplus, BlockingMonitor.maxSurplus)
        allow(surplus: allBlock ? most : 0, besides: busy)
        guard isUrgent else { return BlockingMonitor.usualPause }
        pause = blocked.isEmpty ? min(pause * 2, BlockingMonitor.longestUrgentPause) : BlockingMonitor.shortestPause
        return pause
    }

    private func replace(_ worker: Worker) {
        guard let (wake, needsReport) = engine.pool.withLock({ $0.replace(worker) }) else { return }
        engine.perform(wake)
        replaced.append(worker)
        // The pending job also keeps the engine from counting as quiescent: the operation continues when the call returns.
        if needsReport { worker.inbox.post { worker.engine.pool.withLock { $0.didReport(worker) } } }
    }

    private func allow(surplus count: Int, besides busy: [Worker]) {
        if count == 0 && surplus == 0 { return }
        for wake in engine.pool.withLock({ $0.allow(surplus: count, engine) }) { engine.perform(wake) }
        // A worker that finds a job after its operation checks whether too many workers are awake.
        if count < surplus { for worker in busy { worker.inbox.post {} } }
        surplus = count
    }

    /// Finds replaced workers that have returned. An operation that computes after a blocking call thus counts again before it finishes.
    private func findReturnedWorkers(_ now: ContinuousClock.Instant) {
        for _ in 0..<min(BlockingMonitor.replacedPerRound, replaced.count) {
            if nextReplaced >= replaced.count { nextReplaced = 0 }
            let worker = replaced[nextReplaced]
            worker.takeSample(at: now)
            // If the state cannot be determined, the thread is probably still blocked: reading its state may fail because no file
            // descriptor is left.
            let mayBeBlocked = worker.sample.kind == .sleeps || worker.sample.kind == .unknown
            if mayBeBlocked && engine.pool.withLock({ _ in worker.isReplaced }) {
                nextReplaced += 1
                continue
            }
            engine.pool.withLock { $0.didReturn(worker) }
            replaced.swapAt(nextReplaced, replaced.count - 1)
            replaced.removeLast()
        }
    }
}
