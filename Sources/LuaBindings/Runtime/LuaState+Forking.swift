import CLua
import Glibc
import OpEngine
import Synchronization

/// Processes that code of this state has forked. They have one thread: a copy of the one that forked.
extension LuaState {
    /// Whether this process was forked from the one that made the state.
    @inline(__always)
    var isForked: Bool { core.engine.entrance.isForked }

    /// The error of each call of the module `opscript` in such a process.
    static let refusalInForkedProcess = CallError.message(
        "a process that a script has forked cannot use operations, because it has no threads of its parent: execute a program in it, or fork it "
            + "from a script that uses none")

    /// Like `attempt`, for code that the runtime calls, not a script: bodies and callbacks. A process that the code has forked ends with the
    /// code, because the process has no thread that would go on.
    @inline(__always)
    func attemptToEnd(_ body: (OpaquePointer, inout clua_failure) -> Int32) throws(Failure) {
        do throws(Failure) { try unsafe attempt(body) } catch {
            if isForked { endForkedProcess(after: error) }
            throw error
        }
        if isForked { endForkedProcess(after: nil) }
    }

    @inline(never)
    private func endForkedProcess(after error: Failure?) -> Never {
        if let error { core.report(error.report) }
        closeInForkedProcess()
        exit(error == nil ? 0 : 1)
    }

    /// Runs the finalizers of scripts, as Lua's interpreter does at its end. The process must exit afterwards.
    func closeInForkedProcess() {
        thread.store(ThreadIdentity.current, ordering: .relaxed)
        // Releasing objects takes locks, which a thread of the parent may have held at the fork. The process exits, and frees all.
        clua_release_no_objects()
        unsafe clua_lua_close(main)
    }
}

extension Runtime {
    /// Whether this process was forked from the one that made the runtime, by a script.
    package var isForked: Bool { engine.entrance.isForked }

    /// Closes the main state of such a process. The process must exit afterwards.
    package func closeInForkedProcess() { main?.closeInForkedProcess() }
}
