import OpPlatform

/// Releases the dependents of an operation that has finished, in batches.
@safe struct ReleasedDependents {
    // Safety: `batch` is a temporary allocation that outlives this value.

    /// The size of a batch: how many dependents are released under one acquisition of the operation's lock, and posted under one
    /// acquisition of their queue's lock.
    private static let capacity = 64

    /// The current batch. The elements from `first` to `end` are posted and in flight; their queues retain them until they arrive. The
    /// elements from `end` to `count` are the others; this value retains them.
    private let batch: UnsafeMutableBufferPointer<Unmanaged<Operation>>
    private var first = 0
    private var end = 0
    private var count = 0
    /// Whether one of the others is in no queue. Releasing it may run code of a subclass.
    private var mayRunCode = false
    private var followUp: FollowUp?

    /// Work that must wait until all dependents have arrived. Rarely needed.
    private struct FollowUp {
        var cancelled: [Operation] = []
        var observed: [Mailbox] = []
        var unqueued: [Operation] = []
        /// Executors and main queues to wake. They may run an operation synchronously, and that operation may wait for a dependent that has
        /// not arrived yet.
        var outside: [OperationQueue.Core] = []

        @inline(never)
        func perform() {
            // This thread takes its next operation from the queue that it serves, and foreign code may wait for an operation there.
            ThreadContext.withCurrent { $0.scheduleServedQueue() }
            for core in outside { core.wake(.outside) }
            for dependent in cancelled { dependent.cancelBecauseOfDependency() }
            for dependent in unqueued { dependent.askOutsideOfQueues() }
            for mailbox in observed { mailbox.deliver() }
        }
    }

    /// Releases all dependents of an operation that has finished. The caller holds no lock.
    ///
    /// - Parameters:
    ///   - served: the queue that the calling worker takes from next, so that no other worker needs to be woken for it. Unmanaged, because
    ///     a retain would write to a cache line that producers read.
    ///   - group: the thread group with which to take the next operation right away; nil to take none.
    ///   - beforeLastBatch: called before the last batch is posted and the next operation is taken.
    /// - Returns: the operation that was taken, if any.
    @inline(__always)
    static func release(
        of operation: Operation, succeeded: Bool, thenTakingFrom served: Unmanaged<OperationQueue.Core>?, by group: ThreadGroup?,
        beforeLastBatch: () -> Void = {}
    ) -> Unmanaged<Operation>? {
        let (taken, followUp) = unsafe withUnsafeTemporaryAllocation(of: Unmanaged<Operation>.self, capacity: capacity) { batch in
            var released = unsafe ReleasedDependents(batch: batch)
            while released.takeBatch(from: operation, succeeded: succeeded) { unsafe _ = released.post(thenTakingFrom: served, by: nil) }
            beforeLastBatch()
            return unsafe (released.post(thenTakingFrom: served, by: group), released.followUp)
        }
        // Runs after the temporary allocation has been freed, because it may call this method again on the same stack.
        followUp?.perform()
        return unsafe taken
    }

    private init(batch: UnsafeMutableBufferPointer<Unmanaged<Operation>>) { unsafe self.batch = batch }

    /// Takes up to `capacity` dependents off the operation's list. Returns false if none is left.
    private mutating func takeBatch(from operation: Operation, succeeded: Bool) -> Bool {
        (first, end, count, mayRunCode) = (0, 0, 0, false)
        operation.dependentsLock.lock()
        defer { operation.dependentsLock.unlock() }
        while count < ReleasedDependents.capacity, let edge = unsafe operation.dependentList.first {
            // Retain the dependent unless it is being deallocated. Otherwise another thread could release the last reference while the
            // dependent is in flight. Its `deinit` runs code of a subclass, which may need this lock or wait for another dependent in
            // flight.
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
            if !change.1 && !OverriddenMethods.isPlain(dependent) { withFollowUp { $0.unqueued.append(dependent) } }
            return change
        }
        unsafe batch.initializeElement(at: count, to: dependent)
        if action == .post {
            unsafe batch.swapAt(end, count)
            end += 1
            // Its queue retains the operation.
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

    // MARK: Posting

    /// Posts the operations in flight to their queues, and releases the others.
    @inline(__always)
    private mutating func post(thenTakingFrom served: Unmanaged<OperationQueue.Core>?, by group: ThreadGroup?) -> Unmanaged<Operation>? {
        var taken: Unmanaged<Operation>?
        while !isEmpty {
            // Safety: the caller retains the queue that it serves.
            if let served = unsafe served, unsafe nextCore.toOpaque() == served.toOpaque() {
                let group = followUp == nil && !mayRunCode ? group : nil
                unsafe taken = served._withUnsafeGuaranteedRef { unsafe $0.postBeforeTaking(&self, by: group) }
                continue
            }
            // The core is retained: an operation that has arrived may run, finish and release its queue while this thread is still inside.
            let core = unsafe nextCore.takeUnretainedValue()
            if core.post(&self) { withFollowUp { $0.outside.append(core) } }
        }
        for index in end..<count { unsafe batch[index].release() }
        return unsafe taken
    }

    /// Whether the whole batch has arrived.
    @inline(__always) var isEmpty: Bool { first == end }

    /// The queue of the next operation in flight.
    @inline(__always)
    private var nextCore: Unmanaged<OperationQueue.Core> {
        // Safety: a posted operation is linked, and its queue retains it.
        unsafe batch[first]._withUnsafeGuaranteedRef { unsafe $0.core }
    }

    /// Removes and returns the next operation in flight if it belongs to `core`. The caller holds the core's lock, so the operation does
    /// not run yet.
    @inline(__always)
    mutating func popFirst(of core: OperationQueue.Core) -> Unmanaged<Operation>? {
        if isEmpty { return nil }
        guard unsafe nextCore.toOpaque() == Unmanaged.passUnretained(core).toOpaque() else { return nil }
        defer { first += 1 }
        return unsafe batch[first]
    }
}
