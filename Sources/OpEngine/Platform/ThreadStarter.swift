import CPlatform
import Glibc
import Synchronization

/// Runs `body` on a new thread, which has to be joined or to detach itself. It receives no signals that are sent to the process: they
/// belong to the host's threads.
///
/// - Returns: false when the system allows for no more threads.
func startThread(_ body: @escaping @Sendable () -> Void) -> Bool {
    final class Start: Sendable {
        let body: @Sendable () -> Void
        init(_ body: @escaping @Sendable () -> Void) { self.body = body }
    }
    var thread = pthread_t()
    // Safety: the argument is retained for the thread, which releases it; the sets are local variables.
    let argument = unsafe Unmanaged.passRetained(Start(body)).toOpaque()
    var all = sigset_t()
    var before = sigset_t()
    unsafe sigfillset(&all)
    // What a thread brings upon itself must not be blocked: a fault, or writing to a closed pipe.
    for own in [SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGABRT, SIGSYS, SIGPIPE] { unsafe sigdelset(&all, own) }
    unsafe pthread_sigmask(SIG_SETMASK, &all, &before)
    defer { unsafe pthread_sigmask(SIG_SETMASK, &before, nil) }
    let result = unsafe pthread_create(
        &thread, nil,
        { argument in
            // Safety: as above.
            unsafe Unmanaged<Start>.fromOpaque(argument.unsafelyUnwrapped).takeRetainedValue().body()
            return nil
        }, argument)
    // Safety: no thread has taken it.
    if result != 0 { unsafe Unmanaged<Start>.fromOpaque(argument).release() }
    return result == 0
}

/// Starts threads for those whose nice value is not the process's: a thread inherits the value of the one that starts it, and
/// cannot lower it again. One thread for the whole process, which sleeps; made before the first thread with a nice value.
final class ThreadStarter: Sendable {
    private static let shared = ThreadStarter()
    private static let isNeeded = Atomic<Bool>(false)

    private let parker = Parker()
    private let bodies = Guarded<[Start]>([])

    private struct Start {
        let body: @Sendable () -> Void
        let failed: @Sendable () -> Void
    }

    private init() {
        let isStarted = OpEngine.startThread { [self] in
            pthread_detach(pthread_self())
            while true {
                let taken = bodies.withLock { bodies in
                    defer { bodies = [] }
                    return bodies
                }
                for start in taken where !OpEngine.startThread(start.body) { start.failed() }
                if taken.isEmpty { _ = parker.park() }
            }
        }
        if !isStarted { fatalError("opscript: cannot start a thread") }
    }

    /// To be called before a thread gets a nice value of its own, on one that has the process's.
    static func prepare() {
        _ = shared
        isNeeded.store(true, ordering: .releasing)
    }

    /// Starts a thread with the process's nice value; calls `failed` when there can be no more threads.
    static func startThread(_ body: @escaping @Sendable () -> Void, orElse failed: @escaping @Sendable () -> Void) {
        // Nobody has a nice value of its own, or the caller has not.
        guard isNeeded.load(ordering: .acquiring), cplatform_nice(0) > cplatform_nice(getpid()) else {
            if !OpEngine.startThread(body) { failed() }
            return
        }
        shared.bodies.withLock { $0.append(Start(body: body, failed: failed)) }
        shared.parker.unpark()
    }
}
