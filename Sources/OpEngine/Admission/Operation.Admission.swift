import Synchronization

extension Operation {
    /// What an operation needs besides its dependencies, and whether it is tried again. Created when the first of these is set.
    final class Admission: @unchecked Sendable {
        // Safety: `@unchecked Sendable` because each stored property states what guards it.

        /// The operation, which owns this object.
        unowned let operation: Operation

        // Guarded by the operation's lock.

        var exclusiveKeys: Set<String> = []
        var needs: [String: Int] = [:]
        /// Those that have not been asked.
        var conditions: [Condition] = []
        var retryPolicy: RetryPolicy?
        /// How often the operation has started.
        var attempt = 0
        /// The errors of the latest attempts that have failed and were followed by another one.
        static let mostFailures = 100
        var failures: [any Error] = []
        /// Whether a thread is in `start`, and whether somebody has ended the attempt meanwhile. See `isTriedAgain`.
        var isInStart = false
        var hasEndedInStart = false
        /// The timer that begins the next attempt, and its moment.
        var pause: (timer: EngineTimers.Number?, end: ContinuousClock.Instant)?

        // Guarded by the lock of `Engine.admissions`.

        /// Everything that the operation takes when it starts. Set when the operation asks for the first time.
        var requirements: [(requirement: Requirement, amount: Int)] = []
        var hasTaken = false
        /// The place in the order of those that wait.
        var ticket: UInt64?
        /// The line that the operation waits in, or from which it was invited.
        var place: Place?

        struct Place {
            let requirement: Requirement
            let core: ObjectIdentifier
            var rank: Line.Rank
        }

        /// Whether the policy allows another attempt after this one. A policy that was set after the start has no effect. Under the operation's
        /// lock.
        var hasAttemptsLeft: Bool { retryPolicy.map { attempt > 0 && attempt < $0.attempts } ?? false }

        init(of operation: Operation) { self.operation = operation }

        func amount(of requirement: Requirement) -> Int { requirements.first { $0.requirement == requirement }?.amount ?? 0 }
    }

    /// The operation's admission; nil if it needs nothing special.
    var admission: Admission? { loadState().has(State.hasAdmission) ? lock.withLock { rareExtras?.admission } : nil }

    /// Changes what the operation needs, and has it ask before it starts. Has no effect once the operation has started.
    func changeAdmission(_ change: (Admission) -> Void) {
        lock.withLock {
            let rare = ensureRareExtras()
            let admission = rare.admission ?? Admission(of: self)
            rare.admission = admission
            change(admission)
            transition { $0.set(State.hasAdmission) }
        }
    }

    /// What an operation that waits is missing.
    struct Lack {
        let requirement: Requirement
        let amount: Int
        let capacity: Int
        let available: Int
        let holders: [Operation]
        let next: ContinuousClock.Instant?
    }
}

// MARK: - Asking

extension Operation {
    /// Asks the conditions, and takes what the operation needs. Returns false if the operation has gone back to its queue `core`, because
    /// something is missing; it is posted again when that may be there.
    ///
    /// Called by the thread that has taken the operation from its queue and is about to launch it.
    func isAdmitted(by core: OperationQueue.Core) -> Bool {
        guard let admission else { return true }
        // Safety: the queue has operations, so its engine lives.
        let engine: Engine = unsafe core.engine, identity = ObjectIdentifier(core)
        if isPausing(admission, at: engine.now) {
            postponeDuringPause(admission, core)
            return false
        }
        endPause(admission, on: engine)
        if !loadState().has(State.cancelled) { askConditions(of: admission) }
        if loadState().has(State.cancelled) {
            engine.perform(engine.admissions.withLock { $0.leaveLine(admission, at: engine.now) })
            return true
        }
        let isRateLimited = core.state.withLock { $0.isRateLimited }
        let requirements = lock.withLock {
            admission.exclusiveKeys.map { (Requirement.key($0), 1) } + admission.needs.map { (Requirement.resource($0.key), $0.value) }
        }
        let consequences = engine.admissions.withLock { admissions -> Admissions.Consequences? in
            admission.requirements = requirements + (isRateLimited ? [(.start(identity), 1)] : [])
            return admissions.admit(self, admission, in: identity, at: engine.now)
        }
        if let consequences {
            engine.perform(consequences)
            return true
        }
        guard core.giveBack(self) else { return false }
        let (waits, changes) = engine.admissions.withLock { $0.wait(self, admission, in: identity, at: engine.now) }
        engine.perform(changes)
        // As in `postponeUntilReady`: whoever cancelled the operation before it was marked as postponed had nothing to post. It may even have
        // finished before it was in the line.
        atomicMemoryFence(ordering: .sequentiallyConsistent)
        let hasEnded = loadState().has(State.cancelled | State.finishing | State.finished)
        if hasEnded { engine.perform(engine.admissions.withLock { $0.leaveLine(admission, at: engine.now) }) }
        if hasEnded || !waits { retryPostponed() }
        return false
    }

    /// Asks the conditions one after the other, and cancels the operation when one does not hold.
    private func askConditions(of admission: Admission) {
        let conditions = lock.withLock { exchange(&admission.conditions, with: []) }
        for condition in conditions {
            switch condition.evaluate(self) {
            case .holds: continue
            case .failed(let reason):
                fail(with: OperationError.conditionFailed(operation: label, condition: condition.name, reason: reason), outcome: .cancelled)
            case .error(let error): fail(with: error)
            }
            cancel()
            // An override of `cancel` did not call `super`. The operation is not posted, because a worker has it.
            if !loadState().has(State.cancelled) { transition { _ = $0.cancel() } }
            return
        }
    }

    /// Leaves the line after a dependency was added. If that has finished already, or when it has, the operation asks again.
    func leaveLine() {
        guard let admission, let engine = withQueueCore({ core -> Engine in unsafe core.engine }) else { return }
        engine.perform(engine.admissions.withLock { $0.leaveLine(admission, at: engine.now) })
        retryPostponed()
    }

    /// Forgets the pause between two attempts.
    private func endPause(_ admission: Admission, on engine: Engine) {
        if let timer = lock.withLock({ admission.pause.take() })?.timer { engine.timers.cancel(timer, on: engine) }
    }

    /// Whether the operation must wait for its next attempt, although it was posted, such as by the end of a dependency.
    private func isPausing(_ admission: Admission, at now: ContinuousClock.Instant) -> Bool {
        !loadState().has(State.cancelled) && lock.withLock { admission.pause.map { $0.end > now } ?? false }
    }

    private func postponeDuringPause(_ admission: Admission, _ core: OperationQueue.Core) {
        guard core.giveBack(self) else { return }
        atomicMemoryFence(ordering: .sequentiallyConsistent)
        if loadState().has(State.cancelled) || lock.withLock({ admission.pause == nil }) { retryPostponed() }
    }

    /// A thread is about to call `start`, if only to finish the operation as cancelled. `startHasReturned` follows.
    func beginAttempt() {
        guard let admission else { return }
        lock.withLock {
            if !loadState().has(State.cancelled) { admission.attempt += 1 }
            (admission.isInStart, admission.hasEndedInStart) = (true, false)
        }
    }

    /// The priority has changed.
    func placeHasChanged() {
        guard let admission, let engine = withQueueCore({ core -> Engine in unsafe core.engine }) else { return }
        engine.perform(engine.admissions.withLock { $0.reprioritise(self, admission, at: engine.now) })
    }

    /// Returns what the operation has taken.
    func endAdmission(on engine: Engine) {
        guard let admission else { return }
        endPause(admission, on: engine)
        engine.perform(engine.admissions.withLock { $0.end(self, admission, at: engine.now) })
    }

    /// Posts an operation that was invited, before the others of its priority: it has waited longer than they have.
    fileprivate func acceptInvitation() {
        if transition({ $0.resumePostponed() }) {
            withQueueCore { $0.post(self, inFront: true) }
        } else if !loadState().has(State.cancelled) {
            leaveLine()  // it has got a dependency
        }
    }
}

extension Engine {
    /// Performs what a change of the admissions results in. The caller holds no lock.
    func perform(_ consequences: Admissions.Consequences) {
        for timer in consequences.ended { timers.cancel(timer, on: self) }
        for (requirement, serial, moment) in consequences.timers {
            let number = timers.set(at: moment, on: self) { [unowned self] in
                perform(admissions.withLock { $0.timerHasFired(serial: serial, for: requirement, at: now) })
            }
            if !admissions.withLock({ $0.note(number, serial: serial, for: requirement) }) { timers.cancel(number, on: self) }
        }
        for operation in consequences.invited { operation.acceptInvitation() }
    }
}
