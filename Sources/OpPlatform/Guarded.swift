/// A value and the lock that guards it. The closure passed to `withLock` returns a decision; the caller acts on it after the lock is
/// released.
///
/// Public rather than `package`, because only then do other modules specialize it for their values. Otherwise the runtime would look up those
/// types when a process starts, and every call would go through witness tables.
@safe public struct Guarded<Value>: ~Copyable, @unchecked Sendable {
    // Safety: `@unchecked Sendable` because the value is accessed only with the lock held.

    // The lock and the value share one allocation. A thread that has acquired the lock thus has the start of the value in its cache, and
    // accesses need no exclusivity checks.
    @usableFromInline let lockStorage: UnsafeMutablePointer<Lock>
    @usableFromInline let valueStorage: UnsafeMutablePointer<Value>
    /// The allocation, which begins before the lock if the allocator does not align it.
    @usableFromInline let block: UnsafeMutableRawPointer

    /// The offset of the value in the allocation.
    @usableFromInline static var offset: Int { max(8, MemoryLayout<Value>.alignment) }

    /// Creates the value and its lock.
    ///
    /// - Parameter alignment: the alignment of the lock in bytes. With 64, the lock and the start of the value share a cache line.
    @inlinable public init(_ initial: consuming Value, alignment: Int = 16) {
        // Safety: allocated and initialized here, freed in `deinit`.
        let alignment = max(alignment, MemoryLayout<Value>.alignment)
        // This code aligns the lock itself: glibc takes hundreds of instructions more to make and to free a block that is aligned to more
        // than 16 bytes, because it keeps no such block for reuse.
        unsafe block = Memory.allocate(Self.offset + MemoryLayout<Value>.size + max(alignment - 16, 0))
        let aligned = unsafe block.alignedUp(toMultipleOf: alignment)
        unsafe lockStorage = aligned.bindMemory(to: Lock.self, capacity: 1)
        unsafe lockStorage.initialize(to: Lock())
        unsafe valueStorage = (aligned + Self.offset).bindMemory(to: Value.self, capacity: 1)
        unsafe valueStorage.initialize(to: initial)
    }

    @inlinable deinit {
        // Safety: this is the last reference, and `init` has initialized the memory.
        _ = unsafe valueStorage.move()
        unsafe lockStorage.deinitialize(count: 1)
        unsafe Memory.free(block)
    }

    /// Acquires the lock. For paths on which `withLock` is too slow because it moves the closure's result. The pointer is valid until
    /// `unlock`.
    @inlinable @inline(__always)
    public func lock() -> UnsafeMutablePointer<Value> {
        unsafe lockStorage.pointee.lock()
        return unsafe valueStorage
    }

    /// Releases the lock.
    @inlinable @inline(__always)
    public func unlock() { unsafe lockStorage.pointee.unlock() }

    /// Calls `body` with the value while holding the lock, and returns its result. `body` must not call code supplied by a user.
    @inlinable @inline(__always)
    public func withLock<Result: ~Copyable>(_ body: (inout Value) -> Result) -> Result {
        unsafe lockStorage.pointee.lock()
        defer { unsafe lockStorage.pointee.unlock() }
        // Safety: the lock is held.
        return unsafe body(&valueStorage.pointee)
    }
}
