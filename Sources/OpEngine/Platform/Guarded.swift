/// A value and the lock that guards it. The closure returns the decision; its effects happen after the lock is released.
///
/// Public in an SPI instead of `package`: only then do other modules compile it for the values that they guard. Else the runtime would
/// look for those types when a process starts, and call everything by tables.
@_spi(Locking) @safe public struct Guarded<Value>: ~Copyable, @unchecked Sendable {
    // Safety: `@unchecked Sendable` because the value is reached only with the lock held.

    // The two lie together in memory of their own: who has taken the lock has the beginning of the value, too, and an access costs no
    // exclusivity check.
    @usableFromInline let lockStorage: UnsafeMutablePointer<Lock>
    @usableFromInline let valueStorage: UnsafeMutablePointer<Value>

    /// Where the value begins.
    @usableFromInline static var offset: Int { max(8, MemoryLayout<Value>.alignment) }

    /// - Parameter alignment: of the lock; the value follows in the same line of memory, if that is so great.
    @inlinable public init(_ initial: consuming Value, alignment: Int = 16) {
        // Safety: allocated and initialised here, freed in `deinit`.
        let block = UnsafeMutableRawPointer.allocate(
            byteCount: Self.offset + MemoryLayout<Value>.size, alignment: max(alignment, MemoryLayout<Value>.alignment))
        unsafe lockStorage = block.bindMemory(to: Lock.self, capacity: 1)
        unsafe lockStorage.initialize(to: Lock())
        unsafe valueStorage = (block + Self.offset).bindMemory(to: Value.self, capacity: 1)
        unsafe valueStorage.initialize(to: initial)
    }

    @inlinable deinit {
        // Safety: the last owner is going; see `init`.
        _ = unsafe valueStorage.move()
        unsafe lockStorage.deinitialize(count: 1)
        unsafe UnsafeMutableRawPointer(lockStorage).deallocate()
    }

    /// For a path where `withLock` would cost, because what its closure returns is moved. The value may be used until `unlock`.
    @inline(__always)
    func lock() -> UnsafeMutablePointer<Value> {
        unsafe lockStorage.pointee.lock()
        return unsafe valueStorage
    }

    @inline(__always)
    func unlock() { unsafe lockStorage.pointee.unlock() }

    /// Calls `body` with the value and the lock held, and returns what it returned. Nothing supplied by a user may run inside.
    @inlinable @inline(__always)
    public func withLock<Result: ~Copyable>(_ body: (inout Value) -> Result) -> Result {
        unsafe lockStorage.pointee.lock()
        defer { unsafe lockStorage.pointee.unlock() }
        // Safety: the lock is held.
        return unsafe body(&valueStorage.pointee)
    }
}
