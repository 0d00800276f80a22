import OpPlatform
import Synchronization

/// Receives events about the operations of a queue, or of all queues of an engine. The basis for tracing and reports.
///
/// Events of one operation arrive in order, one at a time. Events of different operations arrive on several threads at once; only their
/// times tell their order. An event arrives on the thread that caused it, or on a thread that is delivering an earlier event of the
/// same operation. No lock is held, so the observer may call anything. The observer delays the operation, so it should be quick. An
/// operation that is started manually has no events.
///
/// An event references its queue, a queue its engine, and both reference their observers. Remove an observer that stores events, or none of
/// these objects is ever deallocated.
///
/// Adding an operation to a queue without observers costs one branch. A traced operation costs about one microsecond and some hundred bytes
/// more.
public protocol OperationObserver: AnyObject, Sendable {
    /// Called for each event.
    func operationChanged(_ event: OperationEvent)
}

extension BeyondFoundation where Self: OperationQueue {
    /// Sends events of the operations in this queue to `observer` from now on. Retains the observer until it is removed. Adding it again
    /// has no effect. O(operations).
    public func addObserver(_ observer: any OperationObserver) {
        core.state.withLock { state in
            guard !state.eventObservers.contains(where: { $0 === observer }) else { return }
            state.eventObservers.append(observer)
            core.set(.traced)
            core.traceMembers(&state)
        }
    }

    /// Stops sending events to `observer`. A call in progress on another thread continues.
    public func removeObserver(_ observer: any OperationObserver) {
        let removed = core.state.withLock { $0.eventObservers.removeFirst { $0 === observer } }
        withExtendedLifetime(removed) {}
    }
}

extension Engine {
    /// Sends events of the operations in all queues of this engine to `observer` from now on. Retains the observer until it is removed.
    /// Adding it again has no effect. O(operations).
    public func addObserver(_ observer: any OperationObserver) {
        guard eventObservers.add(observer) else { return }
        for core in activeCores() { core.state.withLock { core.traceMembers(&$0) } }
    }

    /// Stops sending events to `observer`. A call in progress on another thread continues.
    public func removeObserver(_ observer: any OperationObserver) { eventObservers.remove(observer) }

    /// The observers of all operations of an engine.
    final class EventObservers: Sendable {
        private let observers = Guarded<[any OperationObserver]>([])
        private let uses = Atomic<UInt8>(0)
        private static let hasObservers: UInt8 = 1
        private static let isRecorded: UInt8 = 2

        // Atomic, to be read without the lock.

        @inline(__always) var isUsed: Bool { uses.load(ordering: .relaxed) != 0 }
        var hasObservers: Bool { uses.load(ordering: .relaxed) & Self.hasObservers != 0 }
        var isRecorded: Bool { uses.load(ordering: .relaxed) & Self.isRecorded != 0 }

        var all: [any OperationObserver] { observers.withLock { $0 } }

        /// Adds an observer. Returns false if it was already added.
        func add(_ observer: any OperationObserver) -> Bool {
            observers.withLock { observers in
                guard !observers.contains(where: { $0 === observer }) else { return false }
                observers.append(observer)
                set(Self.hasObservers, true)
                return true
            }
        }

        func remove(_ observer: any OperationObserver) {
            let removed = observers.withLock { observers in
                let removed = observers.removeFirst { $0 === observer }
                set(Self.hasObservers, !observers.isEmpty)
                return removed
            }
            withExtendedLifetime(removed) {}
        }

        func setRecorded(_ value: Bool) { set(Self.isRecorded, value) }

        private func set(_ use: UInt8, _ value: Bool) {
            if value {
                uses.bitwiseOr(use, ordering: .sequentiallyConsistent)
            } else {
                uses.bitwiseAnd(~use, ordering: .sequentiallyConsistent)
            }
        }
    }
}

extension OperationQueue.Core {
    /// Whether an operation that is being added must be traced or recorded. The caller holds the queue's lock.
    @inline(__always)
    func isTraced(_ state: OperationQueue.State) -> Bool {
        // Safety: the caller retains the queue, and the queue retains the engine.
        let engineIsTraced = unsafe engine.eventObservers.isUsed
        if !engineIsTraced && state.eventObservers.isEmpty { return false }
        return !isHelper.load(ordering: .relaxed)
    }

    /// Prepares an operation that is about to join the queue for its observers and for the recorder. The caller holds the queue's lock.
    ///
    /// - Returns: the flags that the operation gets when it joins.
    func watch(_ operation: Operation, _ state: inout OperationQueue.State) -> UInt64 {
        // Safety: the caller retains the queue, and the queue retains the engine.
        let observers = unsafe engine.eventObservers
        if observers.hasObservers || !state.eventObservers.isEmpty { operation.trace() }
        let isRecorded = observers.isRecorded && operation.beginRecording(in: self, &state)
        return isRecorded ? Operation.State.recorded : 0
    }

    /// Begins to trace the operations that are in the queue. The caller holds the queue's lock.
    func traceMembers(_ state: inout OperationQueue.State) {
        for operation in state.members { operation.trace() }
    }
}

extension Operation {
    /// Traces the operation for its queue's observers. The caller holds the queue's lock. The operation's lock may be taken inside the
    /// queue's lock, but not the other way round.
    @inline(never)
    func trace() {
        openMailbox { $0.isTraced = true }
    }
}
