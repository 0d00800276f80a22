import OpPlatform

/// Publishing tasks, and finishing them.
extension Coordinator {
    /// Publishes a task.
    ///
    /// - Parameter willPublish: called with the number of the task, before a worker can have it.
    /// - Returns: the number, for `stop`.
    @discardableResult
    public func submit(_ task: Task, _ handlers: Handlers, willPublish: (UInt64) -> Void = { _ in }) -> UInt64 {
        for blob in task.payload.contents { exchange.offer(blob) }
        let now = now
        let number = state.withLock { state -> UInt64? in
            if state.isClosed { return nil }
            state.lastNumber += 1
            state.entries[state.lastNumber] = Entry(task: task, listener: Listener(handlers), submitted: now)
            return state.lastNumber
        }
        guard let number else {
            deliveries.add { handlers.ended(.stopped) }
            return 0
        }
        guard task.payload.mostBytes + Self.mostBytesBesidePayload <= exchange.fabric.maxPayload else {
            finish(number, .refused("the operation's message is larger than the server takes (max_payload)"))
            return number
        }
        willPublish(number)
        publish(number, task, attempt: 0)
        return number
    }

    /// The most bytes that a message has beside the contents of a task.
    private static var mostBytesBesidePayload: Int { 4096 }

    /// Stops a task. A task without a holder ends at once; a task with one ends when the worker reports the outcome. Repeating this does no harm.
    public func stop(_ number: UInt64, _ request: StopRequest) {
        let (holder, isOver, attempt) = state.withLock { state -> (String?, Bool, UInt64) in
            guard let entry = state.entries[number] else { return (nil, false, 0) }
            if entry.stop == nil || request != .cancel { state.entries[number]?.stop = request }
            return (entry.holder, entry.holder == nil && entry.outcomes.isEmpty, entry.attempt)
        }
        if let holder { sendStop(request, of: number, attempt: attempt, to: holder) }
        if isOver { finish(number, .stopped) }
    }

    /// Lets workers get a blob as long as the caller keeps it.
    public func offer(_ blob: Blob) { exchange.offer(blob) }

    /// Finishes a task if its worker does not report that the body has stopped.
    public func abandon(_ number: UInt64) { finish(number, .stopped) }

    /// Removes a task and delivers its outcome. Tells a worker that still has the task to drop it.
    ///
    /// - Parameters:
    ///   - worker: the worker that has ended the task.
    ///   - attempt: the attempt that the worker has ended.
    func finish(_ number: UInt64, _ outcome: Outcome, by worker: String? = nil, attempt: UInt64 = 0) {
        let entry = state.withLock { state -> Entry? in
            guard let entry = state.entries.removeValue(forKey: number) else { return nil }
            if let holder = entry.holder { state.peers[holder]?.tasks.remove(number) }
            return entry
        }
        guard let entry else { return }
        if let holder = entry.holder {
            if holder != worker || entry.attempt != attempt { sendStop(.drop, of: number, attempt: entry.attempt, to: holder) }
        } else if let sequence = entry.sequence {
            JetStream.delete(exchange, sequence)
        }
        for found in entry.outcomes { release(number, found) }
        deliveries.add { entry.listener.ended(outcome) }
    }

    /// Seconds after which a stop is sent again to a worker that does not answer.
    private static let stopInterval = 0.5

    /// Sends a stop to a worker until the worker answers or is lost.
    func sendStop(_ request: StopRequest, of number: UInt64, attempt: UInt64, to worker: String) {
        let stop = Message.stop(run: run, number: number, attempt: attempt, request)
        exchange.request(stop, to: Subject.worker(worker), every: Self.stopInterval, tries: 20) { [self] reply in
            if case .message = reply { return }
            guard state.withLock({ !$0.isClosed && $0.peers[worker] != nil }) else { return }
            exchange.fabric.after(Self.stopInterval) { [weak self] in self?.sendStop(request, of: number, attempt: attempt, to: worker) }
        }
    }

    /// Seconds after which a release is sent again to a worker that does not answer.
    private static let releaseInterval = 2.0

    /// Has a worker release the blobs of an outcome.
    func release(_ number: UInt64, _ found: FoundOutcome) {
        if found.payload.blobs.isEmpty { return }
        let release = Message.release(run: run, number: number, attempt: found.attempt)
        exchange.request(release, to: Subject.worker(found.worker), every: 1, tries: 20) { [self] reply in
            if case .message = reply { return }
            // A lost worker may return in the same session.
            let mayHaveThem = state.withLock { state in
                !state.isClosed && (state.peers[found.worker] != nil || state.formerPeers[found.worker] != nil)
            }
            if mayHaveThem { exchange.fabric.after(Self.releaseInterval) { [weak self] in self?.release(number, found) } }
        }
    }

    // MARK: the stream

    /// Seconds between two attempts to publish, and their number.
    private static let secondsPerTry = 2.0, tries = 15

    /// Publishes a task to the stream.
    func publish(_ number: UInt64, _ task: Task, attempt: UInt64) {
        let job = Job(
            run: run, number: number, attempt: attempt, priority: task.priority, isAtMostOnce: task.isAtMostOnce, payload: task.payload)
        let subject = exchange.space.job(run: run, queue: Subject.token(task.queue), priority: task.priority)
        exchange.store(.job(job), to: subject, id: "\(run).\(number).\(attempt)", every: Self.secondsPerTry, tries: Self.tries) {
            [self] reply in
            switch reply {
            case .unsealed(let answer):
                if let refusal = JetStream.refusal(in: answer) {
                    handleRefusal(of: number, attempt: attempt, JetStream.words(of: refusal), patience: Self.patience)
                } else {
                    handleStored(number, attempt: attempt, JetStream.sequence(in: answer))
                }
            case .noResponders: handleRefusal(of: number, attempt: attempt, "its stream is gone", patience: Self.patienceWithoutStream)
            case .timeout, .message:
                handleRefusal(of: number, attempt: attempt, "it does not answer", patience: Self.patienceWithoutStream)
            }
        }
    }

    private func handleStored(_ number: UInt64, attempt: UInt64, _ sequence: UInt64?) {
        let isNeeded = state.withLock { state in
            (state.lastProgress, state.countInterval) = (now, Self.firstCountInterval)
            guard state.entries[number]?.attempt == attempt else { return false }
            state.entries[number]?.sequence = sequence
            state.entries[number]?.isInStream = true
            state.entries[number]?.refusedSince = nil
            // A new stream, in place of one that is gone, counts from 1.
            if let priority = state.entries[number]?.task.priority, let sequence, sequence < state.lastTaken[priority] ?? 0 {
                state.lastTaken[priority] = nil
            }
            return true
        }
        if !isNeeded, let sequence { JetStream.delete(exchange, sequence) }
    }

    /// Seconds of retries after the server has refused a task, perhaps because it has no room; and without an answer, perhaps because the server is
    /// starting.
    private static let patience = 10.0, patienceWithoutStream = 60.0
    /// Seconds after which refused tasks are published again.
    private static let refusalInterval = 1.0

    private func handleRefusal(of number: UInt64, attempt: UInt64, _ refusal: String, patience: Double) {
        let now = now
        let (isOver, isFirst) = state.withLock { state -> (Bool, Bool) in
            guard !state.isClosed, let entry = state.entries[number], entry.attempt == attempt, entry.holder == nil else {
                return (false, false)
            }
            let since = entry.refusedSince ?? now
            if now - since >= patience { return (true, false) }
            state.entries[number]?.refusedSince = since
            state.refused.insert(number)
            return (false, state.refused.count == 1)
        }
        if isOver { return finish(number, .refused("the cluster's server does not take the operation: \(refusal)")) }
        guard isFirst else { return }
        notice("the cluster's server does not take operations now: \(refusal); trying again")
        exchange.fabric.after(Self.refusalInterval) { [weak self] in self?.publishRefused() }
    }

    /// Makes the stream again, since the server may have lost it with its disk. Then publishes the refused tasks.
    private func publishRefused() {
        JetStream.setUp(exchange) { [self] _ in
            let tasks = state.withLock { state in
                defer { state.refused = [] }
                return state.refused.sorted().compactMap { number in
                    state.entries[number].flatMap { $0.holder == nil ? (number, $0.task, $0.attempt) : nil }
                }
            }
            for (number, task, attempt) in tasks { publish(number, task, attempt: attempt) }
        }
    }

    /// Checks that the stream delivers the tasks without a holder.
    func checkStream() {
        state.withLock { $0.recordIdleWorkers(at: now) }
        publishPassedOver()
        countWaiting()
    }

    /// Publishes the tasks again that the stream has passed over. A server that was killed may believe that it has delivered a job that no worker got.
    private func publishPassedOver() {
        let now = now
        let late = state.withLock { state -> [(number: UInt64, entry: Entry)] in
            guard now >= state.nextLook else { return [] }
            state.nextLook = now + Self.lookInterval
            let numbers = state.entries.keys.filter { state.isPassedOver($0, at: now) }.sorted()
            return numbers.compactMap { number in
                state.entries[number]?.startNextAttempt()
                return state.entries[number].map { (number, $0) }
            }
        }
        // The old job stays until the run ends: after a loss of its files, the server may have another job under this number.
        for (number, entry) in late { publish(number, entry.task, attempt: entry.attempt) }
    }

    /// If there is no progress, checks whether the stream still has the tasks without a holder. The stream loses tasks with the server's disk, when a
    /// person removes them, and when workers terminate them after a long time without a beat. If workers with free slots do not get the tasks, the
    /// stream wrongly counts them as delivered.
    private func countWaiting() {
        let now = now
        let (isDue, isInVain) = state.withLock { state in
            if state.lastProgress + state.countInterval > state.nextCount { state.nextCount = state.lastProgress + state.countInterval }
            guard now >= state.nextCount, state.entries.values.contains(where: { $0.isInStream && $0.holder == nil }) else {
                return (false, false)
            }
            state.nextCount = now + state.countInterval
            state.countInterval = min(2 * state.countInterval, Self.longestCountInterval)
            return (true, state.idleSince.map { now - $0 >= Self.firstCountInterval } ?? false)
        }
        if isInVain { return publishLost() }
        guard isDue else { return }
        // Jobs that are stored after the question are not counted.
        let asked = state.withLock { state in state.entries.filter { $0.value.isInStream }.mapValues(\.attempt) }
        JetStream.count(exchange, run: run) { [self] count in
            guard let count else { return }
            let isMissing = state.withLock { state in asked.count { state.entries[$0.key]?.attempt == $0.value } > count }
            if isMissing { publishLost() }
        }
    }

    /// Publishes all tasks without a holder again, since the stream has lost some.
    private func publishLost() {
        JetStream.setUp(exchange) { [self] _ in
            JetStream.purge(exchange, run: run) { [self] in
                let tasks = state.withLock { state in
                    // The stream may lose them again. Only waiting for busy workers makes the intervals longer.
                    (state.lastProgress, state.countInterval) = (now, Self.firstCountInterval)
                    return state.entries.keys.sorted().compactMap { number -> (UInt64, Task, UInt64)? in
                        guard var entry = state.entries[number] else { return nil }
                        let wasInStream = entry.isInStream
                        (entry.isInStream, entry.sequence, entry.passedOver) = (false, nil, nil)
                        defer { state.entries[number] = entry }
                        guard wasInStream, entry.holder == nil else { return nil }
                        entry.attempt += 1
                        return (number, entry.task, entry.attempt)
                    }
                }
                for (number, task, attempt) in tasks { publish(number, task, attempt: attempt) }
            }
        }
    }
}

extension Coordinator.State {
    /// Whether the stream will never deliver the job of a task.
    fileprivate mutating func isPassedOver(_ number: UInt64, at now: Double) -> Bool {
        guard let entry = entries[number], entry.isInStream, entry.holder == nil, let sequence = entry.sequence,
            let last = lastTaken[entry.task.priority], sequence < last
        else {
            // The caller iterates over the keys of `entries`, so the first write copies the dictionary.
            if entries[number]?.passedOver != nil { entries[number]?.passedOver = nil }
            return false
        }
        let known = entry.passedOver ?? Coordinator.PassedOver(since: now)
        if known.last == nil, now - known.since >= Coordinator.longestPassingOver {
            entries[number]?.passedOver = Coordinator.PassedOver(since: known.since, last: last)
        } else {
            entries[number]?.passedOver = known
        }
        return known.last.map { last > $0 } ?? false
    }

    /// Records since when a worker has been idle. Without a connection, no worker could report that.
    fileprivate mutating func recordIdleWorkers(at now: Double) {
        let isIdle = peers.values.contains {
            $0.description.taskCount < $0.description.slots && now - $0.lastHeard < Coordinator.longestHelloAge
        }
        idleSince = isIdle ? max(idleSince ?? now, connectedSince) : nil
    }
}
