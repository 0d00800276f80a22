import Dispatch
import OpEngine
import TestSupport

// Operations whose conditions are evaluated when they become ready, in the form of published libraries.

/// Decides whether an operation may run, and says so once.
typealias ConditionBody = @Sendable (_ answer: @escaping @Sendable (Bool) -> Void) -> Void

/// Keeps its flags in a state and in a flag of its own, and says with class functions which flags follow from these. Evaluates its
/// conditions when it is told that it may have become ready.
// Safety: locks guard the state and the lists, and the rest is constant.
class OperationWithConditions: Operation, @unchecked Sendable {
    class func keyPathsForValuesAffectingIsReady() -> Set<String> { ["state", "cancelledState"] }
    class func keyPathsForValuesAffectingIsExecuting() -> Set<String> { ["state"] }
    class func keyPathsForValuesAffectingIsFinished() -> Set<String> { ["state"] }
    class func keyPathsForValuesAffectingIsCancelled() -> Set<String> { ["cancelledState"] }

    private enum State: Int, Comparable {
        case initialized, pending, evaluatingConditions, ready, executing, finishing, finished
        static func < (left: State, right: State) -> Bool { left.rawValue < right.rawValue }
    }

    private let stateLock = Locked(State.initialized)
    private let cancelledState = Locked(false)
    private let conditions = Locked<[ConditionBody]>([])
    private var observation: NSKeyValueObservation?
    let log: Log<String>
    private let title: String

    init(_ title: String = "", log: Log<String> = Log<String>()) {
        (self.title, self.log) = (title, log)
        super.init()
        observation = observe(\.isReady) { operation, _ in operation.evaluateConditions() }
    }

    private var state: State { stateLock.withLock { $0 } }

    /// Returns whether the state was one of `former`.
    @discardableResult
    private func move(from former: State..., to next: State) -> Bool {
        willChangeValue(forKey: "state")
        defer { didChangeValue(forKey: "state") }
        return stateLock.withLock { state in
            guard former.contains(state) else { return false }
            state = next
            return true
        }
    }

    override var isReady: Bool {
        guard super.isReady else { return false }
        return isCancelled || state >= .ready
    }
    override var isExecuting: Bool { state == .executing }
    override var isFinished: Bool { state == .finished }
    override var isCancelled: Bool { cancelledState.withLock { $0 } }

    func addCondition(_ condition: @escaping ConditionBody) { conditions.withLock { $0.append(condition) } }

    func didEnqueue() { move(from: .initialized, to: .pending) }

    private func evaluateConditions() {
        guard super.isReady, !isCancelled, state == .pending, move(from: .pending, to: .evaluatingConditions) else { return }
        let (group, failed) = (DispatchGroup(), Locked(false))
        for condition in conditions.withLock({ $0 }) {
            group.enter()
            condition { holds in
                if !holds { failed.withLock { $0 = true } }
                group.leave()
            }
        }
        group.notify(queue: .global()) { [self] in
            if failed.withLock({ $0 }) { cancel() }
            move(from: .evaluatingConditions, to: .ready)
        }
    }

    override func start() {
        super.start()
        if isCancelled { finish() }
    }

    override func main() {
        guard !isCancelled, move(from: .ready, to: .executing) else { return finish() }
        execute()
    }

    func execute() {
        log.append(title)
        finish()
    }

    override func cancel() {
        willChangeValue(forKey: "cancelledState")
        cancelledState.withLock { $0 = true }
        didChangeValue(forKey: "cancelledState")
        if state > .ready { finish() }
    }

    func finish() {
        guard move(from: .initialized, .pending, .evaluatingConditions, .ready, .executing, to: .finishing) else { return }
        move(from: .finishing, to: .finished)
    }
}

/// The same, with the function of `NSObject` instead of functions for single keys.
// Safety: nothing is added.
final class OperationWithDeclaredKeys: OperationWithConditions, @unchecked Sendable {
    override class func keyPathsForValuesAffectingValue(forKey key: String) -> Set<String> {
        let keys = super.keyPathsForValuesAffectingValue(forKey: key)
        switch key {
        case "isReady": return keys.union(["state", "cancelledState"])
        case "isExecuting", "isFinished": return keys.union(["state"])
        case "isCancelled": return keys.union(["cancelledState"])
        default: return keys
        }
    }
}

/// Tells operations that they were added.
final class ConditionQueue: OperationQueue {
    override func addOperation(_ operation: Operation) {
        super.addOperation(operation)
        (operation as? OperationWithConditions)?.didEnqueue()
    }
}

/// Is added to no queue. Starts itself when it is asked whether it is ready and its dependencies have finished, once it may.
// Safety: a lock guards the flag.
final class SelfStartingOperation: Operation, @unchecked Sendable {
    private let mayStart = Locked(false)

    func allowStart() { mayStart.withLock { $0 = true } }

    override var isReady: Bool {
        let isReady = super.isReady
        let starts =
            isReady
            && mayStart.withLock { mayStart in
                defer { mayStart = false }
                return mayStart
            }
        if starts { DispatchQueue.global().async { self.start() } }
        return isReady
    }
}
