/// What the end of an operation does to those that depend on it, many at a time.
@safe struct ReleasedDependents {
    // Safety: `batch` is there while this is.

    /// How many are released under one lock of the operation, and arrive under one of their queue.
    private static let capacity = 64

    /// Those that were released last. From `first` to `end`: who has been posted and is on the way; their queues keep them until they have
    /// arrived. From `end` to `count`: the others, retained.
    private let batch: UnsafeMutableBufferPointer<Unmanaged<Operation>>
    private var first = 0
    private var end = 0
    private var count = 0
    /// Some of the others are in no queue: to let them go may run code of a subclass.
    private var mayRunCode = false
    private var followUp: FollowUp?

    /// What is to be done when all have arrived, and seldom there is.
    private struct FollowUp {
        var cancelled: [Operation] = []
        var observed: [Mailbox] = []
        /// Who is sent for. An executor, or who hears of a main queue, may run one at once, and that may wait for another.
        var outside: [(OperationQueue.Core, OperationQueue.State.Consumer)] = []

        @inline(never)
        func perform() {
            for (core, consumer) in outside { core.wake(consumer) }
            for dependent in cancelled { dependent.cancelBecauseOfDependency() }
            for mailbox in observed { mailbox.deliver() }
        }
    }

    /// What follows for those that depend on an operation that has finished. With no lock held.
    ///
    /// - Parameters:
    ///   - served: the queue that the calling worker takes from next, so that nobody else has to be told. Not a reference: to count that would
    ///     take the line of memory that adding reads.
    ///   - group: not nil: take from it now, with these threads.
    ///   - letGo: called before that.
    /// - Returns: what was taken.
    @inline(__always)
    static func release(
        of operation: Operation, succeeded: Bool, thenTakingFrom taker: Unmanaged<OperationQueue.Core>?, by group: ThreadGroup?,
        letGo: () -> Void = {}
    ) -> Unmanaged<Operation>? {
        let (taken, followUp) = unsafe withUnsafeTemporaryAllocation(of: Unmanaged<Operation>.self, capacity: capacity) { batch in
            var released = unsafe ReleasedDependents(batch: batch)
            while released.takeBatch(from: operation, succeeded: succeeded) { unsafe _ = released.post(thenTakingFrom: served, by: nil) }
            letGo()
            return unsafe (released.post(thenTakingFrom: served, by: group), released.followUp)
        }
        // It may come back here, on this stack.
        followUp?.perform()
        return unsafe taken
    }

    private init(batch: UnsafeMutableBufferPointer<Unmanaged<Operation>>) { unsafe self.batch = batch }

    /// Takes dependents off the operation's list. False: these are the last.
    private mutating func takeBatch(from operation: Operation, succeeded: Bool) -> Bool {
        (first, end, count, mayRunCode) = (0, 0, 0, false)
        operation.dependentsLock.lock()
        defer { operation.dependentsLock.unlock() }
        while count < ReleasedDependents.capacity, let edge = unsafe operation.dependentList.first {
            // One whose end has not begun is kept: the last reference to it may go elsewhere meanwhile, and its end runs code of a subclass,
            // which needs this lock, or waits for one of those that are on the way.
            if let dependent = unsafe edge.pointee.retainDependent() {
                unsafe add(dependent, succeeded: succeeded)
            }
            operation.dependentList.removeFirst()
        }
        return unsafe operation.dependentList.first != nil
    }

    @inline(__always)
    private mutating func add(_ dependent: Unmanaged<Operation>, succeeded: Bool) {
        let (action, isLinked) = unsafe dependent._withUnsafeGuaranteedRef { dependent in
            let change = dependent.transition { ($0.dependencyFinished(succeeded: succeeded), $0.has(Operation.State.linked)) }
            if change.0 == .cancel { withFollowUp { $0.cancelled.append(dependent) } }
            if let mailbox = dependent.observedMailbox { withFollowUp { $0.observed.append(mailbox) } }
            return change
        }
        unsafe batch.initializeElement(at: count, to: dependent)
        if action == .post {
            unsafe batch.swapAt(end, count)
            end += 1
            // Its queue keeps it.
            unsafe dependent.release()
        } else if !isLinked {
            mayRunCode = true
        }
        count += 1
    }

    @inline(never)
    private mutating func withFollowUp(_ change: (inout FollowUp) -> Void) {
        if followUp == nil { followUp = FollowUp() }
        change(&followUp!)
    }

    // MARK: Arriving

    /// Hands those of the batch that were posted to their queues, and lets the others go.
    @inline(__always)
    private mutating func post(thenTakingFrom taker: Unmanaged<OperationQueue.Core>?, by group: ThreadGroup?) -> Unmanaged<Operation>? {
        var taken: Unmanaged<Operation>?
        while !isEmpty {
            // Safety: the caller serves its own queue.
            if let served = unsafe served, unsafe nextCore.toOpaque() == served.toOpaque() {
                let group = followUp == nil && !mayRunCode ? group : nil
                unsafe taken = served._withUnsafeGuaranteedRef { unsafe $0.postBeforeTaking(&self, by: group) }
                continue
            }
            // Retained: as soon as one has arrived, it may run, end, and let its queue go, while this thread is still inside.
            let core = unsafe nextCore.takeUnretainedValue()
            if let other = core.post(&self) { withFollowUp { $0.outside.append((core, other)) } }
        }
        for index in end..<count { unsafe batch[index].release() }
        return unsafe taken
    }

    /// All of the batch have arrived.
    @inline(__always) var isEmpty: Bool { first == end }

    /// The queue of the next one.
    @inline(__always)
    private var nextCore: Unmanaged<OperationQueue.Core> {
        // Safety: a posted operation is linked.
        unsafe batch[first]._withUnsafeGuaranteedRef { unsafe $0.core }
    }

    /// The next one, if it is of this queue; whose lock is held, so that it does not run yet.
    @inline(__always)
    mutating func popFirst(of core: OperationQueue.Core) -> Unmanaged<Operation>? {
        if isEmpty { return nil }
        guard unsafe nextCore.toOpaque() == Unmanaged.passUnretained(core).toOpaque() else { return nil }
        defer { first += 1 }
        return unsafe batch[first]
    }
}
