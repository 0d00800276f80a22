import OpPlatform

/// Taking jobs, and having them run.
extension ClusterWorker {
    /// Asks the stream for jobs again and again: pulls are over after some time, and the server may have forgotten them.
    func pullAgain() {
        returnSurplus()
        pull()
        sendAcknowledgements()
        if !state.withLock(\.isClosed) { exchange.fabric.after(Self.pullInterval) { [weak self] in self?.pullAgain() } }
    }

    /// Seconds after the end of a pull in which the server says that the pull is over.
    private static let statusDelay = 2.0

    /// Asks the stream for as many jobs as the worker has room for.
    func pull() {
        let now = now
        let isConnected = exchange.fabric.isConnected
        let requests = state.withLock { state -> [(priority: Int, count: Int)] in
            if state.isClosed || state.isDraining || !isConnected || now < state.nextPull { return [] }
            let room = state.wantedCount(slots: slots, at: now) - state.taskCount
            guard room > 0 else { return [] }
            var requests: [(Int, Int)] = []
            for priority in state.pulls.indices.reversed() {
                state.pulls[priority].removeAll { $0.end + Self.statusDelay <= now || $0.count <= 0 }
                let asked = state.pulls[priority].reduce(0) { $0 + $1.count }
                // A pull asks for at least half of the room, so that pulls are few.
                guard asked * 2 <= room, asked < room else { continue }
                state.pulls[priority].append(Pull(count: room - asked, end: now + Self.pullSeconds))
                requests.append((priority, room - asked))
            }
            return requests
        }
        if !requests.isEmpty { sendAcknowledgements() }
        for (priority, count) in requests {
            JetStream.pull(
                exchange, priority: priority, count: count, seconds: Self.pullSeconds,
                inbox: "\(Subject.inbox(Self.pullPrefix + id)).\(priority)")
        }
    }

    /// Seconds after which to pull again when the server has refused a pull.
    private static let refusalInterval = 0.5

    /// Handles a status that the server sends for a pull in place of a message.
    func handlePullStatus(_ status: Int, priority: Int) {
        state.withLock { state in
            if status == IncomingMessage.pullIsOver {
                if !state.pulls[priority].isEmpty { state.pulls[priority].removeFirst() }
            } else {
                // The stream is gone, or the server is starting. In both cases the server has forgotten all pulls.
                state.pulls[priority] = []
                state.nextPull = now + Self.refusalInterval
            }
        }
        if status == IncomingMessage.pullIsOver { pull() }
    }

    /// How often the stream delivers a job that cannot be opened, and seconds between two deliveries.
    private static let mostDeliveriesOfDamaged = 3, damagedInterval = 0.5

    /// Accepts a job from the stream.
    func accept(_ message: IncomingMessage, priority: Int) {
        state.withLock { state in
            if let first = state.pulls[priority].firstIndex(where: { $0.count > 0 }) { state.pulls[priority][first].count -= 1 }
        }
        guard case .success(.job(let job)) = exchange.opened(message) else {
            // The bytes may be damaged on their way only, so the stream delivers them a few times.
            let isLast = JetStream.deliveryCount(in: message.reply) >= Self.mostDeliveriesOfDamaged
            if isLast { notice("there are jobs for workers with this one's key that are not sealed with it: they are thrown away") }
            JetStream.acknowledge(
                exchange, message.reply, isLast ? JetStream.terminated : JetStream.rejected(for: Self.damagedInterval))
            return pull()
        }
        enum Action {
            case nothing, giveBack
            case prepare(WorkerRun)
        }
        let (task, now) = (WorkerTask(job, acknowledgement: message.reply, worker: self), now)
        let action = state.withLock { state -> Action in
            // The same message again, because the stream did not hear that this worker works on it. The first one counts.
            if state.has(task.identity) { return .nothing }
            // The worker pulls as many jobs of each priority as it has room for, so more may arrive than fit.
            let isFull = state.taskCount >= state.wantedCount(slots: slots, at: now)
            if state.isDraining || state.isClosed || isFull { return .giveBack }
            let run: WorkerRun
            if let known = state.runs[job.run] {
                run = known
            } else {
                state.sessionCount += 1
                run = WorkerRun(job.run, session: state.sessionCount, worker: self)
                state.runs[job.run] = run
            }
            // Under one lock, so that `endRun` finds the task.
            task.session.withLock { $0 = run }
            state.preparing[task.identity] = task
            return .prepare(run)
        }
        switch action {
        case .nothing: pull()
        case .giveBack: JetStream.acknowledge(exchange, message.reply, JetStream.rejected)
        case .prepare(let run):
            run.whenAlive { [self] isAlive in
                // Otherwise the worker has given the task back.
                guard isAlive, task.markReported() else { return }
                run.report(task, .taken(acknowledgement: task.acknowledgement))
                prepare(task)
            }
        }
    }

    /// Fetches the blobs that the task needs before it can run.
    private func prepare(_ task: WorkerTask) {
        exchange.fetch(task.job.payload.blobs, from: Subject.run(task.job.run)) { [self] blobs in
            guard let blobs else { return decline(task) }
            if task.setBlobs(blobs) { enqueue([task]) }
        }
    }

    /// The coordinator has confirmed that this worker holds the tasks `taken`. Before that, another worker may hold them, or they may have ended.
    func handleConsent(to taken: [WorkerTask], refused: [WorkerTask]) {
        for task in refused { stop(task, .drop) }
        let ready = taken.filter { $0.recordConsent() }
        if !ready.isEmpty { enqueue(ready) }
    }

    private func enqueue(_ tasks: [WorkerTask]) {
        state.withLock { state in
            for task in tasks where state.preparing[task.identity] === task {
                state.preparing[task.identity] = nil
                // Higher priorities are nearer to the end, and earlier tasks of one priority, too.
                let position = state.waiting.firstIndex { $0.job.priority >= task.job.priority } ?? state.waiting.endIndex
                state.waiting.insert(task, at: position)
            }
        }
        runNext()
    }

    /// Starts waiting tasks in the free slots.
    func runNext() {
        while true {
            let next = state.withLock { state -> WorkerTask? in
                guard !state.isClosed, state.runningCount < slots, let task = state.waiting.popLast() else { return nil }
                state.running[task.identity] = task
                return task
            }
            guard let next else { break }
            start(next)
        }
        pull()
    }

    private func start(_ task: WorkerTask) {
        guard task.job.isAtMostOnce else {
            if task.start(at: now) { runner.run(task) }
            return
        }
        guard let run = task.session.withLock({ $0 }) else { return }
        let claim = Message.claim(
            run: task.job.run, number: task.job.number, attempt: task.job.attempt, worker: id, session: run.session)
        exchange.request(claim, to: Subject.run(task.job.run), every: 1, tries: 5) { [self] reply in
            guard case .message(.claimed(true)) = reply, state.withLock({ $0.running[task.identity] === task }) else {
                return decline(task)
            }
            if task.start(at: now) { runner.run(task) }
        }
    }

    /// Gives back a task that has not begun. It never begins here.
    func decline(_ task: WorkerTask, isBusy: Bool = false) {
        guard task.abandon(), state.withLock({ $0.remove(task) }) else { return }
        // This worker is the holder of a task that it has reported, and the coordinator publishes such a task again. Other tasks return to the
        // stream.
        if task.isReported { task.session.withLock { $0 }?.report(task, .declined(isBusy: isBusy)) }
        acknowledge(task, task.isReported ? JetStream.terminated : JetStream.rejected)
        runNext()
    }

    /// Tells the stream what becomes of a task.
    private func acknowledge(_ task: WorkerTask, _ answer: [UInt8]) { JetStream.acknowledge(exchange, task.acknowledgement, answer) }

    /// Gives back tasks that were fetched ahead, and wait for bodies that turn out to take long. Another worker may have a free slot.
    private func returnSurplus() {
        let now = now
        let surplus = state.withLock { state in
            // The next one to begin is the last.
            Array(state.waiting.prefix(max(0, state.taskCount - state.wantedCount(slots: slots, at: now))))
        }
        for task in surplus { decline(task, isBusy: true) }
    }

    /// Stops a task that has not ended.
    func stop(_ task: WorkerTask, _ request: StopRequest) {
        if task.isBegun {
            let isRunning = state.withLock { $0.running[task.identity] === task }
            guard isRunning, task.recordStop(request) else { return }
            runner.stop(task, request)
            if request != .cancel { exchange.fabric.after(Self.stopSeconds) { [weak self] in self?.detach(task) } }
        } else {
            decline(task)
        }
    }

    /// Gives others the slot of a task that does not end.
    private func detach(_ task: WorkerTask) {
        let isLeft = state.withLock { state in
            state.running[task.identity] === task && state.detached.insert(task.identity).inserted
        }
        guard isLeft else { return }
        runner.detach(task)
        runNext()
    }

    // MARK: ends

    /// A body has ended.
    func finish(_ task: WorkerTask, _ payload: Payload) {
        let ended = now
        let isKnown = state.withLock { state -> Bool in
            guard state.running[task.identity] === task else { return false }
            state.remove(task)
            state.endedCount += 1
            state.averageSeconds = 0.8 * state.averageSeconds + 0.2 * (ended - task.began)
            if !task.isDropped { state.ended[task.identity] = task }
            return true
        }
        guard isKnown else { return }
        if task.isDropped {
            acknowledge(task, JetStream.terminated)
        } else {
            for blob in payload.contents { exchange.offer(blob) }
            task.session.withLock { $0 }?.report(task, .outcome(payload, began: task.began, ended: ended))
        }
        runNext()
    }

    /// The coordinator knows that these tasks have ended.
    func releaseEnded(_ tasks: [WorkerTask]) {
        if tasks.isEmpty { return }
        state.withLock { state in
            for task in tasks { state.ended[task.identity] = nil }
            state.acknowledgements += tasks.map(\.acknowledgement)
        }
    }

    /// Tells the stream which jobs are done.
    func sendAcknowledgements() {
        let acknowledgements = state.withLock { state in Swift.exchange(&state.acknowledgements, with: []) }
        for acknowledgement in acknowledgements { JetStream.acknowledge(exchange, acknowledgement, JetStream.acknowledged) }
    }

    /// Ends a run here, with its remaining tasks.
    ///
    /// - Parameter isOver: whether the coordinator has ended the run. Otherwise the coordinator may return, and its run begins anew.
    func endRun(_ run: WorkerRun, isOver: Bool) {
        let (name, now) = (run.name, now)
        let ended = state.withLock { state -> (others: [WorkerTask], running: [WorkerTask], since: Double)? in
            guard state.runs[name] === run else { return nil }
            state.runs[name] = nil
            let since = isOver || run.wasAlive ? now - Self.coordinatorSilence : state.silentRuns[name] ?? now
            if state.silentRuns.count > 1000 { state.silentRuns = [:] }
            state.silentRuns[name] = since
            let isOfRun = { (task: WorkerTask) in task.session.withLock { $0 } === run }
            state.ended = state.ended.filter { !isOfRun($0.value) }
            let running = state.running.values.filter(isOfRun)
            let others = state.waiting.filter(isOfRun) + state.preparing.values.filter(isOfRun) + running.filter { $0.abandon() }
            for task in others { state.remove(task) }
            return (others, running.filter(\.isBegun), since)
        }
        // Another thread has ended the run.
        guard let (others, running, since) = ended else { return }
        run.close()
        // Until the coordinator has been silent for long, it may still answer another worker, or return.
        let answer = now - since >= Self.coordinatorSilence ? JetStream.terminated : JetStream.rejected(for: Self.greetInterval)
        for task in others.sorted(by: { $0.number < $1.number }) { acknowledge(task, answer) }
        for task in running.sorted(by: { $0.number < $1.number }) {
            acknowledge(task, JetStream.terminated)
            stop(task, .drop)
        }
        if run.wasAlive { runner.runHasEnded(name) }
        runNext()
    }

    /// The coordinator of a run has answered.
    func markAlive(_ name: String) { state.withLock { $0.silentRuns[name] = nil } }
}

extension ClusterWorker.State {
    func has(_ identity: WorkerTask.Identity) -> Bool {
        running[identity] != nil || preparing[identity] != nil || ended[identity] != nil || waiting.contains { $0.identity == identity }
    }

    /// How many tasks to have, including those that wait.
    func wantedCount(slots: Int, at now: Double) -> Int {
        if averageSeconds >= ClusterWorker.longestAhead { return slots }
        let long = running.values.count { $0.isBegun && now - $0.began >= ClusterWorker.longestAhead }
        // Detached tasks are among the long ones, and have no slot.
        let short = slots - (long - detached.count)
        let ahead = (Double(short) * ClusterWorker.aheadSeconds / max(averageSeconds, 1e-5)).rounded(.up)
        return slots + min(Int(ahead), short * ClusterWorker.mostAhead)
    }

    /// Returns whether the task was there.
    @discardableResult
    mutating func remove(_ task: WorkerTask) -> Bool {
        if running[task.identity] === task {
            running[task.identity] = nil
            detached.remove(task.identity)
            return true
        }
        if preparing[task.identity] === task { preparing[task.identity] = nil; return true }
        guard let index = waiting.firstIndex(where: { $0 === task }) else { return false }
        waiting.remove(at: index)
        return true
    }
}
