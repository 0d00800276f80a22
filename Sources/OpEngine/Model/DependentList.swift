import OpPlatform
import Synchronization

/// The edges of the dependents that count an operation as unfinished, in order of addition. Guarded by the operation's `dependentsLock`.
///
/// The operation removes all edges when it has finished, and none is added afterwards. An edge is removed earlier if its dependent is
/// deallocated, finishes, or removes the dependency.
@safe struct DependentList: @unchecked Sendable {
    // Safety: `@unchecked Sendable` because the operation's `dependentsLock` guards the list. The dependents own the edges.
    /// The first edge. Its `previousDependent` is the last edge; the last edge has no `nextDependent`.
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

    /// Takes the dependency's lock, and removes an edge from the dependency's list. Returns false if the edge was not on the list.
    @discardableResult
    static func remove(_ edge: UnsafeMutablePointer<DependencyEdge>) -> Bool {
        // Safety: the caller guards the edge, and the edge retains the dependency.
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
        // The first edge's `previousDependent` points to the last edge, so it counts as the successor of the last one.
        if let behind = unsafe next ?? first { unsafe behind.pointee.before = previous }
        if unsafe first == edge { unsafe first = next } else { unsafe previous.unsafelyUnwrapped.pointee.nextDependent = next }
        unsafe edge.pointee.before = nil
    }

    /// Removes the first edge. The operation has finished.
    ///
    /// The caller must not touch the edge afterwards, nor the dependent unless it has retained it. A thread that sees the edge removed
    /// needs no lock, so both may be deallocated immediately.
    @inline(__always)
    mutating func removeFirst() {
        guard let edge = unsafe first else { return }
        unsafe first = edge.pointee.nextDependent
        if let first = unsafe first { unsafe first.pointee.before = edge.pointee.before }
        unsafe edge.pointee.before = nil
    }
}

extension DependencyEdge {
    /// `previousDependent`, for callers that hold the lock. Other threads only test it for nil.
    @inline(__always)
    fileprivate var before: UnsafeMutablePointer<DependencyEdge>? {
        get { unsafe previousDependent.load(ordering: .relaxed)?.assumingMemoryBound(to: DependencyEdge.self) }
        nonmutating set { unsafe previousDependent.store(UnsafeMutableRawPointer(newValue), ordering: .releasing) }
    }
}
