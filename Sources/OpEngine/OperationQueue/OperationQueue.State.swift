import Synchronization

extension OperationQueue {
    /// What a queue knows, guarded by its lock. Every method decides; none calls out.
    struct State {
        // What who adds and who takes both change for each operation comes first, up to the last one of each priority that is ready: with
        // the lock it fills one line of memory, so that a thread takes no other from who had the lock before. Therefore counts of 32 bits.

        private var storedCount: UInt32 = 0
        private var storedExecuting: UInt32 = 0
        /// Has those that are ready.
        var segments = Segments()

        // What is read for each operation and seldom changes.

        /// `.max` when the engine decides.
        var maximum = Int.max
        var isSuspended = false
        /// It has an entry in its executor's list, or a worker was called to it, which will come and take from it.
        var isScheduled = false
        /// See `Core.beginSpinning`.
        var hasSpinningWorker = false
        /// The engine is being shut down: suspension counts no longer, and a maximum of 0 is one of 1.
        var isEnding = false
        var qualities = Qualities()
        /// How many may be in the queue and not executing.
        var maximumPending = Int.max
        /// Threads that wait to add an operation.
        var capacityWaiters: [Parker] = []
        /// Who observes the queue and its progress. Nil until somebody does.
        var observation: Observation?
        /// Who wants to know what happens to the operations.
        var eventObservers: [any OperationObserver] = []

        var executorQuality: QualityRank?
        /// Counts changes of `executor`: a job of one that was taken away does not run operations.
        var executorNumber: UInt32 = 0
        /// Who waits until it is empty.
        var waits: [Wait] = []
        /// The queue as its users see it, kept while something in it may run, so that nobody else has to.
        var retainedQueue: OperationQueue?

        // What only those change who add, a line of memory behind what workers read.

        /// How many operations have been added, ever.
        var added = 0
        /// How many had been added before the operation with the number 0.
        private var addedBefore = 0

        var name: String?
        /// What runs the operations instead of the engine's workers.
        var executor: (any OperationExecutor)?
        /// How many are expected in all, as said by the user of `Progress`.
        var expected = 0
        private let restOfTheLine: (Int, Int, Int) = (0, 0, 0)

        // What workers change, and who adds what is not ready: another line behind.

        /// Those that were taken.
        private(set) var running = OperationList()
        /// Those that are not ready.
        private var waiting = OperationList()

        var count: Int {
            @inline(__always) get { Int(storedCount) }
            @inline(__always) set { storedCount = UInt32(newValue) }
        }

        var executing: Int {
            @inline(__always) get { Int(storedExecuting) }
            @inline(__always) set { storedExecuting = UInt32(newValue) }
        }

        /// Nothing starts by itself: whoever wants that to change must hold the queue.
        @inline(__always) var isResting: Bool { (isSuspended || maximum == 0) && !isEnding && executing == 0 }

        /// An operation may start now.
        @inline(__always) var isRunnable: Bool {
            (executing < maximum || isEnding && executing == 0) && segments.current.hasReady && (!isSuspended || isEnding)
        }

        /// Who is to come and take.
        enum Consumer {
            /// One of these threads.
            case thread(ThreadGroup)
            /// The worker that lingers here.
            case spinningWorker
        }

        /// Not nil: the caller has it come.
        @inline(__always)
        mutating func schedule() -> Consumer? {
            guard isRunnable && !isScheduled else { return nil }
            isScheduled = true
            let group = nextGroup
            guard hasSpinningWorker && group == .foreground else { return .thread(group) }
            hasSpinningWorker = false
            return .spinningWorker
        }

        /// The threads that the next ready operation belongs on.
        @inline(__always) var nextGroup: ThreadGroup {
            qualities.areOrdinary ? .foreground : qualities.group(for: unsafe segments.current.firstReady?.takeUnretainedValue())
        }

        /// An operation joins. `isReady`: it was posted by the transition that linked it.
        @inline(__always)
        mutating func add(_ operation: Operation, isBarrier: Bool, isReady: Bool) {
            if count == 0 { addedBefore = added } else if added - addedBefore == State.numberCount { renumber() }
            operation.number = UInt32(truncatingIfNeeded: added - addedBefore)
            count += 1
            added += 1
            if isBarrier { segments.addBarrier(operation, count: count) } else { segments.addOne() }
            if isReady {
                segments.makeReady(operation)
            } else {
                wait(operation)
            }
        }

        /// So many operations are numbered one after the other. One less than there are numbers, since `.max` is behind all.
        private static let numberCount = Int(UInt32.max) - 1

        /// Once in four billion operations, if the queue has never been empty meanwhile: the numbers have been used up.
        @inline(never)
        private mutating func renumber() {
            let operations = members
            segments.renumber(from: operations.map(\.number))
            for (number, operation) in operations.enumerated() { operation.number = UInt32(number) }
            addedBefore = added - operations.count
        }

        /// All operations, in order of addition. O(n log n).
        var members: [Operation] {
            var all: [Unmanaged<Operation>] = unsafe []
            unsafe all.reserveCapacity(count)
            unsafe running.forEach { unsafe all.append($0) }
            unsafe segments.forEachReady { unsafe all.append($0) }
            unsafe waiting.forEach { unsafe all.append($0) }
            // Mostly each list is in order, or a few pieces of it are: then this is O(n).
            unsafe all.sort { unsafe $0._withUnsafeGuaranteedRef(\.number) < $1._withUnsafeGuaranteedRef(\.number) }
            // Safety: they are alive as long as the queue's lock is held.
            return unsafe all.map { unsafe $0.takeUnretainedValue() }
        }

        /// One that waits was posted by the transition that found it ready.
        @inline(__always)
        mutating func post(_ operation: Operation) {
            if operation.queuePosition == .heldBack {
                operation.queuePosition = .waiting
                if !operation.transition({ $0.recall() }) { return }
            }
            waiting.remove(operation)
            segments.makeReady(operation)
        }

        /// A dependency was added to a posted operation, which has perhaps not arrived yet.
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

        /// It may ask for another quality than it is counted with.
        @inline(__always)
        mutating func requalify(_ operation: Operation) {
            let request = operation.requestedQuality.load(ordering: .relaxed)
            guard request != 0 || operation.countedRank != .unspecified, operation.queuePosition != .outside else { return }
            qualities.count(operation, as: QualityRank(ofRequest: request))
        }

        /// The next operation, for the caller to run: one that nobody else can end is kept by the queue until it has ended; another one
        /// is retained for the caller.
        ///
        /// Nil also when the next operation belongs on other threads: then the queue is to be scheduled with them.
        @inline(__always)
        mutating func take(by group: ThreadGroup) -> Unmanaged<Operation>? {
            guard isRunnable, nextGroup == group, let operation = unsafe segments.popReady() else { return nil }
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

        /// A worker took an operation whose subclass is not ready. False: it has left meanwhile.
        mutating func giveBack(_ operation: Operation) -> Bool {
            guard operation.queuePosition == .taken else { return false }
            executing -= 1
            running.remove(operation)
            wait(operation)
            operation.transition { $0.defer() }
            return true
        }

        /// False: it was posted and has not arrived yet; try again.
        @inline(__always)
        mutating func leave(_ operation: Operation) -> Bool {
            switch operation.queuePosition {
            case .taken:
                executing -= 1
                running.remove(operation)
            case let queuePosition where queuePosition.isReady: segments.withdraw(operation)
            default:
                let state = operation.loadState()
                if state.has(Operation.State.posted) && !state.has(Operation.State.deferred) { return false }
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
