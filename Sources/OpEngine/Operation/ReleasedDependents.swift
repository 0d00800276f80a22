/// What the end of an operation does to those that depend on it, many at a time.
@safe struct ReleasedDependents {
    // Safety: `batch` is there while this is.

    /// How many are released under one lock of the operation, and arrive under one of their queue.
    private static let capacity = 64

    /// Of those that were released last: from `first` to `end`, who has been posted and is on the way. Its queue keeps it until it has
    /// arrived.
    private let batch: UnsafeMutableBufferPointer<Unmanaged<Operation>>
    private var first = 0
    private var end = 0
    private var rest: Rest?

    /// What is to be done when all have arrived, and seldom there is.
    private struct Rest {
        var cancelled: [Operation] = []
        var observed: [Mailbox] = []
        /// Who is sent for. An executor, or who hears of a main queue, may run one at once, and that may wait for another.
        var outside: [(OperationQueue.Core, OperationQueue.State.Taker)] = []
    }

    @inline(__always)
    static func with<Result>(_ body: (inout ReleasedDependents) -> Result) -> Result {
        unsafe withUnsafeTemporaryAllocation(of: Unmanaged<Operation>.self, capacity: capacity) { batch in
            var released = unsafe ReleasedDependents(batch: batch)
            return body(&released)
        }
    }

    private init(batch: UnsafeMutableBufferPointer<Unmanaged<Operation>>) { unsafe self.batch = batch }

    /// Takes all dependents of an operation that has finished off its list. The last ones are left for `settle`.
    ///
    /// - Parameter taker: the queue that the calling worker takes from next, so that nobody else has to be told.
    @inline(__always)
    mutating func add(dependentsOf operation: Operation, succeeded: Bool, thenTakingFrom taker: OperationQueue.Core?) {
        while takeBatch(from: operation, succeeded: succeeded) { unsafe _ = post(thenTakingFrom: taker, by: nil) }
    }

    /// False: these are the last.
    private mutating func takeBatch(from operation: Operation, succeeded: Bool) -> Bool {
        var count = 0
        var posted: UInt64 = 0
        // A dependent whose end has not begun is kept until the lock is released: the last reference to it may go elsewhere meanwhile, and
        // its end runs code of a subclass, and needs this lock.
        operation.dependentsLock.lock()
        while count < ReleasedDependents.capacity, let edge = unsafe operation.dependentList.first {
            if let dependent = unsafe edge.pointee.retainDependent() {
                let isPosted = unsafe dependent._withUnsafeGuaranteedRef { dependencyFinished(of: $0, succeeded: succeeded) }
                if isPosted { posted |= 1 << UInt64(count) }
                unsafe batch.initializeElement(at: count, to: dependent)
                count += 1
            }
            operation.dependentList.removeFirst()
        }
        let isLast = unsafe operation.dependentList.first == nil
        operation.dependentsLock.unlock()
        (first, end) = (0, 0)
        for index in 0..<count {
            let dependent = unsafe batch[index]
            if posted & 1 << UInt64(index) != 0 {
                unsafe batch[end] = dependent
                end += 1
            }
            unsafe dependent.release()
        }
        return !isLast
    }

    /// True: it is to arrive at its queue.
    @inline(__always)
    private mutating func dependencyFinished(of dependent: Operation, succeeded: Bool) -> Bool {
        let action = dependent.transition { $0.dependencyFinished(succeeded: succeeded) }
        if action == .cancel { withRest { $0.cancelled.append(dependent) } }
        if let mailbox = dependent.observedMailbox { withRest { $0.observed.append(mailbox) } }
        return action == .post
    }

    @inline(never)
    private mutating func withRest(_ change: (inout Rest) -> Void) {
        var changed = rest ?? Rest()
        change(&changed)
        rest = changed
    }

    /// What follows for the dependents, with no lock held.
    ///
    /// - Parameters:
    ///   - taker: see `add`.
    ///   - group: not nil: take from it now, with these threads.
    /// - Returns: what was taken.
    @inline(__always)
    mutating func settle(thenTakingFrom taker: OperationQueue.Core?, by group: ThreadGroup?) -> Unmanaged<Operation>? {
        let next = unsafe post(thenTakingFrom: taker, by: rest == nil ? group : nil)
        guard let rest else { return unsafe next }
        for (core, taker) in rest.outside { core.send(for: taker) }
        for dependent in rest.cancelled { dependent.cancelBecauseOfDependency() }
        for mailbox in rest.observed { mailbox.deliver() }
        return unsafe next
    }

    // MARK: Arriving

    /// Hands those of the batch to their queues.
    @inline(__always)
    private mutating func post(thenTakingFrom taker: OperationQueue.Core?, by group: ThreadGroup?) -> Unmanaged<Operation>? {
        var taken: Unmanaged<Operation>?
        // The core is retained: as soon as one has arrived, it may run, end, and let its queue go, while this thread is still inside.
        while let core {
            if core === taker {
                unsafe taken = core.postBeforeTaking(&self, by: rest == nil ? group : nil)
            } else if let other = core.post(&self) {
                withRest { $0.outside.append((core, other)) }
            }
        }
        return unsafe taken
    }

    /// All have arrived.
    @inline(__always) var isEmpty: Bool { first == end }

    /// The queue of the next one.
    @inline(__always)
    private var core: OperationQueue.Core? {
        // Safety: a posted operation is linked.
        isEmpty ? nil : unsafe batch[first]._withUnsafeGuaranteedRef { unsafe $0.core }.takeUnretainedValue()
    }

    /// The next one, if it is of this queue; whose lock is held, so that it does not run yet.
    @inline(__always)
    mutating func popFirst(of core: OperationQueue.Core) -> Unmanaged<Operation>? {
        if isEmpty { return nil }
        let next = unsafe batch[first]
        // Safety: as above.
        let its = unsafe next._withUnsafeGuaranteedRef { unsafe $0.core }
        guard unsafe its.toOpaque() == Unmanaged.passUnretained(core).toOpaque() else { return nil }
        first += 1
        return unsafe next
    }
}
