import CPlatform
import Synchronization

/// How long a spinning worker waits after it was signalled, so that operations can accumulate.
///
/// When a worker keeps pace with the producer, both touch the queue's cache lines and the operation's for every single operation. Moving
/// the lines between processors costs as much as adding the operation, and several times that if the processors share no cache. After
/// several fast arrivals in a row, the worker therefore waits briefly, so that the lines move once per batch. The delay grows while
/// operations keep arriving during it. If none arrive, somebody is waiting for the operations that are already there; then more fast
/// arrivals are needed before the next attempt.
///
/// All times are in iterations of the worker's spin loop. Needs `SpinningWorkerSignal`; without that, no worker batches.
///
/// Saves a quarter of the time of a graph (W4 of docs/performance.md) and up to a tenth of that of a flood (W1). Costs a delay of at most
/// 24 µs for an operation that nobody waits for, and a check of a flag in every wait.
struct BatchingDelay {
    #if WITHOUT_ADAPTIVE_BATCHING
        static let isEnabled = false
    #else
        static let isEnabled = true
    #endif

    /// An arrival is fast after fewer iterations than this, about 3 µs.
    private static let fastArrival = 128
    /// The bounds of `threshold`.
    private static let minThreshold = 8
    private static let maxThreshold = 4096
    /// About 6 µs, the time it takes to wake a thread on the same processor.
    private static let minIterations = 256
    /// About 24 µs, less than it takes to wake a thread on another processor.
    private static let maxIterations = 1024

    private var fastArrivals = 0
    private var threshold = minThreshold

    /// The current delay. 0 means that the worker does not wait.
    private(set) var iterations = 0

    /// The worker was signalled, or found work elsewhere, after it had spun for this many iterations.
    mutating func foundWork(after iterations: Int) {
        if iterations >= BatchingDelay.fastArrival {
            if self.iterations <= BatchingDelay.minIterations { foundNothing() } else { self.iterations /= 2 }
        } else if self.iterations == 0 {
            fastArrivals += 1
            if fastArrivals == threshold { self.iterations = BatchingDelay.minIterations }
        }
    }

    /// Waits for more operations if there is a delay. Ends early if a thread begins to wait for the queue or one of its operations, or if
    /// the worker is no longer idle.
    mutating func accumulateOperations(in core: OperationQueue.Core, whileIdle isIdle: () -> Bool) {
        guard BatchingDelay.isEnabled, iterations > 0 else { return }
        let half = iterations / 2
        func spins() -> Bool {
            for _ in 0..<half {
                if core.hasNewWaiter || !isIdle() { return false }
                cplatform_relax()
            }
            return true
        }
        let operationsArrived = spins() && core.receivesOperations(while: spins)
        if isIdle() { hasWaited(operationsArrived: operationsArrived) }
    }

    /// The worker has waited. `operationsArrived` means that operations were still arriving in the second half of the delay.
    mutating func hasWaited(operationsArrived: Bool) {
        if operationsArrived {
            threshold = BatchingDelay.minThreshold
            iterations = min(2 * iterations, BatchingDelay.maxIterations)
        } else {
            threshold = min(2 * threshold, BatchingDelay.maxThreshold)
            (fastArrivals, iterations) = (0, 0)
        }
    }

    /// The worker found nothing, or only after a long spin: the producer's pace has changed. Resets the delay and lowers the
    /// threshold.
    mutating func foundNothing() {
        threshold = max(threshold / 2, BatchingDelay.minThreshold)
        (fastArrivals, iterations) = (0, 0)
    }
}

extension OperationQueue.Core {
    /// Whether, since the worker began to spin, a thread has begun to wait for the queue, for capacity in it, or for one of its operations.
    @inline(__always) var hasNewWaiter: Bool { newWaiter.load(ordering: .relaxed) }

    /// Notes that a thread begins to wait. Writes only if necessary, because the spinning worker polls this cache line.
    @inline(__always)
    func noteWaiter() {
        if BatchingDelay.isEnabled, !hasNewWaiter { newWaiter.store(true, ordering: .relaxed) }
    }

    /// Returns true if `body` returns true and operations were added while it ran.
    func receivesOperations(while body: () -> Bool) -> Bool {
        let before = state.withLock { $0.added }
        return body() && state.withLock { $0.added } != before
    }
}
