/// Stands for no limit in calls that need one: thirty years.
let longest = Duration.seconds(1_000_000_000)

/// A time of C; nil for no limit.
func duration(_ seconds: Double, _ what: String) throws -> Duration? {
    guard seconds >= 0 else { throw Misuse("\(what) is \(seconds), and must be 0 or more seconds") }
    return seconds < longest / .seconds(1) ? .seconds(seconds) : nil
}

/// The end of a wait; nil for no limit.
func end(of seconds: Double) throws -> ContinuousClock.Instant? {
    try duration(seconds, "the deadline").map { .now.advanced(by: $0) }
}
