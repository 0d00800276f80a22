import Synchronization

/// Is told what happens to the operations of a queue or of all queues of an engine: what tracing and reports are built on.
///
/// Events of one operation come in the order in which they happened, one at a time; those of different operations come from several
/// threads at once, and only their times say which was first. An event comes on the thread that caused it, or on one that is
/// delivering an earlier event of the same operation; no lock is held, and the observer may call anything. It delays the operation,
/// so it should be quick. An operation that is started by hand has no events. An event names its queue, and a queue its engine, which
/// hold their observers: one that keeps events is to be removed, or nothing of these goes.
///
/// While a queue has no observer this costs a branch when an operation is added. A traced operation costs about a microsecond and
/// some hundred bytes more.
public protocol OperationObserver: AnyObject, Sendable {
    /// Something has happened to an operation.
    func operationChanged(_ event: OperationEvent)
}

extension BeyondFoundation where Self: OperationQueue {
    /// Tells `observer` from now on what happens to the operations in this queue, and holds it until it is removed. O(operations).
    /// Adding it again has no effect.
    public func addObserver(_ observer: any OperationObserver) {
        core.state.withLock { state in
            guard !state.eventObservers.contains(where: { $0 === observer }) else { return }
            state.eventObservers.append(observer)
            core.traceMembers(&state)
        }
    }

    /// Stops telling `observer`. A call that is under way on another thread goes on.
    public func removeObserver(_ observer: any OperationObserver) {
        let removed = core.state.withLock { state in
            state.eventObservers.firstIndex { $0 === observer }.map { state.eventObservers.remove(at: $0) }
        }
        withExtendedLifetime(removed) {}
    }
}

extension Engine {
    /// Tells `observer` from now on what happens to the operations in all queues of this engine, and holds it until it is removed.
    /// O(operations). Adding it again has no effect.
    public func addObserver(_ observer: any OperationObserver) {
        guard eventObservers.add(observer) else { return }
        for core in activeCores() { core.state.withLock { core.traceMembers(&$0) } }
    }

    /// Stops telling `observer`. A call that is under way on another thread goes on.
    public func removeObserver(_ observer: any OperationObserver) { eventObservers.remove(observer) }

    /// Those who want to know about all operations of an engine.
    final class EventObservers: Sendable {
        private let observers = Guarded<[any OperationObserver]>([])
        /// Whether there are any, for those who look without the lock.
        let isUsed = Atomic<Bool>(false)

        var all: [any OperationObserver] { observers.withLock { $0 } }

        /// False: it was there.
        func add(_ observer: any OperationObserver) -> Bool {
            observers.withLock { observers in
                guard !observers.contains(where: { $0 === observer }) else { return false }
                observers.append(observer)
                isUsed.store(true, ordering: .sequentiallyConsistent)
                return true
            }
        }

        func remove(_ observer: any OperationObserver) {
            let removed = observers.withLock { observers in
                let removed = observers.firstIndex { $0 === observer }.map { observers.remove(at: $0) }
                isUsed.store(!observers.isEmpty, ordering: .sequentiallyConsistent)
                return removed
            }
            withExtendedLifetime(removed) {}
        }
    }
}

extension OperationQueue.Core {
    /// Whether somebody wants the events of an operation that joins now. With the lock held.
    @inline(__always)
    func isTraced(_ state: OperationQueue.State) -> Bool {
        // Safety: the caller holds the queue, and it the engine.
        let engineIsTraced = unsafe engine.eventObservers.isUsed.load(ordering: .relaxed)
        if !engineIsTraced && state.eventObservers.isEmpty { return false }
        return !isHelper.load(ordering: .relaxed)
    }

    /// The operations that are in the queue have events from now on. With the lock held.
    func traceMembers(_ state: inout OperationQueue.State) {
        for operation in state.members { operation.trace(in: self) }
    }
}

extension Operation {
    /// Its queue has observers of events. With the queue's lock held: an operation's lock may be taken inside, not the other way round.
    @inline(never)
    func trace(in core: OperationQueue.Core) {
        openMailbox { $0.tracedCore = core }
    }
}
