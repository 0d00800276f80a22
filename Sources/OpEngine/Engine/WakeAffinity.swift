/// Decides when a worker moves away from the processor of the threads that wake it.
///
/// The kernel often wakes a thread on the waker's processor even though another processor is idle. A worker that has only a few
/// microseconds of work then preempts the producer for each operation instead of running beside it.
struct WakeAffinity {
    private static let minLimit = 4
    private static let maxLimit = 4096

    /// The number of consecutive wake-ups on the waker's processor.
    private var stacked = 0
    /// The number of consecutive wake-ups after which the worker migrates. Doubles if the next wake-up happens on the waker's processor
    /// again, which means that the other processors are busy. Otherwise it is reset.
    private var limit = minLimit
    private var hasMigrated = false

    /// Records a wake-up. Returns true if the worker should migrate to another processor.
    mutating func wasWoken(onWakersProcessor: Bool) -> Bool {
        if hasMigrated { limit = onWakersProcessor ? min(2 * limit, WakeAffinity.maxLimit) : WakeAffinity.minLimit }
        stacked = onWakersProcessor ? stacked + 1 : 0
        hasMigrated = stacked >= limit
        if hasMigrated { stacked = 0 }
        return hasMigrated
    }
}
