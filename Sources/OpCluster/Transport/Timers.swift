import Glibc
import Synchronization

/// Calls functions at their times, on a thread of its own.
@safe
final class Timers: @unchecked Sendable {
    // Safety: `@unchecked Sendable` because the mutex of the C library protects what changes.

    private struct Call {
        let time: Double
        let body: @Sendable () -> Void
    }

    private let lock = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
    private let changed = UnsafeMutablePointer<pthread_cond_t>.allocate(capacity: 1)
    /// A heap, the earliest first.
    private var jobs: [Call] = []
    private var isRunning = false
    private var isOver = false

    init() {
        unsafe pthread_mutex_init(lock, nil)
        var attributes = pthread_condattr_t()
        unsafe pthread_condattr_init(&attributes)
        unsafe pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC)
        unsafe pthread_cond_init(changed, &attributes)
    }

    deinit {
        unsafe pthread_cond_destroy(changed)
        unsafe pthread_mutex_destroy(lock)
        unsafe changed.deallocate()
        unsafe lock.deallocate()
    }

    /// Seconds of the monotonic clock.
    static var now: Double {
        var now = timespec()
        unsafe clock_gettime(CLOCK_MONOTONIC, &now)
        return Double(now.tv_sec) + Double(now.tv_nsec) / 1e9
    }

    func after(_ seconds: Double, _ body: @escaping @Sendable () -> Void) {
        unsafe pthread_mutex_lock(lock)
        defer { unsafe pthread_mutex_unlock(lock) }
        if isOver { return }
        let isNext = push(Call(time: Self.now + seconds, body: body))
        if !isRunning { start() }
        if isNext { unsafe pthread_cond_signal(changed) }
    }

    /// Drops the functions that were not called yet.
    func end() {
        unsafe pthread_mutex_lock(lock)
        isOver = true
        let dropped = jobs
        jobs = []
        unsafe pthread_cond_signal(changed)
        unsafe pthread_mutex_unlock(lock)
        withExtendedLifetime(dropped) {}
    }

    private func start() {
        isRunning = true
        var thread = pthread_t()
        let context = unsafe Unmanaged.passRetained(self).toOpaque()
        let error = unsafe pthread_create(
            &thread, nil,
            { context in
                unsafe context.map { unsafe Unmanaged<Timers>.fromOpaque($0).takeRetainedValue() }?.run()
                return nil
            }, context)
        guard error == 0 else { fatalError("opscript: no thread can be started: \(unsafe String(cString: strerror(error)))") }
        pthread_detach(thread)
    }

    private func run() {
        unsafe pthread_mutex_lock(lock)
        while !isOver {
            guard let next = jobs.first else {
                unsafe pthread_cond_wait(changed, lock)
                continue
            }
            let left = next.time - Self.now
            if left > 0 {
                var time = timespec(tv_sec: Int(next.time), tv_nsec: Int((next.time - next.time.rounded(.down)) * 1e9))
                unsafe pthread_cond_timedwait(changed, lock, &time)
                continue
            }
            _ = pop()
            unsafe pthread_mutex_unlock(lock)
            next.body()
            unsafe pthread_mutex_lock(lock)
        }
        unsafe pthread_mutex_unlock(lock)
    }

    // MARK: the heap

    /// Returns whether the job is the next one.
    private func push(_ job: Call) -> Bool {
        jobs.append(job)
        var index = jobs.count - 1
        while index > 0, jobs[index].time < jobs[(index - 1) / 2].time {
            jobs.swapAt(index, (index - 1) / 2)
            index = (index - 1) / 2
        }
        return index == 0
    }

    private func pop() -> Call {
        jobs.swapAt(0, jobs.count - 1)
        let first = jobs.removeLast()
        var index = 0
        while true {
            let children = [2 * index + 1, 2 * index + 2].filter { $0 < jobs.count }
            guard let least = children.min(by: { jobs[$0].time < jobs[$1].time }), jobs[least].time < jobs[index].time else { break }
            jobs.swapAt(index, least)
            index = least
        }
        return first
    }
}
