import OpPlatform

/// Noticing that workers are lost.
extension Coordinator {
    /// Sends a beat, again and again.
    func beat() {
        let count = state.withLock { state -> UInt64? in
            if state.isClosed { return nil }
            state.beatCount += 1
            return state.beatCount
        }
        guard let count else { return }
        exchange.publish(.beat(run: run, count, isLast: false), to: Subject.beat)
        exchange.fabric.after(Self.beatInterval) { [weak self] in self?.beat() }
    }

    /// Seconds after its last message until a worker that says hello every second is late; seconds between two pings to a late worker; and seconds
    /// between two pings to a worker with tasks, which may have dropped them.
    private static let lateHello = 1.2, shortAskInterval = 0.5, askInterval = 3.0

    /// Checks the workers and the stream, again and again.
    func watch() {
        let now = now, isConnected = exchange.fabric.isConnected
        // While a handler is stuck, in a write to a full pipe for example, no message is received either.
        let isStuck = !deliveries.hasMoved
        let (asked, gone, changed) = state.withLock { state -> ([String], [String], Int?) in
            if state.isClosed { return ([], [], nil) }
            for (id, peer) in state.formerPeers where now - peer.lastHeard > Self.longestAbsence { state.formerPeers[id] = nil }
            if isStuck || isConnected && !state.wasConnected { state.connectedSince = now }
            state.wasConnected = isConnected
            guard isConnected else { return ([], [], nil) }
            var asked: [String] = [], gone: [String] = []
            // Sorted, so that a simulation can be repeated.
            for (id, peer) in state.peers.sorted(by: { $0.key < $1.key }) {
                // Without a connection, no worker could be heard.
                let lastHeard = max(peer.lastHeard, state.connectedSince)
                let silentSince = peer.silentSince.map { max($0, state.connectedSince + Self.absenceAfterReconnection - Self.absence) }
                if now - lastHeard > Self.silence || silentSince.map({ now - $0 > Self.absence }) ?? false {
                    gone.append(id)
                } else if now - peer.lastAsked >= (now - peer.lastHeard > Self.lateHello ? Self.shortAskInterval : Self.askInterval),
                    !peer.tasks.isEmpty || now - peer.lastHeard > Self.lateHello
                {
                    state.peers[id]?.lastAsked = now
                    asked.append(id)
                }
            }
            return (asked, gone, state.countSlots())
        }
        for id in asked { ping(id) }
        for id in gone { markWorkerLost(id) }
        if let changed { deliveries.add { [events] in events.slotsHaveChanged(changed) } }
        if isConnected { checkStream() }
        if state.withLock({ !$0.isClosed }) { exchange.fabric.after(Self.watchInterval) { [weak self] in self?.watch() } }
    }

    /// Sends a ping. The server answers at once if the worker's connection is closed.
    private func ping(_ id: String) {
        exchange.request(.ping(run: run), to: Subject.worker(id), every: Self.silence, tries: 1) { [self] reply in
            let now = now
            let dropped = state.withLock { state -> [UInt64] in
                switch reply {
                case .message(.pong(let session)):
                    state.peers[id]?.lastHeard = now
                    state.peers[id]?.silentSince = nil
                    return state.startSession(session, of: id) ?? []
                case .noResponders:
                    if state.peers[id]?.silentSince == nil { state.peers[id]?.silentSince = now }
                case .message, .unsealed, .timeout: break
                }
                return []
            }
            redeliver(dropped, lostBy: id)
        }
    }

    /// Takes the tasks of a lost worker away from it.
    private func markWorkerLost(_ id: String) {
        let (tasks, changed) = state.withLock { state -> (Set<UInt64>, Int?) in
            guard var peer = state.peers.removeValue(forKey: id) else { return ([], nil) }
            let tasks = peer.tasks
            peer.tasks = []
            peer.silentSince = nil
            state.formerPeers[id] = peer
            return (tasks, state.countSlots())
        }
        if let changed { deliveries.add { [events] in events.slotsHaveChanged(changed) } }
        redeliver(tasks.sorted(), lostBy: id)
    }

    /// Publishes the tasks of a lost worker as their next attempt, or finishes them.
    func redeliver(_ numbers: [UInt64], lostBy worker: String) {
        enum Step {
            case again(Task, attempt: UInt64, acknowledgement: String?)
            case finish(Outcome)
        }
        for number in numbers {
            let step = state.withLock { state -> Step? in
                // If the worker's outcome has arrived, `fetch` decides about the task: the blobs may arrive, too.
                guard var entry = state.entries[number], entry.holder == worker,
                    !entry.outcomes.contains(where: { $0.worker == worker && $0.attempt == entry.attempt })
                else { return nil }
                let description = (state.peers[worker] ?? state.formerPeers[worker])?.description
                entry.lostWorkers.append(description?.label ?? worker)
                let former = entry
                entry.startNextAttempt()
                state.entries[number] = entry
                state.peers[worker]?.tasks.remove(number)
                if entry.stop != nil { return .finish(.stopped) }
                if former.claim != nil || entry.lostWorkers.count >= entry.task.maximumDeliveries {
                    return .finish(.lost(workers: entry.lostWorkers))
                }
                return .again(entry.task, attempt: entry.attempt, acknowledgement: former.acknowledgement)
            }
            switch step {
            case .again(let task, let attempt, let acknowledgement):
                // Otherwise the stream would deliver the old job as well.
                if let acknowledgement { JetStream.acknowledge(exchange, acknowledgement, JetStream.terminated) }
                publish(number, task, attempt: attempt)
            case .finish(let outcome): finish(number, outcome)
            case nil: break
            }
        }
    }
}
