import CPlatform

/// The dependencies of an operation in order of addition. Owns the edges. Guarded by the operation's `lock`.
@safe struct DependencyList: @unchecked Sendable {
    // Safety: `@unchecked Sendable` because the operation's lock guards the list. An edge lives as long as its block is on the list.
    /// The last block. The list is a ring, so `next` of the last block is the first one. No block is empty unless the operation has a
    /// `DependencyIndex`.
    private var last: UnsafeMutablePointer<DependencyBlock>?

    @inline(__always) var isEmpty: Bool { unsafe last == nil }

    /// Iterates over the edges in order.
    @safe struct Iterator {
        // Safety: the list must not change during the iteration.
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

    /// Appends an edge from `operation`, the owner of this list, to `dependency`. Retains the dependency.
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

    /// Removes an edge that is not counted. The caller releases the dependency. O(n).
    mutating func remove(_ edge: UnsafeMutablePointer<DependencyEdge>) {
        unsafe edge.pointee.dependency = nil
        // Free the block if this was its last edge.
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

    /// Frees the blocks that have no edges left. O(n).
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

    /// Removes all edges when the operation is deallocated.
    ///
    /// Releasing a dependency may deallocate it, which calls this method again. The nested call only queues its blocks, and the outermost call
    /// releases them in a loop. A chain of a million operations is therefore deallocated without deep recursion.
    mutating func removeAll() {
        guard let end = unsafe last, let mine = unsafe end.pointee.next else { return }
        var edges = makeIterator()
        while let edge = unsafe edges.next() {
            if unsafe edge.pointee.isCounted { unsafe DependentList.remove(edge) }
        }
        unsafe last = nil
        // Open the ring.
        unsafe end.pointee.next = nil
        // Safety: the slot is thread-local. It is nil or holds the address of an outer call's `releaseQueue`, which is still on this stack.
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

/// The blocks of deallocated operations, in first-in, first-out order. Operations that were created one after the other are deallocated in
/// the same order, so memory is read sequentially.
@safe private struct ReleaseQueue {
    // Safety: the queue is a local variable of one thread.
    private var first: UnsafeMutablePointer<DependencyBlock>?
    private var last: UnsafeMutablePointer<DependencyBlock>?

    /// Appends a chain of linked blocks from `first` to `last`.
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
