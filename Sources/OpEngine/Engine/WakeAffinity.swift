/// When a worker leaves the processor that it shares with who wakes it.
///
/// The kernel often wakes a thread on the processor of who wakes it, though another one is idle. Then the worker, which has something to do
/// for some microseconds only, interrupts for each operation the thread that adds them, instead of working beside it.
struct WakeAffinity {
    private static let minLimit = 4
    private static let maxLimit = 4096

    /// Wake-ups in a row on the processor of who woke it.
    private var stacked = 0
    /// So many are too many. Grows where the kernel brings the worker back: the others are busy.
    private var limit = minLimit
    private var hasMigrated = false

    /// The worker has been woken. Returns whether it should go elsewhere.
    mutating func wasWoken(onWakersProcessor: Bool) -> Bool {
        if hasMigrated { limit = onWakersProcessor ? min(2 * limit, WakeAffinity.maxLimit) : WakeAffinity.minLimit }
        stacked = onWakersProcessor ? stacked + 1 : 0
        hasMigrated = stacked >= limit
        if hasMigrated { stacked = 0 }
        return hasMigrated
    }
}
