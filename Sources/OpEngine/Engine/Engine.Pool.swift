extension Engine {
    /// Who works and who sleeps, guarded by the engine's lock. Every method decides; the engine performs what it returns.
    struct Pool {
        /// How many threads may be awake and not blocked.
        let target: Int
        /// How many threads there may be: blocked ones are replaced up to here.
        let threadLimit: Int

        /// Queues that have something to run, linked through themselves.
        private var firstScheduled: OperationQueue.Core?
        private var lastScheduled: OperationQueue.Core?
        /// Sleeping workers; the last one slept last and is woken first.
        private var idle: [Worker] = []
        /// All workers whose threads have not ended.
        private(set) var workers: [Worker] = []
        private var nextNumber = 1
        /// Workers that neither sleep nor are blocked; one whose wake-up is on its way is awake.
        private(set) var awake = 0
        /// A worker is looking for work, or was woken to: nobody else has to be.
        private var isSomeoneSearching = false
        /// Waits that end by themselves, at their deadlines.
        private(set) var timedWaits = 0
        /// Threads that sleep until something happens, the youngest sleep last.
        private var sleeps: [Sleep] = []
        var mustEnd = false

        init(target: Int, threadLimit: Int) {
            self.target = target
            self.threadLimit = threadLimit
        }

        var hasScheduled: Bool { firstScheduled != nil }

        enum Wake {
            case none
            case unpark(Worker)
            /// Start its thread.
            case spawn(Worker)
        }

        // MARK: Work comes

        mutating func schedule(_ core: OperationQueue.Core, engine: Engine) -> Wake {
            if let last = lastScheduled { last.nextScheduled = core } else { firstScheduled = core }
            lastScheduled = core
            return wakeIfNeeded(engine)
        }

        /// At most one wake-up is on its way; who it wakes wakes the next when there is more.
        private mutating func wakeIfNeeded(_ engine: Engine) -> Wake {
            guard hasScheduled, !isSomeoneSearching, awake < target else { return .none }
            if let worker = idle.popLast() {
                worker.isParked = false
                worker.isSearching = true
                isSomeoneSearching = true
                awake += 1
                return .unpark(worker)
            }
            guard workers.count < threadLimit, !mustEnd else { return .none }
            let worker = Worker(number: nextNumber, engine: engine)
            nextNumber += 1
            worker.isSearching = true
            isSomeoneSearching = true
            awake += 1
            workers.append(worker)
            return .spawn(worker)
        }

        // MARK: A worker looks for work

        enum Next {
            case serve(OperationQueue.Core, Wake)
            /// Look again for a while before sleeping.
            case spin
            case park
            case end
        }

        mutating func next(for worker: Worker, hasSpun: Bool) -> Next {
            if worker.isSearching {
                worker.isSearching = false
                isSomeoneSearching = false
            }
            if awake <= target, let core = firstScheduled {
                firstScheduled = core.nextScheduled.take()
                if firstScheduled == nil { lastScheduled = nil }
                return .serve(core, wakeIfNeeded(worker.engine))
            }
            if mustEnd {
                remove(worker)
                return .end
            }
            if !hasSpun && !isSomeoneSearching && awake <= target {
                worker.isSearching = true
                isSomeoneSearching = true
                return .spin
            }
            worker.isParked = true
            idle.append(worker)
            awake -= 1
            return .park
        }

        /// The worker has woken by itself: a job in its inbox, or the time to retire. False: it was woken for work anyway.
        mutating func unparkedItself(_ worker: Worker) {
            guard worker.isParked else { return }
            worker.isParked = false
            idle.removeAll { $0 === worker }
            awake += 1
        }

        /// The worker has slept for long. True: its thread ends.
        mutating func retire(_ worker: Worker) -> Bool {
            guard worker.isParked else { return false }
            worker.isParked = false
            idle.removeAll { $0 === worker }
            workers.removeAll { $0 === worker }
            return true
        }

        private mutating func remove(_ worker: Worker) {
            awake -= 1
            workers.removeAll { $0 === worker }
        }

        // MARK: A thread is blocked

        /// A wait without a deadline, of a worker or of the main thread.
        struct Sleep {
            let parker: Parker
            let canStall: Bool
            /// It was chosen to fail.
            var isStalled = false
        }

        /// Another thread takes the worker's place.
        mutating func beginBlocking(timed: Bool, engine: Engine) -> Wake {
            awake -= 1
            if timed { timedWaits += 1 }
            return wakeIfNeeded(engine)
        }

        mutating func endBlocking(timed: Bool) {
            awake += 1
            if timed { timedWaits -= 1 }
        }

        mutating func beginSleep(_ sleep: Sleep) { sleeps.append(sleep) }

        /// Returns whether it was chosen to fail.
        mutating func endSleep(of parker: Parker) -> Bool {
            guard let index = sleeps.lastIndex(where: { $0.parker === parker }) else { return false }
            return sleeps.remove(at: index).isStalled
        }

        /// If every blocked thread, and the main one, is asleep and not about to wake: the wait that fails.
        mutating func chooseStalled(main: Parker) -> Parker? {
            guard sleeps.count == workers.count - idle.count + 1, sleeps.contains(where: { $0.parker === main }),
                sleeps.allSatisfy({ !$0.parker.isNotified && !$0.isStalled })
            else { return nil }
            let chosen = sleeps.lastIndex { $0.canStall && $0.parker !== main } ?? sleeps.lastIndex { $0.canStall }
            guard let chosen else { return nil }
            sleeps[chosen].isStalled = true
            return sleeps[chosen].parker
        }

        // MARK: The end

        /// Every worker ends as soon as it finds nothing to run.
        mutating func end() -> (all: [Worker], woken: [Worker]) {
            let all = workers
            mustEnd = true
            for worker in workers { worker.isJoined = true }
            let woken = idle
            for worker in woken { worker.isParked = false }
            awake += idle.count
            idle = []
            return (all, woken)
        }
    }
}
