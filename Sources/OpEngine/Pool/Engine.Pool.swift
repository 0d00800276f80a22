import OpPlatform
import Synchronization

extension Engine {
    /// The state of the worker pool, guarded by its lock. Methods only decide; the engine performs the actions that they return.
    struct Pool {
        /// The maximum number of workers that are awake, that is, neither parked nor blocked. 0 until work arrives for the first time.
        private(set) var target = 0
        /// The part of `target` that the monitor has added to the usual number.
        private(set) var surplus = 0
        /// How many workers may be awake now: `target`, less the places that others have.
        private(set) var limit = 0
        /// The places that programs have, and their requests.
        var places = Places()
        /// The maximum number of threads. Blocked ones are replaced up to this limit.
        private var threadLimit = 0

        /// The scheduled queues and the idle workers of each thread group.
        var runQueues = RunQueues()
        /// All workers, whether they run, are parked or are blocked.
        private(set) var workers: [Worker] = []
        /// Workers that have retired but whose threads have not ended yet.
        private var retired: [Worker] = []
        private var nextNumber = 1
        /// The number of workers that are neither parked nor blocked. Includes workers whose wake-up is in flight.
        private(set) var awake = 0
        /// Whether a worker is searching for work or was woken to do so. No other worker needs to be woken then.
        private(set) var isAnyWorkerSearching = false
        /// The number of waits that end without the engine's help, for example at a deadline.
        private(set) var timedWaits = 0
        /// The monitor of blocked threads. Nil while none runs.
        private var monitor: BlockingMonitor?
        /// Whether the monitor makes long pauses, because no work waits.
        var isMonitorResting = false
        /// The sleeps that only an event can end, in the order in which they began.
        private var sleeps: [Sleep] = []
        var mustEnd = false

        var hasScheduled: Bool { runQueues.hasScheduled }
        /// Whether a worker sleeps for a short time, after which it looks for work.
        var anyStandsBy: Bool { workers.contains { $0.isParked && $0.standsBy } }

        enum Wake {
            case none
            case unpark(Worker)
            /// Start the worker's thread.
            case spawn(Worker)
            /// Start the monitor: all workers are busy, perhaps because their threads are blocked.
            case startMonitor(BlockingMonitor)
            /// Wake the monitor from a long pause, for the same reason.
            case wakeMonitor(BlockingMonitor)
        }

        // MARK: Scheduling work

        mutating func schedule(_ queue: ServedQueue, on group: ThreadGroup, engine: Engine) -> Wake {
            runQueues.append(queue, to: group)
            return wakeIfNeeded(engine)
        }

        /// Decides whether to wake a worker. At most one wake-up is in flight; the woken worker wakes the next one if there is more work.
        mutating func wakeIfNeeded(_ engine: Engine) -> Wake {
            findTarget(engine)
            defer { returnUnusedPlaces() }
            guard hasScheduled, !isAnyWorkerSearching else { return places.hasRequests ? watch(engine) : .none }
            return hasPlaces(awake + 1) ? wake(engine) : watch(engine)
        }

        /// Computes `limit` anew.
        mutating func placesHaveChanged() {
            let usual = target - surplus
            limit = target - places.missing(of: usual) - places.withheld
        }

        private mutating func wake(_ engine: Engine) -> Wake {
            let group = runQueues.next
            // If the thread limit is reached, a worker of another group has to serve.
            guard let worker = runQueues.popIdle(of: group) ?? (canSpawn ? nil : runQueues.popIdle()) else {
                return canSpawn ? .spawn(makeWorker(of: group, engine)) : .none
            }
            worker.isParked = false
            beginSearching(worker)
            return .unpark(worker)
        }

        private mutating func findTarget(_ engine: Engine) {
            if target != 0 { return }
            (target, threadLimit) = (engine.workerCount, engine.threadLimit)
            placesHaveChanged()
        }

        /// Nil if the engine has a worker, or will have one for what is scheduled.
        mutating func makeFirstWorker(_ engine: Engine) -> Worker? {
            findTarget(engine)
            return workers.isEmpty && !hasScheduled && canSpawn && hasPlaces(awake + 1) ? makeWorker(of: .foreground, engine) : nil
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
            isAnyWorkerSearching = true
            awake += 1
        }

        // MARK: Searching for work

        enum Next {
            /// Run those operations of this queue that belong to the given thread group. The group is the worker's own, unless the thread limit is
            /// reached.
            case serve(ServedQueue, ThreadGroup, Wake)
            /// Search again for a while before parking.
            case spin
            case park(Wake)
            case end
        }

        /// - Parameter maySpin: whether the worker has not spun since it last ran something or slept.
        mutating func next(for worker: Worker, maySpin: Bool) -> Next {
            let hasArrived = worker.isSearching
            if hasArrived {
                worker.isSearching = false
                isAnyWorkerSearching = false
            }
            if hasScheduled && hasPlaces(awake) {
                // A worker that was woken for work of its group serves that group.
                let group = hasArrived && runQueues.hasScheduled(worker.group) ? worker.group : runQueues.next
                if group == worker.group || !(canSpawn || runQueues.hasIdle(group)) {
                    let queue = runQueues.pop(group)
                    worker.servedLevel = queue.scheduledLevel
                    return .serve(queue, group, wakeIfNeeded(worker.engine))
                }
                park(worker)
                return .park(wakeIfNeeded(worker.engine))
            }
            if mustEnd {
                remove(worker)
                return .end
            }
            if maySpin && !isAnyWorkerSearching && awake <= limit {
                worker.isSearching = true
                isAnyWorkerSearching = true
                return .spin
            }
            park(worker)
            return .park(hasScheduled ? watch(worker.engine) : .none)
        }

        /// Ends the search of a worker that does something else first.
        mutating func endSearching(_ worker: Worker) -> Wake {
            guard worker.isSearching else { return .none }
            worker.isSearching = false
            isAnyWorkerSearching = false
            return wakeIfNeeded(worker.engine)
        }

        /// Parks a worker that will sleep for a short time and then look for work. Returns false if there is work, or the engine shuts down.
        mutating func standBy(_ worker: Worker) -> Bool {
            if hasScheduled || mustEnd { return false }
            park(worker, standsBy: true)
            return true
        }

        private mutating func park(_ worker: Worker, standsBy: Bool = false) {
            worker.isParked = true
            worker.standsBy = standsBy
            runQueues.park(worker)
            leavePlace()
        }

        /// Registers that a parked worker has woken although the pool did not wake it for work: a job has come into its inbox, or its sleep has timed
        /// out. No effect if the pool has woken it as well.
        mutating func unparkedItself(_ worker: Worker) {
            guard worker.isParked else { return }
            worker.isParked = false
            runQueues.unpark(worker)
            awake += 1
        }

        /// Ends the standby of a worker that has woken. If the pool has woken it for work, the pool wakes another worker for that work too. The
        /// first of the two that asks gets the work.
        mutating func endStandingBy(_ worker: Worker) -> Wake {
            unparkedItself(worker)
            return endSearching(worker)
        }

        /// Retires a worker that has been idle for long. Returns true if its thread must end. From then on the worker runs nothing and is
        /// not counted. It stays parked, so that a monitor that has just seen it busy does not replace it.
        mutating func retire(_ worker: Worker) -> Bool {
            guard worker.isParked, worker.inbox.closeIfEmpty() else { return false }
            runQueues.unpark(worker)
            workers.removeAll { $0 === worker }
            if workers.isEmpty { worker.engine.hasStartedWorker.store(false, ordering: .relaxed) }
            retired.append(worker)
            return true
        }

        mutating func threadEnds(of worker: Worker) { retired.removeAll { $0 === worker } }

        /// A worker is no longer awake.
        private mutating func leavePlace() {
            awake -= 1
            if places.hasRequests { grantRequests() }
            returnUnusedPlaces()
        }

        private mutating func remove(_ worker: Worker) {
            leavePlace()
            workers.removeAll { $0 === worker }
        }

        // MARK: Blocked threads

        /// A wait without a deadline, of a worker or of the main thread.
        struct Sleep {
            let parker: Parker
            let canStall: Bool
            /// Whether this wait was chosen to fail.
            var isStalled = false
        }

        /// Counts the worker as blocked, so that another thread takes over its share of the work. Called on the worker's thread. If the monitor had
        /// replaced the worker, that replacement ends here: a thread that calls this method runs.
        mutating func willBlock(_ worker: Worker, timed: Bool) -> Wake {
            didReturn(worker)
            return beginBlocking(worker, timed: timed)
        }

        /// Stops counting the worker as awake and wakes another one. Several reasons may hold at the same time: only the first one changes the count.
        mutating func beginBlocking(_ worker: Worker, timed: Bool) -> Wake {
            if timed { timedWaits += 1 }
            worker.blockingCount += 1
            if worker.blockingCount > 1 { return .none }
            worker.recordBlocking(began: true)
            awake -= 1
            if places.hasRequests { grantRequests() }
            return wakeIfNeeded(worker.engine)
        }

        mutating func endBlocking(_ worker: Worker, timed: Bool) {
            if timed { timedWaits -= 1 }
            worker.blockingCount -= 1
            if worker.blockingCount > 0 { return }
            worker.recordBlocking(began: false)
            awake += 1
        }

        /// Whether more workers are awake than should be, because some have returned from blocking.
        var hasTooManyAwake: Bool { mutating get { !hasPlaces(awake) } }

        /// Removes a worker whose thread could not be started. Lowers the thread limit to the current number of threads, and wakes an
        /// existing worker instead.
        mutating func couldNotStart(_ worker: Worker) -> Wake {
            remove(worker)
            isAnyWorkerSearching = false
            // Starting another thread would fail as well. Without any, the next operation that is added tries again.
            if workers.isEmpty { return .none }
            threadLimit = workers.count
            return wakeIfNeeded(worker.engine)
        }

        // MARK: Undeclared blocking

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

        /// Whether work or a program waits, and no worker may be woken for it. If workers are blocked, others should replace them.
        var isShortOfWorkers: Bool {
            hasScheduled && awake >= limit && (canSpawn || runQueues.idleCount > 0) || places.hasRequests
        }

        /// The queue that a worker would get next, if no worker may be woken for it.
        var firstInLine: ServedQueue? { isShortOfWorkers ? runQueues.firstScheduled : nil }

        /// The workers that should be running operations. Without those that search: a worker counts as searching from the moment when the pool
        /// decides to wake it, and its thread still sleeps then.
        var busy: [Worker] { workers.filter { !$0.isParked && !$0.isSearching && $0.blockingCount == 0 } }

        /// Lets `count` workers beyond the usual number be awake, and wakes them together instead of letting each wake the next.
        mutating func allow(surplus count: Int, _ engine: Engine) -> [Wake] {
            target += count - surplus
            surplus = count
            placesHaveChanged()
            var wakes: [Wake] = []
            while wakes.count < count, hasScheduled, hasPlaces(awake + 1) {
                let wake = wake(engine)
                if case .none = wake { break }
                wakes.append(wake)
            }
            return wakes
        }

        /// Replaces a worker whose thread is blocked. Returns nil if the worker has parked or declared the blocking in the meantime.
        mutating func replace(_ worker: Worker) -> (Wake, needsReport: Bool)? {
            if worker.isParked || worker.blockingCount > 0 || worker.waitsInPlace.load(ordering: .relaxed) { return nil }
            worker.isReplaced = true
            let wake = beginBlocking(worker, timed: true)
            return (wake, needsReport: !exchange(&worker.willReport, with: true))
        }

        /// Registers that a job in the worker's inbox has reported the return of the worker.
        mutating func didReport(_ worker: Worker) {
            worker.willReport = false
            didReturn(worker)
        }

        /// Counts a replaced worker that has returned as awake again.
        mutating func didReturn(_ worker: Worker) {
            guard worker.isReplaced else { return }
            worker.isReplaced = false
            endBlocking(worker, timed: true)
        }

        mutating func beginSleep(_ sleep: Sleep) { sleeps.append(sleep) }

        /// Unregisters the sleep. Returns true if it was chosen to fail.
        mutating func endSleep(of parker: Parker) -> Bool {
            guard let index = sleeps.lastIndex(where: { $0.parker === parker }) else { return false }
            return sleeps.remove(at: index).isStalled
        }

        /// Chooses the wait that must fail, if the main thread and every blocked worker sleep and none is about to wake.
        mutating func chooseStalled(main: Parker) -> Parker? {
            guard sleeps.count == workers.count - runQueues.idleCount + 1, sleeps.contains(where: { $0.parker === main }),
                sleeps.allSatisfy({ !$0.parker.isNotified && !$0.isStalled })
            else { return nil }
            let chosen = sleeps.lastIndex { $0.canStall && $0.parker !== main } ?? sleeps.lastIndex { $0.canStall }
            guard let chosen else { return nil }
            sleeps[chosen].isStalled = true
            return sleeps[chosen].parker
        }

        // MARK: Shutdown

        /// Makes every worker end as soon as it finds nothing to run.
        mutating func end() -> (threads: [JoinableThread], woken: [Parker]) {
            let threads = (workers + retired).map(\.thread) + (monitor.map { [$0.thread] } ?? [])
            mustEnd = true
            let woken = runQueues.takeIdle()
            for worker in woken { worker.isParked = false }
            awake += woken.count
            return (threads, woken.map(\.parker) + (monitor.map { [$0.parker] } ?? []))
        }
    }
}
