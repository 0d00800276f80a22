import CPlatform

/// A worker that stands by at a queue, because another worker runs the queue's operations so fast that a second one would slow it down.
///
/// Two workers move the queue's cache line, and that of each operation, from one processor to the other. If operations take less than about
/// 0.1 µs, that takes longer than running them. A worker that arrives at such a queue therefore sleeps, and looks again after each `pause`.
/// Until then no worker is woken for that queue, as long as an operation of it is executing.
///
/// Saves a quarter of the time of a batch of tiny operations (W9 of docs/performance.md), and more on processors that share no cache. Costs
/// 2 µs now and then when a worker arrives at a queue with many operations; and when its operations begin to take longer, the second worker
/// comes up to 0.2 ms later.
struct Standby {
    #if WITHOUT_STANDBY
        static let isEnabled = false
    #else
        static let isEnabled = true
    #endif

    /// A queue must have more operations than this, because fewer are done before it would be worth it.
    fileprivate static let leastCount = 256
    /// The duration of the first look, in iterations of a spin loop: about 2 µs.
    private static let lookIterations = 64
    private static let pause = Duration.microseconds(100)

    /// When a worker looks: after a rest each time it arrives at a queue, then ever more rarely.
    struct Looks {
        private var interval = 1
        private var arrivals = 0

        mutating func isDue() -> Bool {
            arrivals += 1
            if arrivals < interval { return false }
            (interval, arrivals) = (min(2 * interval, 32), 0)
            return true
        }
    }

    /// What the last look has seen.
    private var seen: (departures: Int, moment: ContinuousClock.Instant)

    /// Begins to stand by at `core`, to which the calling worker was scheduled. Nil if the worker should serve the queue.
    init?(at core: OperationQueue.Core) {
        guard Standby.isEnabled, let departures = core.state.withLock({ $0.departuresIfOneWorkerIsEnough }) else { return nil }
        seen = (departures, .now)
        for _ in 0..<Standby.lookIterations { cplatform_relax() }
        guard isStillFast(at: core) else { return nil }
        core.state.withLock { ($0.isScheduled, $0.hasStandby) = (false, true) }
    }

    /// The moment of the next look.
    var nextLook: ContinuousClock.Instant { seen.moment + Standby.pause }

    /// Looks whether the other worker is as fast as before. If not, the caller arrives as if it had been scheduled.
    mutating func goesOn(at core: OperationQueue.Core) -> Bool {
        let isFast = isStillFast(at: core)
        return core.state.withLock { state in
            // A thread that is about to wait may have cleared it.
            state.hasStandby = state.hasStandby && isFast
            return state.hasStandby
        }
    }

    private mutating func isStillFast(at core: OperationQueue.Core) -> Bool {
        guard let departures = core.state.withLock({ $0.departuresIfOneWorkerIsEnough }) else { return false }
        let before = seen
        seen = (departures, .now)
        let longest = unsafe core.uncheckedEngine.tinyDuration * (departures - before.departures)
        return seen.moment - before.moment <= longest
    }
}

extension OperationQueue.State {
    /// How many operations have left the queue, if many are left and no two workers run them. None is executing when its only worker is between
    /// two operations.
    fileprivate var departuresIfOneWorkerIsEnough: Int? {
        executing <= 1 && count > Standby.leastCount && isRunnable ? added - count : nil
    }
}

extension Worker {
    /// Sleeps until the next look. Returns whether the worker goes on standing by; if not, it has served the queue.
    func standBy(_ standby: inout Standby, at core: OperationQueue.Core, _ context: ThreadContext) -> Bool {
        let reason = parker.park(until: standby.nextLook)
        engine.pool.withLock { $0.unparkedItself(self) }
        // Whoever woke the worker has work for it.
        if reason != .timedOut || standby.goesOn(at: core) { return true }
        arrive(at: core, context)
        return false
    }
}
