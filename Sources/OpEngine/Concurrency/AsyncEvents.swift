extension BeyondFoundation where Self: OperationQueue {
    /// What happens to the operations in this queue from now on, as an asynchronous sequence; it ends when the queue goes, or the task
    /// that iterates over it is cancelled. An event that waits in the sequence holds its operation and queue.
    ///
    /// - Parameter bufferingPolicy: what to keep when events come faster than they are taken.
    public func events(
        bufferingPolicy: AsyncStream<OperationEvent>.Continuation.BufferingPolicy = .unbounded
    ) -> AsyncStream<OperationEvent> {
        let (stream, continuation) = AsyncStream.makeStream(of: OperationEvent.self, bufferingPolicy: bufferingPolicy)
        let observer = EventStreamObserver(continuation)
        addObserver(observer)
        continuation.onTermination = { [weak self, weak observer] _ in
            if let observer { self?.removeObserver(observer) }
        }
        return stream
    }
}

extension Engine {
    /// What happens to the operations in all queues of this engine from now on. See `OperationQueue.events`.
    public func events(
        bufferingPolicy: AsyncStream<OperationEvent>.Continuation.BufferingPolicy = .unbounded
    ) -> AsyncStream<OperationEvent> {
        let (stream, continuation) = AsyncStream.makeStream(of: OperationEvent.self, bufferingPolicy: bufferingPolicy)
        let observer = EventStreamObserver(continuation)
        addObserver(observer)
        continuation.onTermination = { [weak self, weak observer] _ in
            if let observer { self?.removeObserver(observer) }
        }
        return stream
    }
}

/// Passes events on, until whoever is observed lets it go.
private final class EventStreamObserver: OperationObserver {
    private let continuation: AsyncStream<OperationEvent>.Continuation

    init(_ continuation: AsyncStream<OperationEvent>.Continuation) { self.continuation = continuation }

    deinit { continuation.finish() }

    func operationChanged(_ event: OperationEvent) { continuation.yield(event) }
}

extension KeyValueObserving where Self: Operation {
    /// The value of a property now, and after each change, as an asynchronous sequence; it ends when the operation has finished, or the
    /// task that iterates over it is cancelled. No change is missed.
    public func values<Value: Sendable>(of keyPath: KeyPath<Operation, Value>) -> AsyncStream<Value> {
        let (stream, continuation) = AsyncStream.makeStream(of: Value.self)
        let changes = observe(keyPath, options: [.initial, .new]) { _, change in
            if let value = change.newValue { continuation.yield(value) }
        }
        // The last change of all; observed after the first, it is told after it.
        let end = observe(\.isFinished, options: [.initial, .new]) { _, change in
            if change.newValue == true { continuation.finish() }
        }
        continuation.onTermination = { _ in
            changes.invalidate()
            end.invalidate()
        }
        return stream
    }
}
