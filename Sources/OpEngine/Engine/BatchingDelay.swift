/// How long a spinning worker waits after it was signalled, so that operations can accumulate.
///
/// When a worker keeps pace with the producer, both touch the queue's cache lines and the operation's for every single operation. Moving
/// the lines between processors costs as much as adding the operation, and several times that if the processors share no cache. After
/// several fast arrivals in a row, the worker therefore waits briefly, so that the lines move once per batch. The delay grows while
/// operations keep arriving during it. If none arrive, somebody is waiting for the operations that are already there; then more fast
/// arrivals are needed before the next attempt.
///
/// All times are in iterations of the worker's spin loop.
struct BatchingDelay {
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

    /// The worker stopped spinning without having found work. Resets the delay and lowers the threshold, because the producer's pace has
    /// changed.
    mutating func foundNothing() {
        threshold = max(threshold / 2, BatchingDelay.minThreshold)
        (fastArrivals, iterations) = (0, 0)
    }
}
