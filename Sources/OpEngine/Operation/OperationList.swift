/// An operation's links of the list that it is on: its queue has it on one, or on none.
@safe struct OperationLinks {
    // Safety: whoever is on a list is kept alive by the queue that owns the list.
    nonisolated(unsafe) var previous: Unmanaged<Operation>?
    nonisolated(unsafe) var next: Unmanaged<Operation>?
}

/// A doubly linked list through the operations themselves, the last one first: no memory, constant time. Does not own its members.
@safe struct OperationList {
    // Safety: see `OperationLinks`.
    private nonisolated(unsafe) var first: Unmanaged<Operation>?

    @inline(__always)
    mutating func append(_ operation: Operation) {
        // Safety: the members are alive; the queue's lock is held.
        let member = unsafe Unmanaged.passUnretained(operation)
        unsafe operation.links.previous = nil
        unsafe operation.links.next = first
        if let first = unsafe first { unsafe first._withUnsafeGuaranteedRef { unsafe $0.links.previous = member } }
        unsafe first = member
    }

    @inline(__always)
    mutating func remove(_ operation: Operation) {
        let links = operation.links
        // Safety: as above.
        if let previous = unsafe links.previous {
            unsafe previous._withUnsafeGuaranteedRef { unsafe $0.links.next = links.next }
        } else {
            unsafe first = links.next
        }
        if let next = unsafe links.next { unsafe next._withUnsafeGuaranteedRef { unsafe $0.links.previous = links.previous } }
    }

    /// From the first to the last. `body` must not change the list.
    func forEach(_ body: (Unmanaged<Operation>) -> Void) { unsafe OperationList.forEach(from: first, body) }

    /// From `first` on, by their links.
    static func forEach(from first: Unmanaged<Operation>?, _ body: (Unmanaged<Operation>) -> Void) {
        var next = unsafe first
        while let member = unsafe next {
            unsafe body(member)
            // Safety: as above.
            unsafe next = member._withUnsafeGuaranteedRef { unsafe $0.links.next }
        }
    }
}
