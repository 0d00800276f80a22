import Synchronization

/// Finds workers that are blocked in calls the engine knows nothing of, and has other workers take their places.
///
/// A body may sleep in a system call or wait for a lock that is not the engine's. When all workers do that, nothing runs although work is
/// waiting. The monitor is a thread that exists only while work waits for a worker. It samples the threads of the workers:
///
/// - A thread that sleeps, and has used no processor time since the last sample, is blocked. Another worker takes its place.
/// - A thread that computes is not blocked, however long it takes. Neither is one that waits for a processor.
/// - A thread that waits for a processor may hold the lock that a sleeping one waits for. The sleeping one is left alone until the other
///   has run.
///
/// A blocked thread is replaced at once if its queue's maximum was set and allows for more, otherwise after some milliseconds, because most
/// blocking calls are over by then. A replaced worker finds a job in its inbox when its operation has ended, and reports back. So
/// operations that do not block pay nothing. A sample costs a few microseconds.
final class BlockingMonitor: @unchecked Sendable {
    // Safety: `@unchecked Sendable` because only the monitor's thread uses the variables.

    /// The pause between two samples where a queue's maximum allows for more: the shortest while threads block, the longest while they
    /// compute.
    private static let shortestPause = Duration.microseconds(100)
    private static let longestUrgentPause = Duration.milliseconds(2)
    /// The pause between two samples elsewhere.
    private static let usualPause = Duration.milliseconds(4)
    /// The pause while no work waits. The thread ends after `idleRounds` of them in which no worker was blocked either.
    private static let idlePause = Duration.milliseconds(10)
    private static let idleRounds = 10
    /// The pause when that has lasted, and workers are still blocked: they may compute when they come back.
    private static let restingPause = Duration.milliseconds(100)
    /// How many replaced workers are sampled in each round.
    private static let replacedPerRound = 32
    /// While none computes, one more worker may start for each eight that are blocked, at most 32 in a round: it will probably block too. So
    /// thousands of bodies that sleep start without a round for each few of them.
    private static let blockedPerSurplus = 8
    private static let maxSurplus = 32

    private let engine: Engine
    let thread = JoinableThread()
    let parker = Parker()
    private var pause = shortestPause
    private var idleRoundCount = 0
    /// How many workers more than usual may be awake.
    private var surplus = 0
    /// Workers that were replaced and, as far as is known, are still blocked.
    private var replaced: [Worker] = []
    private var nextReplaced = 0

    init(engine: Engine) { self.engine = engine }

    /// If no thread can be started, only declared waits are replaced, until work waits again and the monitor is started anew.
    func start() {
        ThreadStarter.startThread {
            while let pause = self.round() { _ = self.parker.park(until: .now + pause) }
            self.thread.end()
        } orElse: { [engine] in
            engine.pool.withLock { $0.endWatch() }
        }
    }

    private enum Situation {
        case workWaits(busy: [Worker], isUrgent: Bool)
        case idle(busy: [Worker])
        case over
    }

    /// How long to pause before the next round; nil when the monitor is not needed any more.
    private func round() -> Duration? {
        let now = ContinuousClock.now
        findReturnedWorkers(now)
        let situation = engine.pool.withLock { pool -> Situation in
            if pool.isShort && !pool.mustEnd {
                idleRoundCount = 0
                return .workWaits(busy: pool.busy, isUrgent: pool.hasExplicitMaximumInLine)
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
            return replaceBlocked(among: busy, isUrgent, now)
        case .idle(let busy):
            allow(surplus: 0, besides: busy)
            return idleRoundCount < BlockingMonitor.idleRounds ? BlockingMonitor.idlePause : BlockingMonitor.restingPause
        case .over: return nil
        }
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
        // The job also says that the engine is not at rest: the operation goes on when the call returns.
        if needsReport { worker.inbox.post { worker.engine.pool.withLock { $0.didReport(worker) } } }
    }

    private func allow(surplus count: Int, besides busy: [Worker]) {
        if count == 0 && surplus == 0 { return }
        for wake in engine.pool.withLock({ $0.allow(surplus: count, engine) }) { engine.perform(wake) }
        // A worker that finds a job when its operation has ended looks whether too many are awake.
        if count < surplus { for worker in busy { worker.inbox.post {} } }
        surplus = count
    }

    /// A body that computes after a blocking call counts again before it ends.
    private func findReturnedWorkers(_ now: ContinuousClock.Instant) {
        for _ in 0..<min(BlockingMonitor.replacedPerRound, replaced.count) {
            if nextReplaced >= replaced.count { nextReplaced = 0 }
            let worker = replaced[nextReplaced]
            worker.takeSample(at: now)
            // One of which nothing can be found out is probably where it was: there may be no descriptor left to read its state.
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
