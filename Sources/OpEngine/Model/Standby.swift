import CPlatform
import OpPlatform

/// A worker that stands by at a queue, because another worker runs the queue's operations so fast that a second one would slow it down.
///
/// Two workers move the queue's cache line, and that of each operation, from one processor to the other. If operations take less than about
/// 0.1 µs, that takes longer than running them. And if operations need a key that the other worker's operation has, a second worker would
/// only take them and give them back. A worker that arrives at such a queue therefore sleeps, and checks again after each `pause`. Until
/// then no worker is woken for that queue. When the other worker stops serving the queue, or is about to wait, it ends the standby.
///
/// Saves 28 to 62 per cent of the time of a batch of tiny operations (W9 of docs/performance.md), more on processors that share no cache.
/// Costs some microseconds now and then when a worker arrives at a queue with many operations. When operations begin to take longer, the
/// second worker serves the queue up to 0.2 ms later. An operation that needs no key may wait for 1.6 ms behind many that do.
///
/// A class, because the compiler does not know the size of `ContinuousClock.Instant`: a function with such a variable calls Swift's runtime
/// at each call. Used only by the worker's thread.
final class Standby {
    /// A queue must have more operations than this. Fewer are done before a standby would pay.
    private static let leastCount = 256
    /// The time between two checks.
    private static let pause = Duration.microseconds(100)
    /// The other worker is fast if it gives keys back at least this often.
    private static let shortHold = Duration.microseconds(5)

    /// Decides when a worker tries to stand by. Made anew when the worker rests.
    struct Trials {
        /// The worker's last turn, if the worker has not rested since.
        private var last: (queue: ObjectIdentifier, isFull: Bool, isRefused: Bool)?
        private var interval = 1
        private var arrivals = 0
        /// The number of successive turns in which the worker had to give most operations back. Nil if keys were held for long then.
        private var refused: Int? = 0

        /// The number of successive turns in which the worker had to give most operations back, if that is a reason to stand by.
        var refusedTurns: Int { refused ?? 0 }

        /// Returns whether a worker that arrives at a queue should try. That depends on its last turn; false if that was at another queue.
        mutating func isDue(at core: OperationQueue.Core) -> Bool {
            guard let last, last.queue == ObjectIdentifier(core) else { return false }
            return isDue(wasRefused: last.isRefused, wasFull: last.isFull)
        }

        mutating func turnHasEnded(at core: OperationQueue.Core, isFull: Bool, isRefused: Bool) {
            last = (ObjectIdentifier(core), isFull, isRefused)
        }

        /// Returns whether to try. A worker that had to give back most operations of its last turn tries. Another one tries only after full
        /// turns: the first one, the third, the seventh, and so on, and finally every 32nd.
        ///
        /// - Parameters:
        ///   - wasRefused: whether the worker had to give back most operations of its last turn.
        ///   - wasFull: whether that turn has ended although the queue had more operations.
        mutating func isDue(wasRefused: Bool, wasFull: Bool) -> Bool {
            refused = wasRefused ? refused.map { $0 + 1 } : 0
            if refusedTurns > 0 { return true }
            if !wasFull { return false }
            arrivals += 1
            if arrivals < interval { return false }
            (interval, arrivals) = (min(2 * interval, 32), 0)
            return true
        }

        /// Records that keys are held for long: refusals are no reason for the next standby, and the worker had better look for operations
        /// that can start.
        mutating func keysAreHeldForLong() { refused = nil }
    }

    /// The count and the moment of the last check.
    private var seen: (departures: Int, moment: ContinuousClock.Instant)
    /// Whether the worker had to give operations back.
    private let isRefused: Bool
    /// The other worker is fast if an operation takes no longer than this.
    private let longest: Duration
    /// Whether the other worker was fast at the last check.
    private(set) var isFast = true
    /// The moment when the worker serves the queue again in any case, because operations that it can start may have arrived.
    private let end: ContinuousClock.Instant?

    /// Begins to stand by at `core`, to which the calling worker was scheduled. Nil if the worker should serve the queue.
    ///
    /// - Parameter refusedTurns: the number of successive turns in which the worker had to give most operations back, because keys were
    ///   taken.
    init?(at core: OperationQueue.Core, refusedTurns: Int) {
        isRefused = refusedTurns > 0
        let refused = isRefused
        guard let departures = core.state.withLock({ Standby.departures(from: $0, isRefused: refused) }) else { return nil }
        seen = (departures, .now)
        longest = unsafe isRefused ? Standby.shortHold : core.uncheckedEngine.tinyDuration
        end = isRefused ? seen.moment + Standby.pause * (1 << min(refusedTurns, 4)) : nil
        // The thread that has the keys may need this processor, so only a sleep shows how fast that thread is. Without refusals, a loop of about 2 µs
        // shows it.
        if !isRefused { for _ in 0..<64 { cplatform_relax() } }
        let begins = core.state.withLock { state in
            guard isRefused || isStillFast(in: state) else { return false }
            (state.isScheduled, state.hasStandby) = (false, true)
            return true
        }
        if !begins { return nil }
    }

    /// The moment of the next check.
    var nextLook: ContinuousClock.Instant { seen.moment + Standby.pause }

    enum Look {
        case goesOn
        /// Another thread has ended the standby, and scheduled the queue if it needs a worker.
        case isOver
        /// The caller arrives at the queue as if it had been scheduled.
        case arrives
    }

    /// Checks whether the other worker is as fast as before.
    func look(at core: OperationQueue.Core) -> Look {
        core.state.withLock { state in
            guard state.hasStandby else { return .isOver }
            isFast = isStillFast(in: state)
            let isDue = end.map { seen.moment >= $0 } ?? false
            if isFast && !isDue { return .goesOn }
            (state.isScheduled, state.hasStandby) = (true, false)
            return .arrives
        }
    }

    private func isStillFast(in state: borrowing OperationQueue.State) -> Bool {
        guard let departures = Standby.departures(from: state, isRefused: isRefused) else { return false }
        let before = seen
        seen = (departures, .now)
        return seen.moment - before.moment <= longest * (departures - before.departures)
    }

    /// The number of operations that have left the queue. Nil if two workers run operations, and without refusals also if too few are left or
    /// none can start.
    private static func departures(from state: borrowing OperationQueue.State, isRefused: Bool) -> Int? {
        // No operation executes while the only worker is between two of them.
        guard state.executing <= 1, isRefused || state.count > leastCount && state.isRunnable else { return nil }
        return state.added - state.count
    }
}

extension OperationQueue.Core {
    /// Lets the worker sleep and check until it is needed. Returns whether the worker serves the queue as if it had been scheduled. If not, the
    /// queue was scheduled if it needs a worker.
    func standBy(_ standby: Standby, on worker: Worker) -> Bool {
        let engine = worker.engine
        // A job may take long, or wait for operations of the queue. Work of other queues has precedence.
        while !worker.inbox.hasJobs, engine.pool.withLock({ $0.standBy(worker) }) {
            let reason = worker.parker.park(until: standby.nextLook)
            engine.perform(engine.pool.withLock { $0.endStandingBy(worker) })
            guard reason == .timedOut else { continue }
            switch standby.look(at: self) {
            case .goesOn: break
            case .isOver: return false
            case .arrives: return true
            }
        }
        scheduleIfRunnable()
        return false
    }
}
