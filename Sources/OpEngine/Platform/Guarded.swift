/// A value and the lock that guards it. The closure returns the decision; its effects happen after the lock is released.
@safe package struct Guarded<Value>: ~Copyable, @unchecked Sendable {
    // Safety: `@unchecked Sendable` because the value is reached only with the lock held.
    @usableFromInline let mutex = Lock()
    /// In memory of its own, so that an access costs no exclusivity check.
    @usableFromInline let storage: UnsafeMutablePointer<Value>

    @inlinable package init(_ initial: consuming Value) {
        // Safety: allocated and initialised here, freed in `deinit`.
        unsafe storage = UnsafeMutablePointer.allocate(capacity: 1)
        unsafe storage.initialize(to: initial)
    }

    @inlinable deinit {
        // Safety: the last owner is going; see `init`.
        unsafe storage.deinitialize(count: 1)
        unsafe storage.deallocate()
    }

    /// For a path where `withLock` would cost, because what its closure returns is moved. The value may be used until `unlock`.
    @inline(__always)
    func lock() -> UnsafeMutablePointer<Value> {
        mutex.lock()
        return unsafe storage
    }

    @inline(__always)
    func unlock() { mutex.unlock() }

    @inlinable @inline(__always)
    package func withLock<Result: ~Copyable>(_ body: (inout Value) -> Result) -> Result {
        mutex.lock()
        defer { mutex.unlock() }
        // Safety: the lock is held.
        return unsafe body(&storage.pointee)
    }
}
