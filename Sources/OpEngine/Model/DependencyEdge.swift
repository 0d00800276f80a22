import CPlatform
import Synchronization

/// One dependency, stored in a block of the dependent. As long as the dependent counts it as unfinished, the edge is also on the
/// dependency's list of dependents.
@safe struct DependencyEdge: ~Copyable {
    // Safety: the dependent owns its edges. Its memory stays valid while one of them is on a dependency's list, even while it is being
    // deallocated.
    let dependent: Unmanaged<Operation>
    /// The dependency, retained. Nil if the slot is free. Guarded by the dependent's `lock`.
    var dependency: Unmanaged<Operation>?
    /// The previous edge on the dependency's list. Written with the dependency's `dependentsLock` held. See `DependentList`.
    let previousDependent = unsafe Atomic<UnsafeMutableRawPointer?>(nil)
    /// The next edge on the dependency's list. Guarded by the dependency's `dependentsLock`.
    var nextDependent: UnsafeMutablePointer<DependencyEdge>?

    init(from dependent: Operation) { unsafe self.dependent = .passUnretained(dependent) }

    /// Whether the dependent counts the dependency as unfinished, that is, whether the edge is on the dependency's list.
    ///
    /// True may be out of date unless the caller holds the dependency's `dependentsLock`. False is reliable without a lock: the thread that
    /// removed the edge no longer touches the edge or the dependent, and only the dependent can put the edge on a list again.
    @inline(__always) var isCounted: Bool { unsafe previousDependent.load(ordering: .acquiring) != nil }

    @inline(__always) var isFree: Bool { unsafe dependency == nil }

    /// Retains and returns the dependent, or returns nil if it is being deallocated. The caller holds the dependency's `dependentsLock`.
    @inline(__always)
    func retainDependent() -> Unmanaged<Operation>? {
        unsafe cplatform_try_retain(dependent.toOpaque()) ? dependent : nil
    }

    @inline(__always)
    func comes(from operation: Operation) -> Bool {
        unsafe dependent.toOpaque() == Unmanaged.passUnretained(operation).toOpaque()
    }

    @inline(__always)
    func leads(to operation: Operation) -> Bool {
        unsafe dependency?.toOpaque() == Unmanaged.passUnretained(operation).toOpaque()
    }
}
