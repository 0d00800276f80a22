/// Tasks wait at a gate until a test opens it. Each `open` lets one `wait` return. Unlike a `Gate`, it blocks no thread of the tasks' pool,
/// which other tests need.
public final class AsyncGate: Sendable {
    private let openings: AsyncStream<Void>
    private let continuation: AsyncStream<Void>.Continuation

    /// Makes a closed gate.
    public init() { (openings, continuation) = AsyncStream.makeStream() }

    /// Lets one `wait` return.
    public func open() { continuation.yield() }

    /// Waits until `open` was called. One task at a time may wait.
    public func wait() async { for await _ in openings { return } }
}
