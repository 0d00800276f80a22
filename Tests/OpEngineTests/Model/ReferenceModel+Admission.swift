import OpEngine

/// The needs of an operation besides its dependencies: keys, resources, starts that a rate limit allows, conditions, and further attempts.
extension ReferenceModel {
    struct Needs: Hashable {
        var keys: Set<String> = []
        var resources: [String: Int] = [:]

        var isEmpty: Bool { keys.isEmpty && resources.isEmpty }
        func overlaps(_ other: Needs) -> Bool {
            !keys.isDisjoint(with: other.keys) || resources.keys.contains { other.resources[$0] != nil }
        }
    }

    enum Answer { case holds, fails, isUnknown }

    struct Admission {
        var needs = Needs() {
            didSet { hasOrHadNeeds = hasOrHadNeeds || !needs.isEmpty }
        }
        private(set) var hasOrHadNeeds = false
        /// The needs that it has taken. Empty if it was started by hand.
        var taken = Needs()
        /// The future answer of its condition; nil if it has none, or if the condition was asked.
        var condition: Answer?
        /// How often it may run.
        var attempts = 1
        /// The pause between two attempts, in seconds.
        var pause = 0.0
        /// How often it has begun.
        var attempt = 0
        var pauseEnd: ContinuousClock.Instant?
    }

    // MARK: Actions of users

    /// Whether the totals are enough for the operation, so that a queue takes it.
    func suffices(for one: Int) -> Bool { operations[one].admission.needs.resources.allSatisfy { $0.value <= resources[$0.key] ?? 0 } }

    /// Whether the queue has no room for another operation that waits.
    func isFull(_ queue: Int) -> Bool {
        guard let maximum = queues[queue].maximumPending else { return false }
        let pending = queues[queue].operations.count { !operations[$0].isExecuting && !operations[$0].isEndingUnstarted }
        return pending >= maximum + (flaw == .pendingIsOffByOne ? 1 : 0)
    }

    mutating func setRate(_ rate: RateLimit?, of queue: Int) {
        (queues[queue].rate, queues[queue].starts, queues[queue].isOrWasLimited) = (rate, [], true)
    }

    // MARK: Steps of the engine

    /// The engine asks the condition.
    mutating func ask(_ one: Int) -> Answer {
        if operations[one].isExecuting || operations[one].isFinished { violate("operation \(one) is asked too late") }
        if operations[one].isCancelled { violate("operation \(one) is asked although it was cancelled") }
        guard let answer = operations[one].admission.condition else {
            violate("operation \(one) is asked twice")
            return .holds
        }
        operations[one].admission.condition = nil
        if answer != .holds && flaw != .conditionsAreIgnored { cancel(one) }
        return answer
    }

    /// An operation begins, which its queue has started unless `byHand` is true.
    mutating func take(_ one: Int, byHand: Bool) {
        operations[one].admission.attempt += 1
        operations[one].admission.pauseEnd = nil
        if operations[one].admission.condition != nil && !byHand { violate("operation \(one) starts without being asked") }
        guard let queue = operations[one].queue, !byHand else { return }
        operations[one].admission.taken = operations[one].admission.needs
        if queues[queue].rate != nil { queues[queue].starts.append(now()) }
    }

    /// Whether the attempt that executes is followed by another one if it fails now.
    func isTriedAgain(_ one: Int) -> Bool {
        let operation = operations[one]
        let attempts = operation.admission.attempts + (flaw == .attemptsAreOffByOne ? 1 : 0)
        return operation.isExecuting && operation.queue != nil && !operation.isCancelled && operation.admission.attempts > 1
            && operation.admission.attempt < attempts && !(operation.hasUnluckyDependency && operation.policy == .succeeded)
    }

    /// The attempt has failed, and the operation waits for the next one.
    mutating func endAttempt(_ one: Int) {
        operations[one].isExecuting = false
        operations[one].admission.taken = Needs()
        let pause = operations[one].admission.pause + (flaw == .pausesAreTooLong ? 1 : 0)
        operations[one].admission.pauseEnd = now() + .seconds(pause)
    }

    /// Whether the operation waits for its next attempt.
    func isBetweenAttempts(_ one: Int) -> Bool {
        let operation = operations[one]
        return operation.admission.attempt > 0 && !operation.isExecuting && !operation.isFinished && !operation.isCancelled
    }

    // MARK: Consequences

    /// Whether nothing that the operation needs is missing.
    func isAdmitted(_ one: Int) -> Bool {
        let (operation, needs) = (operations[one], operations[one].admission.needs)
        if let end = operation.admission.pauseEnd, end > now() { return false }
        for other in operations where flaw != .keysAreShared && !other.admission.taken.keys.isDisjoint(with: needs.keys) { return false }
        for (name, amount) in needs.resources where flaw != .resourcesAreEndless {
            let used = operations.reduce(0) { $0 + ($1.admission.taken.resources[name] ?? 0) }
            if used + amount > resources[name] ?? 0 { return false }
        }
        return operation.queue.map { mayStart(in: $0) } ?? true
    }

    /// Whether the rate limit allows a start. Counts the starts from each earlier one until now.
    private func mayStart(in queue: Int) -> Bool {
        guard let rate = queues[queue].rate else { return true }
        let burst = Double(rate.burst - (flaw == .burstIsOffByOne ? 1 : 0))
        return queues[queue].starts.reversed().enumerated().allSatisfy { number, start in
            let allowed = burst + Double(rate.count) * (start.duration(to: now()) / .seconds(rate.seconds))
            return Double(number + 2) <= allowed + 0.001
        } && burst >= 1
    }

    /// Whether the operation's place among the ready ones may change, because it waits for something or has waited. Its place then does not tell
    /// when it starts.
    func hasNoFixedPlace(_ one: Int) -> Bool {
        let operation = operations[one]
        return operation.isGated || operation.admission.hasOrHadNeeds || operation.admission.attempts > 1
            || operation.queue.map { queues[$0].isOrWasLimited } ?? false
    }

    /// Whether the operation is in a queue and has not started.
    func isWaiting(_ one: Int) -> Bool {
        let operation = operations[one]
        return operation.queue != nil && !operation.isExecuting && !operation.isFinished && !operation.isEndingUnstarted
    }

    /// This operation and its rivals: operations that wait for something that it needs, or that one of its rivals needs.
    func rivals(of one: Int) -> Set<Int> {
        func areRivals(_ one: Int, _ other: Int) -> Bool {
            let (first, second) = (operations[one], operations[other])
            return first.admission.needs.overlaps(second.admission.needs)
                || first.queue == second.queue && first.queue.map { queues[$0].rate != nil } ?? false
        }
        let waiting = operations.indices.filter { isWaiting($0) && !operations[$0].isCancelled }
        var (met, pending) = (Set([one]), [one])
        while let next = pending.popLast() {
            for other in waiting where !met.contains(other) && areRivals(next, other) {
                met.insert(other)
                pending.append(other)
            }
        }
        return met
    }
}
