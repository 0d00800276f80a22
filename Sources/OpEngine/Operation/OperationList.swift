/// The links of one list in an operation.
@safe struct OperationLinks {
    // Safety: whoever is on a list is kept alive by the queue that owns the list.
    nonisolated(unsafe) var previous: Unmanaged<Operation>?
    nonisolated(unsafe) var next: Unmanaged<Operation>?
}

/// Says which of an operation's links a list uses.
protocol OperationLinkField {
    static func links(of operation: Operation) -> OperationLinks
    static func setPrevious(of operation: Operation, to other: Unmanaged<Operation>?)
    static func setNext(of operation: Operation, to other: Unmanaged<Operation>?)
}

/// The list of all operations of a queue.
enum MemberField: OperationLinkField {
    @inline(__always) static func links(of operation: Operation) -> OperationLinks { operation.memberLinks }
    @inline(__always) static func setPrevious(of operation: Operation, to other: Unmanaged<Operation>?) {
        // Safety: the queue's lock is held.
        unsafe operation.memberLinks.previous = other
    }
    @inline(__always) static func setNext(of operation: Operation, to other: Unmanaged<Operation>?) {
        // Safety: the queue's lock is held.
        unsafe operation.memberLinks.next = other
    }
}

/// A ready list.
enum ReadyField: OperationLinkField {
    @inline(__always) static func links(of operation: Operation) -> OperationLinks { operation.readyLinks }
    @inline(__always) static func setPrevious(of operation: Operation, to other: Unmanaged<Operation>?) {
        // Safety: the queue's lock is held.
        unsafe operation.readyLinks.previous = other
    }
    @inline(__always) static func setNext(of operation: Operation, to other: Unmanaged<Operation>?) {
        // Safety: the queue's lock is held.
        unsafe operation.readyLinks.next = other
    }
}

/// A doubly linked list through the operations themselves: no memory, constant time. Does not own its members.
///
/// The first one's `previous` means nothing, so that who takes that off does not touch the one behind, which is in the cache of the
/// thread that added it.
@safe struct OperationList<Field: OperationLinkField> {
    // Safety: see `OperationLinks`.
    private(set) nonisolated(unsafe) var first: Unmanaged<Operation>?
    private nonisolated(unsafe) var last: Unmanaged<Operation>?

    @inline(__always) var isEmpty: Bool { unsafe first == nil }

    @inline(__always)
    mutating func append(_ operation: Operation) {
        // Safety: the members are alive; the queue's lock is held.
        let member = unsafe Unmanaged.passUnretained(operation)
        unsafe Field.setPrevious(of: operation, to: last)
        unsafe Field.setNext(of: operation, to: nil)
        if let last = unsafe last {
            unsafe last._withUnsafeGuaranteedRef { unsafe Field.setNext(of: $0, to: member) }
        } else {
            unsafe first = member
        }
        unsafe last = member
    }

    @inline(__always)
    mutating func remove(_ operation: Operation) {
        // Safety: as above.
        if unsafe first?.toOpaque() == Unmanaged.passUnretained(operation).toOpaque() {
            unsafe _ = popFirst()
            return
        }
        let links = Field.links(of: operation)
        // Safety: it is not the first.
        let previous = unsafe links.previous.unsafelyUnwrapped
        unsafe previous._withUnsafeGuaranteedRef { unsafe Field.setNext(of: $0, to: links.next) }
        if let next = unsafe links.next {
            unsafe next._withUnsafeGuaranteedRef { unsafe Field.setPrevious(of: $0, to: previous) }
        } else {
            unsafe last = previous
        }
    }

    @inline(__always)
    mutating func popFirst() -> Unmanaged<Operation>? {
        guard let popped = unsafe first else { return nil }
        // Safety: as above.
        unsafe first = popped._withUnsafeGuaranteedRef { unsafe Field.links(of: $0).next }
        if unsafe first == nil { unsafe last = nil }
        return unsafe popped
    }

    /// In order. `body` must not change the list.
    func forEach(_ body: (Operation) -> Void) {
        var next = unsafe first
        while let member = unsafe next {
            // Safety: as above.
            let operation = unsafe member.takeUnretainedValue()
            body(operation)
            unsafe next = Field.links(of: operation).next
        }
    }
}
