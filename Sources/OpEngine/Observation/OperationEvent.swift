import CPlatform
import Glibc

/// Something that happened to an operation in a queue.
public struct OperationEvent: Sendable {
    /// What happened.
    public enum Kind: Sendable, Hashable, CaseIterable {
        /// It joined its queue.
        case added
        /// Its dependencies allow it to start. Comes again when a dependency was added after it, and has finished or was removed.
        case ready
        /// A thread is about to call `start`. Does not come for one that was cancelled before.
        case started
        /// It has ended; `operation.outcome` says how.
        case finished
        /// It was cancelled, after it had been added.
        case cancelled
    }

    /// What happened.
    public let kind: Kind
    /// When, in nanoseconds of the monotonic clock: later events of one operation have the same time or a later one.
    public let time: UInt64
    /// The number of the worker that did it, which counts from 1 in each engine; nil on other threads.
    public let worker: Int?
    /// The operation.
    public let operation: Operation
    /// The queue the operation is or was in; nil when nobody had held it any more and its operations were dropped.
    public let queue: OperationQueue?
}

extension OperationEvent {
    /// An event on its way, without the operation, which has it in its mailbox.
    struct Record {
        let kind: Kind
        let time: UInt64
        let worker: Int?
        let queue: OperationQueue?
        let core: OperationQueue.Core
        let engine: Engine

        /// What happens now, on this thread.
        init(_ kind: Kind, in core: OperationQueue.Core) {
            self.kind = kind
            var now = timespec()
            // Safety: a local variable.
            unsafe clock_gettime(CLOCK_MONOTONIC, &now)
            time = UInt64(now.tv_sec) * 1_000_000_000 + UInt64(now.tv_nsec)
            worker = Worker.current?.number
            queue = core.queue
            self.core = core
            // Safety: the operation is in the queue, whose engine therefore lives.
            unsafe engine = core.engine
        }

        /// Tells the observers that the queue and the engine have now.
        func send(about operation: Operation) {
            let event = OperationEvent(kind: kind, time: time, worker: worker, operation: operation, queue: queue)
            for observer in core.state.withLock({ $0.eventObservers }) { observer.operationChanged(event) }
            for observer in engine.eventObservers.all { observer.operationChanged(event) }
        }
    }
}
