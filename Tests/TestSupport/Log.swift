/// What happened, in order, written from any thread.
public final class Log<Entry: Sendable>: Sendable {
    private let storage = Locked<[Entry]>([])

    /// Nothing has happened.
    public init() {}

    /// Adds an entry.
    public func append(_ entry: Entry) { storage.withLock { $0.append(entry) } }

    /// What has happened until now.
    public var entries: [Entry] { storage.withLock { $0 } }
    /// How many entries there are.
    public var count: Int { entries.count }
}

/// A thread of the test's own, neither a worker nor the test's.
public final class TestThread: Sendable {
    private let ended = Gate()

    /// Starts a thread that runs `body`.
    public init(_ body: @escaping @Sendable () -> Void) {
        let ended = self.ended
        startThread {
            body()
            ended.open()
        }
    }

    /// Waits until the body has returned.
    public func join() { ended.wait() }
}
