import OpPlatform

/// A block of three edges that never move. A block takes 104 bytes, a size that the allocator handles as quickly as that of an operation.
@safe struct DependencyBlock {
    // Safety: a block belongs to the dependency list of one operation. The list states who may use the block.
    static let capacity = 3

    var next: UnsafeMutablePointer<DependencyBlock>?
    // The edges follow the block in memory.

    static func make(for dependent: Operation) -> UnsafeMutablePointer<DependencyBlock> {
        let size = MemoryLayout<DependencyBlock>.size + capacity * MemoryLayout<DependencyEdge>.stride
        let block = unsafe Memory.allocate(size).bindMemory(to: DependencyBlock.self, capacity: 1)
        unsafe block.initialize(to: DependencyBlock())
        for index in 0..<capacity { unsafe block.edge(index).initialize(to: DependencyEdge(from: dependent)) }
        return unsafe block
    }
}

extension UnsafeMutablePointer<DependencyBlock> {
    @inline(__always)
    func edge(_ index: Int) -> UnsafeMutablePointer<DependencyEdge> {
        unsafe UnsafeMutableRawPointer(self + 1).assumingMemoryBound(to: DependencyEdge.self) + index
    }

    @inline(__always) func has(_ edge: UnsafeMutablePointer<DependencyEdge>) -> Bool {
        unsafe edge >= self.edge(0) && edge < self.edge(DependencyBlock.capacity)
    }

    @inline(__always) var isFree: Bool { unsafe edge(0).pointee.isFree && edge(1).pointee.isFree && edge(2).pointee.isFree }

    /// The first slot after the last used one, or nil if the last slot is used. The second slot of an empty block.
    @inline(__always) var freeSlot: UnsafeMutablePointer<DependencyEdge>? {
        unsafe !edge(2).pointee.isFree ? nil : edge(1).pointee.isFree ? edge(1) : edge(2)
    }

    func free() { unsafe Memory.free(self) }
}
