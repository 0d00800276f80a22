import Synchronization

/// How often, and after which pauses, an operation that fails is tried again.
public struct RetryPolicy: Sendable {
    /// The maximum number of attempts, including the first. At least 1.
    public var attempts: Int
    /// The pause after the first attempt, in seconds.
    public var delay: Double
    /// By how much each pause is longer than the one before.
    public var backoff: Double
    /// The longest pause, in seconds.
    public var maxDelay: Double
    /// Whether each pause is shortened at random, to between half and all of it, so that operations that failed together do not all come
    /// back together.
    public var jitter: Bool
    /// Says whether an error is worth another attempt. Runs on the thread that finishes the attempt, with no lock held. Nil for any error.
    public var when: (@Sendable (any Error) -> Bool)?

    /// Creates a policy. Traps if `attempts` is below 1, `delay` or `maxDelay` is negative, or `backoff` is below 1.
    public init(
        attempts: Int, delay: Double = 0, backoff: Double = 1, maxDelay: Double = .infinity, jitter: Bool = false,
        when: (@Sendable (any Error) -> Bool)? = nil
    ) {
        precondition(attempts >= 1, "opscript: the number of attempts must be 1 or more")
        precondition(delay >= 0 && maxDelay >= 0 && backoff >= 1, "opscript: a pause cannot be negative, and backoff must be 1 or more")
        (self.attempts, self.delay, self.backoff, self.maxDelay, self.jitter, self.when) = (
            attempts, delay, backoff, maxDelay, jitter, when
        )
    }

    /// The pause after an attempt, in seconds.
    ///
    /// - Parameters:
    ///   - attempt: the number of the attempt, from 1.
    ///   - random: a number from 0 to 1, which shortens the pause if `jitter` is true.
    func pause(after attempt: Int, random: Double) -> Double {
        var pause = delay
        // A loop instead of `pow`, which is the C library's; it ends early, because pauses soon are as long as they may be.
        for _ in 1..<max(1, attempt) where pause < maxDelay && pause > 0 && backoff > 1 { pause *= backoff }
        pause = min(pause, maxDelay, 1e9)
        return jitter ? pause * (0.5 + random / 2) : pause
    }
}

extension Operation {
    /// Has an operation that has just failed tried again, if its policy says so. Returns false if the operation finishes.
    ///
    /// Called by whoever is about to finish the operation. During the pause the operation is in its queue, not executing, and holds nothing.
    func isTriedAgain() -> Bool {
        guard let admission, loadState().has(State.failed), let error else { return false }
        let (policy, attempt) = lock.withLock { (admission.retryPolicy, admission.attempt) }
        guard let policy, attempt < policy.attempts, policy.when?(error) ?? true else { return false }
        guard let before = transition({ $0.endAttempt() }) else { return false }
        deliverChanges()
        lock.withLock {
            admission.failures.append(error)
            rareExtras?.error = nil
        }
        // Safety: the operation is in the queue, which it cannot leave meanwhile.
        return unsafe core._withUnsafeGuaranteedRef { core in
            let engine: Engine = unsafe core.engine
            engine.perform(engine.admissions.withLock { $0.end(self, admission, at: engine.now) })
            if before.has(State.outlivesStart) { engine.asynchronousOperationEnded() }
            pauseUntilNextAttempt(admission, seconds: policy.pause(after: attempt, random: engine.randomFraction), in: core, on: engine)
            return true
        }
    }

    private func pauseUntilNextAttempt(_ admission: Admission, seconds: Double, in core: OperationQueue.Core, on engine: Engine) {
        let end = engine.now + .seconds(seconds)
        engine.hold()
        defer { engine.release() }
        guard core.giveBack(self) else { return }
        if seconds > 0 {
            let timer = engine.timers.set(at: end, on: engine) { [self] in
                lock.withLock { admission.pause = nil }
                retryPostponed()
            }
            lock.withLock { admission.pause = (timer, end) }
        }
        // As in `postponeUntilReady`: whoever cancelled the operation before it was marked as postponed had nothing to post.
        atomicMemoryFence(ordering: .sequentiallyConsistent)
        if seconds == 0 || loadState().has(State.cancelled) { retryPostponed() }
    }

    /// Whether the operation waits between two attempts, so that only a former attempt can ask to finish it.
    var isBetweenAttempts: Bool {
        let state = loadState()
        guard state.bits & (State.started | State.cancelled | State.finishing) == 0, let admission else { return false }
        return lock.withLock { admission.attempt > 0 }
    }

    /// The number of attempts that have failed and were followed by another one.
    var failedAttemptCount: Int { admission.map { admission in lock.withLock { admission.failures.count } } ?? 0 }
}

extension Engine {
    /// A number from 0 to 1. A simulated engine's seed decides it.
    fileprivate var randomFraction: Double {
        guard let simulated else { return Double.random(in: 0...1) }
        return Double(simulated.choose(among: 1 << 20)) / Double(1 << 20)
    }
}

extension Operation.State {
    /// Ends an attempt that is followed by another one. Returns the state before; nil if the operation cannot be tried again: it is in no
    /// queue, it does not execute, or it was cancelled.
    mutating func endAttempt() -> Operation.State? {
        typealias State = Operation.State
        let before = self
        guard has(State.executing), has(State.linked), !has(State.cancelled | State.finishing | State.finished) else { return nil }
        clear(
            State.started | State.executing | State.failed | State.outlivesStart | State.endedFromWithin | State.isAskedAfterMain
                | State.continuesAfterMain)
        return before
    }
}
