import Synchronization

/// The flag by which a queue signals the worker that spins at it.
///
/// A worker that has emptied a queue spins there for a while. Whoever makes the next operation ready sets the flag instead of entering the
/// queue into the pool's run queue. At most one worker spins at a queue. Needs `Spinning`; without that, no worker spins.
///
/// Saves the pool's lock for each operation that finds the queue empty. By itself that is less than measurements vary by. But
/// `BatchingDelay` needs the signal, and both together make a graph (W4 of docs/performance.md) take 0.74 of the time. Costs two flags in
/// each queue, and two acquisitions of the queue's lock for each spin.
struct SpinningWorkerSignal: ~Copyable {
    #if WITHOUT_SPINNING_WORKER_SIGNAL
        static let isEnabled = false
    #else
        static let isEnabled = true
    #endif

    private let flag = Atomic<Bool>(false)

    /// May be true after the worker has left; `State.hasSpinningWorker` is authoritative.
    @inline(__always) var isSet: Bool { flag.load(ordering: .relaxed) }

    func set() { flag.store(true, ordering: .relaxed) }
    fileprivate func clear() { flag.store(false, ordering: .relaxed) }
}

extension OperationQueue.State {
    /// Returns true if a worker spins at the queue and may run the next operation, which belongs to `group`. The worker no longer counts as
    /// spinning, and the caller must signal it.
    @inline(__always)
    mutating func takeSpinningWorker(for group: ThreadGroup) -> Bool {
        guard SpinningWorkerSignal.isEnabled, hasSpinningWorker, group == .foreground else { return false }
        hasSpinningWorker = false
        return true
    }
}

extension OperationQueue.Core {
    /// Begins a spin of a foreground worker that has emptied the queue. Must be balanced by `endSpinning`. Returns false if another worker
    /// already spins here.
    func beginSpinning() -> Bool {
        guard SpinningWorkerSignal.isEnabled else { return false }
        return state.withLock { state in
            if state.hasSpinningWorker { return false }
            workerSignal.clear()
            newWaiter.store(false, ordering: .relaxed)
            state.hasSpinningWorker = true
            return true
        }
    }

    /// Ends the spin. Returns true if the worker was signalled; it then arrives as if it had been scheduled.
    func endSpinning() -> Bool { state.withLock { !exchange(&$0.hasSpinningWorker, with: false) } }
}

extension Worker {
    /// Spins at `core`, and serves the queue if it signals this worker. Returns false if it did not. The caller has called `beginSpinning`.
    func spin(at core: OperationQueue.Core, _ context: ThreadContext) -> Bool {
        if let iterations = parker.spinning.spin(until: { core.workerSignal.isSet || isNeededElsewhere }) {
            batchingDelay.foundWork(after: iterations)
            if core.workerSignal.isSet { batchingDelay.accumulateOperations(in: core, whileIdle: { !isNeededElsewhere }) }
        } else {
            batchingDelay.foundNothing()
        }
        guard core.endSpinning() else { return false }
        arrive(at: core, context)
        return true
    }
}
