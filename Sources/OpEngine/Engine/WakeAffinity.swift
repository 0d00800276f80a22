import CPlatform

/// Moves a worker away from the processor of the threads that wake it.
///
/// The kernel often wakes a thread on the waker's processor even though another processor is idle. A worker that has only a few
/// microseconds of work then preempts the producer for each operation instead of running beside it.
///
/// Saves preemptions while another program keeps one of two processors busy: adding an operation and waiting for it (W5) takes 2.7 µs
/// instead of 10 µs, a graph (W4) between 0.7 and 1.0 of the time. Costs two system calls for each migration and two reads of the
/// processor's number for each wake-up; a flood (W1) takes up to 1.4 times as long beside such a program. The workloads are those of
/// docs/performance.md.
struct WakeAffinity {
    private static let minLimit = 4
    private static let maxLimit = 4096

    /// The number of consecutive wake-ups on the waker's processor.
    private var stacked = 0
    /// The number of consecutive wake-ups after which the worker migrates. Doubles if the next wake-up happens on the waker's processor
    /// again, which means that the other processors are busy. Otherwise it is reset.
    private var limit = minLimit
    private var hasMigrated = false

    /// The calling thread was woken. Moves it to another processor if that is better.
    mutating func wasWoken(by parker: Parker) {
        #if !WITHOUT_WAKE_AFFINITY
            if shouldMigrate(wokenOnWakersProcessor: parker.isOnWakersProcessor) { cplatform_leave_processor() }
        #endif
    }

    /// Records a wake-up. Returns true if the worker should migrate to another processor.
    mutating func shouldMigrate(wokenOnWakersProcessor isStacked: Bool) -> Bool {
        if hasMigrated { limit = isStacked ? min(2 * limit, WakeAffinity.maxLimit) : WakeAffinity.minLimit }
        stacked = isStacked ? stacked + 1 : 0
        hasMigrated = stacked >= limit
        if hasMigrated { stacked = 0 }
        return hasMigrated
    }
}
