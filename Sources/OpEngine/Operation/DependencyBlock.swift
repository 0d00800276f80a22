import Glibc

/// Three edges, which stay where they are: 104 bytes, which the allocator gives out and takes back as quickly as an operation.
@safe struct DependencyBlock {
    // Safety: a block belongs to the list of one operation, which says who may use it.
    static let capacity = 3

    /// The next one of the list.
    var next: UnsafeMutablePointer<DependencyBlock>?
    // The edges are behind it in memory.

    /// Without dependencies. In memory from `malloc`: `UnsafeMutablePointer.allocate` asks for aligned memory, which takes three times as
    /// long.
    static func make(for dependent: Operation) -> UnsafeMutablePointer<DependencyBlock> {
        let size = MemoryLayout<DependencyBlock>.size + capacity * MemoryLayout<DependencyEdge>.stride
        guard let memory = unsafe malloc(size) else { fatalError("opscript: out of memory") }
        let block = unsafe memory.bindMemory(to: DependencyBlock.self, capacity: 1)
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

    /// The queuePosition behind all that are taken; nil when there is none. The block is not free.
    @inline(__always) var freeSlot: UnsafeMutablePointer<DependencyEdge>? {
        unsafe !edge(2).pointee.isFree ? nil : edge(1).pointee.isFree ? edge(1) : edge(2)
    }

    func free() { unsafe Glibc.free(self) }
}
