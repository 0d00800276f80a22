import CPlatform

/// What an operation depends on, in order of addition. Owns its edges. Guarded by the operation's `lock`.
@safe struct DependencyList: @unchecked Sendable {
    // Safety: `@unchecked Sendable` because the lock guards the list; an edge lives as long as it is on it.
    /// Its `nextDependency` is the first: the list is a ring.
    private var last: UnsafeMutablePointer<DependencyEdge>?

    @inline(__always) var isEmpty: Bool { unsafe last == nil }

    /// The first edge.
    var first: UnsafeMutablePointer<DependencyEdge>? { unsafe last?.pointee.nextDependency }

    /// The edge after one on the list.
    func next(after edge: UnsafeMutablePointer<DependencyEdge>) -> UnsafeMutablePointer<DependencyEdge>? {
        unsafe edge == last ? nil : edge.pointee.nextDependency
    }

    func forEach(_ body: (UnsafeMutablePointer<DependencyEdge>) -> Void) {
        var next = unsafe first
        while let edge = unsafe next {
            unsafe next = self.next(after: edge)
            unsafe body(edge)
        }
    }

    mutating func append(_ edge: UnsafeMutablePointer<DependencyEdge>) {
        if let last = unsafe last {
            unsafe edge.pointee.nextDependency = last.pointee.nextDependency
            unsafe last.pointee.nextDependency = edge
        } else {
            unsafe edge.pointee.nextDependency = edge
        }
        unsafe last = edge
    }

    /// Takes the edge to `dependency` off the list; nil when there is none.
    mutating func remove(_ dependency: Operation) -> UnsafeMutablePointer<DependencyEdge>? {
        guard var previous = unsafe last else { return nil }
        var next = unsafe first
        while let edge = unsafe next {
            if unsafe edge.pointee.dependency._withUnsafeGuaranteedRef({ $0 === dependency }) {
                unsafe previous.pointee.nextDependency = edge.pointee.nextDependency
                if unsafe last == edge { unsafe last = previous == edge ? nil : previous }
                unsafe edge.pointee.nextDependency = nil
                return unsafe edge
            }
            unsafe previous = edge
            unsafe next = self.next(after: edge)
        }
        return nil
    }

    /// Lets go of everything when `operation` goes. A chain of a million is released in a loop, not by recursion: the
    /// edges of an operation that goes because of this one are queued behind.
    mutating func removeAll(of operation: Operation) {
        guard let end = unsafe last, let mine = unsafe first else { return }
        unsafe last = nil
        // No ring any more.
        unsafe end.pointee.nextDependency = nil
        unsafe detach(mine)
        // Safety: the slot is this thread's own; it holds the address of the variable `queued` below while that lives.
        if let outer = unsafe cplatform_get_thread_releases() {
            let queued = unsafe outer.assumingMemoryBound(to: UnsafeMutablePointer<DependencyEdge>?.self)
            unsafe end.pointee.nextDependency = queued.pointee
            unsafe queued.pointee = mine
            return
        }
        var queued: UnsafeMutablePointer<DependencyEdge>? = unsafe mine
        unsafe withUnsafeMutablePointer(to: &queued) { slot in
            unsafe cplatform_set_thread_releases(UnsafeMutableRawPointer(slot))
            while let edge = unsafe slot.pointee {
                unsafe slot.pointee = edge.pointee.nextDependency
                unsafe edge.pointee.dependency.release()
                unsafe DependencyEdge.free(edge)
            }
            cplatform_set_thread_releases(nil)
        }
    }

    /// Takes the edges of an operation that is going off the lists of what it depends on.
    private func detach(_ first: UnsafeMutablePointer<DependencyEdge>) {
        var next: UnsafeMutablePointer<DependencyEdge>? = unsafe first
        while let edge = unsafe next {
            unsafe next = edge.pointee.nextDependency
            unsafe edge.pointee.dependency._withUnsafeGuaranteedRef { dependency in
                dependency.dependentsLock.withLock { unsafe dependency.dependentList.remove(edge) }
            }
        }
    }
}

/// What depends on an operation, in order of addition. Guarded by the operation's `dependentsLock`.
@safe struct DependentList: @unchecked Sendable {
    // Safety: `@unchecked Sendable` because the lock guards the list; the dependents own the edges.
    /// Its `previousDependent` is the last; the last has no `nextDependent`.
    private(set) var first: UnsafeMutablePointer<DependencyEdge>?

    mutating func append(_ edge: UnsafeMutablePointer<DependencyEdge>) {
        if let first = unsafe first {
            let last = unsafe first.pointee.previousDependent
            unsafe edge.pointee.previousDependent = last
            unsafe last.unsafelyUnwrapped.pointee.nextDependent = edge
            unsafe first.pointee.previousDependent = edge
        } else {
            unsafe edge.pointee.previousDependent = edge
            unsafe first = edge
        }
    }

    mutating func remove(_ edge: UnsafeMutablePointer<DependencyEdge>) {
        let previous = unsafe edge.pointee.previousDependent
        let next = unsafe edge.pointee.nextDependent
        // The last one's successor is the first, as far as its `previousDependent` goes.
        if let behind = unsafe next ?? first { unsafe behind.pointee.previousDependent = previous }
        if unsafe first == edge { unsafe first = next } else { unsafe previous.unsafelyUnwrapped.pointee.nextDependent = next }
    }
}
