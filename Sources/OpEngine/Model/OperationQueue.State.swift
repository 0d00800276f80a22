import OpPlatform
import Synchronization

extension OperationQueue {
    /// The state of a queue, guarded by its lock. Methods only decide; none of them calls out.
    @safe struct State {
        // Safety: see `groupQueue`.

        // Fields that producers and consumers both change for every operation come first, up to and including `Segment.last`. Together with
        // the lock they fill one cache line, so that a thread which acquires the lock fetches no other line from the previous holder. The
        // counts have 32 bits for this reason.

        private var storedCount: UInt32 = 0
        private var storedExecuting: UInt32 = 0
        /// The segments between barriers, with the ready operations.
        var segments = Segments()

        // Fields that are read for every operation and rarely change.

        /// The maximum of executing operations; `.max` if the engine decides.
        var maximum = Int.max
        /// Whether the user has suspended the queue.
        var isSuspended = false
        /// Whether the queue is that of a group which has not started.
        var isHeld = false
        /// Whether a thread that takes operations is on its way: the queue is in the engine's run queue, or the thread of a main queue or an
        /// executor was notified.
        var isScheduled = false
        /// Whether a worker stands by at this queue. See `Standby`.
        var hasStandby = false
        /// How many executing operations of a main queue run the queue themselves, and so do not keep it from starting another.
        var nestedRuns: UInt16 = 0
        /// Whether the engine is shutting down. Suspension is then ignored, and a maximum of 0 acts as 1.
        var isEnding = false
        var qualities = Qualities()
        /// How many operations may be in the queue without executing.
        var maximumPending = Int.max
        /// The threads that wait to add an operation.
        var capacityWaiters: [Parker] = []
        /// The observers of the queue and its progress. Nil until there is one.
        var observation: Observation?
        /// The observers of events of the queue's operations.
        var eventObservers: [any OperationObserver] = []

        var executorQuality: QualityRank?
        /// Counts changes of `executor`, so that jobs of a previous executor run no operations.
        var executorNumber: UInt32 = 0
        /// The threads that wait until the queue is empty.
        var waits: [Wait] = []
        /// The queue object, retained while an operation may run, so that users need not hold it.
        var retainedQueue: OperationQueue?
        /// Backs `memberQueue`, without reference counting.
        // Safety: a group's queue clears the reference before its memory is freed.
        private(set) nonisolated(unsafe) var groupQueue: Unmanaged<MemberQueue>?
        /// Whether a group in this queue has ever started.
        var hasGroups = false

        // Fields that only producers change. They start on another cache line than the fields that workers read.

        /// The number of operations ever added.
        var added = 0
        /// The value of `added` before the operation with sequence number 0 was added.
        private var addedBefore = 0

        var name: String?
        /// The executor that runs the operations instead of the engine's workers.
        var executor: (any OperationExecutor)?
        /// The total number of operations that the user expects. See `OperationQueueProgress.totalUnitCount`.
        var expected = 0
        /// Fills the cache line, so that `running`, which workers change, is on the next one. A new field above takes its size off this one.
        private let padding: Int = 0

        // Fields that workers change, and producers only for operations that are not ready. They start on a further cache line.

        /// The operations that workers have taken.
        private(set) var running = OperationList()
        /// The operations that are not ready.
        private var waiting = OperationList()

        var count: Int {
            @inline(__always) get { Int(storedCount) }
            @inline(__always) set { storedCount = UInt32(newValue) }
        }

        var executing: Int {
            @inline(__always) get { Int(storedExecuting) }
            @inline(__always) set { storedExecuting = UInt32(newValue) }
        }

        /// The queue itself if it is that of a group.
        var memberQueue: MemberQueue? {
            get { unsafe groupQueue?.takeUnretainedValue() }
            set { unsafe groupQueue = newValue.map { unsafe .passUnretained($0) } }
        }

        /// Whether nothing in the queue can start until its settings change. Code that can change them must hold the queue.
        @inline(__always) var isResting: Bool { (isSuspended || isHeld || maximum == 0) && !isEnding && executing == 0 }

        /// Whether the queue object must be retained, because an operation may run.
        var needsQueue: Bool { count > 0 && !isResting }

        /// The queue object, if it need not be retained any more. The caller releases it outside the lock.
        mutating func takeUnneededQueue() -> OperationQueue? { needsQueue ? nil : retainedQueue.take() }

        /// Whether an operation may start now.
        @inline(__always) var isRunnable: Bool {
            (executing - Int(nestedRuns) < maximum || isEnding && executing == 0) && segments.current.hasReady
                && (!(isSuspended || isHeld) || isEnding)
        }

        /// Marks the queue as scheduled if an operation may start, no thread is on its way, and no worker stands by. The caller must wake a thread
        /// of the returned group.
        @inline(__always)
        mutating func schedule() -> ThreadGroup? {
            guard isRunnable && !isScheduled && !hasStandby else { return nil }
            isScheduled = true
            return nextGroup
        }

        /// The thread group that the next ready operation should run on.
        @inline(__always) var nextGroup: ThreadGroup {
            qualities.areOrdinary ? .foreground : qualities.group(for: unsafe segments.current.firstReady?.takeUnretainedValue())
        }

        /// Adds an operation. `isReady` is true if the transition that linked the operation also posted it.
        @inline(__always)
        mutating func add(_ operation: Operation, isBarrier: Bool, isReady: Bool) {
            if count == 0 { addedBefore = added } else if added - addedBefore == State.numberCount { renumber() }
            operation.number = UInt32(truncatingIfNeeded: added - addedBefore)
            count += 1
            added += 1
            if isBarrier {
                operation.isBarrier = true
                segments.addBarrier(operation, count: count)
            } else {
                segments.addOne()
            }
            if isReady {
                segments.makeReady(operation)
            } else {
                wait(operation)
            }
        }

        /// The number of operations that can be numbered consecutively. `.max` is excluded, because it marks the end of the last segment.
        private static let numberCount = Int(UInt32.max) - 1

        /// Renumbers the operations from 0. Needed after four billion additions if the queue was never empty in between.
        @inline(never)
        private mutating func renumber() {
            let operations = members
            segments.renumber(from: operations.map(\.number))
            for (number, operation) in operations.enumerated() { operation.number = UInt32(number) }
            addedBefore = added - operations.count
        }

        /// The operations in order of addition. O(n log n).
        var members: [Operation] {
            var all: [Unmanaged<Operation>] = unsafe []
            unsafe all.reserveCapacity(count)
            unsafe running.forEach { unsafe all.append($0) }
            unsafe segments.forEachReady { unsafe all.append($0) }
            unsafe waiting.forEach { unsafe all.append($0) }
            // The lists usually are in order or consist of a few ordered runs. Sorting then takes O(n).
            unsafe all.sort { unsafe $0._withUnsafeGuaranteedRef(\.number) < $1._withUnsafeGuaranteedRef(\.number) }
            // Safety: the caller holds the queue's lock, which keeps the members alive.
            return unsafe all.map { unsafe $0.takeUnretainedValue() }
        }

        /// Moves a waiting operation to the ready list. The transition that found it ready has posted it.
        @inline(__always)
        mutating func post(_ operation: Operation, inFront: Bool = false) {
            if operation.queuePosition == .heldBack {
                operation.queuePosition = .waiting
                if !operation.transition({ $0.recall() }) { return }
            }
            waiting.remove(operation)
            if inFront { segments.makeReadyInFront(operation) } else { segments.makeReady(operation) }
        }

        /// Takes back a posted operation, to which a dependency was added. It may not have arrived on the ready list yet.
        mutating func recall(_ operation: Operation) {
            if operation.queuePosition == .waiting {
                operation.queuePosition = .heldBack
            } else if operation.queuePosition.isReady && !operation.transition({ $0.recall() }) {
                segments.withdraw(operation)
                wait(operation)
            }
        }

        private mutating func wait(_ operation: Operation) {
            operation.queuePosition = .waiting
            waiting.append(operation)
        }

        mutating func reprioritise(_ operation: Operation) {
            guard operation.queuePosition.isReady, operation.queuePosition.level != operation.loadState().level else { return }
            segments.withdraw(operation)
            segments.makeReady(operation)
        }

        /// Counts the operation with the quality it requests now.
        @inline(__always)
        mutating func requalify(_ operation: Operation) {
            let request = operation.requestedQuality.load(ordering: .relaxed)
            guard request != 0 || operation.countedRank != .unspecified, operation.queuePosition != .outside else { return }
            qualities.count(operation, as: QualityRank(ofRequest: request))
        }

        /// Takes the next operation for the caller to run. An operation that only the caller can finish is retained by the queue until it
        /// has finished; any other operation is retained for the caller.
        ///
        /// Returns nil also if the next operation belongs to another thread group. The queue must then be scheduled on that group.
        @inline(__always)
        mutating func take(by group: ThreadGroup) -> Unmanaged<Operation>? {
            guard isRunnable, nextGroup == group, let operation = unsafe segments.popReady() else {
                // A worker that finds nothing ends the standby, because it may be the one that has served the queue.
                hasStandby = false
                return nil
            }
            executing += 1
            let isKept = unsafe operation._withUnsafeGuaranteedRef {
                $0.queuePosition = .taken
                running.append($0)
                return $0.isEndedByWorker
            }
            // Safety: balanced by `Operation.run`.
            if !isKept { _ = unsafe operation.retain() }
            return unsafe operation
        }

        /// Puts back an operation that was taken and must wait. Returns false if the operation has left the queue in the meantime.
        mutating func giveBack(_ operation: Operation) -> Bool {
            guard operation.queuePosition == .taken else { return false }
            executing -= 1
            running.remove(operation)
            wait(operation)
            operation.transition { $0.postpone() }
            return true
        }

        /// Removes an operation. Returns false if the operation was posted but has not arrived yet; the caller must try again.
        @inline(__always)
        mutating func leave(_ operation: Operation) -> Bool {
            switch operation.queuePosition {
            case .taken:
                executing -= 1
                running.remove(operation)
            case let queuePosition where queuePosition.isReady: segments.withdraw(operation)
            default:
                if operation.loadState().has(Operation.State.posted) { return false }
                waiting.remove(operation)
            }
            operation.queuePosition = .outside
            if operation.countedRank != .unspecified { qualities.uncount(operation) }
            segments.remove(operation)
            count -= 1
            return true
        }
    }
}
