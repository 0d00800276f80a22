/// The clock of `opscript.now`.
enum MonotonicClock {
    private static let start = ContinuousClock.now

    /// Seconds since an arbitrary point in time in this process.
    static var seconds: Double { start.duration(to: .now) / .seconds(1) }
}
