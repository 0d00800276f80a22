import Synchronization

extension Engine.Pool {
    /// Scheduled queues and sleeping workers of each group of threads.
    struct RunQueues {
        /// How many times less important work is passed over before it has its turn.
        private static let starvationLimit: UInt8 = 8

        private struct RunQueue {
            /// Queues that have something to run, linked through themselves.
            var first: OperationQueue.Core?
            var last: OperationQueue.Core?
            /// Sleeping workers; the last one slept last and is woken first.
            var idle: [Worker] = []
        }

        private var foreground = RunQueue()
        private var utility = RunQueue()
        private var background = RunQueue()
        /// The groups that have scheduled queues.
        private var occupied: UInt8 = 0
        /// Counts while less important work waits.
        private var turn: UInt8 = 0
        private(set) var idleCount = 0

        @inline(__always)
        private subscript(group: ThreadGroup) -> RunQueue {
            _read {
                switch group {
                case .utility: yield utility
                case .background: yield background
                default: yield foreground
                }
            }
            _modify {
                switch group {
                case .utility: yield &utility
                case .background: yield &background
                default: yield &foreground
                }
            }
        }

        // MARK: Scheduled queues

        @inline(__always) var hasScheduled: Bool { occupied != 0 }

        func hasScheduled(_ group: ThreadGroup) -> Bool { occupied & group.bit != 0 }

        /// The group whose turn it is, when there is one: the most important, but every eighth time the one after it, and every
        /// sixteenth time the last.
        @inline(__always) var next: ThreadGroup {
            let others = occupied & (occupied &- 1)
            if others == 0 || turn % RunQueues.starvationLimit != RunQueues.starvationLimit - 1 { return ThreadGroup(firstIn: occupied) }
            let afterThat = others & (others &- 1)
            return ThreadGroup(firstIn: afterThat != 0 && turn / RunQueues.starvationLimit % 2 == 1 ? afterThat : others)
        }

        @inline(__always)
        mutating func append(_ core: OperationQueue.Core, to group: ThreadGroup) {
            if let last = self[group].last { last.nextScheduled = core } else { self[group].first = core }
            self[group].last = core
            occupied |= group.bit
        }

        /// The first scheduled queue of a group that has one.
        @inline(__always)
        mutating func pop(_ group: ThreadGroup) -> OperationQueue.Core {
            turn = occupied & (occupied &- 1) == 0 ? 0 : turn &+ 1
            guard let core = self[group].first else { fatalError("opscript bug: a group without work was served") }
            self[group].first = core.nextScheduled.take()
            if self[group].first == nil {
                self[group].last = nil
                occupied &= ~group.bit
            }
            return core
        }

        /// Of the first queues in line.
        var hasExplicitMaximumInLine: Bool {
            for runQueue in [foreground, utility, background] {
                var next = runQueue.first
                for _ in 0..<RunQueues.starvationLimit {
                    guard let core = next else { break }
                    if core.hasExplicitMaximum.load(ordering: .relaxed) { return true }
                    next = core.nextScheduled
                }
            }
            return false
        }

        // MARK: Sleeping workers

        func hasIdle(_ group: ThreadGroup) -> Bool { !self[group].idle.isEmpty }

        @inline(__always)
        mutating func popIdle(of group: ThreadGroup) -> Worker? {
            guard let worker = self[group].idle.popLast() else { return nil }
            idleCount -= 1
            return worker
        }

        /// One of any group.
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
            let all = foreground.idle + utility.idle + background.idle
            for group in [ThreadGroup.foreground, .utility, .background] { self[group].idle = [] }
            idleCount = 0
            return all
        }
    }
}
