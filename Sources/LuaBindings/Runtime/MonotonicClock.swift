/// The clock of `opscript.now`.
enum MonotonicClock {
    private static let start = ContinuousClock.now

    /// Seconds since an arbitrary point in time in this process.
    static var seconds: Double { start.duration(to: .now) / .seconds(1) }
}

extension ContinuousClock.Instant {
    /// The end of a wait of a number of seconds, which may be infinite.
    static func after(_ seconds: Double) -> Self { .now.advanced(by: .seconds(min(seconds, 1e9))) }
}
