/// Records events in order. Any thread may append.
public final class Log<Entry: Sendable>: Sendable {
    private let storage = Locked<[Entry]>([])

    /// Creates an empty log.
    public init() {}

    /// Appends an entry.
    public func append(_ entry: Entry) { storage.withLock { $0.append(entry) } }

    /// The entries so far.
    public var entries: [Entry] { storage.withLock { $0 } }
    /// The number of entries.
    public var count: Int { entries.count }
}

/// A thread that belongs to a test. It is neither a worker nor the thread of the test.
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
