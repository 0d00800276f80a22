import OpEngine
import OpPlatform
import Synchronization

/// Tells waiting states that a stream has had an event.
final class StreamSignal: Sendable {
    private let events = Atomic<Int>(0)
    private let mutable = Guarded(Mutable())

    private struct Mutable {
        /// The inboxes to wake: one for each wait.
        var waiting: [Inbox] = []
        var listener: (@Sendable () -> Void)?
    }

    /// The number of events.
    var count: Int { events.load(ordering: .acquiring) }

    /// Counts an event. On the I/O thread.
    func announce() {
        events.wrappingAdd(1, ordering: .acquiringAndReleasing)
        let (waiting, listener) = mutable.withLock { ($0.waiting, $0.listener) }
        for inbox in waiting { inbox.wake() }
        listener?()
    }

    /// Makes each event call `listener`, on the I/O thread.
    func listen(_ listener: @escaping @Sendable () -> Void) { mutable.withLock { $0.listener = listener } }

    func wake(_ inbox: Inbox) { mutable.withLock { $0.waiting.append(inbox) } }

    func stopWaking(_ inbox: Inbox) {
        mutable.withLock { mutable in
            if let index = mutable.waiting.lastIndex(where: { $0 === inbox }) { mutable.waiting.remove(at: index) }
        }
    }
}
