public import Glibc

/// A value and the slow lock that guards it. For locks that are held while files are read or written, or while a thread waits for another process.
///
/// The lock is a mutex of the C library. A thread that waits for it does not spin, and the engine lets another thread take its place, as for any
/// call that blocks. ThreadSanitizer reports races that do not exist for the mutex of `Synchronization`. A lock that guards no value has a
/// number as its value, because a value without bytes would share its address with another variable.
@safe
public final class SlowGuarded<Value>: @unchecked Sendable {
    // Safety: the value is accessed only with the lock held.
    @usableFromInline let mutex: UnsafeMutablePointer<pthread_mutex_t>
    @usableFromInline var value: Value

    /// Creates the value and its lock.
    @inlinable public init(_ value: Value) {
        self.value = value
        unsafe mutex = .allocate(capacity: 1)
        unsafe mutex.initialize(to: pthread_mutex_t())
        unsafe pthread_mutex_init(mutex, nil)
    }

    deinit {
        unsafe pthread_mutex_destroy(mutex)
        unsafe mutex.deallocate()
    }

    /// Calls `body` with the value while holding the lock.
    @inlinable public func withLock<Result, Failure: Error>(_ body: (inout Value) throws(Failure) -> Result) throws(Failure) -> Result {
        unsafe pthread_mutex_lock(mutex)
        defer { unsafe pthread_mutex_unlock(mutex) }
        return try body(&value)
    }
}
