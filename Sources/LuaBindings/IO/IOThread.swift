import CIO
import OpEngine
import OpPlatform
import Synchronization

#if canImport(Glibc)
    import Glibc
#endif

/// The thread that fires timers and watches child processes, with one libuv loop for a whole runtime. So a busy Lua state never delays a timer
/// or the end of a process. The first timer or process starts the thread.
///
/// - Concurrency: safe from every thread.
final class IOThread: Sendable {
    private let state = Guarded(State())
    /// Whether programs that are ended get SIGINT first, because Ctrl-C ends the run.
    private let isInterrupted = Atomic<Bool>(false)

    private struct State {
        var loop: Loop?
        var phase = Phase.open
    }

    private enum Phase {
        case open
        /// Scripts can start no more timers and processes.
        case ending
        case stopped
    }

    /// Starts the thread, unless it runs or has been stopped.
    ///
    /// - Throws: an error that says what the system lacks.
    func start() throws(Failure) {
        var error: Int32 = 0
        if loop(&error) != nil || error == 0 { return }
        throw Failure(message: "cannot start the thread for timers and processes: \(unsafe String(cString: cio_error_text(error)))")
    }

    /// Calls `body` on this thread after at least `seconds` and, if `repeating`, again after each further `seconds`. A late call does not
    /// shift the others, and missed calls are not repeated. `body` must be quick. If the thread has been stopped, `body` is dropped.
    ///
    /// Code that must have the timer calls `start` before. Without the thread, `body` is called once, on a thread of its own, if the system can
    /// start one.
    ///
    /// - Parameter isLimit: whether the time during which Ctrl-Z has stopped the process does not count.
    @discardableResult
    func after(_ seconds: Double, repeating: Bool = false, isLimit: Bool = false, _ body: @escaping @Sendable () -> Void) -> IOTimer {
        let delay = Self.nanoseconds(seconds)
        var error: Int32 = 0
        guard let loop = loop(&error) else {
            if error != 0 {
                let due = ContinuousClock.now + .seconds(min(seconds, 1e9))
                _ = tryStartThread { [self] in
                    let parker = Parker()
                    while ContinuousClock.now < due { _ = parker.park(until: due) }
                    if state.withLock({ $0.phase != .stopped }) { body() }
                }
            }
            return unsafe IOTimer(nil)
        }
        let period = repeating ? max(delay, 1_000_000) : 0
        return unsafe IOTimer(cio_timer_start(loop.pointer, delay, period, isLimit, IOCallback.make(body)))
    }

    /// Starts a program. Calls `ended` on this thread when the program has ended and its output is complete. `process` has been assigned by then.
    /// The caller must release it with `cio_process_release`.
    ///
    /// - Throws: the reason, with the program's name.
    func start(
        _ program: cio_program, named name: String, as process: UnsafeMutablePointer<OpaquePointer?>,
        _ ended: @escaping @Sendable () -> Void
    ) throws(Failure) {
        var program = unsafe program
        var error = unsafe cio_start_error()
        let loop = unsafe loop(&error.error)
        if loop == nil, unsafe error.error == 0 { throw Failure(message: "cannot start '\(name)': the runtime is closed") }
        if let loop, unsafe cio_process_start(loop.pointer, &program, IOCallback.make(ended), process, &error) { return }
        let reason = unsafe String(cString: cio_error_text(error.error))
        let path = unsafe error.path.map { unsafe "'\(String(cString: $0))': " } ?? ""
        var failure = Failure(message: "cannot start '\(name)': \(path)\(reason)")
        failure.isShortage = unsafe [EMFILE, ENFILE, EAGAIN].contains(error.error)
        throw failure
    }

    /// Makes a stream of a pipe's end, which it owns. Calls `ready` on this thread; see `cio_stream_new`. The caller must release the stream with
    /// `cio_stream_release`. Nil if memory has run out, or the thread was stopped.
    func stream(_ descriptor: Int32, writes: Bool, limit: Int, _ ready: @escaping @Sendable () -> Void) -> OpaquePointer? {
        // A program has started, so the thread runs.
        var error: Int32 = 0
        guard let loop = loop(&error) else {
            close(descriptor)
            return nil
        }
        return unsafe cio_stream_new(loop.pointer, descriptor, writes, limit, IOCallback.make(ready))
    }

    /// Starts an HTTP request. Calls `ready` on this thread when `cio_fetch_advance` has something to do. The caller must release the request
    /// with `cio_fetch_release`. Nil if memory has run out, or the thread was stopped.
    func fetch(_ request: cio_request, _ ready: @escaping @Sendable () -> Void) -> OpaquePointer? {
        var (request, error) = unsafe (request, Int32(0))
        guard let loop = loop(&error) else { return nil }
        return unsafe cio_fetch_start(loop.pointer, &request, IOCallback.make(ready))
    }

    /// The time in C's unit. Rounds up, so that only 0 and times in the past become 0.
    static func nanoseconds(_ seconds: Double) -> UInt64 { seconds > 0 ? UInt64((min(seconds, 1e9) * 1e9).rounded(.up)) : 0 }

    /// Whether scripts can start no more timers and processes, because the runtime is closing.
    var isEnding: Bool { state.withLock { $0.phase != .open } }

    /// Whether the thread has been started, and not stopped.
    var isRunning: Bool { state.withLock { $0.loop != nil } }

    /// Makes programs that are ended from now on get SIGINT first, as from a shell.
    func interrupt() { isInterrupted.store(true, ordering: .relaxed) }

    /// Why programs are ended now.
    var causeOfEnd: cio_cause { isInterrupted.load(ordering: .relaxed) ? CIO_INTERRUPT : CIO_CANCEL }

    /// Keeps scripts from starting further timers and processes, and ends the processes that they have started. Call this once.
    func end() {
        let loop = state.withLock { state in
            state.phase = .ending
            return state.loop
        }
        if let loop { unsafe cio_loop_end_processes(loop.pointer, causeOfEnd) }
    }

    /// Waits until the programs have ended and their callbacks were posted. Call this once, after `end`.
    func awaitPrograms() { if let loop = state.withLock(\.loop) { unsafe cio_loop_await_processes(loop.pointer) } }

    /// Waits until the processes have ended and stops the thread. Call this once, after `end`.
    func stop() {
        let loop = state.withLock { state in
            state.phase = .stopped
            return state.loop.take()
        }
        if let loop { unsafe cio_loop_stop(loop.pointer) }
    }

    /// The loop, which is started if necessary. Nil with an `error`, or without one if the loop has been stopped.
    private func loop(_ error: inout Int32) -> Loop? {
        state.withLock { state in
            if state.phase == .stopped { return nil }
            if let loop = state.loop { return loop }
            guard let pointer = unsafe cio_loop_start(&error) else { return nil }
            state.loop = unsafe Loop(pointer)
            return state.loop
        }
    }
}

/// A reference to the loop. Each user of the loop holds one, even after the loop was stopped.
// Safety: `@unchecked Sendable` because the pointer is a constant, and C locks what it points to.
@safe
private final class Loop: @unchecked Sendable {
    let pointer: OpaquePointer

    init(_ pointer: OpaquePointer) { unsafe self.pointer = pointer }

    deinit { unsafe cio_loop_release(pointer) }
}

/// A closure that C can call.
private final class IOCallback: Sendable {
    private let body: @Sendable () -> Void

    private init(_ body: @escaping @Sendable () -> Void) { self.body = body }

    /// The result owns the closure until C releases it.
    static func make(_ body: @escaping @Sendable () -> Void) -> cio_callback {
        // Safety: C passes back the context that it was given, and releases it exactly once.
        unsafe cio_callback(
            call: { context in
                if let context = unsafe context { unsafe Unmanaged<IOCallback>.fromOpaque(context).takeUnretainedValue().body() }
            },
            release: { context in
                if let context = unsafe context { unsafe Unmanaged<IOCallback>.fromOpaque(context).release() }
            },
            context: Unmanaged.passRetained(IOCallback(body)).toOpaque())
    }
}

/// A timer of an `IOThread`. The timer keeps firing even if no reference to this object is left.
// Safety: `@unchecked Sendable` because the pointer is a constant, and C locks what it points to.
@safe
final class IOTimer: @unchecked Sendable {
    private let pointer: OpaquePointer?

    /// Takes ownership of the pointer; nil makes a timer that never fires.
    fileprivate init(_ pointer: OpaquePointer?) { unsafe self.pointer = pointer }

    deinit { if let pointer = unsafe pointer { unsafe cio_timer_release(pointer) } }

    /// Stops the timer. A call that is under way may still be running afterwards. From any thread.
    func cancel() { if let pointer = unsafe pointer { unsafe cio_timer_cancel(pointer) } }
}
