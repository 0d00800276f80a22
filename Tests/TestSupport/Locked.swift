import Glibc

/// A value behind a pthread mutex. ThreadSanitizer understands that one, but not the slow path of `Synchronization.Mutex`.
public final class Locked<Value>: @unchecked Sendable {
    // Safety: the value is accessed only with the mutex held, and the pointer is a constant.
    private var value: Value
    private let mutex = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)

    /// Creates a mutex that guards `value`. A value without a size, such as `()`, traps: it would have the address of this object, and
    /// ThreadSanitizer would take every use of the one for an access to the other.
    public init(_ value: Value) {
        precondition(MemoryLayout<Value>.size > 0, "Locked needs a value that has a size")
        self.value = value
        pthread_mutex_init(mutex, nil)
    }

    deinit {
        pthread_mutex_destroy(mutex)
        mutex.deallocate()
    }

    /// Calls `body` with the value while the mutex is held.
    public func withLock<Result>(_ body: (inout Value) throws -> Result) rethrows -> Result {
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        return try body(&value)
    }
}
