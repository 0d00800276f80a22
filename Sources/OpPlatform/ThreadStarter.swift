import CPlatform
import Glibc
import Synchronization

/// Runs `body` on a new thread, which must be joined or detach itself. The thread receives no signals that are sent to the process, because
/// those belong to the host's threads.
///
/// - Returns: false if the system cannot start more threads.
public func startThread(_ body: @escaping @Sendable () -> Void) -> Bool {
    final class Start: Sendable {
        let body: @Sendable () -> Void
        init(_ body: @escaping @Sendable () -> Void) { self.body = body }
    }
    var thread = pthread_t()
    // Safety: the argument is retained for the new thread, which releases it. The signal sets are local variables.
    let argument = unsafe Unmanaged.passRetained(Start(body)).toOpaque()
    var all = sigset_t()
    var before = sigset_t()
    unsafe sigfillset(&all)
    // Signals that a thread causes itself must not be blocked: faults, and writing to a closed pipe.
    for own in [SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGABRT, SIGSYS, SIGPIPE] { unsafe sigdelset(&all, own) }
    unsafe pthread_sigmask(SIG_SETMASK, &all, &before)
    defer { unsafe pthread_sigmask(SIG_SETMASK, &before, nil) }
    let result = unsafe pthread_create(
        &thread, nil,
        { argument in
            // Safety: the argument is what was retained above for this thread.
            unsafe Unmanaged<Start>.fromOpaque(argument.unsafelyUnwrapped).takeRetainedValue().body()
            return nil
        }, argument)
    // Safety: no thread was started, so this function releases the argument.
    if result != 0 { unsafe Unmanaged<Start>.fromOpaque(argument).release() }
    return result == 0
}

/// Starts threads on behalf of threads with a raised nice value. A new thread inherits its creator's nice value and cannot lower it again.
/// The starter is a single sleeping thread per process, created before the first thread raises its nice value.
public final class ThreadStarter: Sendable {
    private static let shared = ThreadStarter()
    private static let isNeeded = Atomic<Bool>(false)

    private let parker = Parker()
    private let bodies = Guarded<[Start]>([])

    private struct Start {
        let body: @Sendable () -> Void
        let failed: @Sendable () -> Void
    }

    private init() {
        let isStarted = OpPlatform.startThread { [self] in
            pthread_detach(pthread_self())
            while true {
                let taken = bodies.withLock { bodies in
                    defer { bodies = [] }
                    return bodies
                }
                for start in taken where !OpPlatform.startThread(start.body) { start.failed() }
                if taken.isEmpty { _ = parker.park() }
            }
        }
        if !isStarted { fatalError("opscript: cannot start a thread") }
    }

    /// Creates the starter. Must be called before any thread raises its nice value, on a thread that has the process's own.
    public static func prepare() {
        _ = shared
        isNeeded.store(true, ordering: .releasing)
    }

    /// Starts a thread with the process's nice value. Calls `failed` if the system cannot start more threads.
    public static func startThread(_ body: @escaping @Sendable () -> Void, orElse failed: @escaping @Sendable () -> Void) {
        // Start directly if no thread has raised its nice value or if the caller has not.
        guard isNeeded.load(ordering: .acquiring), cplatform_nice(0) > cplatform_nice(getpid()) else {
            if !OpPlatform.startThread(body) { failed() }
            return
        }
        shared.bodies.withLock { $0.append(Start(body: body, failed: failed)) }
        shared.parker.unpark()
    }
}
