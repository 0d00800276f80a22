/// How long a worker that lingers at a queue waits after it was called, so that more can come.
///
/// A worker that is quicker than the thread that adds would take each operation as soon as it is there, and the two would take the queue's
/// lines of memory, and those of the operations, from each other for each: that costs as much as adding, and several threshold that where the
/// two processors share no cache. So when it has found work quickly several threshold, the worker lets some operations come together, and more
/// of them as that goes on. Where none come, somebody waits for those that are there: then it takes more threshold until the next attempt.
struct BatchingDelay {
    /// After fewer looks than this, some 3 µs, is quickly.
    private static let fastArrival = 128
    /// How many threshold in a row, at minIterations and at maxIterations.
    private static let minThreshold = 8
    private static let maxThreshold = 4096
    /// Some 6 µs: about as long as it takes to wake a thread on the same processor.
    private static let minIterations = 256
    /// Some 24 µs: less than it takes on another one.
    private static let maxIterations = 1024

    private var fastArrivals = 0
    private var threshold = minThreshold

    /// For how many looks to wait now.
    private(set) var iterations = 0

    /// It was called, or found work elsewhere, after so many looks.
    mutating func foundWork(after iterations: Int) {
        if iterations >= BatchingDelay.fastArrival {
            if self.iterations <= BatchingDelay.minIterations { foundNothing() } else { self.iterations /= 2 }
        } else if self.iterations == 0 {
            fastArrivals += 1
            if fastArrivals == threshold { self.iterations = BatchingDelay.minIterations }
        }
    }

    /// It has waited. True: operations were added to the last.
    mutating func hasWaited(operationsArrived: Bool) {
        if operationsArrived {
            threshold = BatchingDelay.minThreshold
            iterations = min(2 * iterations, BatchingDelay.maxIterations)
        } else {
            threshold = min(2 * threshold, BatchingDelay.maxThreshold)
            (fastArrivals, iterations) = (0, 0)
        }
    }

    /// Nothing came while it looked. What was learnt of who adds counts less.
    mutating func foundNothing() {
        threshold = max(threshold / 2, BatchingDelay.minThreshold)
        (fastArrivals, iterations) = (0, 0)
    }
}
