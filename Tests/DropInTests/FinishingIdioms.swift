import Dispatch
import Glibc
import OpEngine
import TestSupport

// The ways in which published classes announce that an asynchronous operation executes and has finished. Each class here has the members
// and the order of announcements of the classes that README.md lists for it. Its work ends on another thread.

/// Lets a test decide when the work of an operation ends.
protocol Ending: Operation {
    /// The test opens it to let the work end.
    var mayEnd: Gate { get }
    var starts: Log<Int> { get }
    /// Announces that the work has ended.
    func complete()
}

extension Ending {
    /// Runs the work on another thread.
    func work() {
        starts.append(1)
        DispatchQueue.global().async {
            self.mayEnd.wait()
            self.complete()
        }
    }
}

/// Keeps a state whose observers announce the old and the new flag.
class StateWithObservers: Operation, Ending {
    enum State: String {
        case ready, executing, finished
        var keyPath: String { "is" + rawValue.capitalizedFirst }
    }

    let mayEnd = Gate()
    let starts = Log<Int>()
    private let stored = Locked(State.ready)
    var state: State {
        get { stored.withLock { $0 } }
        set {
            let oldValue = state
            willChangeValue(forKey: newValue.keyPath)
            willChangeValue(forKey: oldValue.keyPath)
            stored.withLock { $0 = newValue }
            didChangeValue(forKey: oldValue.keyPath)
            didChangeValue(forKey: newValue.keyPath)
        }
    }

    override var isReady: Bool { super.isReady && state == .ready }
    override var isExecuting: Bool { state == .executing }
    override var isFinished: Bool { state == .finished }
    override var isAsynchronous: Bool { true }

    override func start() {
        if isCancelled {
            state = .finished
            return
        }
        state = .executing
        main()
    }

    override func main() { work() }
    func complete() { state = .finished }
}

extension String {
    fileprivate var capitalizedFirst: String { prefix(1).uppercased() + dropFirst() }
}

/// The same state, but `start` calls `main` before it announces that the operation executes. The work ends later.
final class StateAfterMain: StateWithObservers {
    private let hasStarted = Gate()
    override func start() {
        if isCancelled {
            state = .finished
            return
        }
        main()
        state = .executing
        hasStarted.open()
    }
    override func complete() {
        hasStarted.wait()
        super.complete()
    }
}

/// Announces changes in the setters of the flags, and inherits `start` from `Operation`. The private queue has a common name.
class SettableFlags: Operation, Ending {
    let mayEnd = Gate()
    let starts = Log<Int>()
    private let queue = DispatchQueue(label: "flags")
    private var _isFinished = false
    private var _isExecuting = false

    override var isFinished: Bool {
        get { queue.sync { _isFinished } }
        set {
            guard newValue != isFinished else { return }
            willChangeValue(for: \.isFinished)
            queue.sync { _isFinished = newValue }
            didChangeValue(for: \.isFinished)
        }
    }

    override var isExecuting: Bool {
        get { queue.sync { _isExecuting } }
        set {
            guard newValue != isExecuting else { return }
            willChangeValue(for: \.isExecuting)
            queue.sync { _isExecuting = newValue }
            didChangeValue(for: \.isExecuting)
        }
    }

    override var isAsynchronous: Bool { true }
    override func main() { work() }

    func finishOperation() {
        isExecuting = false
        isFinished = true
    }
    func complete() { finishOperation() }
}

/// The same, with its own `start`, which runs `main` on the private queue.
final class SettableFlagsWithStart: SettableFlags {
    private let queue = DispatchQueue(label: "start")
    override func start() {
        if isCancelled {
            isFinished = true
            return
        }
        isExecuting = true
        queue.async { self.main() }
    }
}

/// Keeps two observed variables for the flags, and a third one for readiness.
final class ObservedVariables: Operation, Ending {
    let mayEnd = Gate()
    let starts = Log<Int>()
    private let lock = Locked((executing: false, finished: false, ready: false))

    override var isExecuting: Bool { lock.withLock { $0.executing } }
    override var isFinished: Bool { lock.withLock { $0.finished } }
    override var isReady: Bool { super.isReady && lock.withLock { $0.ready } }

    override init() {
        super.init()
        willChangeValue(for: \.isReady)
        lock.withLock { $0.ready = true }
        didChangeValue(for: \.isReady)
    }

    override func start() {
        if isCancelled { return finish() }
        willChangeValue(for: \.isExecuting)
        lock.withLock { $0.executing = true }
        didChangeValue(for: \.isExecuting)
        work()
    }

    /// Announces both changes, one nested in the other.
    func finish() {
        willChangeValue(forKey: "isExecuting")
        willChangeValue(forKey: "isFinished")
        lock.withLock {
            $0.executing = false
            $0.finished = true
        }
        didChangeValue(forKey: "isFinished")
        didChangeValue(forKey: "isExecuting")
    }
    func complete() { finish() }
}

/// Guards its state with a concurrent queue and barriers. Its `cancel` finishes an operation that has begun.
final class StateBehindBarriers: Operation, Ending {
    private enum OperationState { case ready, executing, finished }

    let mayEnd = Gate()
    let starts = Log<Int>()
    private let stateQueue = DispatchQueue(label: "state", attributes: .concurrent)
    private var _state = OperationState.ready
    private var state: OperationState {
        get { stateQueue.sync { _state } }
        set { stateQueue.sync(flags: .barrier) { _state = newValue } }
    }

    override var isReady: Bool { state == .ready && super.isReady }
    override var isExecuting: Bool { state == .executing }
    override var isFinished: Bool { state == .finished }
    override var isAsynchronous: Bool { true }

    override func start() {
        if isCancelled {
            finish()
            return
        }
        willChangeValue(for: \.isExecuting)
        state = .executing
        didChangeValue(for: \.isExecuting)
        main()
    }

    override func main() { work() }

    override func cancel() {
        super.cancel()
        if isExecuting { finish() }
    }

    func finish() {
        if isFinished { return }
        willChangeValue(for: \.isFinished)
        state = .finished
        didChangeValue(for: \.isFinished)
    }
    func complete() { finish() }
}

/// Has a generic result, which the completion block delivers. The class sets that block in its initialiser.
class ResultOperation<Success>: SettableFlagsWithResult {
    private(set) var result: Result<Success, any Error>?
    var onResult: ((Result<Success, any Error>) -> Void)?

    override init() {
        super.init()
        completionBlock = { [unowned self] in
            if let result { onResult?(result) }
            completionBlock = nil
        }
    }

    func finish(with result: Result<Success, any Error>) {
        self.result = result
        super.finish()
    }

    func cancel(with error: any Error) {
        result = .failure(error)
        super.cancel()
    }
}

/// The superclass of the class above: it declares its own `error`, `outcome` and `finished`.
class SettableFlagsWithResult: Operation {
    var error: (any Error)?
    private(set) var outcome = "none"
    private let finished = Locked(false)
    override var isFinished: Bool { finished.withLock { $0 } }
    override var isConcurrent: Bool { true }

    func finish() {
        outcome = error == nil ? "finished" : "failed"
        willChangeValue(forKey: "isFinished")
        finished.withLock { $0 = true }
        didChangeValue(forKey: "isFinished")
    }
    func didFinish() {}
    func willFinish() {}
}

/// Runs its work in a task that `start` creates.
// Safety: `@unchecked Sendable` because a lock guards the flags, and `start` sets the task before any other code reads it.
final class TaskBased: Operation, Ending, @unchecked Sendable {
    let mayEnd = Gate()
    let starts = Log<Int>()
    private var task: Task<Void, Never>?
    private let flags = Locked((executing: false, finished: false))

    override var isAsynchronous: Bool { true }
    override var isExecuting: Bool { flags.withLock { $0.executing } }
    override var isFinished: Bool { flags.withLock { $0.finished } }

    override func start() {
        guard !isCancelled else { return complete() }
        willChangeValue(for: \.isExecuting)
        flags.withLock { $0.executing = true }
        didChangeValue(for: \.isExecuting)
        starts.append(1)
        task = Task.detached { [self] in
            await withCheckedContinuation { continuation in
                DispatchQueue.global().async {
                    self.mayEnd.wait()
                    continuation.resume()
                }
            }
            complete()
        }
    }

    override func cancel() {
        super.cancel()
        task?.cancel()
    }

    func complete() {
        willChangeValue(for: \.isExecuting)
        willChangeValue(for: \.isFinished)
        flags.withLock { $0 = (false, true) }
        didChangeValue(for: \.isFinished)
        didChangeValue(for: \.isExecuting)
    }
}
