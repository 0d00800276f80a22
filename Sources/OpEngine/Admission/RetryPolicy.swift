import OpPlatform
import Synchronization

/// The attempts of an operation that fails, and the pauses between them.
public struct RetryPolicy: Sendable {
    /// The maximum number of attempts, including the first. At least 1.
    public var attempts: Int
    /// The pause after the first attempt, in seconds.
    public var delay: Double
    /// The factor by which each pause is longer than the one before.
    public var backoff: Double
    /// The longest pause, in seconds.
    public var maxDelay: Double
    /// Whether each pause is shortened at random, to between half and all of it, so that operations that failed together do not all start
    /// again together.
    public var jitter: Bool
    /// Decides whether another attempt follows an error. Runs on the thread that finishes the attempt, with no lock held. Nil for any
    /// error.
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
    package func pause(after attempt: Int, random: Double) -> Double {
        var pause = delay
        let longest = min(maxDelay, 1e9)
        if backoff > 1 && pause > 0 {
            // Instead of `pow`, which is the C library's. `backoff` may be so little above 1 that the pauses hardly grow.
            var factor = backoff, exponent = attempt - 1
            while exponent > 0 && pause < longest {
                if exponent & 1 == 1 { pause *= factor }
                factor *= factor
                exponent >>= 1
            }
        }
        pause = min(pause, longest)
        return jitter ? pause * (0.5 + random / 2) : pause
    }
}

extension Operation {
    /// Postpones an operation that has just failed until its next attempt, if its policy allows one. Returns false if the operation
    /// finishes.
    ///
    /// The thread that is about to finish the operation calls this. If `start` has not returned yet, the thread that is in `start` calls
    /// this again afterwards, so that two attempts never overlap. During the pause, the operation is in its queue, does not execute, and
    /// holds nothing.
    func isTriedAgain() -> Bool {
        let state = loadState()
        guard state.has(State.failed), state.mayBeTriedAgain, let admission, let error else { return false }
        let (policy, isTooEarly) = lock.withLock { () -> (RetryPolicy?, Bool) in
            guard let policy = admission.further?.retryPolicy, admission.hasAttemptsLeft else { return (nil, false) }
            if admission.isInStart { admission.hasEndedInStart = true }
            return (policy, admission.isInStart)
        }
        guard let policy else { return false }
        if isTooEarly { return true }
        guard policy.when?(error) ?? true, willBeTriedAgain(after: error) else { return false }
        let attempt = lock.withLock { admission.attempt }
        // Another thread may cancel and finish the operation as soon as this attempt has ended.
        guard let (core, engine) = withQueueCore({ core in (core, unsafe core.engine as Engine) }) else { return false }
        // The operation continues later, so no thread may conclude meanwhile that nothing can happen any more.
        engine.hold()
        defer { engine.release() }
        guard let before = transition({ $0.endAttempt() }) else { return false }
        deliverChanges()
        let seconds = policy.pause(after: attempt, random: engine.randomFraction)
        let end = seconds > 0 ? engine.now + .seconds(seconds) : nil
        // A thread that finds this error among the failures also finds the pause.
        lock.withLock {
            let further = admission.ensureFurther()
            if further.failures.count == Admission.Further.mostFailures { further.failures.removeFirst() }
            further.failures.append(error)
            further.pause = end.map { Admission.Pause(until: $0) }
            rareExtras?.error = nil
            forgetValue()
        }
        engine.changeAdmissions { $0.end(self, admission) }
        if before.has(State.outlivesStart) { engine.asynchronousOperationEnded() }
        postponeUntilNextAttempt(admission, at: end, in: core, on: engine)
        return true
    }

    /// Gives the operation back to its queue until `end`; nil if the next attempt may begin at once.
    private func postponeUntilNextAttempt(
        _ admission: Admission, at end: ContinuousClock.Instant?, in core: OperationQueue.Core, on engine: Engine
    ) {
        guard core.giveBack(self) else { return }
        if let end {
            let timer = engine.setTimer(at: end) { [self] in
                lock.withLock { admission.further?.pause = nil }
                retryPostponed()
            }
            let isOver = lock.withLock {
                admission.further?.pause?.timer = timer
                return admission.further?.pause == nil
            }
            if isOver { engine.cancelTimer(timer) }
        }
        // As in `postponeUntilReady`: a thread that cancelled the operation before it was back had nothing to post.
        atomicMemoryFence(ordering: .sequentiallyConsistent)
        if end == nil || loadState().has(State.cancelled) { retryPostponed() }
    }

    /// Whether the operation waits between two attempts, so that only a former attempt can ask to finish it. The caller holds `lock`.
    var isBetweenAttempts: Bool {
        loadState().bits & (State.started | State.cancelled | State.finishing) == 0 && admission?.attempt ?? 0 > 0
    }

    /// Whether an attempt executes, and the policy allows another one after it.
    package var hasAttemptsLeft: Bool {
        guard let admission, loadState().mayBeTriedAgain else { return false }
        return lock.withLock { admission.hasAttemptsLeft }
    }

    /// Whether the attempt has ended before `start` has returned.
    var hasEndedInStart: Bool { admission.map { admission in lock.withLock { admission.hasEndedInStart } } ?? false }

    /// Records that `start` of an attempt has returned. Returns whether the attempt has ended already, so that the caller must call `end`.
    func startHasReturned() -> Bool {
        guard let admission else { return false }
        return lock.withLock {
            admission.isInStart = false
            return exchange(&admission.hasEndedInStart, with: false)
        }
    }
}

extension Engine {
    /// A number from 0 to 1. The seed of a simulated engine determines it.
    fileprivate var randomFraction: Double {
        guard let simulated else { return Double.random(in: 0...1) }
        return Double(simulated.choose(among: 1 << 20)) / Double(1 << 20)
    }
}

extension Operation.State {
    /// Whether the operation is executing an attempt after which another is possible: it is in a queue, and was not cancelled.
    var mayBeTriedAgain: Bool {
        typealias State = Operation.State
        return has(State.executing) && has(State.linked) && !has(State.cancelled | State.finishing | State.finished)
    }

    /// Ends an attempt that is followed by another one. Returns the state before; nil if the operation cannot be tried again.
    mutating func endAttempt() -> Operation.State? {
        typealias State = Operation.State
        let before = self
        guard mayBeTriedAgain, has(State.failed) else { return nil }
        clear(
            State.started | State.executing | State.failed | State.outlivesStart | State.continuesAfterMain)
        // A dependency that has failed since the start would cancel it now.
        if mustCancel {
            self = before
            return nil
        }
        return before
    }
}
