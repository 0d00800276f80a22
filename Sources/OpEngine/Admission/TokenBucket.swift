/// Counts the starts that a rate limit allows: `burst` at most, and `count` more in each `seconds`. Guarded by the lock of
/// `Engine.admissions`.
///
/// A class, because a supply with an instant in it is slow to make and to destroy: the standard library hides the layout of instants.
@safe final class TokenBucket {
    let rate: RateLimit
    @safe @exclusivity(unchecked) private var tokens: Double
    @safe @exclusivity(unchecked) private var filled: ContinuousClock.Instant

    init(_ rate: RateLimit, at now: ContinuousClock.Instant) {
        self.rate = rate
        tokens = Double(rate.burst)
        filled = now
    }

    // The bounds keep the numbers below finite, whatever a caller sets.
    private var tokensPerSecond: Double { min(max(Double(rate.count) / rate.seconds, 1e-9), 1e15) }

    private func level(at now: ContinuousClock.Instant) -> Double {
        min(Double(rate.burst), tokens + tokensPerSecond * (filled.duration(to: now) / .seconds(1)))
    }

    // Moments are rounded to a billionth of a second, which must not make a whole token look incomplete.
    func available(at now: ContinuousClock.Instant) -> Int { Int(min(level(at: now), 1e15) + 1e-6) }

    func take(at now: ContinuousClock.Instant) {
        tokens = level(at: now) - 1
        filled = now
    }

    /// The moment of the next start that is allowed, if none is allowed now.
    func next(at now: ContinuousClock.Instant) -> ContinuousClock.Instant {
        now + .seconds(max(0, 1 - level(at: now)) / tokensPerSecond)
    }
}

/// The rate at which a queue may start operations.
public struct RateLimit: Sendable, Hashable {
    /// The number of starts in each period. At least 1.
    public let count: Int
    /// The length of a period in seconds. More than 0.
    public let seconds: Double
    /// The number of starts that may follow one another at once after a pause. At least 1.
    public let burst: Int

    /// Allows `count` starts in `seconds`, and at most `burst` at once. Traps if a number is out of range.
    ///
    /// - Parameters:
    ///   - count: the number of starts in each period; at least 1.
    ///   - seconds: the length of a period; more than 0.
    ///   - burst: the number of starts that may follow one another at once after a pause; `count` unless it is given.
    public init(count: Int, seconds: Double = 1, burst: Int? = nil) {
        precondition(count >= 1 && seconds > 0 && seconds.isFinite && (burst ?? 1) >= 1, "opscript: a rate limit needs positive numbers")
        (self.count, self.seconds, self.burst) = (count, seconds, burst ?? count)
    }
}
