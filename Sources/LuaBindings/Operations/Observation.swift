import OpEngine
import Synchronization

/// A script's observation of one key path of an operation or a queue.
///
/// In the observing state, the handle of the observed object keeps the function and the observation alive; both are released with the
/// handle. The handle of an operation is pinned while the operation is queued or executing, or has left the state. The handle of a queue is
/// pinned while the queue has operations.
///
/// Changes reach the state as jobs. After the last change of an operation, or of a queue that has become empty, one more job follows. That
/// job unpins the handle, which tells a wait that all changes have arrived.
// Safety: `@unchecked Sendable` because `tokens` is written once, before a script gets the observation, `active` is atomic, any thread may load
// the weak reference `object`, and only the state's thread uses the other variables.
final class Observation: @unchecked Sendable {
    let state: LuaState
    let keyPath: String
    /// The group that owns the calls of the function.
    let group: Runtime.Group?
    /// The budget of the code that has begun to observe.
    let budget: RunBudget?
    private let charge: Charge?
    private(set) weak var object: AnyObject?
    private let active = Atomic<Bool>(true)
    private var tokens: [KeyValueObservation] = []
    /// Whether the handle is pinned, because more changes may arrive.
    private(set) var isPinned = false
    /// The number of probes of a queue that have not been answered. See `probe`.
    private var probes = 0
    /// Whether the operation has finished and all changes up to then were delivered.
    private var hasEnded = false

    private init(of object: AnyObject, _ keyPath: String, in state: LuaState) {
        self.object = object
        self.keyPath = keyPath
        self.state = state
        group = unsafe state.group?.takeUnretainedValue()
        budget = state.budget
        // The engine has the key path, too.
        charge = state.core.ledger.charge(.observation, 2 * keyPath.utf8.count)
    }

    var isActive: Bool { active.load(ordering: .acquiring) }

    /// Begins to observe an operation.
    ///
    /// - Parameter key: the engine's key for the key path.
    static func begin(
        _ operation: Operation, _ keyPath: String, key: String, _ options: KeyValueObservingOptions, in state: LuaState
    ) -> Observation {
        let observation = Observation(of: operation, keyPath, in: state)
        // The handlers keep neither the observation nor the operation alive. The operation is alive when a handler is called.
        let token = operation.observe(keyPath: key, options: options) { [weak observation, unowned operation] change in
            observation?.note(change, of: operation)
        }
        let ending = operation.observe(keyPath: "isFinished", options: [.initial, .new]) { [weak observation, unowned operation] change in
            guard let observation, change.newValue as? Bool == true else { return }
            let operation = operation
            observation.state.post { observation.end(of: operation) }
        }
        observation.tokens = [token, ending]
        return observation
    }

    /// Begins to observe a queue.
    static func begin(
        _ queue: OperationQueue, _ keyPath: String, _ options: KeyValueObservingOptions, in state: LuaState
    ) -> Observation {
        let observation = Observation(of: queue, keyPath, in: state)
        let token = queue.observe(keyPath: keyPath, options: options) { [weak observation, unowned queue] change in
            observation?.note(change, of: queue)
        }
        let counting = queue.observe(keyPath: "operationCount", options: [.initial, .old, .new]) {
            [weak observation, unowned queue] change in
            guard let observation, let count = change.newValue as? Int else { return }
            if let old = change.oldValue as? Int, (old == 0) == (count == 0) { return }
            let queue = queue
            state.post { if count > 0 { observation.pin(queue) } else { observation.probe(queue) } }
        }
        observation.tokens = [token, counting]
        return observation
    }

    // MARK: changes

    private func note(_ change: KeyValueObservedChange<any Sendable>, of object: some AnyObject & Sendable) {
        guard isActive else { return }
        let notice = ChangeNotice(keyPath: keyPath, change, of: object, countedIn: state.core.ledger)
        // The script may drop the object before the change arrives, so pin the handle until then.
        let isKept = state.isOnItsThread && keep(object)
        state.post {
            self.state.tell(self, notice, of: object)
            if isKept { self.state.unpin(object) }
        }
    }

    // MARK: pinning the handle

    /// Pins the handle, because more changes may arrive from outside of the state until the operation has finished.
    func awaitEnd(of operation: Operation) {
        if isActive && !hasEnded { pin(operation) }
    }

    /// Unpins the handle, because no other code can reach the operation.
    func stopAwaiting(endOf operation: Operation) { unpin(operation) }

    private func end(of operation: Operation) {
        hasEnded = true
        unpin(operation)
    }

    /// Pins the handle, because the state is about to add operations to the queue, perhaps its first ones.
    func willAdd(to queue: OperationQueue) { if isActive { pin(queue) } }

    func hasAdded(to queue: OperationQueue) { probe(queue) }

    /// Checks whether the queue is empty and all changes up to then have arrived. If not, another probe follows when the queue becomes
    /// empty.
    private func probe(_ queue: OperationQueue) {
        guard isPinned else { return }
        probes += 1
        let wasEmpty = queue.operationCount == 0
        queue.whenChangesAreTold { [state] in state.post { self.probed(queue, wasEmpty: wasEmpty) } }
    }

    private func probed(_ queue: OperationQueue, wasEmpty: Bool) {
        probes -= 1
        guard probes == 0, queue.operationCount == 0 else { return }
        if wasEmpty { unpin(queue) } else { probe(queue) }
    }

    /// Pins the handle. Returns false if memory ran out or the state was closed.
    private func keep(_ object: AnyObject) -> Bool {
        guard !state.isClosed else { return false }
        do throws(Failure) { try state.pin(object, ObjectKind(of: object)) } catch { return false }
        return true
    }

    private func pin(_ object: AnyObject) {
        guard !isPinned, keep(object) else { return }
        isPinned = true
        state.isAwaiting(self, true)
    }

    private func unpin(_ object: AnyObject) {
        guard isPinned else { return }
        isPinned = false
        state.isAwaiting(self, false)
        state.unpin(object)
    }

    /// Whether the operation has finished, or the queue is empty: the last changes were made, and will arrive.
    var isEnding: Bool {
        switch object {
        case let operation as Operation: operation.isFinished
        case let queue as OperationQueue: queue.operationCount == 0
        default: true
        }
    }

    // MARK: ending

    /// Ends the observation. In its own state, no call of the function begins after this. `current` is the state of the calling thread.
    func invalidate(in current: LuaState) {
        guard active.exchange(false, ordering: .acquiringAndReleasing) else { return }
        for token in tokens { token.invalidate() }
        guard let object else { return }
        (object as? LuaOperation)?.removeObservation(self)
        let forget = { @Sendable [state] in
            state.removeFunction(of: self)
            if let object = self.object { self.unpin(object) }
        }
        if current === state { forget() } else { state.post(forget) }
    }
}
