/// The amount that one call of `drain` may still run.
///
/// Each Lua state stores a limit, so the limit has a fixed size, unlike an instant of a clock.
struct DrainLimit {
    private var count: Int
    /// The end, by `MonotonicClock`.
    private let end: Double?
    /// Whether one callback or operation may run although the time is over, so that each drain makes progress.
    private var isFirst = true

    init(count: Int, time: Duration?) {
        self.count = count
        end = time.map { MonotonicClock.seconds + $0 / .seconds(1) }
    }

    /// Whether one more callback or operation may run. Counts it.
    mutating func allowsMore() -> Bool {
        guard count > 0 else { return false }
        if !isFirst, let end, MonotonicClock.seconds >= end { return false }
        isFirst = false
        count -= 1
        return true
    }
}
