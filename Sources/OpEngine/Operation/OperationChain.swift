/// Operations on their way to their queues, linked through themselves.
@safe struct OperationChain {
    // Safety: who is on the way is kept by its queue, and its ready links are not used.
    private var first: Unmanaged<Operation>?
    private var last: Unmanaged<Operation>?

    @inline(__always)
    mutating func append(_ operation: Operation) {
        let member = unsafe Unmanaged.passUnretained(operation)
        unsafe operation.readyLinks.next = nil
        if let last = unsafe last {
            unsafe last._withUnsafeGuaranteedRef { unsafe $0.readyLinks.next = member }
        } else {
            unsafe first = member
        }
        unsafe last = member
    }

    @inline(__always) var isEmpty: Bool { unsafe first == nil }

    /// The first one's queue.
    private var core: OperationQueue.Core? {
        // Safety: a posted operation is linked.
        unsafe first?._withUnsafeGuaranteedRef { unsafe $0.core }.takeUnretainedValue()
    }

    /// The first one, if it is of this queue; whose lock is held, so that it does not run yet.
    @inline(__always)
    mutating func popFirst(of core: OperationQueue.Core) -> Unmanaged<Operation>? {
        guard let first = unsafe first else { return nil }
        let (its, next) = unsafe first._withUnsafeGuaranteedRef { unsafe ($0.core, $0.readyLinks.next) }
        guard unsafe its.toOpaque() == Unmanaged.passUnretained(core).toOpaque() else { return nil }
        unsafe self.first = next
        return unsafe first
    }

    /// Hands all to their queues.
    ///
    /// - Parameters:
    ///   - taker: the queue that the calling worker takes from next, so that nobody else has to be told.
    ///   - group: not nil: take from it now, with these threads.
    /// - Returns: what was taken.
    mutating func post(thenTakingFrom taker: OperationQueue.Core?, by group: ThreadGroup?) -> Unmanaged<Operation>? {
        var taken: Unmanaged<Operation>?
        // The core is retained: as soon as one has arrived, it may run, end, and let its queue go, while this thread is still inside.
        var outside: [(OperationQueue.Core, OperationQueue.State.Taker)] = []
        while let core {
            if core !== taker {
                if let other = core.post(&self) { outside.append((core, other)) }
            } else if let next = unsafe core.postBeforeTaking(&self, by: outside.isEmpty ? group : nil) {
                unsafe taken = next
            }
        }
        for (core, other) in outside { core.send(for: other) }
        return unsafe taken
    }
}
