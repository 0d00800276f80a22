import OpPlatform
import Synchronization

extension Operation {
    /// The needs of an operation besides its dependencies, and its attempts. Created when the first of these is set. A subclass of
    /// `Extras`, so that an operation with keys usually has one such object and not two.
    final class Admission: Extras, @unchecked Sendable {
        // Safety: `@unchecked Sendable` because each stored property states what guards it.

        /// Whether `place` is set. Atomic, to be read without the lock.
        let isInLine = Atomic<Bool>(false)
        /// Whether `further` is nil. Atomic, to be read without the lock.
        let needsOnlyKeys = Atomic<Bool>(true)
        /// Guarded by the lock of `Engine.admissions`.
        @safe @exclusivity(unchecked) var hasTaken = false

        // Guarded by the operation's lock, so accesses need no exclusivity checks.

        /// Whether a thread is in `start`, and whether the attempt has ended meanwhile. See `isTriedAgain`.
        @safe @exclusivity(unchecked) var isInStart = false
        @safe @exclusivity(unchecked) var hasEndedInStart = false
        /// The number of attempts that have begun.
        @safe @exclusivity(unchecked) var attempt = 0
        @safe @exclusivity(unchecked) var exclusiveKeys = Few<String>()
        @safe @exclusivity(unchecked) private(set) var further: Further?

        // Guarded by the lock of `Engine.admissions`.

        /// The operation has taken these, or it waits in a line and wants to take them.
        @safe @exclusivity(unchecked) var claims = Few<Claim>()
        /// The place among the operations that wait, in the order of their arrival; 0 for none.
        @safe @exclusivity(unchecked) var ticket: UInt64 = 0
        /// The line that the operation waits in, or from which it was invited.
        @safe @exclusivity(unchecked) var place: Place?

        /// The properties that operations with only keys do not have.
        final class Further {
            @safe @exclusivity(unchecked) var needs: [String: Int] = [:]
            /// The conditions that were not asked yet.
            @safe @exclusivity(unchecked) var conditions: [OperationPrecondition] = []
            @safe @exclusivity(unchecked) var retryPolicy: RetryPolicy?
            static let mostFailures = 100
            /// The errors of the latest attempts that have failed and were followed by another one.
            @safe @exclusivity(unchecked) var failures: [any Error] = []
            /// The pause before the next attempt, with the timer that ends it.
            @safe @exclusivity(unchecked) var pause: Pause?
        }

        func ensureFurther() -> Further {
            if let further { return further }
            let made = Further()
            further = made
            needsOnlyKeys.store(false, ordering: .relaxed)
            return made
        }

        /// A class, for the reason that `TokenBucket` states.
        @safe final class Pause {
            @safe @exclusivity(unchecked) var timer: Timers.Number?
            let end: ContinuousClock.Instant

            init(until end: ContinuousClock.Instant) { self.end = end }
        }

        struct Place {
            let supply: Supply
            let core: ObjectIdentifier
            var rank: Line.Rank
        }

        /// Whether the policy allows another attempt after this one. False if the operation had no admission when it started. The caller holds the
        /// operation's lock.
        var hasAttemptsLeft: Bool { further?.retryPolicy.map { attempt > 0 && attempt < $0.attempts } ?? false }

        /// Whether the operation can ask for its needs at once: it has no pause, and no condition is left. The caller holds the operation's lock.
        var asksAtOnce: Bool { further.map { $0.pause == nil && $0.conditions.isEmpty } ?? true }
    }

    /// The operation's admission; nil if it needs nothing special. Reading it needs no lock, because the flag is set after the admission
    /// was made.
    var admission: Admission? {
        guard loadState().has(State.hasAdmission), let extras else { return nil }
        // Safety: extras live as long as the operation once they exist.
        return unsafe Unmanaged.passUnretained(extras)._withUnsafeGuaranteedRef {
            unsafe $0.laterAdmission ?? unsafeDowncast($0, to: Admission.self)
        }
    }

    /// Changes the needs of the operation, which then asks for them before it starts. No effect once the operation has started.
    ///
    /// - Returns: whether the operation is in a queue, so that it may have asked before.
    @discardableResult
    func changeAdmission(_ change: (Admission) -> Void) -> Bool {
        lock.withLock {
            change(ensureAdmission())
            return transition { $0.set(State.hasAdmission) }.has(State.linked)
        }
    }

    /// Makes the admission, unless it exists. The caller holds `lock`, and sets the flag.
    private func ensureAdmission() -> Admission {
        if let admission { return admission }
        let made = Admission()
        if let extras { extras.laterAdmission = made } else { extras = made }
        return made
    }

    /// The missing requirement of an operation that waits.
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
    /// Asks the conditions, and takes everything that the operation needs. Returns false if something is missing, or the pause between two
    /// attempts lasts: the operation has returned to its queue `core`, and is posted again when it may start.
    ///
    /// Called by the thread that has taken the operation from its queue and is about to launch it.
    func isAdmitted(by core: OperationQueue.Core, on engine: Engine, _ admission: Admission) -> Bool {
        if !admission.needsOnlyKeys.load(ordering: .relaxed), !lock.withLock({ admission.asksAtOnce }) {
            if isPausing(admission, at: engine.now) {
                postponeDuringPause(admission, core)
                return false
            }
            endPause(admission, on: engine)
            if !loadState().has(State.cancelled) { askConditions(of: admission) }
        }
        if loadState().has(State.cancelled) {
            engine.changeAdmissions { $0.leaveLine(self, admission) }
            return true
        }
        let (isAdmitted, consequences) = engine.admissions.withLock { ($0.admit(self, admission, in: core), $0.takeConsequences()) }
        if isAdmitted {
            engine.perform(consequences)
            return true
        }
        let isBack = core.giveBack(self)
        engine.perform(consequences)
        // As in `postponeUntilReady`: a thread that cancelled the operation, invited it, or gave it a dependency before it was back in its queue
        // could not post it. The operation may even have finished before it was in the line.
        atomicMemoryFence(ordering: .sequentiallyConsistent)
        let hasEnded = loadState().has(State.cancelled | State.finishing | State.finished)
        if hasEnded { engine.changeAdmissions { $0.leaveLine(self, admission) } }
        if isBack && !admission.isInLine.load(ordering: .relaxed) { resumeInFront() }
        return false
    }

    /// Asks the conditions one after the other, and cancels the operation when one does not hold.
    private func askConditions(of admission: Admission) {
        let conditions = lock.withLock { admission.further.map { exchange(&$0.conditions, with: []) } ?? [] }
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

    /// Leaves the line, because a dependency was added or the needs have changed. The operation asks again, unless it must wait for a
    /// dependency.
    func leaveLine() {
        guard let admission, let engine = withQueueCore({ core -> Engine in unsafe core.engine }) else { return }
        engine.changeAdmissions { $0.leaveLine(self, admission) }
        // Pairs with the fence in `isAdmitted`.
        atomicMemoryFence(ordering: .sequentiallyConsistent)
        resumeInFront()
    }

    private func endPause(_ admission: Admission, on engine: Engine) {
        if let timer = lock.withLock({ admission.further?.pause.take() })?.timer { engine.cancelTimer(timer) }
    }

    /// Whether the pause before the next attempt lasts. The operation may be posted meanwhile, for example when a dependency has finished.
    private func isPausing(_ admission: Admission, at now: ContinuousClock.Instant) -> Bool {
        !loadState().has(State.cancelled) && lock.withLock { admission.further?.pause.map { $0.end > now } ?? false }
    }

    private func postponeDuringPause(_ admission: Admission, _ core: OperationQueue.Core) {
        guard core.giveBack(self) else { return }
        atomicMemoryFence(ordering: .sequentiallyConsistent)
        if loadState().has(State.cancelled) || lock.withLock({ admission.further?.pause == nil }) { retryPostponed() }
    }

    /// Begins an attempt: the calling thread is about to call `start`, if only to finish the operation as cancelled. `startHasReturned`
    /// must follow.
    func beginAttempt() {
        guard let admission else { return }
        lock.withLock {
            if !loadState().has(State.cancelled) { admission.attempt += 1 }
            (admission.isInStart, admission.hasEndedInStart) = (true, false)
        }
    }

    /// Launches an admitted operation without a retry policy. Returns false, without any effect, if it has one, was cancelled or is
    /// observed.
    func beginOnlyAttempt(_ admission: Admission) -> Bool {
        // The transition is made outside of the lock, because the recorder takes the lock to write the dependencies of an operation that starts.
        guard lock.withLock({ admission.further?.retryPolicy == nil }), transition({ $0.startBody(isAdmitted: true) }) else { return false }
        lock.withLock { admission.attempt += 1 }
        return true
    }

    /// Moves the operation in its line, because its priority has changed.
    func placeHasChanged() {
        guard let admission, let engine = withQueueCore({ core -> Engine in unsafe core.engine }) else { return }
        engine.changeAdmissions { $0.reprioritise(self, admission) }
    }

    /// Gives back everything that the operation has taken.
    func endAdmission(on engine: Engine, thenTakingFrom core: OperationQueue.Core? = nil) {
        guard let admission else { return }
        if !admission.needsOnlyKeys.load(ordering: .relaxed) { endPause(admission, on: engine) }
        engine.changeAdmissions(thenTakingFrom: core) { $0.end(self, admission) }
    }

    fileprivate func acceptInvitation(thenTakingFrom core: OperationQueue.Core?) {
        if !resumeInFront(thenTakingFrom: core), !loadState().has(State.cancelled) {
            // The operation has a new dependency, or is not back in its queue yet.
            leaveLine()
        }
    }

    /// Posts an operation that waits in a line. The operation precedes the others of its priority, because it has waited longer. Returns
    /// false if it does not wait.
    ///
    /// - Parameter served: the queue from which the calling worker takes its next operation, if any. No other worker needs to be woken for
    ///   that queue.
    @discardableResult
    private func resumeInFront(thenTakingFrom served: OperationQueue.Core? = nil) -> Bool {
        guard transition({ $0.post() }) else { return false }
        withQueueCore { core in
            if core === served { core.postBeforeTaking(self) } else { core.post(self, inFront: true) }
        }
        return true
    }
}

extension Engine {
    /// Changes the admissions, and performs the consequences. The caller holds no lock.
    @inline(__always)
    func changeAdmissions(thenTakingFrom core: OperationQueue.Core? = nil, _ change: (inout Admissions) -> Void) {
        perform(
            admissions.withLock { admissions in
                change(&admissions)
                return admissions.takeConsequences()
            }, thenTakingFrom: core)
    }

    @inline(__always)
    fileprivate func perform(_ consequences: Admissions.Consequences?, thenTakingFrom core: OperationQueue.Core? = nil) {
        if let consequences { performAll(consequences, thenTakingFrom: core) }
    }

    @inline(never)
    private func performAll(_ consequences: Admissions.Consequences, thenTakingFrom core: OperationQueue.Core?) {
        for timer in consequences.ended { cancelTimer(timer) }
        for (requirement, serial, moment) in consequences.timers {
            let number = setTimer(at: moment) { [unowned self] in
                changeAdmissions { $0.timerHasFired(serial: serial, for: requirement) }
            }
            if !admissions.withLock({ $0.keep(number, serial: serial, for: requirement) }) { cancelTimer(number) }
        }
        for operation in consequences.invited { operation.acceptInvitation(thenTakingFrom: core) }
    }
}
