import CPlatform
public import Synchronization

/// Tells the monitor of a thread that this thread sleeps until another one releases a lock. The other thread runs, so none has to take its place.
public enum LockWaits {
    /// From now on, `flag` is true while the calling thread sleeps at a lock. Nil ends that. The flag must not move, and must stay valid until then.
    public static func announce(in flag: UnsafePointer<Atomic<Bool>>?) {
        unsafe cplatform_set_lock_wait_flag(UnsafeMutableRawPointer(mutating: flag))
    }

    /// Calls `body`, in which the calling thread sleeps until a lock is released.
    public static func during(_ body: () -> Void) {
        cplatform_announce_lock_wait(true)
        body()
        cplatform_announce_lock_wait(false)
    }
}
