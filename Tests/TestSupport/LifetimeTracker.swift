/// Counts objects that should be released. The code under test captures a token, and no token may be alive at the end.
public final class LifetimeTracker: Sendable {
    private let count = Locked(0)

    /// Creates a tracker without tokens.
    public init() {}

    /// The number of live tokens.
    public var alive: Int { count.withLock { $0 } }

    /// A new token, alive until it is released.
    public func token() -> Token { Token(self) }

    /// Counted while it is alive.
    public final class Token: Sendable {
        private let tracker: LifetimeTracker

        fileprivate init(_ tracker: LifetimeTracker) {
            self.tracker = tracker
            tracker.count.withLock { $0 += 1 }
        }

        deinit { tracker.count.withLock { $0 -= 1 } }
    }
}
