import Glibc
import Synchronization

extension OperationQueue {
    /// The part of a queue that the engine works with: the state, its lock, and the effects of what the state decides.
    ///
    /// `OperationQueue` is what users hold. The core keeps it while something in the queue may run; a suspended queue that nobody
    /// holds goes with its operations. The core keeps itself while it has operations.
    @safe final class Core: @unchecked Sendable {
        // Safety: `@unchecked Sendable` because `state` has a lock, `face` and `engine` are written once, `nextScheduled` is
        // guarded by the executor's lock.
        let state = Guarded(State())
        // Safety: the face keeps the engine, and a core works only while it has a face or a worker of the engine.
        unowned(unsafe) let engine: Engine
        let isMain: Bool
        /// The default policy of the operations that are added.
        let requiresSuccess = Atomic<Bool>(false)
        /// The engine's own operations are in it, which nobody counts.
        let isHelper = Atomic<Bool>(false)
        /// Somebody observes the queue or its progress, or did.
        let isObserved = Atomic<Bool>(false)
        weak var face: OperationQueue?
        /// The next entry in the executor's list.
        var nextScheduled: Core?
        /// The engine's list of queues that have operations. Guarded by `Registry.lock`.
        var previousActive: Unmanaged<Core>?
        var nextActive: Unmanaged<Core>?

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

        // MARK: Operations come

        /// An operation that this queue has claimed joins it. False: there is no place.
        func addIfPlace(_ operation: Operation, isBarrier: Bool, face: OperationQueue) -> Bool {
            // Safety: written by the thread that claimed it, before it is linked.
            unsafe operation.core = .passUnretained(self)
            let joined = state.withLock { state -> (Operation.State.ReadinessAction, ThreadGroup?)? in
                if !state.hasPlace { return nil }
                if state.count == 0 { begin(&state, face: face) }
                let action = join(operation, isBarrier: isBarrier, &state)
                state.observation?.recordCounts(before: state.count - 1, state)
                return (action, state.schedule())
            }
            guard let (action, schedule) = joined else { return false }
            if let schedule { self.schedule(on: schedule) }
            settle(operation, action)
            deliverChanges()
            operation.deliverChanges()
            return true
        }

        /// The same for many, under one lock.
        func addIfPlace(_ operations: [Operation], face: OperationQueue) -> Bool {
            // Safety: as above.
            for operation in operations { unsafe operation.core = .passUnretained(self) }
            let joined = state.withLock { state -> ([(Operation, Operation.State.ReadinessAction)], ThreadGroup?)? in
                if !state.hasPlace { return nil }
                if state.count == 0 { begin(&state, face: face) }
                var unsettled: [(Operation, Operation.State.ReadinessAction)] = []
                for operation in operations {
                    let action = join(operation, isBarrier: false, &state)
                    if action == .cancel || action == .remove { unsettled.append((operation, action)) }
                }
                state.observation?.recordCounts(before: state.count - operations.count, state)
                return (unsettled, state.schedule())
            }
            guard let (unsettled, schedule) = joined else { return false }
            if let schedule { self.schedule(on: schedule) }
            for (operation, action) in unsettled { settle(operation, action) }
            deliverChanges()
            for operation in operations { operation.deliverChanges() }
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
        private func begin(_ state: inout State, face: OperationQueue) {
            // Safety: balanced by `leave` of the last operation.
            _ = unsafe Unmanaged.passRetained(self)
            state.isEnding = unsafe engine.isEnding
            if !state.isResting { state.keptFace = face }
            engineOfUse.activate(self)
        }

        @inline(__always)
        private func join(_ operation: Operation, isBarrier: Bool, _ state: inout State) -> Operation.State.ReadinessAction {
            // Safety: balanced when the operation has left.
            _ = unsafe Unmanaged.passRetained(operation)
            state.add(operation, isBarrier: isBarrier)
            if isTraced(state) { operation.trace(in: self) }
            let byDefault = requiresSuccess.load(ordering: .relaxed)
            let action = operation.transition { $0.link(requiringSuccessByDefault: byDefault) }
            state.requalify(operation)
            if action == .post { state.post(operation) }
            return action
        }

        /// An operation has become ready.
        func post(_ operation: Operation) {
            let schedule = state.withLock { state in
                state.post(operation)
                return state.schedule()
            }
            if let schedule { self.schedule(on: schedule) }
        }

        /// An operation has become ready, and the calling worker takes from this queue next.
        func postBeforeTaking(_ operation: Operation) {
            state.withLock { $0.post(operation) }
        }

        func recall(_ operation: Operation) { state.withLock { $0.recall(operation) } }

        func requalify(_ operation: Operation) { state.withLock { $0.requalify(operation) } }

        func reprioritise(_ operation: Operation) { state.withLock { $0.reprioritise(operation) } }

        // MARK: Operations go

        /// The next operation, for a thread of `group`. `arriving`: it comes with an entry of the executor's list.
        @inline(__always)
        func take(arriving: Bool, by group: ThreadGroup) -> Operation? {
            let (operation, schedule, waiters) = state.withLock { state in
                if arriving { state.isScheduled = false }
                let operation = state.take(by: group)
                return (operation, state.schedule(), state.takePlaceWaiters())
            }
            for waiter in waiters { waiter.unpark() }
            if let schedule { self.schedule(on: schedule) }
            return operation
        }

        /// Puts the queue into its executor's list if something may start.
        func scheduleIfRunnable() {
            if let group = state.withLock({ $0.schedule() }) { schedule(on: group) }
        }

        func giveBack(_ operation: Operation) -> Bool {
            let (isBack, schedule) = state.withLock { ($0.giveBack(operation), $0.schedule()) }
            if let schedule { self.schedule(on: schedule) }
            return isBack
        }

        /// An operation leaves, and is finished at the same moment. Returns its state at that moment.
        ///
        /// - Parameter takesNext: the calling worker takes from this queue next, so that nobody has to be told.
        @inline(__always)
        func leave(_ operation: Operation, takesNext: Bool) -> Operation.State {
            while true {
                let left = state.withLock { state -> Departure? in
                    guard state.leave(operation) else { return nil }
                    let final = operation.transition { change in
                        change.publishFinish()
                        return change
                    }
                    let isLast = state.count == 0
                    state.observation?.recordCounts(before: state.count + 1, state)
                    if isLast { engineOfUse.deactivate(self) }
                    let tellOthers = !takesNext || final.has(Operation.State.toldAtEnd) || state.observation != nil
                    return Departure(
                        final: final, schedule: tellOthers ? state.schedule() : nil, isLast: isLast,
                        waiters: isLast ? takeWaiters(&state) : [], placeWaiters: state.takePlaceWaiters(),
                        face: isLast || state.isResting ? state.keptFace.take() : nil)
                }
                if let left {
                    if let group = left.schedule { schedule(on: group) }
                    for waiter in left.placeWaiters { waiter.unpark() }
                    if left.isLast { end(left) }
                    return left.final
                }
                sched_yield()
            }
        }

        private struct Departure {
            var final: Operation.State
            var schedule: ThreadGroup?
            var isLast: Bool
            var waiters: [Parker]
            var placeWaiters: [Parker]
            /// Released when this goes, after the lock.
            var face: OperationQueue?
        }

        @inline(__always)
        private func takeWaiters(_ state: inout State) -> [Parker] {
            if state.waiters.isEmpty { return [] }
            let waiters = state.waiters
            state.waiters = []
            return waiters
        }

        /// The last operation has left.
        @inline(never)
        private func end(_ departure: Departure) {
            for waiter in departure.waiters { waiter.unpark() }
            // Safety: balances `begin`; whoever looks the core up holds the registry's lock, which `deactivate` has passed.
            unsafe Unmanaged.passUnretained(self).release()
        }

        /// Nobody can reach a queue at rest any more: its operations end as cancelled, without having started.
        func abandon() {
            for operation in members() {
                operation.transition { $0.set(Operation.State.cancelled) }
                operation.end()
            }
        }

        // MARK: Looking and changing

        /// All operations in order of addition.
        func members() -> [Operation] {
            state.withLock { state in
                var all: [Operation] = []
                all.reserveCapacity(state.count)
                state.members.forEach { all.append($0) }
                return all
            }
        }

        /// Changes settings: what may start now is scheduled, and what users hold is kept or let go.
        func change(face: OperationQueue?, _ change: (inout State) -> Void) {
            let (schedule, released, waiters) = state.withLock { state in
                change(&state)
                var released: OperationQueue?
                if state.isResting || state.count == 0 {
                    released = state.keptFace.take()
                } else if state.keptFace == nil {
                    state.keptFace = face
                }
                return (state.schedule(), released, state.takePlaceWaiters())
            }
            for waiter in waiters { waiter.unpark() }
            if let schedule { self.schedule(on: schedule) }
            deliverChanges()
            // Outside the lock: it may be the last reference.
            withExtendedLifetime(released) {}
        }

        @inline(__always)
        private var engineOfUse: Engine { unsafe engine }

        /// To whoever runs its operations: the engine's workers, the thread that drains the main queue, or an executor.
        @inline(__always)
        private func schedule(on group: ThreadGroup) {
            if group == .outside { scheduleOutside() } else { engineOfUse.schedule(self, on: group) }
        }

        @inline(never)
        private func scheduleOutside() {
            if isMain { engineOfUse.mainInbox.operationsAreReady() } else { scheduleWithExecutor() }
        }
    }
}
