import CLua
import OpEngine

/// A Lua state that another program makes, closes, and runs scripts in, and the host's actions at its end. One thread uses the state.
///
/// Lua keeps this object until the state is gone.
// Safety: `runtime` is set once, before the first script runs, and cleared when the state is gone. Only the state's thread uses the object.
final class Adoption: @unchecked Sendable {
    var runtime: Runtime?
    /// Whether the script itself has called `os.exit`.
    var scriptExits = false
    private let ending: (Runtime) -> Void
    private let exiting: (Runtime, Int32) -> Never

    init(ending: @escaping (Runtime) -> Void, exiting: @escaping (Runtime, Int32) -> Never) {
        self.ending = ending
        self.exiting = exiting
    }

    /// Ends the process if an operation has called `os.exit`. On the state's thread.
    func exitIfRequested() {
        if let runtime, let status = runtime.requestedExitStatus { exiting(runtime, status) }
    }

    /// The functions that C calls. Retains this object once.
    func functions() -> clua_adoption {
        unsafe clua_adoption(
            context: Unmanaged.passRetained(self).toOpaque(),
            ending: { context, lua in
                guard let lua = unsafe lua, let adoption = unsafe Adoption.of(context), let runtime = adoption.runtime, !runtime.isForked
                else { return }
                unsafe LuaState.of(lua).whileRunning(lua) { adoption.ending(runtime) }
            },
            ended: { context, record in
                // The runtime of a forked process has no threads to end.
                guard let adoption = unsafe Adoption.of(context), adoption.runtime?.isForked != true else { return }
                unsafe adoption.runtime?.stateIsGone(record)
                adoption.runtime = nil
                // Safety: `functions` has retained it, and Lua does not call this object any more.
                if let context = unsafe context { unsafe Unmanaged<Adoption>.fromOpaque(context).release() }
            },
            stopping: { context in unsafe Adoption.of(context)?.exitIfRequested() })
    }

    private static func of(_ context: UnsafeMutableRawPointer?) -> Adoption? {
        // Safety: the context is that of `functions`.
        unsafe context.map { unsafe Unmanaged<Adoption>.fromOpaque($0).takeUnretainedValue() }
    }
}

extension Runtime {
    /// Does the part of `close` that precedes closing the main state, which another program will close: cancels all operations and timers, and
    /// stops the workers. Waits at most for `deadline`. The calling thread must be inside. Further calls do nothing.
    ///
    /// - Returns: the names of the operations that did not end.
    package func stop(deadline: Duration) -> [String] {
        guard beginClosing() else { return [] }
        let left = stopWorkers(until: ContinuousClock.now + deadline)
        main?.leaveToOthers()
        return left
    }

    /// Whether the script itself, not an operation, ends the process with `os.exit`.
    package var mainStateExits: Bool { unsafe core.adoption?.scriptExits ?? false }

    /// Finishes closing when Lua has freed the main state.
    fileprivate func stateIsGone(_ record: UnsafeMutablePointer<clua_state>?) {
        main?.luaIsGone()
        // A script may have prevented the finalizer that calls `ending`.
        _ = stop(deadline: .seconds(2))
        unsafe main?.finishClosing(record)
        forgetMainState()
        engine.entrance.leave()
    }
}
