import OpEngine

/// The simplest description of operations and queues: no threads, no blocks, and linear searches. Operations and queues are numbers.
/// Each method is called when the real event happens. An event that must not happen is a violation.
struct ReferenceModel {
    /// A deliberate mistake, to see that the comparison notices it.
    enum Flaw: CaseIterable {
        case lastInFirstOut, ignoresPriority, ignoresBarriers, removalKeepsWaiting, cancellingKeepsWaiting, failureReleasesAll
        case suspensionIsIgnored, maximumIsOffByOne, finishedDependenciesAreForgotten, groupsDoNotHold, groupsIgnoreFailures
        case keysAreShared, resourcesAreEndless, burstIsOffByOne, attemptsAreOffByOne, pausesAreTooLong, conditionsAreIgnored
        case pendingIsOffByOne
    }

    struct Operation {
        var queue: Int?
        var isBarrier = false
        /// In order of addition.
        var dependencies: [Int] = []
        /// The dependencies that have not finished.
        var waitsFor: Set<Int> = []
        /// The operations that depend on this one, in order of addition.
        var dependents: [Int] = []
        var priority = 0
        var policy: OpEngine.OperationDependencyPolicy?
        var hasUnluckyDependency = false
        /// Whether the operation was cancelled because a dependency did not succeed. Its error says so, and later failures do not count.
        var isCancelledByDependency = false
        var isCancelled = false
        var isExecuting = false
        var isFinished = false
        var hasFailed = false
        /// When it joined the ready operations of its queue; nil if it has not.
        var inLineSince: Int?
        /// Whether the operation has a readiness of its own, which is false while `isGateClosed` is true.
        var isGated = false
        var isGateClosed = false
        /// The queue inside, if it is a group.
        var inner: Int?
        /// Whether a member has failed.
        var hasFailedMember = false
        /// Whether this is a group that was cancelled before its turn, and ends with its members, without executing.
        var isEndingUnstarted = false
        var admission = Admission()

        var isReady: Bool { waitsFor.isEmpty || isCancelled || isExecuting || isFinished }
        var outcome: OpEngine.OperationOutcome { hasFailed ? .failed : isCancelled ? .cancelled : .succeeded }
    }

    struct Queue {
        /// The unfinished operations, in order of addition.
        var operations: [Int] = []
        var isSuspended = false
        /// Nil: no limit.
        var maximum: Int?
        var policy = OpEngine.OperationDependencyPolicy.finished
        /// The group whose queue this is.
        var group: Int?
        /// Whether the group has not started.
        var isHeld = false
        /// Whether the group finishes when no member is left.
        var isOpen = false
        /// Whether the group is about to finish, or has finished.
        var isClosed = false
        /// Whether the group was cancelled.
        var cancelsAdditions = false
        var rate: RateLimit?
        var isOrWasLimited = false
        /// The moments of the starts since the rate limit was set.
        var starts: [ContinuousClock.Instant] = []
        /// How many operations may wait; nil for any number.
        var maximumPending: Int?
    }

    var operations: [Operation] = []
    var queues: [Queue] = []
    /// The total of each resource.
    var resources: [String: Int] = [:]
    let now: () -> ContinuousClock.Instant
    var violations: [String] = []
    var flaw: Flaw?
    private var clock = 0

    init(flaw: Flaw? = nil, now: @escaping () -> ContinuousClock.Instant) { (self.flaw, self.now) = (flaw, now) }

    // MARK: Actions of users

    mutating func add(_ batch: [Int], to queue: Int, isBarrier: Bool = false) {
        for one in batch {
            operations[one].queue = queue
            operations[one].isBarrier = isBarrier
            if operations[one].policy == nil { operations[one].policy = queues[queue].policy }
            queues[queue].operations.append(one)
            if !mustCancel(one) { lineUp(one) }
        }
        for one in batch { cancelIfUnlucky(one) }
        if queues[queue].cancelsAdditions { for one in batch { cancel(one) } }
    }

    /// Whether the queue takes the operation, apart from the operation's own state.
    func takes(_ one: Int, in queue: Int) -> Bool {
        if queues[queue].isClosed { return false }
        var next = queues[queue].group
        while let group = next {
            if group == one { return false }
            next = operations[group].queue.flatMap { queues[$0].group }
        }
        return true
    }

    /// Whether an unfinished operation is a member of the group, or of one inside.
    func isMember(_ one: Int, of group: Int) -> Bool {
        var next = one
        while !operations[next].isFinished, let around = operations[next].queue.flatMap({ queues[$0].group }) {
            if around == group { return true }
            next = around
        }
        return false
    }

    mutating func addDependency(_ other: Int, to one: Int) {
        guard !operations[one].dependencies.contains(other) else { return }
        operations[one].dependencies.append(other)
        operations[other].dependents.append(one)
        if operations[other].isFinished {
            if operations[other].outcome != .succeeded {
                operations[one].hasUnluckyDependency = true
                cancelIfUnlucky(one)
            }
        } else {
            operations[one].waitsFor.insert(other)
            if !operations[one].isReady { operations[one].inLineSince = nil }
        }
    }

    mutating func removeDependency(_ other: Int, from one: Int) {
        operations[one].dependencies.removeAll { $0 == other }
        operations[other].dependents.removeAll { $0 == one }
        if flaw == .removalKeepsWaiting { return }
        operations[one].hasUnluckyDependency = operations[one].dependencies.contains {
            operations[$0].isFinished && operations[$0].outcome != .succeeded
        }
        operations[one].waitsFor.remove(other)
        lineUp(one)
    }

    mutating func cancel(_ one: Int) {
        guard !operations[one].isFinished, !operations[one].isCancelled else { return }
        if flaw == .cancellingKeepsWaiting && !operations[one].isReady { return }
        operations[one].isCancelled = true
        lineUp(one)
        guard let inner = operations[one].inner else { return }
        queues[inner].cancelsAdditions = true
        for member in dependenciesFirst(queues[inner].operations).reversed() { cancel(member) }
    }

    /// The engine cancels executing operations last, which does not change the order in which the others become ready.
    mutating func cancelAll(in queue: Int) {
        for one in dependenciesFirst(queues[queue].operations.filter { !operations[$0].isBarrier }).reversed() { cancel(one) }
    }

    private func dependenciesFirst(_ all: [Int]) -> [Int] {
        var (left, entered, sorted) = (Set(all), Set<Int>(), [Int]())
        func visit(_ one: Int) {
            guard left.contains(one), entered.insert(one).inserted else { return }
            for other in operations[one].dependencies.reversed() { visit(other) }
            left.remove(one)
            sorted.append(one)
        }
        for one in all { visit(one) }
        return sorted
    }

    mutating func setPriority(_ priority: Int, of one: Int) {
        guard operations[one].priority != priority else { return }
        operations[one].priority = priority
        if operations[one].inLineSince != nil { operations[one].inLineSince = next() }
    }

    mutating func setPolicy(_ policy: OpEngine.OperationDependencyPolicy, of one: Int) {
        operations[one].policy = policy
        cancelIfUnlucky(one)
    }

    // MARK: Steps of the engine

    /// The body begins. `byHand` is true if a caller has called `start`.
    mutating func start(_ one: Int, byHand: Bool) {
        if !byHand { checkTurn(of: one) }
        if operations[one].isExecuting || operations[one].isFinished { violate("operation \(one) runs twice") }
        if operations[one].isCancelled { violate("operation \(one) runs although it was cancelled before") }
        operations[one].isExecuting = true
        operations[one].inLineSince = nil
        take(one, byHand: byHand)
        if let inner = operations[one].inner { queues[inner].isHeld = false }
    }

    /// The members of a cancelled group, which does not execute, may end.
    mutating func startCancelled(_ group: Int, byHand: Bool) {
        if !byHand { checkTurn(of: group) }
        operations[group].isEndingUnstarted = true
        operations[group].inLineSince = nil
        if let inner = operations[group].inner { queues[inner].isHeld = false }
        open(group)
    }

    /// Nothing but members keeps the group from finishing.
    mutating func open(_ group: Int) {
        guard let inner = operations[group].inner else { return }
        queues[inner].isOpen = true
        closeIfEmpty(inner)
    }

    private mutating func closeIfEmpty(_ queue: Int) {
        if queues[queue].isOpen && queues[queue].operations.isEmpty { queues[queue].isClosed = true }
    }

    /// The operation ends. `finishedEarly` is true when `finish` was called before the operation started.
    mutating func finish(_ one: Int, hasFailed: Bool, byHand: Bool, finishedEarly: Bool) {
        if operations[one].isFinished { violate("operation \(one) finishes twice") }
        if !operations[one].isExecuting && !finishedEarly {
            if !operations[one].isCancelled { violate("operation \(one) ends without having run") }
            if !byHand && !operations[one].isEndingUnstarted { checkTurn(of: one) }
        }
        operations[one].isExecuting = false
        operations[one].isFinished = true
        operations[one].admission.taken = Needs()
        operations[one].hasFailed = hasFailed && !operations[one].isCancelledByDependency
        operations[one].inLineSince = nil
        if let inner = operations[one].inner, !queues[inner].isClosed { violate("group \(one) ends before its members") }
        if let queue = operations[one].queue {
            queues[queue].operations.removeAll { $0 == one }
            if let group = queues[queue].group, operations[one].hasFailed { operations[group].hasFailedMember = true }
            closeIfEmpty(queue)
        }
        let waiting = operations[one].dependents.filter { operations[$0].waitsFor.contains(one) }
        for dependent in waiting {
            operations[dependent].waitsFor.remove(one)
            if operations[one].outcome != .succeeded && flaw != .failureReleasesAll { operations[dependent].hasUnluckyDependency = true }
        }
        let unlucky = waiting.filter { mustCancel($0) }
        for dependent in waiting where !unlucky.contains(dependent) { lineUp(dependent) }
        for dependent in unlucky { cancelIfUnlucky(dependent) }
        if flaw == .finishedDependenciesAreForgotten {
            for dependent in waiting { operations[dependent].dependencies.removeAll { $0 == one } }
        }
    }

    // MARK: Consequences

    /// Whether the queue may start the operation now. `precedes` decides which of several comes first.
    func mayRun(_ one: Int) -> Bool {
        if operations[one].isExecuting || operations[one].isFinished || !operations[one].isReady { return false }
        if operations[one].isEndingUnstarted { return false }
        if operations[one].isGateClosed && !operations[one].isCancelled { return false }
        if !operations[one].isCancelled && !isAdmitted(one) { return false }
        guard let queue = operations[one].queue else { return false }
        if queues[queue].isHeld && flaw != .groupsDoNotHold { return false }
        if queues[queue].isSuspended && flaw != .suspensionIsIgnored { return false }
        if let maximum = queues[queue].maximum {
            let executing = queues[queue].operations.count { operations[$0].isExecuting || operations[$0].isEndingUnstarted }
            if executing >= maximum + (flaw == .maximumIsOffByOne ? 1 : 0) { return false }
        }
        if flaw == .ignoresBarriers { return true }
        for earlier in queues[queue].operations {
            if earlier == one { return true }
            if operations[one].isBarrier || operations[earlier].isBarrier { return false }
        }
        return false
    }

    private func precedes(_ one: Int, _ other: Int) -> Bool {
        let (priority, otherPriority) = (operations[one].priority, operations[other].priority)
        if priority != otherPriority && flaw != .ignoresPriority { return priority > otherPriority }
        let (since, otherSince) = (operations[one].inLineSince ?? .max, operations[other].inLineSince ?? .max)
        return flaw == .lastInFirstOut ? since > otherSince : since < otherSince
    }

    /// The operations that the engine should have started when it says that it has nothing to do.
    ///
    /// An operation that needs something may have to wait for a rival that cannot run. So only operations whose rivals may all run count.
    var runnable: [Int] {
        let able = Set(operations.indices.filter { mayRun($0) })
        return able.filter { rivals(of: $0).isSubset(of: able) }
    }

    /// Whether a dependency of `one` on `other` would close a cycle.
    func closesCycle(_ one: Int, on other: Int) -> Bool {
        var pending = [other]
        var seen: Set<Int> = [other]
        while let step = pending.popLast() {
            if step == one { return true }
            for next in operations[step].dependencies where !operations[next].isFinished && seen.insert(next).inserted {
                pending.append(next)
            }
        }
        return false
    }

    private mutating func checkTurn(of one: Int) {
        guard mayRun(one) else { return violate("operation \(one) starts although it may not") }
        // The engine may ask at any moment whether a gated operation is ready, so its place in line means nothing.
        if hasNoFixedPlace(one) { return }
        for other in queues[operations[one].queue ?? 0].operations
        where other != one && !hasNoFixedPlace(other) && precedes(other, one) && mayRun(other) {
            violate("operation \(one) starts before \(other)")
        }
    }

    private func mustCancel(_ one: Int) -> Bool {
        let operation = operations[one]
        return operation.queue != nil && operation.hasUnluckyDependency && operation.policy == .succeeded && !operation.isCancelled
            && !operation.isExecuting && !operation.isFinished
    }

    private mutating func cancelIfUnlucky(_ one: Int) {
        if mustCancel(one) { cancelBecauseOfDependency(one) }
    }

    /// From now on, the operation has the error that a dependency did not succeed.
    mutating func cancelBecauseOfDependency(_ one: Int) {
        operations[one].isCancelledByDependency = true
        cancel(one)
    }

    private mutating func lineUp(_ one: Int) {
        let operation = operations[one]
        guard operation.queue != nil, operation.isReady, !operation.isExecuting, !operation.isFinished else { return }
        if operation.inLineSince == nil { operations[one].inLineSince = next() }
    }

    private mutating func next() -> Int {
        clock += 1
        return clock
    }

    mutating func violate(_ text: String) { violations.append(text) }
}
