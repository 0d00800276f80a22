import Glibc

/// A value behind a pthread mutex. ThreadSanitizer understands that one, but not the slow path of `Synchronization.Mutex`.
public final class Locked<Value>: @unchecked Sendable {
    // Safety: the value is accessed only with the mutex held, and the pointer is a constant.
    private var value: Value
    private let mutex = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)

    /// Creates a mutex that guards `value`.
    public init(_ value: Value) {
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
