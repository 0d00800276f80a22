import CPlatform

/// What an operation depends on, in order of addition. Owns its edges. Guarded by the operation's `lock`.
@safe struct DependencyList: @unchecked Sendable {
    // Safety: `@unchecked Sendable` because the lock guards the list; an edge lives as long as its block is on it.
    /// Its `next` is the first: the list is a ring. None of the blocks is free, unless there is a `DependencyIndex`.
    private var last: UnsafeMutablePointer<DependencyBlock>?

    @inline(__always) var isEmpty: Bool { unsafe last == nil }

    /// Goes through the edges, in order.
    @safe struct Iterator {
        // Safety: the list does not change meanwhile.
        private let last: UnsafeMutablePointer<DependencyBlock>?
        private var block: UnsafeMutablePointer<DependencyBlock>?
        private var index = 0

        fileprivate init(last: UnsafeMutablePointer<DependencyBlock>?) {
            unsafe self.last = last
            unsafe block = last?.pointee.next
        }

        mutating func next() -> UnsafeMutablePointer<DependencyEdge>? {
            while let block = unsafe block {
                let edge = unsafe block.edge(index)
                index += 1
                if index == DependencyBlock.capacity {
                    index = 0
                    unsafe self.block = block == last ? nil : block.pointee.next
                }
                if unsafe !edge.pointee.isFree { return unsafe edge }
            }
            return nil
        }
    }

    func makeIterator() -> Iterator { unsafe Iterator(last: last) }

    /// Adds an edge from `operation`, whose list this is, to `dependency`, which it retains.
    @inline(__always)
    mutating func append(_ dependency: Operation, of operation: Operation) -> UnsafeMutablePointer<DependencyEdge> {
        let edge = unsafe last?.freeSlot ?? appendBlock(of: operation)
        unsafe edge.pointee.dependency = .passRetained(dependency)
        return unsafe edge
    }

    private mutating func appendBlock(of operation: Operation) -> UnsafeMutablePointer<DependencyEdge> {
        let block = unsafe DependencyBlock.make(for: operation)
        unsafe block.pointee.next = last?.pointee.next ?? block
        unsafe last?.pointee.next = block
        unsafe last = block
        return unsafe block.edge(0)
    }

    /// Takes off an edge that is not counted. Its dependency is released by the caller. Costs as much as finding it from the first on.
    mutating func remove(_ edge: UnsafeMutablePointer<DependencyEdge>) {
        unsafe edge.pointee.dependency = nil
        // The block goes with its last edge.
        guard var previous = unsafe last else { return }
        repeat {
            guard let block = unsafe previous.pointee.next else { return }
            guard unsafe block.has(edge) else {
                unsafe previous = block
                continue
            }
            if unsafe block.isFree {
                unsafe previous.pointee.next = block.pointee.next
                if unsafe last == block { unsafe last = previous == block ? nil : previous }
                unsafe block.free()
            }
            return
        } while unsafe previous != last
    }

    /// Gives the blocks back whose edges have all been taken off. O(n).
    mutating func freeEmptyBlocks() {
        guard let end = unsafe last else { return }
        var previous = unsafe end
        var kept: UnsafeMutablePointer<DependencyBlock>?
        while let block = unsafe previous.pointee.next {
            if unsafe block.isFree {
                unsafe previous.pointee.next = block.pointee.next
                unsafe block.free()
            } else {
                unsafe previous = block
                unsafe kept = block
            }
            if unsafe block == end { break }
        }
        unsafe last = kept
    }

    /// Lets go of everything when the operation goes. A chain of a million is released in a loop, not by recursion: the blocks of an
    /// operation that goes because of this one are queued behind.
    mutating func removeAll() {
        guard let end = unsafe last, let mine = unsafe end.pointee.next else { return }
        var edges = makeIterator()
        while let edge = unsafe edges.next() {
            if unsafe edge.pointee.isCounted { unsafe DependentList.remove(edge) }
        }
        unsafe last = nil
        // No ring any more.
        unsafe end.pointee.next = nil
        // Safety: the slot is this thread's own; it holds the address of the variable `releaseQueue` below while that lives.
        if let outer = unsafe cplatform_get_thread_releases() {
            unsafe outer.assumingMemoryBound(to: ReleaseQueue.self).pointee.append(mine, end)
            return
        }
        var releaseQueue = ReleaseQueue()
        unsafe releaseQueue.append(mine, end)
        unsafe withUnsafeMutablePointer(to: &releaseQueue) { slot in
            unsafe cplatform_set_thread_releases(UnsafeMutableRawPointer(slot))
            while let block = unsafe slot.pointee.popFirst() {
                for index in 0..<DependencyBlock.capacity { unsafe block.edge(index).pointee.dependency?.release() }
                unsafe block.free()
            }
            cplatform_set_thread_releases(nil)
        }
    }
}

/// The blocks of operations that have gone. First in, first out: operations that were made one after the other go one after the other, and
/// their memory is read in that order.
@safe private struct ReleaseQueue {
    // Safety: a thread's own.
    private var first: UnsafeMutablePointer<DependencyBlock>?
    private var last: UnsafeMutablePointer<DependencyBlock>?

    /// Adds linked blocks, from `first` to `last`.
    @inline(__always)
    mutating func append(_ first: UnsafeMutablePointer<DependencyBlock>, _ last: UnsafeMutablePointer<DependencyBlock>) {
        if let end = unsafe self.last { unsafe end.pointee.next = first } else { unsafe self.first = first }
        unsafe self.last = last
    }

    @inline(__always)
    mutating func popFirst() -> UnsafeMutablePointer<DependencyBlock>? {
        guard let block = unsafe first else { return nil }
        unsafe first = block.pointee.next
        if unsafe first == nil { unsafe last = nil }
        return unsafe block
    }
}
