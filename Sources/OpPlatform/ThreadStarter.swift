import CPlatform
import Glibc
import Synchronization

/// Runs `body` on a new thread with the process's nice value. All threads of the Swift targets begin here or in `tryStartThread`, which says which
/// signals they receive.
///
/// - Parameters:
///   - thread: the object through which other threads may wait for the end of the new one.
///   - failed: called on any thread in place of `body` if the system cannot start more threads. Traps by default.
public func startThread(
    as thread: JoinableThread? = nil, _ body: @escaping @Sendable () -> Void, orElse failed: @escaping @Sendable () -> Void = failToStart
) {
    ThreadStarter.start(ThreadStarter.Start(thread: thread, body: body, failed: failed))
}

/// Runs `body` on a new thread, or at once if the system cannot start more threads.
public func runApart(_ body: @escaping @Sendable () -> Void) { startThread(body, orElse: body) }

/// Ends the process because the system cannot start more threads.
public func failToStart() { fatalError("opscript: cannot start a thread: the limit of processes, or of memory, is reached") }

/// Runs `body` on a new thread with the caller's nice value, like `startThread`. The thread receives no signals that are sent to the process,
/// because those belong to the host's threads. It receives the signals that it causes itself: faults, and writing to a closed pipe.
///
/// - Returns: false if the system cannot start more threads.
public func tryStartThread(as thread: JoinableThread? = nil, _ body: @escaping @Sendable () -> Void) -> Bool {
    ThreadStarter.tryStart(ThreadStarter.Start(thread: thread, body: body, failed: {}))
}

/// Starts threads on behalf of threads with a raised nice value. A new thread inherits its creator's nice value and cannot lower it again.
/// The starter is a single sleeping thread per process, created before the first thread raises its nice value.
public final class ThreadStarter: Sendable {
    /// The starter of this process, once one is needed.
    private static let shared = Guarded<ThreadStarter?>(nil)

    /// A process that was forked since has another number, and lacks the starter's thread.
    private let forkCount = cplatform_get_fork_count()
    private let parker = Parker()
    private let starts = Guarded<[Start]>([])

    fileprivate final class Start: Sendable {
        let thread: JoinableThread?
        let body: @Sendable () -> Void
        let failed: @Sendable () -> Void

        init(thread: JoinableThread?, body: @escaping @Sendable () -> Void, failed: @escaping @Sendable () -> Void) {
            (self.thread, self.body, self.failed) = (thread, body, failed)
        }

        /// Returns the thread, whose `end` is called once what `body` captures is released.
        func run() -> JoinableThread? {
            body()
            return thread
        }
    }

    /// Nil if the system cannot start more threads.
    private init?() {
        let isStarted = tryStartThread { [self] in
            while true {
                let taken = starts.withLock { exchange(&$0, with: []) }
                for start in taken where !ThreadStarter.tryStart(start) { start.failed() }
                if taken.isEmpty { _ = parker.park() }
            }
        }
        if !isStarted { return nil }
    }

    /// Creates the starter. Must be called before any thread raises its nice value, on a thread that has the process's own. Without a starter,
    /// new threads have the nice values of those that start them.
    public static func prepare() {
        shared.withLock { starter in
            if starter?.forkCount != cplatform_get_fork_count() { starter = ThreadStarter() }
        }
    }

    /// Whether the calling thread has raised its nice value.
    public static var isNeeded: Bool { cplatform_nice(0) > cplatform_nice(getpid()) }

    fileprivate static func start(_ start: Start) {
        // The caller starts the thread itself if it has not raised its nice value.
        guard isNeeded, let starter = shared.withLock({ $0 }) else {
            if !tryStart(start) { start.failed() }
            return
        }
        starter.starts.withLock { $0.append(start) }
        starter.parker.unpark()
    }

    fileprivate static func tryStart(_ start: Start) -> Bool {
        // Safety: the argument is retained for the new thread, which releases it.
        let argument = unsafe Unmanaged.passRetained(start)
        let error = unsafe cplatform_start_thread(
            nil,
            { argument in
                let thread = unsafe Unmanaged<Start>.fromOpaque(argument.unsafelyUnwrapped).takeRetainedValue().run()
                thread?.end()
                return nil
            }, argument.toOpaque())
        if error == 0 { return true }
        start.thread?.end()
        // Safety: no thread was started, so this function releases the argument.
        unsafe argument.release()
        return false
    }
}
