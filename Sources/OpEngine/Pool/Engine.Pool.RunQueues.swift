import Synchronization

extension Engine.Pool {
    /// The run queue of each thread group: the scheduled queues and the idle workers.
    struct RunQueues {
        /// One turn in so many belongs to a less important group, so that no group starves.
        private static let starvationLimit: UInt8 = 8

        private struct RunQueue {
            /// The scheduled queues, linked through themselves. By priority, and in order of arrival within a priority.
            var first: ServedQueue?
            var last: ServedQueue?
            /// The idle workers, in the order in which they parked. The last one is woken first.
            var idle: [Worker] = []
        }

        /// The run queues of the workers' groups, in the order of `ThreadGroup`.
        private var queues = InlineArray<3, RunQueue>(repeating: RunQueue())
        /// The set of groups that have scheduled queues, as bits.
        private var occupied: UInt8 = 0
        /// Counts turns while more than one group has scheduled queues.
        private var turn: UInt8 = 0
        private(set) var idleCount = 0

        @inline(__always)
        private subscript(group: ThreadGroup) -> RunQueue {
            _read { yield queues[Int(group.rawValue)] }
            _modify { yield &queues[Int(group.rawValue)] }
        }

        // MARK: Scheduled queues

        @inline(__always) var hasScheduled: Bool { occupied != 0 }

        func hasScheduled(_ group: ThreadGroup) -> Bool { occupied & group.bit != 0 }

        /// The group whose turn it is; some group must have scheduled queues. Usually the most important one. Every eighth turn belongs to
        /// a less important group: alternately the second and, if there is one, the third.
        @inline(__always) var next: ThreadGroup {
            let others = occupied & (occupied &- 1)
            if others == 0 || turn % RunQueues.starvationLimit != RunQueues.starvationLimit - 1 { return ThreadGroup(firstIn: occupied) }
            let afterThat = others & (others &- 1)
            return ThreadGroup(firstIn: afterThat != 0 && turn / RunQueues.starvationLimit % 2 == 1 ? afterThat : others)
        }

        @inline(__always)
        mutating func append(_ queue: ServedQueue, to group: ThreadGroup) {
            occupied |= group.bit
            queue.scheduledLevel = queue.level.load(ordering: .relaxed)
            if let last = self[group].last, last.scheduledLevel > queue.scheduledLevel { return insert(queue, in: group) }
            if let last = self[group].last { last.nextScheduled = queue } else { self[group].first = queue }
            self[group].last = queue
        }

        /// Adds a queue before those of lower priorities. At least one of these exists.
        @inline(never)
        private mutating func insert(_ queue: ServedQueue, in group: ThreadGroup) {
            var previous: ServedQueue?
            var next = self[group].first
            while let other = next, other.scheduledLevel <= queue.scheduledLevel { (previous, next) = (other, other.nextScheduled) }
            queue.nextScheduled = next
            if let previous { previous.nextScheduled = queue } else { self[group].first = queue }
        }

        /// Whether a scheduled queue of the group has a higher priority than `queue`.
        func hasMoreUrgent(than queue: ServedQueue, in group: ThreadGroup) -> Bool {
            self[group].first.map { $0.scheduledLevel < queue.level.load(ordering: .relaxed) } ?? false
        }

        /// Removes and returns the first scheduled queue of a group, which must have one.
        @inline(__always)
        mutating func pop(_ group: ThreadGroup) -> ServedQueue {
            turn = occupied & (occupied &- 1) == 0 ? 0 : turn &+ 1
            guard let queue = self[group].first else { fatalError("opscript bug: a group without work was served") }
            self[group].first = queue.nextScheduled.take()
            if self[group].first == nil {
                self[group].last = nil
                occupied &= ~group.bit
            }
            return queue
        }

        /// The queue that a worker would get next.
        var firstScheduled: ServedQueue? { hasScheduled ? self[next].first : nil }

        /// Removes a queue if it is the first of a group. Returns whether it was.
        mutating func withdraw(_ queue: ServedQueue) -> Bool {
            guard let group = ThreadGroup.ofWorkers.first(where: { self[$0].first === queue }) else { return false }
            _ = pop(group)
            return true
        }

        /// Whether one of the first scheduled queues of any group has an explicit maximum.
        var hasExplicitMaximumInLine: Bool {
            for group in ThreadGroup.ofWorkers {
                var next = self[group].first
                for _ in 0..<RunQueues.starvationLimit {
                    guard let queue = next else { break }
                    if queue.hasExplicitMaximum.load(ordering: .relaxed) { return true }
                    next = queue.nextScheduled
                }
            }
            return false
        }

        // MARK: Idle workers

        func hasIdle(_ group: ThreadGroup) -> Bool { !self[group].idle.isEmpty }

        @inline(__always)
        mutating func popIdle(of group: ThreadGroup) -> Worker? {
            guard let worker = self[group].idle.popLast() else { return nil }
            idleCount -= 1
            return worker
        }

        /// Removes and returns an idle worker of any group.
        mutating func popIdle() -> Worker? { popIdle(of: .foreground) ?? popIdle(of: .utility) ?? popIdle(of: .background) }

        @inline(__always)
        mutating func park(_ worker: Worker) {
            self[worker.group].idle.append(worker)
            idleCount += 1
        }

        mutating func unpark(_ worker: Worker) {
            self[worker.group].idle.removeAll { $0 === worker }
            idleCount -= 1
        }

        mutating func takeIdle() -> [Worker] {
            idleCount = 0
            return ThreadGroup.ofWorkers.flatMap { exchange(&self[$0].idle, with: []) }
        }
    }
}
