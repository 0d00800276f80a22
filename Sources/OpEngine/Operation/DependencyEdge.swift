import Glibc

/// One dependency: on the list of the operation that waits and on the list of the one it waits for.
@safe struct DependencyEdge {
    // Safety: the dependent owns its edges; it takes itself off the dependency's list before it goes.
    unowned(unsafe) let dependent: Operation
    /// Retained by the edge.
    let dependency: Unmanaged<Operation>
    /// Whether the dependent counts it as unfinished. Guarded by the dependency's `dependentsLock`.
    var isCounted = true
    /// Guarded by the dependent's `lock`.
    var nextDependency: UnsafeMutablePointer<DependencyEdge>?
    /// Guarded by the dependency's `dependentsLock`.
    var previousDependent: UnsafeMutablePointer<DependencyEdge>?
    /// Guarded by the dependency's `dependentsLock`.
    var nextDependent: UnsafeMutablePointer<DependencyEdge>?

    /// In memory from `malloc`: `UnsafeMutablePointer.allocate` asks for aligned memory, which takes three times as long.
    static func make(dependent: Operation, dependency: Unmanaged<Operation>) -> UnsafeMutablePointer<DependencyEdge> {
        guard let memory = unsafe malloc(MemoryLayout<DependencyEdge>.size) else { fatalError("opscript: out of memory") }
        let edge = unsafe memory.bindMemory(to: DependencyEdge.self, capacity: 1)
        unsafe edge.initialize(to: DependencyEdge(dependent: dependent, dependency: dependency))
        return unsafe edge
    }

    /// Its dependency is released by the caller.
    static func free(_ edge: UnsafeMutablePointer<DependencyEdge>) { unsafe Glibc.free(edge) }
}
