extension BeyondFoundation where Self: OperationQueue {
    /// Events about the operations in this queue from now on, as an asynchronous sequence. The sequence ends when the queue is deallocated
    /// or the iterating task is cancelled. A buffered event retains its operation and its queue.
    ///
    /// - Parameter bufferingPolicy: the events to keep if they arrive faster than they are consumed.
    public func events(
        bufferingPolicy: AsyncStream<OperationEvent>.Continuation.BufferingPolicy = .unbounded
    ) -> AsyncStream<OperationEvent> {
        EventStreamObserver.stream(bufferingPolicy, addedBy: { addObserver($0) }, removedBy: { [weak self] in self?.removeObserver($0) })
    }
}

extension Engine {
    /// Events about the operations in all queues of this engine from now on. See `OperationQueue.events`.
    public func events(
        bufferingPolicy: AsyncStream<OperationEvent>.Continuation.BufferingPolicy = .unbounded
    ) -> AsyncStream<OperationEvent> {
        EventStreamObserver.stream(bufferingPolicy, addedBy: { addObserver($0) }, removedBy: { [weak self] in self?.removeObserver($0) })
    }
}

/// Forwards events to a stream. Ends the stream when it is deallocated with the observed queue or engine.
private final class EventStreamObserver: OperationObserver {
    private let continuation: AsyncStream<OperationEvent>.Continuation

    private init(_ continuation: AsyncStream<OperationEvent>.Continuation) { self.continuation = continuation }

    /// The stream of an observer that `add` adds, and that `remove` removes when the stream ends.
    static func stream(
        _ bufferingPolicy: AsyncStream<OperationEvent>.Continuation.BufferingPolicy,
        addedBy add: (EventStreamObserver) -> Void, removedBy remove: @escaping @Sendable (EventStreamObserver) -> Void
    ) -> AsyncStream<OperationEvent> {
        let (stream, continuation) = AsyncStream.makeStream(of: OperationEvent.self, bufferingPolicy: bufferingPolicy)
        let observer = EventStreamObserver(continuation)
        add(observer)
        continuation.onTermination = { [weak observer] _ in if let observer { remove(observer) } }
        return stream
    }

    deinit { continuation.finish() }

    func operationChanged(_ event: OperationEvent) { continuation.yield(event) }
}

extension KeyValueObserving where Self: Operation {
    /// The current value of a property and its value after each change, as an asynchronous sequence. The sequence ends when the operation
    /// has finished or the iterating task is cancelled. No change is missed.
    public func values<Value: Sendable>(of keyPath: KeyPath<Operation, Value>) -> AsyncStream<Value> {
        let (stream, continuation) = AsyncStream.makeStream(of: Value.self)
        let changes = observe(keyPath, options: [.initial, .new]) { _, change in
            if let value = change.newValue { continuation.yield(value) }
        }
        // `isFinished` changes last. Its observer was registered last as well, so it is notified after the value's own observer.
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
