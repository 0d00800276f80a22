extension Engine {
    /// Who works and who sleeps, guarded by the engine's lock. Every method decides; the engine performs what it returns.
    struct Pool {
        /// How many threads may be awake and not blocked; 0 until there is work for the first time.
        private var target = 0
        /// How many of `target` the monitor has allowed beyond the usual number.
        private var surplus = 0
        /// How many threads there may be: blocked ones are replaced up to here.
        private var threadLimit = 0

        /// What each group of threads has to do, and who of it sleeps.
        private var runQueues = RunQueues()
        /// All workers that work, sleep or are blocked.
        private(set) var workers: [Worker] = []
        /// Workers that have retired and whose threads have not ended.
        private var retired: [Worker] = []
        private var nextNumber = 1
        /// Workers that neither sleep nor are blocked; one whose wake-up is on its way is awake.
        private(set) var awake = 0
        /// A worker is looking for work, or was woken to: nobody else has to be.
        private var isSomeoneSearching = false
        /// Waits that end by themselves, at their deadlines.
        private(set) var timedWaits = 0
        /// Looks whether threads are blocked; nil when there was no reason to.
        private var monitor: BlockingMonitor?
        /// The monitor pauses for long, because no work waits.
        var isMonitorResting = false
        /// Threads that sleep until something happens, the youngest sleep last.
        private var sleeps: [Sleep] = []
        var mustEnd = false

        var hasScheduled: Bool { runQueues.hasScheduled }

        enum Wake {
            case none
            case unpark(Worker)
            /// Start its thread.
            case spawn(Worker)
            /// All workers are busy, perhaps because their threads are blocked: have the monitor look after that.
            case startMonitor(BlockingMonitor)
            /// The same where the monitor has little to do so far.
            case wakeMonitor(BlockingMonitor)
        }

        // MARK: Work comes

        mutating func schedule(_ core: OperationQueue.Core, on group: ThreadGroup, engine: Engine) -> Wake {
            runQueues.append(core, to: group)
            return wakeIfNeeded(engine)
        }

        /// At most one wake-up is on its way; who it wakes wakes the next when there is more.
        private mutating func wakeIfNeeded(_ engine: Engine) -> Wake {
            if target == 0 { (target, threadLimit) = (engine.workerCount, engine.threadLimit) }
            guard hasScheduled, !isSomeoneSearching else { return .none }
            return awake < target ? wake(engine) : watch(engine)
        }

        private mutating func wake(_ engine: Engine) -> Wake {
            let group = runQueues.next
            // When there can be no more threads, one of another group has to do.
            guard let worker = runQueues.popIdle(of: group) ?? (canSpawn ? nil : runQueues.popIdle()) else {
                return canSpawn ? .spawn(makeWorker(of: group, engine)) : .none
            }
            worker.isParked = false
            beginSearching(worker)
            return .unpark(worker)
        }

        private var canSpawn: Bool { workers.count < threadLimit && !mustEnd }

        private mutating func makeWorker(of group: ThreadGroup, _ engine: Engine) -> Worker {
            let worker = Worker(number: nextNumber, group: group, engine: engine)
            nextNumber += 1
            workers.append(worker)
            beginSearching(worker)
            return worker
        }

        private mutating func beginSearching(_ worker: Worker) {
            worker.isSearching = true
            isSomeoneSearching = true
            awake += 1
        }

        // MARK: A worker looks for work

        enum Next {
            /// Run the operations of a queue that belong on the threads of a group, its own unless there can be no more threads.
            case serve(OperationQueue.Core, ThreadGroup, Wake)
            /// Look again for a while before sleeping.
            case spin
            case park(Wake)
            case end
        }

        mutating func next(for worker: Worker, hasSpun: Bool) -> Next {
            let hasArrived = worker.isSearching
            if hasArrived {
                worker.isSearching = false
                isSomeoneSearching = false
            }
            if awake <= target && hasScheduled {
                // Who was woken for its group's work does that.
                let group = hasArrived && runQueues.hasScheduled(worker.group) ? worker.group : runQueues.next
                if group == worker.group || !(canSpawn || runQueues.hasIdle(group)) {
                    return .serve(runQueues.pop(group), group, wakeIfNeeded(worker.engine))
                }
                park(worker)
                return .park(wakeIfNeeded(worker.engine))
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
            park(worker)
            return .park(hasScheduled ? watch(worker.engine) : .none)
        }

        /// The worker does something else before it looks for work, or goes on looking.
        mutating func endSearching(_ worker: Worker) -> Wake {
            guard worker.isSearching else { return .none }
            worker.isSearching = false
            isSomeoneSearching = false
            return wakeIfNeeded(worker.engine)
        }

        /// The queue at which the worker lingered has called it. False: there are enough without it.
        mutating func wasSignalled(_ worker: Worker) -> (isNeeded: Bool, Wake) { (awake <= target, endSearching(worker)) }

        private mutating func park(_ worker: Worker) {
            worker.isParked = true
            runQueues.park(worker)
            awake -= 1
        }

        /// The worker has woken by itself: a job in its inbox, or the time to retire. False: it was woken for work anyway.
        mutating func unparkedItself(_ worker: Worker) {
            guard worker.isParked else { return }
            worker.isParked = false
            runQueues.unpark(worker)
            awake += 1
        }

        /// The worker does something else before it sleeps.
        mutating func cancelPark(_ worker: Worker) -> Wake {
            unparkedItself(worker)
            return endSearching(worker)
        }

        /// The worker has slept for long. True: its thread ends, and runs nothing more: it does not count from here on.
        mutating func retire(_ worker: Worker) -> Bool {
            guard worker.isParked, worker.inbox.closeIfEmpty() else { return false }
            worker.isParked = false
            runQueues.unpark(worker)
            workers.removeAll { $0 === worker }
            retired.append(worker)
            return true
        }

        mutating func threadEnds(of worker: Worker) { retired.removeAll { $0 === worker } }

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

        /// The worker is about to block: another thread takes its place. On the worker's thread, which is there again if it was replaced.
        mutating func willBlock(_ worker: Worker, timed: Bool) -> Wake {
            didReturn(worker)
            return beginBlocking(worker, timed: timed)
        }

        /// Another thread takes the worker's place. Several reasons for that may overlap.
        mutating func beginBlocking(_ worker: Worker, timed: Bool) -> Wake {
            if timed { timedWaits += 1 }
            worker.absences += 1
            if worker.absences > 1 { return .none }
            awake -= 1
            return wakeIfNeeded(worker.engine)
        }

        mutating func endBlocking(_ worker: Worker, timed: Bool) {
            if timed { timedWaits -= 1 }
            worker.absences -= 1
            if worker.absences == 0 { awake += 1 }
        }

        /// There are more workers than should be awake, since some have come back from where they were blocked.
        var hasTooManyAwake: Bool { awake > target }

        /// The thread of a new worker could not be started: there can be no more threads than there are. One of those has to do.
        mutating func couldNotStart(_ worker: Worker) -> Wake {
            workers.removeAll { $0 === worker }
            awake -= 1
            isSomeoneSearching = false
            threadLimit = max(1, workers.count)
            return wakeIfNeeded(worker.engine)
        }

        // MARK: A thread is blocked, and has not said so

        private mutating func watch(_ engine: Engine) -> Wake {
            if let monitor {
                guard exchange(&isMonitorResting, with: false) else { return .none }
                return .wakeMonitor(monitor)
            }
            if mustEnd { return .none }
            let made = BlockingMonitor(engine: engine)
            monitor = made
            return .startMonitor(made)
        }

        mutating func endWatch() {
            monitor = nil
            isMonitorResting = false
        }

        /// Work waits, and no worker may be woken for it. If some are blocked, others are to take their places.
        var isShort: Bool { hasScheduled && awake >= target && (canSpawn || runQueues.idleCount > 0) }

        /// One of the first queues in line was given a maximum, and that allows for more.
        var hasExplicitMaximumInLine: Bool { runQueues.hasExplicitMaximumInLine }

        /// Those that should be working.
        var busy: [Worker] { workers.filter { !$0.isParked && $0.absences == 0 } }

        /// Lets `count` workers more than usual be awake. They are woken together: each would otherwise wake the next.
        mutating func allow(surplus count: Int, _ engine: Engine) -> [Wake] {
            target += count - surplus
            surplus = count
            var wakes: [Wake] = []
            while wakes.count < count, awake < target, hasScheduled {
                let wake = wake(engine)
                if case .none = wake { break }
                wakes.append(wake)
            }
            return wakes
        }

        /// The thread of a worker that should be working is blocked. Nil: the worker has noticed that itself meanwhile.
        mutating func replace(_ worker: Worker) -> (Wake, needsReport: Bool)? {
            if worker.isParked || worker.absences > 0 { return nil }
            worker.isReplaced = true
            let wake = beginBlocking(worker, timed: true)
            return (wake, needsReport: !exchange(&worker.willReport, with: true))
        }

        /// The worker's job reports that it is back.
        mutating func didReport(_ worker: Worker) {
            worker.willReport = false
            didReturn(worker)
        }

        /// A worker that was replaced is there again.
        mutating func didReturn(_ worker: Worker) {
            guard worker.isReplaced else { return }
            worker.isReplaced = false
            endBlocking(worker, timed: true)
        }

        mutating func beginSleep(_ sleep: Sleep) { sleeps.append(sleep) }

        /// Returns whether it was chosen to fail.
        mutating func endSleep(of parker: Parker) -> Bool {
            guard let index = sleeps.lastIndex(where: { $0.parker === parker }) else { return false }
            return sleeps.remove(at: index).isStalled
        }

        /// If every blocked thread, and the main one, is asleep and not about to wake: the wait that fails.
        mutating func chooseStalled(main: Parker) -> Parker? {
            guard sleeps.count == workers.count - runQueues.idleCount + 1, sleeps.contains(where: { $0.parker === main }),
                sleeps.allSatisfy({ !$0.parker.isNotified && !$0.isStalled })
            else { return nil }
            let chosen = sleeps.lastIndex { $0.canStall && $0.parker !== main } ?? sleeps.lastIndex { $0.canStall }
            guard let chosen else { return nil }
            sleeps[chosen].isStalled = true
            return sleeps[chosen].parker
        }

        // MARK: The end

        /// Every worker ends as soon as it finds nothing to run.
        mutating func end() -> (threads: [JoinableThread], woken: [Parker]) {
            let threads = (workers + retired).map(\.thread) + (monitor.map { [$0.thread] } ?? [])
            mustEnd = true
            for thread in threads { thread.keep() }
            let woken = runQueues.takeIdle()
            for worker in woken { worker.isParked = false }
            awake += woken.count
            return (threads, woken.map(\.parker) + (monitor.map { [$0.parker] } ?? []))
        }
    }
}
