import Dispatch
import OpEngine
import TestSupport

// Queues, groups and extensions in the form of published code.

/// Drops operations that are added while it is full.
final class BoundedQueue: OperationQueue {
    private var maxSize = 20
    var title = "bounded"
    init(title: String, maxSize: Int = 20) {
        super.init()
        self.title = title
        self.maxSize = maxSize
        maxConcurrentOperationCount = 1
    }
    override func addOperation(_ op: Operation) {
        if operationCount < maxSize { super.addOperation(op) }
    }
}

/// Counts the blocks that are added, with the signatures of Foundation's methods.
// Safety: a test's thread counts.
final class CountingQueue: OperationQueue, @unchecked Sendable {
    private(set) var blockCount = 0
    override func addOperation(_ block: @escaping @Sendable () -> Void) {
        blockCount += 1
        super.addOperation(block)
    }
    override func addBarrierBlock(_ barrier: @escaping @Sendable () -> Void) {
        blockCount += 1
        super.addBarrierBlock(barrier)
    }
}

// Safety: a test's thread counts.
final class CountingBlocks: BlockOperation, @unchecked Sendable {
    private(set) var blockCount = 0
    override func addExecutionBlock(_ block: @escaping @Sendable () -> Void) {
        blockCount += 1
        super.addExecutionBlock(block)
    }
}

/// Where the types differ from Foundation's, as the page on moving says it.
final class OtherUnderlyingQueue: OperationQueue {
    override var underlyingQueue: (any OperationExecutor)? {
        get { super.underlyingQueue }
        set { super.underlyingQueue = newValue }
    }
}

/// Inherits `init(block:)`.
final class InitialisedBlocks: BlockOperation, @unchecked Sendable {
    // Safety: a constant.
    let title: String
    override init() {
        title = "own"
        super.init()
    }
}

/// Its own `init(block:)` needs no `override`, because that of the class is a convenience initializer.
final class TitledBlocks: BlockOperation, @unchecked Sendable {
    // Safety: a constant.
    let title: String
    init(block: @escaping @Sendable () -> Void) {
        title = "titled"
        super.init()
        addExecutionBlock(block)
    }
}

/// The part of a queue that an object needs, so that tests can pass a substitute.
protocol BlockRunning: AnyObject {
    func addOperation(_ block: @escaping @Sendable () -> Void)
    func addBarrierBlock(_ barrier: @escaping @Sendable () -> Void)
}

extension OperationQueue: BlockRunning {}

protocol BlockHolding: AnyObject { func addExecutionBlock(_ block: @escaping @Sendable () -> Void) }

extension BlockOperation: BlockHolding {}

/// Cancels the remaining operations in its deinitialiser.
final class CancellingQueue: OperationQueue {
    convenience init(maxConcurrentOperationCount: Int) {
        self.init()
        self.maxConcurrentOperationCount = maxConcurrentOperationCount
    }
    deinit { cancelAllOperations() }
}

protocol QueueDelegate: AnyObject {
    func operationQueue(_ queue: DelegatingQueue, willAdd operation: Operation)
    func operationQueue(_ queue: DelegatingQueue, didFinish operation: Operation)
}

/// Tells its delegate of operations, and runs their conditions before them.
final class DelegatingQueue: OperationQueue {
    weak var delegate: (any QueueDelegate)?

    override func addOperation(_ operation: Operation) {
        if let conditional = operation as? Conditional {
            for condition in conditional.conditions {
                let dependency = BlockOperation(block: condition)
                operation.addDependency(dependency)
                addOperation(dependency)
            }
        }
        operation.addCompletionBlock { [weak self, weak operation] in
            guard let self, let operation else { return }
            delegate?.operationQueue(self, didFinish: operation)
        }
        delegate?.operationQueue(self, willAdd: operation)
        super.addOperation(operation)
    }

    override func addOperations(_ operations: [Operation], waitUntilFinished wait: Bool) {
        for operation in operations { addOperation(operation) }
        if wait { for operation in operations { operation.waitUntilFinished() } }
    }
}

final class Conditional: Operation {
    private(set) var conditions: [() -> Void] = []
    private let body: () -> Void
    init(_ body: @escaping () -> Void) { self.body = body }
    func addCondition(_ condition: @escaping () -> Void) { conditions.append(condition) }
    override func main() { if !isCancelled { body() } }
}

extension OperationQueue {
    convenience init(name: String, limit: Int, quality: QualityOfService) {
        self.init()
        self.name = name
        maxConcurrentOperationCount = limit
        qualityOfService = quality
    }

    func addOperations(_ operations: Operation...) { addOperations(operations, waitUntilFinished: false) }

    func pause() { isSuspended = true }
    func resume() { isSuspended = false }
}

extension Operation {
    /// Runs `block` after the existing completion block.
    func addCompletionBlock(_ block: @escaping () -> Void) {
        if let existing = completionBlock {
            completionBlock = {
                existing()
                block()
            }
        } else {
            completionBlock = block
        }
    }

    func addDependencies(_ dependencies: [Operation]) { dependencies.forEach(addDependency) }

    @discardableResult
    func then(on queue: OperationQueue, block: @escaping () -> Void) -> Operation {
        let next = BlockOperation(block: block)
        next.addDependency(self)
        queue.addOperation(next)
        return next
    }
}

/// Runs operations in a private queue, which is suspended until the group starts.
final class GroupOperation: Operation {
    let queue = OperationQueue()
    private let finishingOperation = BlockOperation {}
    private let hasFinished = Locked(false)

    override var isAsynchronous: Bool { true }
    override var isFinished: Bool { hasFinished.withLock { $0 } }

    convenience init(operations: Operation...) {
        self.init(operations: operations)
    }

    init(operations: [Operation]) {
        super.init()
        queue.isSuspended = true
        for operation in operations { add(operation) }
        finishingOperation.completionBlock = { [unowned self] in finish() }
    }

    func add(_ operation: Operation) {
        finishingOperation.addDependency(operation)
        queue.addOperation(operation)
    }

    override func main() {
        queue.addOperation(finishingOperation)
        queue.isSuspended = false
    }

    override func cancel() {
        queue.cancelAllOperations()
        super.cancel()
    }

    private func finish() {
        willChangeValue(forKey: "isFinished")
        hasFinished.withLock { $0 = true }
        didChangeValue(forKey: "isFinished")
    }
}

/// Adds a new copy of itself to its queue until it succeeds.
final class RetryOperation: Operation {
    private let retriesLeft: Int
    private let attempt: (Int) -> Bool
    private let completion: (Bool) -> Void

    init(retries: Int, attempt: @escaping (Int) -> Bool, completion: @escaping (Bool) -> Void) {
        retriesLeft = retries
        self.attempt = attempt
        self.completion = completion
    }

    override func main() {
        if attempt(retriesLeft) { return completion(true) }
        if retriesLeft == 0 { return completion(false) }
        OperationQueue.current?.addOperation(RetryOperation(retries: retriesLeft - 1, attempt: attempt, completion: completion))
    }
}

/// Makes operations of one category exclude each other: each depends on the one before.
final class ExclusivityController {
    private let lock = Locked<[String: [Operation]]>([:])

    func add(_ operation: Operation, categories: [String]) {
        lock.withLock { operations in
            for category in categories {
                if let last = operations[category]?.last { operation.addDependency(last) }
                operations[category, default: []].append(operation)
            }
        }
        operation.addCompletionBlock { [weak operation] in
            self.lock.withLock { operations in
                for category in categories { operations[category]?.removeAll { $0 === operation } }
            }
        }
    }
}
