import Synchronization

/// The edges of those that count an operation as unfinished, in order of addition. Guarded by the operation's `dependentsLock`.
///
/// The operation takes all edges off when it has finished, and nobody joins after that. Earlier an edge is taken off when its dependent
/// goes, ends, or removes the dependency.
@safe struct DependentList: @unchecked Sendable {
    // Safety: `@unchecked Sendable` because the lock guards the list; the dependents own the edges.
    /// Its `previousDependent` is the last; the last has no `nextDependent`.
    private(set) var first: UnsafeMutablePointer<DependencyEdge>?

    mutating func append(_ edge: UnsafeMutablePointer<DependencyEdge>) {
        if let first = unsafe first {
            let last = unsafe first.pointee.before
            unsafe edge.pointee.before = last
            unsafe last.unsafelyUnwrapped.pointee.nextDependent = edge
            unsafe first.pointee.before = edge
        } else {
            unsafe edge.pointee.before = edge
            unsafe first = edge
        }
        unsafe edge.pointee.nextDependent = nil
    }

    /// Takes an edge off its dependency's list; locks that. False: it was off.
    @discardableResult
    static func remove(_ edge: UnsafeMutablePointer<DependencyEdge>) -> Bool {
        // Safety: the caller guards the edge, which retains the dependency.
        unsafe edge.pointee.dependency.unsafelyUnwrapped._withUnsafeGuaranteedRef { dependency in
            dependency.dependentsLock.withLock {
                guard unsafe edge.pointee.isCounted else { return false }
                unsafe dependency.dependentList.remove(edge)
                return true
            }
        }
    }

    private mutating func remove(_ edge: UnsafeMutablePointer<DependencyEdge>) {
        let previous = unsafe edge.pointee.before
        let next = unsafe edge.pointee.nextDependent
        // The last one's successor is the first, as far as its `previousDependent` goes.
        if let behind = unsafe next ?? first { unsafe behind.pointee.before = previous }
        if unsafe first == edge { unsafe first = next } else { unsafe previous.unsafelyUnwrapped.pointee.nextDependent = next }
        unsafe edge.pointee.before = nil
    }

    /// Takes the first edge off, of an operation that has finished. The caller has done with it and, if it has not retained that, with its
    /// dependent: who sees the edge off needs no lock, so both may go at this moment.
    @inline(__always)
    mutating func removeFirst() {
        guard let edge = unsafe first else { return }
        unsafe first = edge.pointee.nextDependent
        if let first = unsafe first { unsafe first.pointee.before = edge.pointee.before }
        unsafe edge.pointee.before = nil
    }
}

extension DependencyEdge {
    /// `previousDependent` for who holds the lock. Nil is seen by others.
    @inline(__always)
    fileprivate var before: UnsafeMutablePointer<DependencyEdge>? {
        get { unsafe previousDependent.load(ordering: .relaxed)?.assumingMemoryBound(to: DependencyEdge.self) }
        nonmutating set { unsafe previousDependent.store(UnsafeMutableRawPointer(newValue), ordering: .releasing) }
    }
}
