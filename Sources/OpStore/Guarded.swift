import Glibc

/// A value and the lock that guards it.
///
/// The lock is a mutex of the C library. Files are read and written while some of these are held, so no thread should spin. ThreadSanitizer
/// reports races that do not exist for the mutex of `Synchronization`. For that reason a lock alone has a number as its value, too: one
/// without bytes would share its address with another variable.
@safe
final class Guarded<Value>: @unchecked Sendable {
    // Safety: the value is accessed only with the lock held.
    private let mutex: UnsafeMutablePointer<pthread_mutex_t>
    private var value: Value

    init(_ value: Value) {
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
    func withLock<Result, Failure: Error>(_ body: (inout Value) throws(Failure) -> Result) throws(Failure) -> Result {
        unsafe pthread_mutex_lock(mutex)
        defer { unsafe pthread_mutex_unlock(mutex) }
        return try body(&value)
    }
}
