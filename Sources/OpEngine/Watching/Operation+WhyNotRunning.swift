import OpPlatform

extension BeyondFoundation where Self: Operation {
    /// All reasons why the operation is not running now. Nil if it has finished, is about to be started by a thread, or is executing and not
    /// known to wait. Each reason was true at some moment during the call.
    ///
    /// Meant for people and tests: visits the operation's dependencies and the operations of its queue.
    @_disfavoredOverload
    public var whyNotRunning: OperationBlockage? {
        // An executing group is expected to wait for its members.
        if memberQueue != nil && isExecuting { return nil }
        let blockage = OperationBlockage(of: self)
        return blockage.blockers.isEmpty ? nil : blockage
    }
}

extension Operation {
    /// All reasons why the operation is not running. See `whyNotRunning`.
    func findBlockers() -> [OperationBlocker] {
        let state = loadState()
        if let memberQueue, state.has(State.started), !state.has(State.finishing | State.finished) {
            let members = memberQueue.operations
            if !members.isEmpty { return [.members(members)] }
        }
        if state.has(State.started | State.executing | State.finishing | State.finished) || isExecuting || isFinished {
            return purposeOfWait.map { [.waiting($0)] } ?? []
        }
        var blockers: [OperationBlocker] = []
        // A cancelled operation does not wait for dependencies.
        let unfinished = state.has(State.cancelled) ? [] : dependencies.filter { !$0.isFinished }
        if let path = unfinished.isEmpty ? nil : cyclePath(through: unfinished) {
            blockers.append(.cycle(path))
            blockers += unfinished.filter { other in !path.contains { $0 === other } }.map { .dependency($0) }
        } else {
            blockers += unfinished.map { .dependency($0) }
        }
        // While dependencies are unfinished, `isReady` is false in any case.
        let isReadyOtherwise = unfinished.isEmpty ? isReady : isReadyByItself
        if !state.has(State.cancelled) && !isReadyOtherwise { blockers.append(.notReady) }
        if !state.has(State.cancelled) { blockers += lacks }
        let inQueue = withQueueCore { core -> [OperationBlocker]? in
            guard let queue = core.queue else { return nil }
            return core.state.withLock { $0.standing(of: self) }.map { $0.blockers(of: self, in: queue, isReady: blockers.isEmpty) }
        }
        guard let inQueue else { return blockers + [.notInQueue] }
        // A worker has taken the operation, perhaps only to find that it is not ready.
        guard let inQueue else { return blockers }
        return blockers + inQueue
    }
}

extension Operation {
    /// The reason why the body of the executing operation waits, if the module above knows it.
    private var purposeOfWait: String? {
        guard !isFinished, let engine = withQueueCore({ core in unsafe core.engine }) else { return nil }
        let describe = engine.describesWait.withLock { $0 }
        return describe?(self)
    }

    /// The reasons why the operation waits although it is ready: keys, resources, a start, or the next attempt.
    private var lacks: [OperationBlocker] {
        guard let admission, let (queue, engine) = withQueueCore({ core -> (OperationQueue?, Engine) in unsafe (core.queue, core.engine) })
        else { return [] }
        let now = engine.now
        if let (end, attempt, count) = lock.withLock({
            admission.further?.pause.map { ($0.end, admission.attempt, admission.further?.retryPolicy?.attempts ?? 0) }
        }) {
            return [.retry(attempt: attempt + 1, of: count, next: now.duration(to: end))]
        }
        guard let lack = engine.admissions.withLock({ $0.lack(of: admission) }) else { return [] }
        switch lack.requirement {
        case .key(let key): return [.key(key, heldBy: lack.holders.first)]
        case .resource(let name):
            return [
                .resource(name, amount: lack.amount, available: lack.available, capacity: lack.capacity, executing: lack.holders)
            ]
        case .start: return queue.map { [.rateLimit($0, next: lack.next.map { now.duration(to: $0) } ?? .zero)] } ?? []
        }
    }
}

extension OperationQueue.State {
    /// The position of an operation in its queue.
    struct Standing {
        var isSuspended = false
        /// Whether the queue is that of a group which has not started.
        var isHeld = false
        var maximum = 0
        /// The executing operations, which count towards the maximum.
        var executing: [Operation] = []
        /// The first unfinished barrier before the operation.
        var barrier: Operation?
        /// The operations that a barrier waits for.
        var before: [Operation] = []

        func blockers(of operation: Operation, in queue: OperationQueue, isReady: Bool) -> [OperationBlocker] {
            var blockers: [OperationBlocker] = []
            // A group executes a moment before it releases its members.
            if isHeld, let group = queue.asMemberQueue?.group, !group.isExecuting { blockers.append(.groupNotStarted(group)) }
            if isSuspended { blockers.append(.suspended(queue)) }
            if maximum == 0 { blockers.append(.maximumIsZero(queue)) }
            if let barrier { blockers.append(.barrier(barrier, in: queue)) }
            if !before.isEmpty { blockers.append(.before(before, in: queue)) }
            if maximum > 0 && executing.count >= maximum { blockers.append(.full(queue, executing: executing)) }
            if !blockers.isEmpty || !isReady { return blockers }
            let executor = queue.underlyingQueue as? any FinishingExecutor
            let purpose = executor == nil ? queue.engine.purposeOfWaitForPlace : executor?.purposeOfWait
            return [purpose.map { .waiting($0) } ?? .notTaken(queue)]
        }
    }

    /// The position of an operation. Nil if a worker has taken it or it has left the queue. O(n).
    func standing(of operation: Operation) -> Standing? {
        guard operation.queuePosition != .outside && operation.queuePosition != .taken else { return nil }
        var standing = Standing(
            isSuspended: isSuspended && !isEnding, isHeld: isHeld && !isEnding, maximum: isEnding ? max(1, maximum) : maximum)
        let isHeld = !segments.isCurrent(operation)
        var isBefore = true
        for other in members {
            if other.queuePosition == .taken { standing.executing.append(other) }
            if other === operation { isBefore = false }
            guard isHeld && isBefore else { continue }
            if operation.isBarrier {
                standing.before.append(other)
            } else if other.isBarrier && standing.barrier == nil {
                standing.barrier = other
            }
        }
        return standing
    }
}
