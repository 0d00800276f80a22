import Glibc
import Synchronization

/// A value that one thread waits for and another one gives.
@safe
package final class Awaited<Value: Sendable>: @unchecked Sendable {
    // Safety: `@unchecked Sendable` because the mutex of the C library protects the value.

    private let lock = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
    private let given = UnsafeMutablePointer<pthread_cond_t>.allocate(capacity: 1)
    private var value: Value?

    package init() {
        unsafe pthread_mutex_init(lock, nil)
        unsafe pthread_cond_init(given, nil)
    }

    deinit {
        unsafe pthread_cond_destroy(given)
        unsafe pthread_mutex_destroy(lock)
        unsafe given.deallocate()
        unsafe lock.deallocate()
    }

    /// Gives the value. Only the first one counts.
    package func give(_ value: Value) {
        unsafe pthread_mutex_lock(lock)
        if self.value == nil { self.value = value }
        unsafe pthread_cond_broadcast(given)
        unsafe pthread_mutex_unlock(lock)
    }

    /// Waits for the value.
    package func get() -> Value {
        unsafe pthread_mutex_lock(lock)
        defer { unsafe pthread_mutex_unlock(lock) }
        while true {
            if let value { return value }
            unsafe pthread_cond_wait(given, lock)
        }
    }
}
