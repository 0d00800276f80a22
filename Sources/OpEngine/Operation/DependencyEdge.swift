import CPlatform
import Synchronization

/// One dependency, in a block of the operation that waits; while that counts it as unfinished, on the list of the one it waits for.
@safe struct DependencyEdge: ~Copyable {
    // Safety: the dependent owns its edges; its memory is there while one is on the dependency's list, also when its end has begun.
    let dependent: Unmanaged<Operation>
    /// Retained; nil: the queuePosition in the block is free. Guarded by the dependent's `lock`.
    var dependency: Unmanaged<Operation>?
    /// Written with the dependency's `dependentsLock` held. See `DependentList`.
    let previousDependent = unsafe Atomic<UnsafeMutableRawPointer?>(nil)
    /// Guarded by the dependency's `dependentsLock`.
    var nextDependent: UnsafeMutablePointer<DependencyEdge>?

    /// A free queuePosition.
    init(from dependent: Operation) { unsafe self.dependent = .passUnretained(dependent) }

    /// Whether the dependent counts it as unfinished, that is, whether it is on the dependency's list.
    ///
    /// True may be out of date, unless the dependency's `dependentsLock` is held. False needs no lock: whoever took the edge off the list
    /// has done with it, and with the dependent; and only the dependent can put it on a list again.
    @inline(__always) var isCounted: Bool { unsafe previousDependent.load(ordering: .acquiring) != nil }

    @inline(__always) var isFree: Bool { unsafe dependency == nil }

    /// The dependent, retained for the caller; nil when its end has begun. With the dependency's `dependentsLock` held.
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
