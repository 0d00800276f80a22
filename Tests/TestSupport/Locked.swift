import Glibc

/// A value behind a pthread mutex, which ThreadSanitizer understands. (It does not see the slow path of `Synchronization.Mutex`.)
public final class Locked<Value>: @unchecked Sendable {
    // Safety: the value is reached with the mutex held; the pointer is a constant.
    private var value: Value
    private let mutex = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)

    /// Guards `value`.
    public init(_ value: Value) {
        self.value = value
        pthread_mutex_init(mutex, nil)
    }

    deinit {
        pthread_mutex_destroy(mutex)
        mutex.deallocate()
    }

    /// Does `body` with the value, locked.
    public func withLock<Result>(_ body: (inout Value) throws -> Result) rethrows -> Result {
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        return try body(&value)
    }
}
