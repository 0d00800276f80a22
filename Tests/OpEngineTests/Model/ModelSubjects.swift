import OpEngine
import Synchronization
import TestSupport

struct ModelFailure: Error {}

/// Does not end by itself; the test finishes it.
final class HeldOperation: AsyncOperation, @unchecked Sendable {
    // Safety: the body is a constant.
    private let body: @Sendable () -> Void
    init(_ body: @escaping @Sendable () -> Void) { self.body = body }
    override func main() { body() }
}

/// Has its own readiness, combined with the superclass's as the documentation asks for.
final class GatedOperation: Operation, @unchecked Sendable {
    // Safety: the body is a constant, and the rest is atomic.
    private let body: @Sendable () -> Void
    private let isAllowed = Atomic<Bool>(false)
    init(_ body: @escaping @Sendable () -> Void) { self.body = body }
    override func main() { body() }
    override var isReady: Bool { super.isReady && isAllowed.load(ordering: .acquiring) }

    func allow() {
        willChangeValue(forKey: "isReady")
        isAllowed.store(true, ordering: .releasing)
        didChangeValue(forKey: "isReady")
    }
}

/// Overrides the flags of its state and announces them, as code for Foundation does.
// Safety: the flags are atomic, and the rest is constant.
final class AnnouncingOperation: Operation, @unchecked Sendable {
    enum End: CaseIterable {
        /// In `start`.
        case atOnce
        /// On another thread, which announces the end while `start` returns.
        case elsewhere
        /// As before, while an observer keeps all notices back until the end was announced.
        case stalled
        /// As before, and the thread sets the flag before the first announcement.
        case late
    }

    private let body: @Sendable () -> Void
    private let ending: End
    private let running = Atomic<Bool>(false)
    private let ended = Atomic<Bool>(false)
    private let (hasStalled, hasEnded, hasAnnounced) = (Gate(), Gate(), Gate())
    private let threads = Locked<[TestThread]>([])
    /// How often an observer was told that the operation has finished, and how often that it has not.
    let (endsTold, othersTold) = (Locked(0), Locked(0))
    private let tokens = Locked<[KeyValueObservation]>([])

    init(_ end: End, _ body: @escaping @Sendable () -> Void) {
        (self.body, ending) = (body, end)
        super.init()
        let (endsTold, othersTold, hasStalled, hasAnnounced) = (endsTold, othersTold, hasStalled, hasAnnounced)
        let told = observe(\.isFinished, options: .new) { _, notice in
            (notice.newValue == true ? endsTold : othersTold).withLock { $0 += 1 }
        }
        let stalling = observe(keyPath: "note") { _ in
            hasStalled.open()
            hasAnnounced.wait()
        }
        tokens.withLock { $0 = [told, stalling] }
    }

    override var isExecuting: Bool { running.load(ordering: .acquiring) }
    override var isFinished: Bool { ended.load(ordering: .acquiring) }
    override var isAsynchronous: Bool { true }

    override func start() {
        if isCancelled { return announceEnd() }
        willChangeValue(for: \.isExecuting)
        running.store(true, ordering: .releasing)
        didChangeValue(for: \.isExecuting)
        body()
        if ending == .atOnce { return announceEnd() }
        if ending != .elsewhere {
            run { [self] in
                willChangeValue(forKey: "note")
                didChangeValue(forKey: "note")
            }
            hasStalled.wait()
        }
        run { [self] in announceEnd() }
        hasEnded.wait()
    }

    private func announceEnd() {
        if ending != .late { willChangeEnd() }
        running.store(false, ordering: .releasing)
        ended.store(true, ordering: .releasing)
        hasEnded.open()
        if ending == .late { willChangeEnd() }
        didChangeValue(for: \.isExecuting)
        didChangeValue(for: \.isFinished)
        hasAnnounced.open()
    }

    private func willChangeEnd() {
        willChangeValue(for: \.isExecuting)
        willChangeValue(for: \.isFinished)
    }

    private func run(_ body: @escaping @Sendable () -> Void) {
        let thread = TestThread(body)
        threads.withLock { $0.append(thread) }
    }

    /// Waits until all notices were delivered. The operation must have left its worker.
    func join() {
        for thread in threads.withLock({ exchange(&$0, with: []) }) { thread.join() }
    }
}

/// A group that tells when it starts.
final class GroupSubject: GroupOperation, @unchecked Sendable {
    // Safety: the closures are constants.
    private let body: @Sendable () -> Void
    private let opened: @Sendable () -> Void

    /// - Parameter opened: called when a cancelled group lets its members end.
    init(_ body: @escaping @Sendable () -> Void, opened: @escaping @Sendable () -> Void, engine: Engine) {
        (self.body, self.opened) = (body, opened)
        super.init(operations: [], engine: engine)
    }

    override func start() {
        if isCancelled { opened() }
        super.start()
    }

    override func main() { body() }
}
