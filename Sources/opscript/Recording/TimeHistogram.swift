/// Counts times, in nanoseconds: for each limit, the number of times that are at most as long.
struct TimeHistogram {
    /// The limits, as text in seconds and in nanoseconds.
    static let limits: [(text: StaticString, nanoseconds: UInt64)] = [
        ("0.0001", 100_000), ("0.0005", 500_000), ("0.001", 1_000_000), ("0.005", 5_000_000), ("0.01", 10_000_000),
        ("0.05", 50_000_000), ("0.1", 100_000_000), ("0.5", 500_000_000), ("1", 1_000_000_000), ("5", 5_000_000_000),
        ("10", 10_000_000_000), ("60", 60_000_000_000), ("300", 300_000_000_000), ("1800", 1_800_000_000_000),
        ("7200", 7_200_000_000_000),
    ]

    /// The number of times above the previous limit and up to the limit with the same index. The last number counts times above all limits.
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
