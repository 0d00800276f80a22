import CIO
@_spi(Locking) import OpEngine

/// The thread on which timers fire and child processes are looked after, with one libuv loop for a whole runtime, so that a busy Lua
/// state never keeps one of them waiting. It is started by the first that needs it.
///
/// - Concurrency: safe from every thread.
final class IOThread: Sendable {
    private let state = Guarded(State())

    private struct State {
        var loop: Loop?
        var phase = Phase.open
    }

    private enum Phase {
        case open
        /// Scripts start nothing more.
        case ending
        case stopped
    }

    /// Calls `body` on this thread after so many seconds, not earlier, and, when it is `repeating`, each so many seconds after that; a
    /// call that is late is not made up for. `body` must be quick. When the thread has been stopped, `body` is dropped.
    @discardableResult
    func after(_ seconds: Double, repeating: Bool = false, _ body: @escaping @Sendable () -> Void) -> IOTimer {
        let delay = Self.nanoseconds(seconds)
        guard let loop = loop() else { return unsafe IOTimer(nil) }
        return unsafe IOTimer(cio_timer_start(loop.pointer, delay, repeating ? max(delay, 1_000_000) : 0, IOCallback.make(body)))
    }

    /// Starts a program; `ended` is called on this thread when it has ended and what it wrote is complete.
    ///
    /// - Throws: the reason, naming the program.
    /// - Returns: what is to be given back by `cio_process_release`.
    func start(
        _ program: cio_program, named name: String, _ ended: @escaping @Sendable () -> Void
    ) throws(Failure) -> OpaquePointer {
        var program = unsafe program
        var error = unsafe cio_start_error()
        guard let loop = loop() else { throw Failure(message: "cannot start '\(name)': the runtime is closed") }
        if let process = unsafe cio_process_start(loop.pointer, &program, IOCallback.make(ended), &error) { return unsafe process }
        let reason = unsafe String(cString: cio_error_text(error.error))
        let path = unsafe error.path.map { unsafe "'\(String(cString: $0))': " } ?? ""
        throw Failure(message: "cannot start '\(name)': \(path)\(reason)")
    }

    /// As C counts; 0 only for 0.
    static func nanoseconds(_ seconds: Double) -> UInt64 { UInt64((min(seconds, 1e9) * 1e9).rounded(.up)) }

    /// Whether scripts may not start anything: the runtime is being closed.
    var isEnding: Bool { state.withLock { $0.phase != .open } }

    /// From now on scripts start no timers and processes, and the processes that they have started are ended. Once.
    func end() {
        let loop = state.withLock { state in
            state.phase = .ending
            return state.loop
        }
        if let loop { unsafe cio_loop_end_processes(loop.pointer) }
    }

    /// Waits until the processes have ended, and stops the thread. Once, after `end`.
    func stop() {
        let loop = state.withLock { state in
            state.phase = .stopped
            return state.loop.take()
        }
        if let loop { unsafe cio_loop_stop(loop.pointer) }
    }

    /// The loop, started if need be; nil when it has been stopped.
    private func loop() -> Loop? {
        state.withLock { state in
            if state.phase == .stopped { return nil }
            if let loop = state.loop { return loop }
            var error: Int32 = 0
            guard let pointer = unsafe cio_loop_start(&error) else {
                fatalError("opscript: cannot start the thread for timers and processes: \(unsafe String(cString: cio_error_text(error)))")
            }
            state.loop = unsafe Loop(pointer)
            return state.loop
        }
    }
}

/// Whoever uses the loop holds it, also when it has been stopped.
// Safety: `@unchecked Sendable` because the pointer is a constant, and C locks what it points to.
@safe
private final class Loop: @unchecked Sendable {
    let pointer: OpaquePointer

    init(_ pointer: OpaquePointer) { unsafe self.pointer = pointer }

    deinit { unsafe cio_loop_release(pointer) }
}

/// A closure as C calls it.
private final class IOCallback: Sendable {
    private let body: @Sendable () -> Void

    private init(_ body: @escaping @Sendable () -> Void) { self.body = body }

    /// It owns the closure until it is released.
    static func make(_ body: @escaping @Sendable () -> Void) -> cio_callback {
        // Safety: C calls with the context that it was given, and releases it once.
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

/// A timer of an `IOThread`. It goes on when nobody holds it.
// Safety: `@unchecked Sendable` because the pointer is a constant, and C locks what it points to.
@safe
final class IOTimer: @unchecked Sendable {
    private let pointer: OpaquePointer?

    /// Takes over the pointer; nil for one that will not fire.
    fileprivate init(_ pointer: OpaquePointer?) { unsafe self.pointer = pointer }

    deinit { if let pointer = unsafe pointer { unsafe cio_timer_release(pointer) } }

    /// It fires no more; a call that is under way may still be going on. From any thread.
    func cancel() { if let pointer = unsafe pointer { unsafe cio_timer_cancel(pointer) } }
}
