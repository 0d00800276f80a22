import OpEngine

/// Sums over all operations of a run.
struct RunTotals {
    private(set) var added = 0
    private(set) var succeeded = 0
    private(set) var failed = 0
    private(set) var cancelled = 0
    private(set) var executing = 0
    /// The number of operations that have succeeded because their work was done already.
    private(set) var skipped = 0
    /// The time that finished operations have run, and the time that started operations have waited.
    private(set) var runTimes = TimeHistogram()
    private(set) var waitTimes = TimeHistogram()
    /// The time in nanoseconds that operations have spent on workers without being blocked.
    var workerTime: UInt64 = 0
    /// The time in nanoseconds that operations have spent at workers of a cluster.
    var clusterTime: UInt64 = 0
    private(set) var programsStarted = 0
    private(set) var programsRunning = 0

    var finished: Int { succeeded + failed + cancelled }
    /// The number of operations that have not started.
    var waiting: Int { added - finished - executing }

    mutating func add() { added += 1 }

    mutating func start(afterWaiting time: UInt64) {
        executing += 1
        waitTimes.add(time)
    }

    /// An attempt has failed, and there will be another.
    mutating func endAttempt() { executing -= 1 }

    mutating func skip() { skipped += 1 }

    /// Another attempt begins.
    mutating func startAgain() { executing += 1 }

    /// - Parameter time: how long the operation ran; nil if it did not.
    mutating func finish(_ outcome: OperationOutcome, after time: UInt64?) {
        switch outcome {
        case .succeeded: succeeded += 1
        case .failed: failed += 1
        case .cancelled: cancelled += 1
        }
        guard let time else { return }
        executing -= 1
        runTimes.add(time)
    }

    mutating func programBegan() {
        programsStarted += 1
        programsRunning += 1
    }

    mutating func programEnded() { programsRunning -= 1 }
}
