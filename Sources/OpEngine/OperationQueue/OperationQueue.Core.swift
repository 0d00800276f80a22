import CPlatform
import Glibc
import Synchronization

extension OperationQueue {
    /// The part of a queue that the engine works with: the state, its lock, and the effects of what the state decides.
    ///
    /// `OperationQueue` is what users hold. The core keeps it while something in the queue may run; a suspended queue that nobody
    /// holds goes with its operations. The core keeps itself while it has operations.
    @safe final class Core: @unchecked Sendable {
        // Safety: `@unchecked Sendable` because `state` and `queue` have locks, `engine` is written once, `nextScheduled` is
        // guarded by the executor's lock.
        let state = Guarded(State(), alignment: 64)
        // Safety: the queue keeps the engine, and a core works only while it has a queue or a worker of the engine.
        unowned(unsafe) let engine: Engine
        let isMain: Bool
        /// The default policy of the operations that are added.
        let requiresSuccess = Atomic<Bool>(false)
        /// Its maximum was said, and is not for the engine to decide. For who looks without the lock.
        let hasExplicitMaximum = Atomic<Bool>(false)
        /// The engine's own operations are in it, which nobody counts.
        let isHelper = Atomic<Bool>(false)
        /// Somebody observes the queue or its progress, or did.
        let isObserved = Atomic<Bool>(false)
        private let referenceLock = Lock()
        /// What users hold; guarded by `referenceLock`. Not weak, which would make each change of the queue's reference count a slow one.
        // Safety: `detach` removes it before its memory goes.
        private var unretainedQueue: Unmanaged<OperationQueue>?
        /// The next entry in the executor's list.
        var nextScheduled: Core?
        /// The engine's list of queues that have operations. Guarded by `Registry.lock`.
        var previousActive: Unmanaged<Core>?
        var nextActive: Unmanaged<Core>?
        private let signal = Atomic<Bool>(false)
        /// What the worker that lingers looks at. It may become true late, when that has gone: what counts is in the state.
        @inline(__always) var isSpinningWorkerSignalled: Bool { signal.load(ordering: .relaxed) }
        /// What that worker looks at, too: somebody has begun to wait for the queue, for a queuePosition in it, or for one of its operations since
        /// it began to linger.
        private let newWaiter = Atomic<Bool>(false)
        @inline(__always) var hasNewWaiter: Bool { newWaiter.load(ordering: .relaxed) }

        init(engine: Engine, isMain: Bool) {
            unsafe self.engine = engine
            self.isMain = isMain
            if isMain {
                state.withLock { state in
                    state.maximum = 1
                    state.qualities.isOutside = true
                }
            }
        }

        // MARK: What users hold

        /// The queue as its users see it; nil once it has begun to go.
        var queue: OperationQueue? {
            referenceLock.withLock {
                guard let queue = unsafe unretainedQueue, unsafe cplatform_try_retain(queue.toOpaque()) else { return nil }
                return unsafe queue.takeRetainedValue()
            }
        }

        func attach(_ queue: OperationQueue) { referenceLock.withLock { unsafe unretainedQueue = .passUnretained(queue) } }

        /// `queue` goes. A main queue may have another one by now.
        func detach(_ queue: OperationQueue) {
            referenceLock.withLock {
                if unsafe unretainedQueue?.toOpaque() == Unmanaged.passUnretained(queue).toOpaque() { unsafe unretainedQueue = nil }
            }
        }

        // MARK: Operations come

        /// An operation that this queue has claimed joins it. False: there is no queuePosition.
        func addIfCapacity(_ operation: Operation, isBarrier: Bool, queue: OperationQueue) -> Bool {
            let joined = state.withLock { state -> (Operation.State.ReadinessAction, State.Consumer?)? in
                if !state.hasCapacity { return nil }
                if state.count == 0 { begin(&state, queue: queue) }
                let action = join(operation, isBarrier: isBarrier, &state)
                state.observation?.recordCounts(before: state.count - 1, state)
                return (action, state.schedule())
            }
            guard let (action, consumer) = joined else { return false }
            if let consumer { wake(consumer) }
            settle(operation, action)
            deliverChanges()
            operation.deliverChanges()
            return true
        }

        /// A block operation that was just made joins in one step, since nobody else knows it, and its reference with it. False: it has to
        /// be added as others are.
        @inline(__always)
        func addAtOnce(_ operation: Unmanaged<Operation>, _ priority: Operation.QueuePriority, queue: OperationQueue) -> Bool {
            if engineOfUse.hasEnded { return false }
            return unsafe addInOneStep(operation, queue: queue) { state in
                let joined = Operation.State(addedAtOnceWith: priority, requiringSuccess: requiresSuccess.load(ordering: .relaxed))
                unsafe operation._withUnsafeGuaranteedRef { operation in
                    // Nobody sees it before the lock is released.
                    operation.setCore(self)
                    operation.state.store(joined.bits, ordering: .relaxed)
                    state.add(operation, isBarrier: false, isReady: true)
                }
                return true
            }
        }

        /// An operation that nobody has claimed joins, and its reference with it: it is claimed, linked and, if it is ready, posted by one
        /// change of its state. False: nothing has happened, and it has to be added as others are, because something about it or the queue
        /// is unusual.
        @inline(__always)
        func addInOneStep(_ operation: Unmanaged<Operation>, isOfPlainClass: Bool, queue: OperationQueue) -> Bool {
            unsafe addInOneStep(operation, queue: queue) { state in
                unsafe operation._withUnsafeGuaranteedRef { operation in
                    let byDefault = requiresSuccess.load(ordering: .relaxed)
                    // The lock is held, which everyone needs whom the change sends here.
                    let isPosted = operation.transition {
                        $0.join(requiringSuccessByDefault: byDefault, isOfPlainClass: isOfPlainClass)
                    }
                    guard let isPosted else { return false }
                    // Not before: another queue may have been quicker.
                    operation.setCore(self)
                    state.add(operation, isBarrier: false, isReady: isPosted)
                    state.requalify(operation)
                    return true
                }
            }
        }

        // `inout`, because else the state would be copied.
        @inline(__always)
        private func isUsual(_ state: inout State) -> Bool { state.hasCapacity && state.observation == nil && !isTraced(state) }

        /// The part that both have in common. `join` is called with the lock held; false: nothing has happened.
        @inline(__always)
        private func addInOneStep(
            _ operation: Unmanaged<Operation>, queue: OperationQueue, _ join: (inout State) -> Bool
        ) -> Bool {
            let locked = unsafe state.lock()
            guard unsafe isUsual(&locked.pointee), unsafe join(&locked.pointee) else {
                state.unlock()
                return false
            }
            if unsafe locked.pointee.count == 1 { unsafe begin(&locked.pointee, queue: queue) }
            // Perhaps the shutdown, which cancels everything, looked before. Safety: balanced below.
            let late = unsafe engineOfUse.isEnding ? operation.retain() : nil
            let consumer = unsafe locked.pointee.schedule()
            state.unlock()
            if let consumer { wake(consumer) }
            unsafe late?.takeRetainedValue().cancel()
            return true
        }

        /// `addIfCapacity` for many, under one lock.
        func addIfCapacity(_ operations: [Operation], queue: OperationQueue) -> Bool {
            var isAnyObserved = false
            let joined = state.withLock { state -> ([(Operation, Operation.State.ReadinessAction)], State.Consumer?)? in
                if !state.hasCapacity { return nil }
                if state.count == 0 { begin(&state, queue: queue) }
                var unsettled: [(Operation, Operation.State.ReadinessAction)] = []
                for operation in operations {
                    let action = join(operation, isBarrier: false, &state)
                    if action == .cancel || action == .remove { unsettled.append((operation, action)) }
                    if operation.isObserved { isAnyObserved = true }
                }
                state.observation?.recordCounts(before: state.count - operations.count, state)
                return (unsettled, state.schedule())
            }
            guard let (unsettled, consumer) = joined else { return false }
            if let consumer { wake(consumer) }
            for (operation, action) in unsettled { settle(operation, action) }
            deliverChanges()
            // Not for all of them without need: of many, they are no longer in the cache.
            if isAnyObserved { for operation in operations { operation.deliverChanges() } }
            return true
        }

        /// What joining could not do with the lock held.
        private func settle(_ operation: Operation, _ action: Operation.State.ReadinessAction) {
            switch action {
            case .none, .post: break
            case .cancel: operation.cancelBecauseOfDependency()
            case .remove:
                // It was finished between being claimed and being linked.
                _ = leave(operation, takesNext: false)
                // Safety: balances `join`.
                unsafe Unmanaged.passUnretained(operation).release()
            }
        }

        /// The first operation: keep oneself, and what users hold. With the lock held, so that the end of that operation cannot
        /// overtake it.
        private func begin(_ state: inout State, queue: OperationQueue) {
            // Safety: balanced by `leave` of the last operation.
            _ = unsafe Unmanaged.passRetained(self)
            state.isEnding = unsafe engine.isEnding
            if !state.isResting { state.retainedQueue = queue }
            engineOfUse.activate(self)
        }

        @inline(__always)
        private func join(_ operation: Operation, isBarrier: Bool, _ state: inout State) -> Operation.State.ReadinessAction {
            // Safety: balanced when the operation has left.
            _ = unsafe Unmanaged.passRetained(operation)
            operation.setCore(self)
            if isTraced(state) { operation.trace(in: self) }
            let byDefault = requiresSuccess.load(ordering: .relaxed)
            let action = operation.transition { $0.link(requiringSuccessByDefault: byDefault) }
            state.add(operation, isBarrier: isBarrier, isReady: action == .post)
            state.requalify(operation)
            return action
        }

        /// An operation has become ready.
        func post(_ operation: Operation) {
            let consumer = state.withLock { state in
                state.post(operation)
                return state.schedule()
            }
            if let consumer { wake(consumer) }
        }

        /// Operations that have become ready: the next ones, as far as they are in this queue.
        ///
        /// - Returns: whom the caller has to send for when all have arrived.
        func post(_ released: inout ReleasedDependents) -> State.Consumer? {
            let consumer = state.withLock { state in
                arrive(&released, &state)
                return state.schedule()
            }
            guard let consumer else { return nil }
            if case .thread(.outside) = consumer { return consumer }
            wake(consumer)
            return nil
        }

        /// The same where the calling worker takes from this queue next; from the lock on, if it says with which threads.
        func postBeforeTaking(_ released: inout ReleasedDependents, by group: ThreadGroup?) -> Unmanaged<Operation>? {
            let locked = unsafe state.lock()
            unsafe arrive(&released, &locked.pointee)
            // Not while others have to arrive, whoever has to be sent for.
            guard let group, released.isEmpty else {
                state.unlock()
                return nil
            }
            return unsafe takeAndUnlock(locked, by: group)
        }

        @inline(__always)
        private func arrive(_ released: inout ReleasedDependents, _ state: inout State) {
            while let operation = unsafe released.popFirst(of: self) {
                unsafe operation._withUnsafeGuaranteedRef { state.post($0) }
            }
        }

        func recall(_ operation: Operation) { state.withLock { $0.recall(operation) } }

        func requalify(_ operation: Operation) { state.withLock { $0.requalify(operation) } }

        func reprioritise(_ operation: Operation) { state.withLock { $0.reprioritise(operation) } }

        // MARK: Operations go

        /// The next operation, for a thread of `group`, which has to call its `run`.
        ///
        /// - Parameter arriving: the caller comes with an entry of the executor's list.
        @inline(__always)
        func take(arriving: Bool, by group: ThreadGroup) -> Unmanaged<Operation>? {
            let locked = unsafe state.lock()
            if arriving { unsafe locked.pointee.isScheduled = false }
            return unsafe takeAndUnlock(locked, by: group)
        }

        /// The caller comes with an entry of the executor's list, and takes later.
        func entryHasArrived() { state.withLock { $0.isScheduled = false } }

        /// With the lock held.
        @inline(__always)
        private func takeAndUnlock(_ locked: UnsafeMutablePointer<State>, by group: ThreadGroup) -> Unmanaged<Operation>? {
            let operation = unsafe locked.pointee.take(by: group)
            let consumer = unsafe locked.pointee.schedule()
            let waiters = unsafe locked.pointee.takeCapacityWaiters()
            state.unlock()
            if let waiters { for waiter in waiters { waiter.unpark() } }
            if let consumer { wake(consumer) }
            return unsafe operation
        }

        /// A foreground worker that found nothing more here looks for a while whether something comes. Who adds calls it, instead of
        /// entering the queue into the engine's list. Balanced by `endSpinning`. False: another worker lingers here.
        func beginSpinning() -> Bool {
            state.withLock { state in
                if state.hasSpinningWorker { return false }
                signal.store(false, ordering: .relaxed)
                newWaiter.store(false, ordering: .relaxed)
                state.hasSpinningWorker = true
                return true
            }
        }

        /// Somebody begins to wait: see `hasNewWaiter`. Only written where it changes: the line is that of the worker.
        @inline(__always)
        func noteWaiter() {
            if !hasNewWaiter { newWaiter.store(true, ordering: .relaxed) }
        }

        /// Whether `body` says yes, and operations are added meanwhile.
        func receivesOperations(while body: () -> Bool) -> Bool {
            let before = state.withLock { $0.added }
            return body() && state.withLock { $0.added } != before
        }

        /// True: the worker was called, and comes as with an entry of the engine's list.
        func endSpinning() -> Bool {
            state.withLock { state in
                if !state.hasSpinningWorker { return true }
                state.hasSpinningWorker = false
                return false
            }
        }

        /// Takes one operation and runs it, on a thread that came with an entry of the executor's list. False: there was none.
        @discardableResult
        func runOne(on context: ThreadContext, by group: ThreadGroup) -> Bool {
            guard let operation = unsafe take(arriving: true, by: group) else { return false }
            // Safety: `take` says who keeps it.
            unsafe operation._withUnsafeGuaranteedRef { unsafe _ = $0.run(on: context, from: self, thenTakingBy: nil) }
            scheduleIfRunnable()
            return true
        }

        /// Puts the queue into its executor's list if something may start.
        func scheduleIfRunnable() {
            if let consumer = state.withLock({ $0.schedule() }) { wake(consumer) }
        }

        func giveBack(_ operation: Operation) -> Bool {
            let (isBack, consumer) = state.withLock { ($0.giveBack(operation), $0.schedule()) }
            if let consumer { wake(consumer) }
            return isBack
        }

        /// An operation leaves, and is finished at the same moment. Returns its state at that moment.
        ///
        /// - Parameter takesNext: the calling worker takes from this queue next, so that nobody has to be told.
        func leave(_ operation: Operation, takesNext: Bool) -> Operation.State {
            var locked = unsafe state.lock()
            while unsafe !locked.pointee.leave(operation) {
                state.unlock()
                sched_yield()
                unsafe locked = state.lock()
            }
            let final = finish(operation)
            let notifyOthers = unsafe !takesNext || final.has(Operation.State.notifiesAtEnd) || locked.pointee.observation != nil
            let departure = unsafe Departure(from: &locked.pointee, of: self)
            let consumer = unsafe notifyOthers ? locked.pointee.schedule() : nil
            state.unlock()
            if let consumer { wake(consumer) }
            departure?.perform(self)
            return final
        }

        /// An operation that the caller took leaves, and is finished at the same moment. If nothing else follows from that, the caller
        /// takes the next one under the same lock.
        ///
        /// - Parameters:
        ///   - group: the threads to take with; nil: others are told what may start.
        ///   - atOnce: whether to take now, or later.
        @inline(__always)
        func leaveAndTake(
            _ operation: Operation, by group: ThreadGroup?, atOnce: Bool
        ) -> (final: Operation.State, next: Unmanaged<Operation>?) {
            let locked = unsafe state.lock()
            guard unsafe locked.pointee.leave(operation) else { fatalError("opscript bug: an operation that was taken is on its way") }
            let final = finish(operation)
            let departure = unsafe Departure(from: &locked.pointee, of: self)
            if let group, atOnce, departure == nil, final.bits & (Operation.State.hasDependents | Operation.State.notifiesAtEnd) == 0 {
                return unsafe (final, takeAndUnlock(locked, by: group))
            }
            let notifyOthers = unsafe group == nil || final.has(Operation.State.notifiesAtEnd) || locked.pointee.observation != nil
            let consumer = unsafe notifyOthers ? locked.pointee.schedule() : nil
            state.unlock()
            if let consumer { wake(consumer) }
            departure?.perform(self)
            return (final, nil)
        }

        @inline(__always)
        private func finish(_ operation: Operation) -> Operation.State {
            operation.transition { state in
                state.publishFinish()
                return state
            }
        }

        /// What an operation that leaves may have to tell others about, and seldom has.
        private struct Departure {
            private let waits: [Wait]
            private let capacityWaiters: [Parker]?
            /// Released when this goes, after the lock.
            private let queue: OperationQueue?
            private let isLast: Bool

            /// With the lock held, when the operation has left. Nil: nothing.
            @inline(__always)
            init?(from state: inout State, of core: Core) {
                if state.count > 0 && !state.isResting && state.observation == nil && state.capacityWaiters.isEmpty { return nil }
                self.init(after: &state, of: core)
            }

            @inline(never)
            private init(after state: inout State, of core: Core) {
                isLast = state.count == 0
                state.observation?.recordCounts(before: state.count + 1, state)
                if isLast { core.engineOfUse.deactivate(core) }
                waits = isLast ? exchange(&state.waits, with: []) : []
                capacityWaiters = state.takeCapacityWaiters()
                queue = isLast || state.isResting ? state.retainedQueue.take() : nil
            }

            @inline(never)
            func perform(_ core: Core) {
                for waiter in capacityWaiters ?? [] { waiter.unpark() }
                for wait in waits {
                    wait.notify()
                }
                // Safety: balances `begin`; whoever looks the core up holds the registry's lock, which `deactivate` has passed.
                if isLast { unsafe Unmanaged.passUnretained(core).release() }
            }
        }

        /// Nobody can reach a queue at rest any more: its operations end as cancelled, without having started.
        func abandon() {
            for operation in members() {
                operation.transition { $0.set(Operation.State.cancelled) }
                operation.end()
            }
        }

        // MARK: Looking and changing

        /// Everything that was added has left.
        var isEmpty: Bool { state.withLock { $0.count == 0 } }

        /// All operations in order of addition.
        func members() -> [Operation] { state.withLock { $0.members } }

        /// Changes settings: what may start now is scheduled, and what users hold is kept or let go.
        func change(queue: OperationQueue?, _ change: (inout State) -> Void) {
            let (consumer, released, waiters) = state.withLock { state in
                change(&state)
                var released: OperationQueue?
                if state.isResting || state.count == 0 {
                    released = state.retainedQueue.take()
                } else if state.retainedQueue == nil {
                    state.retainedQueue = queue
                }
                return (state.schedule(), released, state.takeCapacityWaiters())
            }
            for waiter in waiters ?? [] { waiter.unpark() }
            if let consumer { wake(consumer) }
            deliverChanges()
            // Outside the lock: it may be the last reference.
            withExtendedLifetime(released) {}
        }

        @inline(__always)
        private var engineOfUse: Engine { unsafe engine }

        /// Has whoever runs its operations come: the engine's workers, the thread that drains the main queue, or an executor.
        @inline(__always)
        func wake(_ consumer: State.Consumer) {
            switch consumer {
            case .spinningWorker: signal.store(true, ordering: .relaxed)
            case .thread(.outside): scheduleOutside()
            case .thread(let group): engineOfUse.schedule(self, on: group)
            }
        }

        @inline(never)
        private func scheduleOutside() {
            if isMain { engineOfUse.mainInbox.operationsAreReady() } else { scheduleWithExecutor() }
        }
    }
}
