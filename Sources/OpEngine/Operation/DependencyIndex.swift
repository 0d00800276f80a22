/// Where an operation with many dependencies has each of them on its list. Guarded by the operation's `lock`.
@safe struct DependencyIndex {
    // Safety: the list has the edges for as long as they are here.

    /// So many dependencies are looked through; more get an index.
    static let fewest = 32

    var edges: [ObjectIdentifier: UnsafeMutablePointer<DependencyEdge>] = unsafe [:]
    /// Since the list's empty blocks were given back.
    private var removed = 0

    init(of list: DependencyList) {
        var all = list.makeIterator()
        while let edge = unsafe all.next() {
            if let dependency = unsafe edge.pointee.dependency {
                unsafe edges[ObjectIdentifier(dependency.takeUnretainedValue())] = edge
            }
        }
    }

    /// True: the empty blocks of the list are to be given back, since as many dependencies have been removed as are left. So a removal costs
    /// O(1) on average.
    mutating func remove(_ dependency: Operation) -> Bool {
        unsafe edges[ObjectIdentifier(dependency)] = nil
        removed += 1
        guard unsafe removed >= edges.count else { return false }
        removed = 0
        return true
    }
}
