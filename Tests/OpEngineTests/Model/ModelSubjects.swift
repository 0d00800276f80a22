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
