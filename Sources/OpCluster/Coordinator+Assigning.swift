@_spi(Locking) import OpEngine
import Synchronization

/// Assigning tasks. A worker that has just ended a body usually gets its next task with the answer, which the server passes on and does not store. All
/// other tasks go to the stream, which knows who has asked for one.
extension Coordinator {
    /// Seconds for which the room of a worker counts. Later, another worker may have a free slot, and the stream finds it.
    fileprivate static let roomSeconds = 0.03
    /// Seconds after which an assignment is sent again that the worker has not said to have got.
    private static let resendInterval = 0.5

    /// Assigns a task to a worker that has room for it.
    ///
    /// - Returns: whether that was done. One that must not run twice is never assigned, because its worker asks before it begins anyway.
    func assign(_ number: UInt64, attempt: UInt64) -> Bool {
        let assigned = assigning.withLock { _ -> (Listener, WorkerDescription)? in
            let now = now
            guard exchange.fabric.isConnected else { return nil }
            let found = state.withLock { state -> (Entry, Peer, Assignment)? in
                guard !state.isClosed, let entry = state.entries[number], entry.attempt == attempt, !entry.task.isAtMostOnce,
                    entry.holder == nil, entry.stop == nil, let worker = state.takeRoom(at: now)
                else { return nil }
                state.entries[number]?.holder = worker
                state.entries[number]?.refusedSince = nil
                let assignment = state.addAssignment(of: TaskAttempt(number: number, attempt: attempt), to: worker, at: now)
                return state.peers[worker].map { (entry, $0, assignment) }
            }
            guard let (entry, peer, assignment) = found else { return nil }
            let message = Message.assign(
                assignment.number, job(number, entry.task, attempt: attempt), isStopped: false, confirmed: peer.lastConfirmed)
            exchange.publish(message, to: Subject.session(peer.session, ofWorker: peer.description.id))
            return (entry.listener, peer.description)
        }
        guard let (listener, worker) = assigned else { return false }
        if listener.wantsTaken { deliveries.add { listener.taken(worker) } }
        return true
    }

    /// Sends assignments again that may be lost.
    func assignAgain() {
        // In their order, so that a simulation can be repeated.
        for worker in state.withLock({ $0.peers.filter { !$0.value.assignments.isEmpty }.keys.sorted() }) { assignAgain(to: worker) }
    }

    /// Sends the oldest assignment that may be lost, and the next one when the worker has it.
    private func assignAgain(to worker: String) {
        assigning.withLock { _ in
            guard let (number, session, message) = lostAssignment(of: worker) else { return }
            let subject = Subject.session(session, ofWorker: worker)
            exchange.request(message, to: subject, every: Self.resendInterval, tries: 1) { [self] reply in
                guard case .message = reply else { return }
                state.withLock { state in
                    if state.peers[worker]?.session == session { state.forgetAssignments(to: worker, upTo: number) }
                }
                assignAgain(to: worker)
            }
        }
    }

    private func lostAssignment(of worker: String) -> (number: UInt64, session: UInt64, Message)? {
        let now = now
        return state.withLock { state in
            guard let peer = state.peers[worker], let oldest = peer.assignments.first, now - oldest.sentAt >= Self.resendInterval
            else { return nil }
            state.peers[worker]?.assignments[0].sentAt = now
            let (number, attempt) = (oldest.task.number, oldest.task.attempt)
            let entry = state.entries[number].flatMap { $0.holder == worker && $0.attempt == attempt ? $0 : nil }
            let message = Message.assign(
                oldest.number, entry.map { job(number, $0.task, attempt: attempt) }, isStopped: entry?.stop != nil,
                confirmed: peer.lastConfirmed)
            return (oldest.number, peer.session, message)
        }
    }
}

extension Coordinator.State {
    /// Notes that a worker may be assigned tasks in place of those that it has ended. What it wants beside them comes from the stream, where workers
    /// with free slots may find it first. Whoever gives tasks back gets none.
    mutating func noteRoom(_ report: Report, at now: Double) {
        guard let peer = peers[report.worker] else { return }
        // One that ends has said so, perhaps after this report.
        var endedCount = 0, takesMore = peer.description.slots > 0
        for entry in report.entries {
            switch entry.entry {
            case .outcome: endedCount += 1
            case .declined: takesMore = false
            case .taken, .output: break
            }
        }
        // It does not know of those that are on their way.
        let room = max(0, min((peer.roomEnd > now ? peer.room : 0) + endedCount, report.room - peer.assignments.count))
        peers[report.worker]?.room = takesMore ? room : 0
        if endedCount > 0 { peers[report.worker]?.roomEnd = now + Coordinator.roomSeconds }
        peersWithRoom.removeFirst(peersWithRoom.firstIndex { peers[$0].map { $0.roomEnd > now } ?? false } ?? peersWithRoom.count)
        peersWithRoom.removeAll { $0 == report.worker }
        if room > 0, takesMore { peersWithRoom.append(report.worker) }
    }

    /// Finds a worker with room for a task, which has less of it then.
    fileprivate mutating func takeRoom(at now: Double) -> String? {
        while let worker = peersWithRoom.last {
            let peer = peers[worker]
            let hasRoom = peer.map { $0.room > 0 && $0.roomEnd > now } ?? false
            if hasRoom { peers[worker]?.room -= 1 }
            if !hasRoom || peer?.room == 1 { peersWithRoom.removeLast() }
            if hasRoom { return worker }
        }
        return nil
    }

    fileprivate mutating func addAssignment(of task: TaskAttempt, to worker: String, at now: Double) -> Coordinator.Assignment {
        let number = (peers[worker]?.lastAssignment ?? 0) + 1
        let assignment = Coordinator.Assignment(number: number, task: task, sentAt: now)
        peers[worker]?.lastAssignment = number
        peers[worker]?.assignments.append(assignment)
        peers[worker]?.tasks.insert(task.number)
        // The message of the assignment says so.
        if let peer = peers[worker] { peers[worker]?.lastConfirmed = peer.lastReport }
        return assignment
    }

    /// Notes which assignments a worker has got.
    mutating func forgetAssignments(to worker: String, upTo number: UInt64) {
        guard let first = peers[worker]?.assignments.first, first.number <= number else { return }
        peers[worker]?.assignments.removeAll { $0.number <= number }
    }
}
