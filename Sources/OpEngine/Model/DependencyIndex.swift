/// Maps the dependencies of an operation to their edges. Only long lists have an index. Guarded by the operation's `lock`.
@safe struct DependencyIndex {
    // Safety: an edge stays on the list as long as the index contains it.

    /// The length from which a list gets an index. Shorter lists are searched linearly.
    static let fewest = 32

    var edges: [ObjectIdentifier: UnsafeMutablePointer<DependencyEdge>] = unsafe [:]
    /// The number of removals since the list's empty blocks were freed.
    private var removed = 0

    init(of list: DependencyList) {
        var all = list.makeIterator()
        while let edge = unsafe all.next() {
            if let dependency = unsafe edge.pointee.dependency {
                unsafe edges[ObjectIdentifier(dependency.takeUnretainedValue())] = edge
            }
        }
    }

    /// Removes a dependency from the index. Returns true if the list's empty blocks should be freed, which is when as many dependencies
    /// have been removed as are left. This makes a removal O(1) amortized.
    mutating func remove(_ dependency: Operation) -> Bool {
        unsafe edges[ObjectIdentifier(dependency)] = nil
        removed += 1
        guard unsafe removed >= edges.count else { return false }
        removed = 0
        return true
    }
}
