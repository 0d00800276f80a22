import CTerminal
import Glibc

/// A thread of the command, which gets no signals.
enum CommandThread {
    private final class Body: Sendable {
        let run: @Sendable () -> Void

        init(_ run: @escaping @Sendable () -> Void) { self.run = run }
    }

    /// Calls a function on a new thread. Returns false if the system has no thread left.
    static func start(_ body: @escaping @Sendable () -> Void) -> Bool {
        // Safety: the thread, or else this function, balances the retain.
        let context = unsafe Unmanaged.passRetained(Body(body)).toOpaque()
        let hasStarted = unsafe ct_thread_start(
            { context in if let context = unsafe context { unsafe Unmanaged<Body>.fromOpaque(context).takeRetainedValue().run() } }, context
        )
        if !hasStarted { unsafe Unmanaged<Body>.fromOpaque(context).release() }
        return hasStarted
    }
}
