/// Counts objects that should go: what is tested captures a token, and when all is over none may be left.
public final class LifetimeTracker: Sendable {
    private let count = Locked(0)

    /// A tracker without tokens.
    public init() {}

    /// How many tokens are alive.
    public var alive: Int { count.withLock { $0 } }

    /// A new one, alive until nobody holds it.
    public func token() -> Token { Token(self) }

    /// Counted from its beginning to its end.
    public final class Token: Sendable {
        private let tracker: LifetimeTracker

        fileprivate init(_ tracker: LifetimeTracker) {
            self.tracker = tracker
            tracker.count.withLock { $0 += 1 }
        }

        deinit { tracker.count.withLock { $0 -= 1 } }
    }
}
