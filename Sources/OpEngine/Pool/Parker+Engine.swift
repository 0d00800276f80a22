import OpPlatform
import Synchronization

/// Whether a thread that waits for a worker spins at the moment, in this process.
private let isAnyWaiterSpinning = Atomic<Bool>(false)

extension Parker {
    /// Spins for a notification from a worker of `engine`. Returns true if one arrived; it has been taken. Only the owner may call this
    /// method.
    ///
    /// Does not spin unless some worker is awake and a processor is left for the owner. Only one waiting thread of the process spins at a time,
    /// because it takes a processor from the threads that it waits for.
    func spin(for engine: Engine?) -> Bool {
        guard let engine, engine.pool.withLock({ $0.awake > 0 && $0.awake < Processors.available }),
            !isAnyWaiterSpinning.exchange(true, ordering: .relaxed)
        else { return false }
        defer { isAnyWaiterSpinning.store(false, ordering: .relaxed) }
        return spinning.spin(until: { isNotified }) && consumeNotification()
    }
}
