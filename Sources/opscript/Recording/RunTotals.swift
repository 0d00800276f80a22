import OpEngine

/// Sums over all operations of a run.
struct RunTotals {
    private(set) var added = 0
    private(set) var succeeded = 0
    private(set) var failed = 0
    private(set) var cancelled = 0
    private(set) var executing = 0
    /// How long the operations that have finished had run, and how long those that have started had waited.
    private(set) var runTimes = TimeHistogram()
    private(set) var waitTimes = TimeHistogram()
    /// The time in nanoseconds that operations have spent on workers.
    var workerTime: UInt64 = 0
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

    /// - Parameter time: how long the operation ran; nil if it did not.
    mutating func finish(_ outcome: Operation.Outcome, after time: UInt64?) {
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

/// How many of some times, in nanoseconds, are at most as long as each of some limits.
struct TimeHistogram {
    /// The limits, as text in seconds and in nanoseconds.
    static let limits: [(text: StaticString, nanoseconds: UInt64)] = [
        ("0.0001", 100_000), ("0.0005", 500_000), ("0.001", 1_000_000), ("0.005", 5_000_000), ("0.01", 10_000_000),
        ("0.05", 50_000_000), ("0.1", 100_000_000), ("0.5", 500_000_000), ("1", 1_000_000_000), ("5", 5_000_000_000),
        ("10", 10_000_000_000), ("60", 60_000_000_000), ("300", 300_000_000_000), ("1800", 1_800_000_000_000),
        ("7200", 7_200_000_000_000),
    ]

    /// The number of times above the limit before and up to the limit with the same index; the last one is of those above all limits.
    private var counts = [Int](repeating: 0, count: limits.count + 1)
    /// The sum of the times.
    private(set) var sum: UInt64 = 0

    mutating func add(_ time: UInt64) {
        counts[TimeHistogram.limits.firstIndex { time <= $0.nanoseconds } ?? TimeHistogram.limits.count] += 1
        sum += time
    }

    /// The number of times up to each limit, and then of all times.
    var cumulativeCounts: [Int] {
        var total = 0
        return counts.map { count in
            total += count
            return total
        }
    }
}
