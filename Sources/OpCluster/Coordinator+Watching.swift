import Synchronization

/// Noticing that workers are gone.
extension Coordinator {
    /// Says again and again that this coordinator is there.
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

    /// Looks after the workers, again and again.
    func watch() {
        let now = now, isConnected = exchange.fabric.isConnected
        let (asked, gone, changed) = state.withLock { state -> ([String], [String], Int?) in
            if state.isClosed { return ([], [], nil) }
            if isConnected && !state.wasConnected { state.connectedSince = now }
            state.wasConnected = isConnected
            guard isConnected else { return ([], [], nil) }
            var asked: [String] = [], gone: [String] = []
            for (id, peer) in state.peers {
                // While the connection was away, nobody could be heard.
                let lastHeard = max(peer.lastHeard, state.connectedSince)
                let silentSince = peer.silentSince.map { max($0, state.connectedSince + Self.absence) }
                if now - lastHeard > Self.silence || silentSince.map({ now - $0 > Self.absence }) ?? false {
                    gone.append(id)
                } else if now - peer.lastHeard > Self.watchInterval, !peer.tasks.isEmpty || now - peer.lastHeard > 3 {
                    asked.append(id)
                }
            }
            for id in gone { state.peers[id]?.description.slots = 0 }
            return (asked, gone, state.countSlots())
        }
        for id in asked { ask(id) }
        for id in gone { forget(id) }
        if let changed { events.slotsHaveChanged(changed) }
        if state.withLock({ !$0.isClosed }) { exchange.fabric.after(Self.watchInterval) { [weak self] in self?.watch() } }
    }

    /// Asks a worker whether it is there. The server answers at once if its connection is closed.
    private func ask(_ id: String) {
        exchange.request(.ping, to: Subject.worker(id), every: Self.silence, tries: 1) { [self] reply in
            let now = now
            state.withLock { state in
                switch reply {
                case .message:
                    state.peers[id]?.lastHeard = now
                    state.peers[id]?.silentSince = nil
                case .noResponders:
                    if state.peers[id]?.silentSince == nil { state.peers[id]?.silentSince = now }
                case .unsealed, .timeout: break
                }
            }
        }
    }

    /// Takes its tasks from a worker that is gone.
    private func forget(_ id: String) {
        let tasks = state.withLock { state -> Set<UInt64> in
            let tasks = state.peers[id]?.tasks ?? []
            // If it comes back, its reports go on where they were.
            if state.peers[id]?.lastReport == 0 { state.peers[id] = nil } else { state.peers[id]?.tasks = [] }
            return tasks
        }
        lose(tasks.sorted(), with: id)
    }

    /// Publishes tasks again whose worker was lost, or ends them.
    func lose(_ numbers: [UInt64], with worker: String) {
        enum Step {
            case again(Task, attempt: UInt64, acknowledgement: String?)
            case end(Outcome)
        }
        for number in numbers {
            let step = state.withLock { state -> Step? in
                guard var entry = state.entries[number], entry.holder == worker, !entry.isFetching else { return nil }
                let description = state.peers[worker]?.description
                entry.lostWorkers.append(description?.label ?? worker)
                entry.holder = nil
                entry.attempt += 1
                state.entries[number] = entry
                if entry.stop != nil { return .end(.stopped) }
                if entry.isClaimed || entry.lostWorkers.count >= entry.task.maximumDeliveries {
                    return .end(.lost(workers: entry.lostWorkers))
                }
                return .again(entry.task, attempt: entry.attempt, acknowledgement: entry.acknowledgement)
            }
            switch step {
            case .again(let task, let attempt, let acknowledgement):
                // Otherwise the stream would give the old message to somebody as well.
                if let acknowledgement { JetStream.acknowledge(exchange, acknowledgement, JetStream.terminated) }
                publish(number, task, attempt: attempt)
            case .end(let outcome): end(number, outcome)
            case nil: break
            }
        }
    }
}
