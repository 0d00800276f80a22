/// When a worker leaves the processor that it shares with who wakes it.
///
/// The kernel often wakes a thread on the processor of who wakes it, though another one is idle. Then the worker, which has something to do
/// for some microseconds only, interrupts for each operation the thread that adds them, instead of working beside it.
struct Crowding {
    private static let least = 4
    private static let most = 4096

    /// Wake-ups in a row on the processor of who woke it.
    private var shared = 0
    /// So many are too many. Grows where the kernel brings the worker back: the others are busy.
    private var limit = least
    private var hasLeft = false

    /// The worker has been woken. Returns whether it should go elsewhere.
    mutating func wasWoken(besideWaker: Bool) -> Bool {
        if hasLeft { limit = besideWaker ? min(2 * limit, Crowding.most) : Crowding.least }
        shared = besideWaker ? shared + 1 : 0
        hasLeft = shared >= limit
        if hasLeft { shared = 0 }
        return hasLeft
    }
}
