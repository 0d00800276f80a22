import OpPlatform

/// An event of an operation in a queue.
public struct OperationEvent: Sendable {
    /// The kinds of events.
    public enum Kind: Sendable, Hashable, CaseIterable {
        /// The operation was added to its queue.
        case added
        /// The operation's dependencies allow it to start. Occurs again if a dependency that was added later has finished or was removed.
        case ready
        /// A thread is about to call `start`. Does not occur if the operation was cancelled before.
        case started
        /// The operation has finished. See `operation.outcome`.
        case finished
        /// The operation was cancelled while it was in the queue.
        case cancelled
    }

    /// The kind of the event.
    public let kind: Kind
    /// The time in nanoseconds of the monotonic clock. Never decreases from one event of an operation to the next.
    public let time: UInt64
    /// The number of the worker that caused the event. Nil on other threads.
    public let worker: Int?
    /// The operation.
    public let operation: Operation
    /// The queue that the operation is or was in. Nil if no user held the queue any more and its operations were dropped.
    public let queue: OperationQueue?
}

extension OperationEvent {
    /// An event that waits for delivery. Does not contain the operation, because the record is in that operation's mailbox.
    struct Record {
        let kind: Kind
        let time: UInt64
        let worker: Int?
        let queue: OperationQueue?
        let core: OperationQueue.Core
        let engine: Engine

        /// An event that happens now on this thread.
        init(_ kind: Kind, in core: OperationQueue.Core) {
            self.kind = kind
            time = monotonicNow()
            worker = Worker.current?.number
            queue = core.queue
            self.core = core
            // Safety: the operation is in the queue, so the queue's engine is alive.
            unsafe engine = core.engine
        }

        /// Sends the event to the current observers of the queue and of the engine.
        func send(about operation: Operation) {
            let event = OperationEvent(kind: kind, time: time, worker: worker, operation: operation, queue: queue)
            for observer in core.state.withLock({ $0.eventObservers }) { observer.operationChanged(event) }
            for observer in engine.eventObservers.all { observer.operationChanged(event) }
        }
    }
}
