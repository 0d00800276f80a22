import CPlatform
import Glibc
public import Synchronization

/// How a futex wait ended.
public enum FutexResult: Sendable {
    case woken, changed, interrupted, timedOut
}

/// Sleeps while `word` equals `expected`, at most until `deadline`. May return spuriously, like every futex wait.
@discardableResult
public func futexWait(_ word: borrowing Atomic<UInt32>, while expected: UInt32, until deadline: ContinuousClock.Instant?) -> FutexResult {
    let error: Int32
    if let deadline {
        var time = monotonicTime(of: deadline)
        // Safety: the owner of `word` is borrowed for the call, so its address is valid. `time` outlives the call.
        error = unsafe withUnsafePointer(to: &time) { unsafe cplatform_futex_wait(address(of: word), expected, $0) }
    } else {
        // Safety: the owner of `word` is borrowed for the call, so its address is valid.
        error = unsafe cplatform_futex_wait(address(of: word), expected, nil)
    }
    switch error {
    case 0: return .woken
    case EINTR: return .interrupted
    case ETIMEDOUT: return .timedOut
    default: return .changed
    }
}

/// Wakes threads that sleep on `word`, at most `count`.
public func futexWake(_ word: borrowing Atomic<UInt32>, count: Int32 = 1) {
    // Safety: the kernel uses the address only as a key and does not read the word.
    unsafe cplatform_futex_wake(address(of: word), count)
}

/// The address of an atomic's storage. The atomic never moves, because it is in a class or in manually allocated memory.
@inline(__always)
private func address(of word: borrowing Atomic<UInt32>) -> UnsafeRawPointer {
    // Safety: `Atomic` has the layout of its value, and its address is stable while its owner lives.
    unsafe withUnsafePointer(to: word) { unsafe UnsafeRawPointer($0) }
}

/// Converts a deadline from CLOCK_BOOTTIME, which `ContinuousClock` uses on Linux, to CLOCK_MONOTONIC, which futexes use.
private func monotonicTime(of deadline: ContinuousClock.Instant) -> timespec {
    let left = max(.zero, ContinuousClock.now.duration(to: deadline))
    var now = timespec()
    // Safety: `now` is a local variable that outlives the call.
    unsafe clock_gettime(CLOCK_MONOTONIC, &now)
    let (seconds, attoseconds) = left.components
    var time = timespec(
        tv_sec: now.tv_sec + Int(clamping: min(seconds, 1 << 40)),
        tv_nsec: now.tv_nsec + Int(attoseconds / 1_000_000_000) + 1)
    if time.tv_nsec >= 1_000_000_000 {
        time.tv_nsec -= 1_000_000_000
        time.tv_sec += 1
    }
    return time
}
