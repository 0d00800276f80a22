import Glibc
import OpPlatform
import Synchronization

/// The signal that ends the process, after `exit` has called the other functions. If output could not be written, the process ends with status 1 before.
///
/// A shell continues a loop, and make its other targets, if a command handles Ctrl-C and then exits with a status. Both end if the signal has ended
/// the command.
enum EndingSignal {
    private static let number = Atomic<Int32>(0)

    /// Call this before functions that register with `atexit`, because `exit` calls the last registered function first.
    static func prepare() { atexit { EndingSignal.raise() } }

    /// Makes `exit` end the process with this signal instead of a status.
    static func set(_ signal: Int32) { number.store(signal, ordering: .relaxed) }

    private static func raise() {
        let signal = number.load(ordering: .relaxed)
        if signal == 0 { return }
        // A thread that waits for input has the lock of its stream, perhaps for ever.
        let flushing = JoinableThread()
        if tryStartThread(as: flushing, { fflush(nil) }) { flushing.join(until: .now + .seconds(1)) }
        Glibc.signal(signal, SIG_DFL)
        var signals = sigset_t()
        unsafe sigemptyset(&signals)
        unsafe sigaddset(&signals, signal)
        unsafe pthread_sigmask(SIG_UNBLOCK, &signals, nil)
        kill(getpid(), signal)
    }
}
