import CPlatform
public import Synchronization

/// Tells a monitor that a thread sleeps until another thread releases a lock. The other thread runs, so no third one has to replace the sleeper.
public enum LockWaits {
    /// From now on, `flag` is true while the calling thread sleeps at a lock. A later call with nil ends that. Until then,
    /// the flag must stay valid and must not move.
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
