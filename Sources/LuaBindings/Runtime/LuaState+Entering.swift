import CLua
import OpEngine
import Synchronization

/// The thread that uses a state. The main state is used by the thread that is inside the runtime, each other state by its worker.
extension LuaState: Entrance.Resident {
    func threadHasEntered() { attachThread() }
    func threadWillLeave() { detachThread() }

    /// Makes the calling thread the one that uses the state, until `detachThread`.
    func attachThread() {
        thread.store(ThreadIdentity.current, ordering: .relaxed)
        unsafe clua_attach_thread(main)
    }

    private func detachThread() {
        unsafe clua_detach_thread(main)
        thread.store(0, ordering: .relaxed)
    }

    /// Whether the calling thread is the one that uses the state. Meaningless for a closed state.
    var isOnItsThread: Bool { thread.load(ordering: .relaxed) == ThreadIdentity.current }

    /// Whether the state is open and the calling thread uses it.
    var isOpenHere: Bool { !isClosed && isOnItsThread }

    func checkThread() {
        assert(isOnItsThread, "opscript bug: a Lua state is used by a thread that is not inside")
    }

    /// Whether this is the main state, which the threads of the host enter, and not a worker's.
    var isOfHost: Bool { number == RuntimeCore.mainStateNumber }
}
