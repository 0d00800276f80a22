import CPlatform

/// What an operation depends on, in order of addition. Owns its edges. Guarded by the operation's `lock`.
@safe struct DependencyList: @unchecked Sendable {
    // Safety: `@unchecked Sendable` because the lock guards the list; an edge lives as long as it is on it.
    private(set) var first: UnsafeMutablePointer<DependencyEdge>?
    private var last: UnsafeMutablePointer<DependencyEdge>?
    private(set) var count = 0

    @inline(__always) var isEmpty: Bool { unsafe first == nil }

    func forEach(_ body: (UnsafeMutablePointer<DependencyEdge>) -> Void) {
        var next = unsafe first
        while let edge = unsafe next {
            unsafe next = edge.pointee.nextDependency
            unsafe body(edge)
        }
    }

    mutating func append(_ edge: UnsafeMutablePointer<DependencyEdge>) {
        if let last = unsafe last { unsafe last.pointee.nextDependency = edge } else { unsafe first = edge }
        unsafe last = edge
        count += 1
    }

    /// Takes the edge to `dependency` off the list; nil when there is none.
    mutating func remove(_ dependency: Operation) -> UnsafeMutablePointer<DependencyEdge>? {
        var previous: UnsafeMutablePointer<DependencyEdge>?
        var next = unsafe first
        while let edge = unsafe next {
            if unsafe edge.pointee.dependency._withUnsafeGuaranteedRef({ $0 === dependency }) {
                if let previous = unsafe previous {
                    unsafe previous.pointee.nextDependency = edge.pointee.nextDependency
                } else {
                    unsafe first = edge.pointee.nextDependency
                }
                if unsafe last == edge { unsafe last = previous }
                unsafe edge.pointee.nextDependency = nil
                count -= 1
                return unsafe edge
            }
            unsafe previous = edge
            unsafe next = edge.pointee.nextDependency
        }
        return nil
    }

    /// Lets go of everything when `operation` goes. A chain of a million is released in a loop, not by recursion: the
    /// edges of an operation that goes because of this one are queued behind.
    mutating func removeAll(of operation: Operation) {
        guard let mine = unsafe first else { return }
        unsafe first = nil
        // Safety: the slot is this thread's own; it holds the address of the variable `queued` below while that lives.
        if let outer = unsafe cplatform_get_thread_releases() {
            let queued = unsafe outer.assumingMemoryBound(to: UnsafeMutablePointer<DependencyEdge>?.self)
            unsafe detach(mine)
            unsafe last.unsafelyUnwrapped.pointee.nextDependency = queued.pointee
            unsafe queued.pointee = mine
            return
        }
        unsafe detach(mine)
        var queued: UnsafeMutablePointer<DependencyEdge>? = unsafe mine
        unsafe withUnsafeMutablePointer(to: &queued) { slot in
            unsafe cplatform_set_thread_releases(UnsafeMutableRawPointer(slot))
            while let edge = unsafe slot.pointee {
                unsafe slot.pointee = edge.pointee.nextDependency
                unsafe edge.pointee.dependency.release()
                unsafe edge.deallocate()
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
    private(set) var first: UnsafeMutablePointer<DependencyEdge>?
    private var last: UnsafeMutablePointer<DependencyEdge>?
    private(set) var count = 0

    mutating func append(_ edge: UnsafeMutablePointer<DependencyEdge>) {
        unsafe edge.pointee.previousDependent = last
        if let last = unsafe last { unsafe last.pointee.nextDependent = edge } else { unsafe first = edge }
        unsafe last = edge
        count += 1
    }

    mutating func remove(_ edge: UnsafeMutablePointer<DependencyEdge>) {
        let previous = unsafe edge.pointee.previousDependent
        let next = unsafe edge.pointee.nextDependent
        if let previous = unsafe previous { unsafe previous.pointee.nextDependent = next } else { unsafe first = next }
        if let next = unsafe next { unsafe next.pointee.previousDependent = previous } else { unsafe last = previous }
        count -= 1
    }

    func contains(_ dependent: Operation) -> Bool {
        var next = unsafe first
        while let edge = unsafe next {
            if unsafe edge.pointee.dependent === dependent { return true }
            unsafe next = edge.pointee.nextDependent
        }
        return false
    }
}
