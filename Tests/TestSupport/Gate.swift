import Glibc

/// Threads wait at a gate until a test opens it. Each `open` lets one thread through.
public final class Gate: @unchecked Sendable {
    // Safety: the semaphore is safe from every thread; the pointer is a constant.
    private let semaphore = UnsafeMutablePointer<sem_t>.allocate(capacity: 1)
    private let seconds: Int
    private let failure: String

    /// - Parameter seconds: the time after which a waiting thread ends the test run, because the gate will never open. Long by default: a test
    ///   that goes on after an `await` comes after all tests that have begun before.
    /// - Parameter failure: what is said then.
    public init(seconds: Int = 600, failure: String = "a gate did not open") {
        self.seconds = seconds
        self.failure = failure
        sem_init(semaphore, 0, 0)
    }

    deinit {
        sem_destroy(semaphore)
        semaphore.deallocate()
    }

    /// Lets one thread through.
    public func open() { sem_post(semaphore) }

    /// Lets `count` threads through.
    public func open(_ count: Int) { for _ in 0..<count { open() } }

    /// Waits until `open` lets this thread through.
    public func wait() {
        var deadline = timespec()
        clock_gettime(CLOCK_REALTIME, &deadline)
        deadline.tv_sec += seconds
        while sem_timedwait(semaphore, &deadline) != 0 {
            guard errno == EINTR else { fatalError("\(failure) within \(seconds) seconds") }
        }
    }

    /// Waits for `count` calls of `open`.
    public func wait(_ count: Int) { for _ in 0..<count { wait() } }
}
