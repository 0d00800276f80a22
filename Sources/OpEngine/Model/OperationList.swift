/// The links of an operation in its queue's list. An operation is on at most one list.
@safe struct OperationLinks {
    // Safety: the queue that owns the list keeps every member alive.
    nonisolated(unsafe) var previous: Unmanaged<Operation>?
    nonisolated(unsafe) var next: Unmanaged<Operation>?
}

/// A doubly linked list that runs through the operations themselves, with the most recently added first. Needs no memory of its own, and
/// every change takes constant time. Does not retain its members.
@safe struct OperationList {
    // Safety: see `OperationLinks`.
    private nonisolated(unsafe) var first: Unmanaged<Operation>?

    @inline(__always)
    mutating func append(_ operation: Operation) {
        // Safety: the members are alive, and the caller holds the queue's lock.
        let member = unsafe Unmanaged.passUnretained(operation)
        unsafe operation.links.previous = nil
        unsafe operation.links.next = first
        if let first = unsafe first { unsafe first._withUnsafeGuaranteedRef { unsafe $0.links.previous = member } }
        unsafe first = member
    }

    @inline(__always)
    mutating func remove(_ operation: Operation) {
        let links = operation.links
        // Safety: the members are alive, and the caller holds the queue's lock.
        if let previous = unsafe links.previous {
            unsafe previous._withUnsafeGuaranteedRef { unsafe $0.links.next = links.next }
        } else {
            unsafe first = links.next
        }
        if let next = unsafe links.next { unsafe next._withUnsafeGuaranteedRef { unsafe $0.links.previous = links.previous } }
    }

    /// Calls `body` for each member in list order. `body` must not change the list.
    func forEach(_ body: (Unmanaged<Operation>) -> Void) { unsafe OperationList.forEach(from: first, body) }

    /// Calls `body` for `first` and all members after it.
    static func forEach(from first: Unmanaged<Operation>?, _ body: (Unmanaged<Operation>) -> Void) {
        var next = unsafe first
        while let member = unsafe next {
            unsafe body(member)
            // Safety: the members are alive, and the caller holds the queue's lock.
            unsafe next = member._withUnsafeGuaranteedRef { unsafe $0.links.next }
        }
    }
}
