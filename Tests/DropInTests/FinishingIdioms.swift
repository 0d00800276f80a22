import Dispatch
import Glibc
import OpEngine
import TestSupport

// The ways in which published classes say that an asynchronous operation executes and has finished. Each has the members and the order of
// announcements of the classes that README.md lists for it, and a body that ends on another thread.

/// How a test has the work of an operation end.
protocol Ending: Operation {
    /// Opened when the work may end.
    var mayEnd: Gate { get }
    var starts: Log<Int> { get }
    /// Says that the work has ended.
    func complete()
}

extension Ending {
    /// The work, on a thread of its own.
    func work() {
        starts.append(1)
        DispatchQueue.global().async {
            self.mayEnd.wait()
            self.complete()
        }
    }
}

/// A state whose observers announce both the old and the new flag.
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

/// The same, but it runs `main` first and says afterwards that it executes. The work ends later.
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

/// The setters of the flags announce; `start` is that of `Operation`. The private queue has a name that libraries like.
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

/// The same with a `start` of its own, which runs `main` on the private queue.
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

/// Two variables with observers, and readiness that is a third.
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

    /// Announces both at once, one inside the other.
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

/// A state behind a concurrent queue with barriers, cancelled by an override that finishes what has begun.
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

/// A result that is generic, delivered by the completion block that the class sets in its initialiser.
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

/// What the class above derives from: `error`, `outcome` and `finished` are members of its own.
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

/// A task that `start` begins.
// Safety: `@unchecked Sendable` because the flags have a lock, and `start` sets the task before anybody reads it.
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
