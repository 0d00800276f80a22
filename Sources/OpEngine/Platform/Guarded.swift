/// A value and the lock that guards it. The closure returns the decision; its effects happen after the lock is released.
@safe struct Guarded<Value>: ~Copyable, @unchecked Sendable {
    // Safety: `@unchecked Sendable` because `value` is reached only in `withLock`.
    private let lock = Lock()
    /// In memory of its own, so that an access costs no exclusivity check.
    private let value: UnsafeMutablePointer<Value>

    init(_ initial: consuming Value) {
        // Safety: allocated and initialised here, freed in `deinit`.
        unsafe value = UnsafeMutablePointer.allocate(capacity: 1)
        unsafe value.initialize(to: initial)
    }

    deinit {
        // Safety: the last owner is going; see `init`.
        unsafe value.deinitialize(count: 1)
        unsafe value.deallocate()
    }

    @inline(__always)
    func withLock<Result: ~Copyable>(_ body: (inout Value) -> Result) -> Result {
        lock.lock()
        defer { lock.unlock() }
        // Safety: the lock is held.
        return unsafe body(&value.pointee)
    }
}
