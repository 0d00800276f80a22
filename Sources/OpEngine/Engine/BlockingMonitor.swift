import Glibc
import Synchronization

/// Finds workers whose threads are blocked though they have not said so, and has others take their places.
///
/// A body may sleep in a system call or wait for a lock that the engine knows nothing of. When all workers do, nothing runs any more, though
/// there is work. So while work waits for a worker, and only then, one more thread looks at the threads of the workers from time to time: one that has used no processor time since the last look, and sleeps, is blocked. One that computes, or waits for a processor, is
/// not, however long it takes.
///
/// Where a queue's maximum was set and allows for more, a thread is replaced as soon as it is found; elsewhere when it has been blocked for
/// some milliseconds, as most calls that block are over before. A worker that was replaced says so when its operation has ended, by a job in
/// its inbox: operations that do not block pay nothing. The looks cost a few microseconds each.
final class BlockingMonitor: @unchecked Sendable {
    // Safety: `@unchecked Sendable` because the variables are used by its own thread only.

    /// Between two looks, where a queue's maximum allows for more, and elsewhere.
    private static let shortestPause = Duration.microseconds(100)
    private static let longestUrgentPause = Duration.milliseconds(2)
    private static let usualPause = Duration.milliseconds(4)
    /// While no work waits: after so many looks the thread ends.
    private static let calmPause = Duration.milliseconds(10)
    private static let calmLooks = 10
    /// Of those that were replaced, so many are looked at again each time.
    private static let replacedAtOnce = 32

    private let engine: Engine
    let thread = JoinableThread()
    let parker = Parker()
    private var pause = shortestPause
    private var calm = 0
    /// Those that have not come back, as far as is known.
    private var replaced: [Worker] = []
    private var nextReplaced = 0

    init(engine: Engine) { self.engine = engine }

    /// Without a thread, blocked workers are replaced where they say so; the next time that work waits it is tried again.
    func start() {
        ThreadStarter.startThread {
            while let pause = self.look() { _ = self.parker.park(until: .now + pause) }
            self.thread.end()
        } orElse: { [engine] in
            engine.pool.withLock { $0.endWatch() }
        }
    }

    /// For how long to pause then; nil: there is nothing to look after any more.
    private func look() -> Duration? {
        lookForThoseWhoAreBack()
        enum Finding {
            case isShort([Worker], isUrgent: Bool)
            case calm
            case over
        }
        let finding = engine.pool.withLock { pool -> Finding in
            if pool.isShort && !pool.mustEnd {
                calm = 0
                return .isShort(pool.working, isUrgent: pool.isShortOfWhatWasAskedFor)
            }
            calm += 1
            guard calm == BlockingMonitor.calmLooks || pool.mustEnd else { return .calm }
            pool.endWatch()
            return .over
        }
        switch finding {
        case .isShort(let working, let isUrgent): return replaceBlocked(among: working, isUrgent)
        case .calm: return BlockingMonitor.calmPause
        case .over: return nil
        }
    }

    private func replaceBlocked(among working: [Worker], _ isUrgent: Bool) -> Duration {
        let now = ContinuousClock.now
        let blocked = working.filter { $0.isBlocked(at: now, for: isUrgent ? .zero : BlockingMonitor.usualPause) }
        for worker in blocked { replace(worker) }
        if !isUrgent { return BlockingMonitor.usualPause }
        // What takes their places may be about to block as well.
        pause = blocked.isEmpty ? min(pause * 2, BlockingMonitor.longestUrgentPause) : BlockingMonitor.shortestPause
        return pause
    }

    private func replace(_ worker: Worker) {
        guard let wake = engine.pool.withLock({ $0.replace(worker) }) else { return }
        engine.perform(wake)
        replaced.append(worker)
        // It also says that the engine is not at rest: the operation goes on when the call returns.
        worker.inbox.post { worker.engine.pool.withLock { $0.comesBack(worker) } }
    }

    /// A body that goes on computing takes part again, before it ends.
    private func lookForThoseWhoAreBack() {
        for _ in 0..<min(BlockingMonitor.replacedAtOnce, replaced.count) {
            if nextReplaced >= replaced.count { nextReplaced = 0 }
            let worker = replaced[nextReplaced]
            if !worker.hasRun && engine.pool.withLock({ _ in worker.isReplaced }) {
                nextReplaced += 1
                continue
            }
            engine.pool.withLock { $0.comesBack(worker) }
            replaced.swapAt(nextReplaced, replaced.count - 1)
            replaced.removeLast()
        }
    }
}

/// What the monitor has found out about a thread.
struct ThreadSample {
    /// Nanoseconds that it had run for, when that was looked at for the first time after it had changed.
    var processorTime: Int64 = -1
    var time = ContinuousClock.now
}

extension Worker {
    /// Whether its thread has slept for so long, and at least since the last look.
    fileprivate func isBlocked(at now: ContinuousClock.Instant, for duration: Duration) -> Bool {
        guard !hasRun else {
            sample.time = now
            return false
        }
        return now - sample.time >= duration && !waitsForLock.load(ordering: .relaxed) && isThreadAsleep
    }

    /// Whether its thread has used processor time since that was asked last.
    fileprivate var hasRun: Bool {
        let time = processorTime
        defer { sample.processorTime = time }
        return time != sample.processorTime
    }

    /// Nanoseconds that its thread has run for.
    private var processorTime: Int64 {
        let number = threadNumber.load(ordering: .acquiring)
        if number == 0 { return -1 }
        // The kernel's name for the processor time of a thread, as `pthread_getcpuclockid` makes it, which needs the thread itself.
        let clock = ~number << 3 | 6
        var time = timespec()
        // Safety: `time` outlives the call.
        return unsafe clock_gettime(clock, &time) == 0 ? Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec) : -1
    }

    /// Whether it sleeps in the kernel: by its state, after the name in parentheses. False where there is no `/proc`.
    private var isThreadAsleep: Bool {
        let number = threadNumber.load(ordering: .acquiring)
        guard let text = readFile("/proc/self/task/\(number)/stat"), let name = text.lastIndex(of: ")") else { return false }
        let state = text[text.index(after: name)...].drop { $0 == " " }.first
        return state == "S" || state == "D"
    }
}
