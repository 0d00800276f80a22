@_spi(Locking) import OpEngine

/// The operations whose completion blocks one state has set and not run yet, and that have finished or are about to: a wait of that state
/// looks at no others.
///
/// An object of its own, so that whoever finishes an operation takes no memory from the thread that works with the state.
@safe final class DueOperations: Sendable {
    /// Nil when the state has been closed.
    // Safety: one that is about to finish is kept by who finishes it, and then by the job that removes it here.
    private let operations = unsafe Guarded<Slots<Unmanaged<LuaOperation>>?>(Slots())

    /// Returns where it is; nil when the state has been closed.
    func insert(_ operation: LuaOperation) -> Int? {
        unsafe operations.withLock { unsafe $0?.insert(Unmanaged.passUnretained(operation)) }
    }

    /// Its completion block has run, or will not.
    func remove(at place: Int) { unsafe operations.withLock { unsafe $0?.remove(at: place) } }

    var isEmpty: Bool { unsafe operations.withLock { unsafe $0?.isEmpty ?? true } }

    /// Those that have finished. On the thread of the state.
    var finished: [LuaOperation] {
        let all = unsafe operations.withLock { unsafe $0?.all.map { unsafe $0.takeUnretainedValue() } ?? [] }
        return all.filter(\.isFinished)
    }

    func close() { unsafe operations.withLock { unsafe $0 = nil } }
}
