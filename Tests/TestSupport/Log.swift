/// What happened, in order, written from any thread.
public final class Log<Entry: Sendable>: Sendable {
    private let storage = Locked<[Entry]>([])

    public init() {}

    public func append(_ entry: Entry) { storage.withLock { $0.append(entry) } }

    public var entries: [Entry] { storage.withLock { $0 } }
    public var count: Int { entries.count }
}

/// A thread of the test's own, neither a worker nor the test's.
public final class TestThread: Sendable {
    private let ended = Gate()

    public init(_ body: @escaping @Sendable () -> Void) {
        let ended = self.ended
        startThread {
            body()
            ended.open()
        }
    }

    public func join() { ended.wait() }
}
