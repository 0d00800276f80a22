import CPlatform
import Glibc
import OpPlatform
import Synchronization

extension OperationQueue {
    /// The part of a queue that the engine works with: the state, its lock, and the actions that the state decides on.
    ///
    /// `OperationQueue` is the object that users hold. The core retains that object while something in the queue may run. A suspended queue
    /// that no user holds is deallocated, and its operations end as cancelled. The core retains itself while it has operations.
    @safe final class Core: ServedQueue, @unchecked Sendable {
        // Safety: `@unchecked Sendable` because `state` has a lock, and the other variables state what guards them.
        let state = Guarded(State(), alignment: 64)
        let isMain: Bool
        /// The bits of `Specialty` that the queue has. Atomic, to be read without the lock.
        private let specialties = Atomic<UInt8>(0)
        /// Whether the queue runs the engine's internal operations, which no count includes.
        let isHelper = Atomic<Bool>(false)
        /// The number under which the recorder knows the queue. Guarded by the queue's lock.
        var recordNumber: RecordNumber?
        /// The queue object that users hold. A main queue may get a new one.
        let reference = BackReference<OperationQueue>()
        /// The links of the engine's list of queues that have operations. Guarded by `Registry.lock`.
        var previousActive: Unmanaged<Core>?
        var nextActive: Unmanaged<Core>?
        /// How many of its operations are in `Engine.formerlyFinished`. Guarded by `Registry.lock`.
        var countedAsFinished = 0

        init(engine: Engine, isMain: Bool) {
            self.isMain = isMain
            super.init(engine: engine)
            if isMain {
                state.withLock { state in
                    state.maximum = 1
                    state.qualities.isOutside = true
                }
            }
        }

        // MARK: Specialties

        /// A property of the queue with which adding and finishing an operation take more steps than usual.
        enum Specialty: UInt8 {
            /// The queue is that of a group.
            case ofGroup = 1
            /// The user has limited the pending operations.
            case limited = 2
            /// The starts of operations are limited. The engine's admissions know the limit.
            case rateLimited = 4
            /// Operations without a policy of their own require their dependencies to succeed.
            case requiresSuccess = 8
            /// The queue or its progress is observed, or was at some time.
            case observed = 16
            /// There are observers of the operations' events, or were at some time.
            case traced = 32
        }

        @inline(__always) var isSpecial: Bool { specialties.load(ordering: .relaxed) != 0 }

        @inline(__always)
        func has(_ specialty: Specialty) -> Bool { specialties.load(ordering: .relaxed) & specialty.rawValue != 0 }

        func set(_ specialty: Specialty, _ isSet: Bool = true) {
            if isSet {
                specialties.bitwiseOr(specialty.rawValue, ordering: .relaxed)
            } else {
                specialties.bitwiseAnd(~specialty.rawValue, ordering: .relaxed)
            }
        }

        /// The queue object. Nil once it is being deallocated.
        var queue: OperationQueue? { reference.object }

        // MARK: Ready operations

        /// Moves an operation that has become ready to the ready list.
        ///
        /// - Parameter inFront: whether to put it before the others of its priority.
        func post(_ operation: Operation, inFront: Bool = false) {
            wake(
                state.withLock { state in
                    state.post(operation, inFront: inFront)
                    return state.schedule()
                })
        }

        /// Moves the next operations of the batch to the ready list, as long as they belong to this queue.
        ///
        /// - Returns: whether the caller must wake a thread outside the engine after the whole batch has arrived.
        func post(_ released: inout ReleasedDependents) -> Bool {
            let woken = state.withLock { state in
                arrive(&released, &state)
                return state.schedule()
            }
            if woken == .outside { return true }
            wake(woken)
            return false
        }

        /// The same for the queue that the calling worker takes from next. If `group` is not nil and the whole batch has arrived, also
        /// takes the next operation under the same lock.
        func postBeforeTaking(_ released: inout ReleasedDependents, by group: ThreadGroup?) -> Unmanaged<Operation>? {
            let locked = unsafe state.lock()
            unsafe arrive(&released, &locked.pointee)
            // While other dependents are in flight, take nothing: taking may wake a thread, which has to wait until all of them have
            // arrived.
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

        /// Moves an operation to the ready list, before the others of its priority, for a worker that takes its next operation from this queue.
        func postBeforeTaking(_ operation: Operation) { state.withLock { $0.post(operation, inFront: true) } }

        func recall(_ operation: Operation) { state.withLock { $0.recall(operation) } }

        func requalify(_ operation: Operation) { state.withLock { $0.requalify(operation) } }

        func reprioritise(_ operation: Operation) { state.withLock { $0.reprioritise(operation) } }

        // MARK: Taking and finishing operations

        /// Takes the next operation for a thread of `group`. The caller must call `run` on it.
        ///
        /// - Parameter arriving: whether the caller was scheduled to this queue, so that the queue may be scheduled again.
        @inline(__always)
        func take(arriving: Bool, by group: ThreadGroup) -> Unmanaged<Operation>? {
            let locked = unsafe state.lock()
            if arriving { unsafe locked.pointee.isScheduled = false }
            return unsafe takeAndUnlock(locked, by: group)
        }

        /// Takes the next operation and releases the lock, which the caller holds.
        @inline(__always)
        private func takeAndUnlock(_ locked: UnsafeMutablePointer<State>, by group: ThreadGroup) -> Unmanaged<Operation>? {
            let operation = unsafe locked.pointee.take(by: group)
            let woken = unsafe locked.pointee.schedule()
            let waiters = unsafe locked.pointee.takeCapacityWaiters()
            state.unlock()
            if let waiters { for waiter in waiters { waiter.unpark() } }
            wake(woken)
            return unsafe operation
        }

        override var isRunnable: Bool { state.withLock(\.isRunnable) }

        override func serve(on worker: Worker, as group: ThreadGroup, _ context: ThreadContext) {
            serveOrStandBy(on: worker, as: group, context)
        }

        override func runOne(on context: ThreadContext, by group: ThreadGroup, finishesLater: Bool) -> Bool {
            guard let operation = unsafe take(arriving: true, by: group) else { return false }
            // Safety: `take` states who retains the operation.
            unsafe operation._withUnsafeGuaranteedRef { operation in
                if finishesLater {
                    unsafe _ = operation.runSpecially(on: context, from: self, runsBody: false, thenTakingBy: nil)
                } else {
                    unsafe _ = operation.run(on: context, from: self, thenTakingBy: nil)
                }
            }
            scheduleIfRunnable()
            return true
        }

        override func reschedule() {
            state.withLock { $0.isScheduled = false }
            scheduleIfRunnable()
        }

        /// Schedules the queue if an operation may start, even if a worker stands by: the caller does not take from the queue for now.
        func scheduleIfRunnable() {
            wake(
                state.withLock { state in
                    state.hasStandby = false
                    return state.schedule()
                })
        }

        /// Calls `body`, which runs this main queue inside one of its operations. That operation does not keep others from starting.
        func whileNested<Result>(_ body: () -> Result) -> Result {
            state.withLock { $0.nestedRuns += 1 }
            defer { state.withLock { $0.nestedRuns -= 1 } }
            scheduleIfRunnable()
            return body()
        }

        func giveBack(_ operation: Operation) -> Bool {
            let (isBack, woken, released) = state.withLock { ($0.giveBack(operation), $0.schedule(), $0.takeUnneededQueue()) }
            wake(woken)
            // Released outside the lock: this may be the last reference.
            withExtendedLifetime(released) {}
            return isBack
        }

        /// Removes an operation from the queue and publishes it as finished, under one acquisition of the lock. If the end has no further
        /// consequences, also takes the next operation.
        ///
        /// - Parameters:
        ///   - takesNext: whether the calling worker takes its next operation from this queue, so that no other worker needs to be woken.
        ///   - group: the thread group with which to take that operation here; nil to take it later.
        /// - Returns: the operation's state at that moment; the next operation if it was taken; and the queue if it was closed, because it is
        ///   that of a group whose last member this was. The caller must end that group.
        @inline(__always)
        func leave(
            _ operation: Operation, takesNext: Bool, atOnceBy group: ThreadGroup? = nil
        ) -> (final: Operation.State, next: Unmanaged<Operation>?, closed: MemberQueue?) {
            var locked = unsafe state.lock()
            while unsafe !locked.pointee.leave(operation) {
                state.unlock()
                sched_yield()
                unsafe locked = state.lock()
            }
            let final = operation.transition { $0.publishFinish() }
            let departure = unsafe Departure(from: &locked.pointee, of: self)
            if let group, departure == nil, final.bits & Operation.State.hasConsequences == 0 {
                return unsafe (final, takeAndUnlock(locked, by: group), nil)
            }
            if final.has(Operation.State.failed) { unsafe locked.pointee.memberQueue?.recordFailure(of: operation) }
            let notifyOthers = unsafe !takesNext || final.has(Operation.State.notifiesAtEnd) || locked.pointee.observation != nil
            let woken = unsafe notifyOthers ? locked.pointee.schedule() : nil
            state.unlock()
            wake(woken)
            departure?.perform(self)
            return (final, nil, departure?.closed)
        }

        /// The consequences of a departure from the queue: waits to end, and a queue to close or to release. Usually there are none.
        private struct Departure {
            private let waits: [Wait]
            private let capacityWaiters: [Parker]?
            /// The queue object that the core no longer retains. Released with this value, outside the lock.
            private let queue: OperationQueue?
            private let isLast: Bool
            /// The queue if the departure has closed it.
            let closed: MemberQueue?

            /// Collects the consequences; nil if there are none. The caller holds the lock, and the operation has left.
            @inline(__always)
            init?(from state: inout State, of core: Core) {
                if state.count > 0 && !state.isResting && state.observation == nil && state.capacityWaiters.isEmpty { return nil }
                self.init(after: &state, of: core)
            }

            @inline(never)
            private init(after state: inout State, of core: Core) {
                isLast = state.count == 0
                closed = isLast ? state.memberQueue.flatMap { $0.closeIfOpen() ? $0 : nil } : nil
                state.observation?.recordCounts(before: state.count + 1, state)
                if isLast { core.uncheckedEngine.deactivate(core, added: state.added) }
                waits = isLast ? exchange(&state.waits, with: []) : []
                capacityWaiters = state.takeCapacityWaiters()
                queue = state.takeUnneededQueue()
            }

            @inline(never)
            func perform(_ core: Core) {
                for waiter in capacityWaiters ?? [] { waiter.unpark() }
                for wait in waits { wait.notify() }
                // Safety: balances the retain in `begin`. A thread that looks up the core holds the registry's lock, and `deactivate` has
                // taken that lock since.
                if isLast { unsafe Unmanaged.passUnretained(core).release() }
            }
        }

        /// Finishes the operations of an unreachable queue as cancelled, without starting them: a group after its members. Called when the queue
        /// object of a queue at rest is deallocated. Not recursive, because groups may be nested deeply.
        func abandon() {
            if isEmpty { return }
            var (pending, all) = (members(), [Operation]())
            while let operation = pending.popLast() {
                operation.transition { $0.set(Operation.State.cancelled) }
                all.append(operation)
                if let members = operation.memberQueue { pending += members.closeUnstarted(operation) }
            }
            for operation in all.reversed() {
                if let members = operation.memberQueue { members.endGroup() } else { operation.end() }
            }
        }

        // MARK: Inspection and settings

        /// Whether all added operations have left.
        var isEmpty: Bool { state.withLock { $0.count == 0 } }

        /// The operations in the queue, in order of addition.
        func members() -> [Operation] { state.withLock { $0.members } }

        /// Changes settings. Then schedules the queue if an operation may start, and retains or releases the queue object.
        func change(queue: OperationQueue?, _ change: (inout State) -> Void) {
            let (woken, released, waiters) = state.withLock { state in
                change(&state)
                if recordNumber != nil { recordSettings(state) }
                if state.needsQueue && state.retainedQueue == nil { state.retainedQueue = queue }
                return (state.schedule(), state.takeUnneededQueue(), state.takeCapacityWaiters())
            }
            for waiter in waiters ?? [] { waiter.unpark() }
            wake(woken)
            deliverChanges()
            // Release outside the lock: this may be the last reference.
            withExtendedLifetime(released) {}
        }

        @inline(__always)
        var uncheckedEngine: Engine { unsafe engine }

        /// Wakes the thread that has to take the next operation: a worker of the engine, or outside of it the thread that drains the main queue
        /// or one of an executor. Has no effect if `group` is nil.
        @inline(__always)
        func wake(_ group: ThreadGroup?) {
            guard let group else { return }
            if group == .outside { scheduleOutside() } else { uncheckedEngine.schedule(self, on: group) }
        }

        @inline(never)
        private func scheduleOutside() {
            if isMain { uncheckedEngine.mainInbox.operationsAreReady() } else { scheduleWithExecutor() }
        }
    }
}
