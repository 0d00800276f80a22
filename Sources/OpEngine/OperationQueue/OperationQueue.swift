import Synchronization

/// Runs operations on the threads of an engine: by readiness, then priority, then first in, first out.
///
/// An operation is in when it is ready. Those that are ready when they are added run in the order of addition, which is all that Apple
/// promises; another one joins the end of its priority when it becomes ready, and those that one finish releases join in the order in
/// which they were made to depend on it. To keep the order of addition among them as well, the queue would have to search.
///
/// Every method may be called from every thread. A queue lives at least until its operations have ended, except a suspended one.
open class OperationQueue: @unchecked Sendable {
    // Safety: `@unchecked Sendable` because `core` and `engine` are constants that are safe from every thread.

    /// Lets the engine decide how many operations run at once.
    public static let defaultMaxConcurrentOperationCount = -1

    /// The engine whose threads run the operations.
    public let engine: Engine
    let core: Core
    /// Whether it is its engine's main queue. Beside what never changes: what the core has is in lines of memory that workers change.
    package final let isMain: Bool
    /// How much of what was added to this queue has finished.
    open var progress: Progress { ownProgress }
    private let ownProgress: Progress

    /// A queue of `Engine.shared`.
    public convenience init() { self.init(engine: .shared) }

    /// A queue of `engine`.
    public init(engine: Engine) {
        self.engine = engine
        core = Core(engine: engine, isMain: false)
        isMain = false
        ownProgress = Progress(core: core)
        core.show(self)
    }

    /// The face of an engine's main queue.
    init(engine: Engine, mainCore: Core) {
        self.engine = engine
        core = mainCore
        isMain = true
        ownProgress = Progress(core: mainCore)
    }

    deinit {
        core.hide(self)
        if !core.isMain { core.abandon() }
    }

    /// The main queue of `Engine.shared`: its operations run on the thread that drains it.
    open class var main: OperationQueue { Engine.shared.mainQueue }

    /// The queue whose operation runs on this thread; on the thread that drains a main queue, that queue; else nil.
    open class var current: OperationQueue? { ThreadContext.currentQueue }

    // MARK: Adding

    /// Adds an operation, which runs when it is ready and its turn has come. Traps on one that was added before, is executing, or
    /// has finished.
    open func addOperation(_ operation: Operation) {
        do { try tryAddOperation(operation) } catch { trap(error) }
    }

    /// Adds a block as an operation. An error it throws is the operation's.
    open func addOperation(_ block: @escaping @Sendable () throws -> Void) { addBlock(block, .normal) }

    /// Adds a block as an operation with this `queuePriority`: what making a `BlockOperation` for that does, in one step. An error the block
    /// throws is the operation's.
    public func addOperation(queuePriority: Operation.QueuePriority, _ block: @escaping @Sendable () throws -> Void) {
        addBlock(block, queuePriority)
    }

    @inline(__always)
    private func addBlock(_ block: @escaping @Sendable () throws -> Void, _ priority: Operation.QueuePriority) {
        let made = unsafe Unmanaged<Operation>.passRetained(BlockOperation(block: block))
        // A subclass may want to be asked.
        if type(of: self) == OperationQueue.self, unsafe core.addAtOnce(made, priority, face: self) { return }
        // Safety: nobody took it.
        let operation = unsafe made.takeRetainedValue()
        if priority != .normal { operation.queuePriority = priority }
        addOperation(operation)
    }

    /// Adds operations in order, all or none. Traps as `addOperation` does.
    ///
    /// - Parameters:
    ///   - operations: what to add; the same operation twice is refused.
    ///   - wait: whether to return only when all of them have finished.
    open func addOperations(_ operations: [Operation], waitUntilFinished wait: Bool) {
        do { try tryAddOperations(operations, waitUntilFinished: wait) } catch { trap(error) }
    }

    /// Adds a block that runs when everything added before it has finished, and before anything added after it starts.
    open func addBarrierBlock(_ barrier: @escaping @Sendable () throws -> Void) {
        do { try tryAddBarrier(BlockOperation(block: barrier)) } catch { trap(error) }
    }

    // MARK: Settings

    /// What runs the operations of this queue; nil, the default: the engine's threads.
    ///
    /// Each operation is a job of the executor; maximum, order, barriers and suspension hold as they do on the engine's threads. An
    /// operation that waits inside a job occupies the executor's thread, which the engine cannot replace.
    ///
    /// Traps when it is set while the queue has operations, on a main queue, or to an executor that runs jobs on the main thread.
    open var underlyingQueue: (any OperationExecutor)? {
        get { core.state.withLock { $0.executor } }
        set {
            do { try trySetUnderlyingQueue(newValue) } catch { trap(error) }
        }
    }

    /// How many operations may execute at once: -1 lets the engine decide, 0 runs nothing. A change acts at once. 1 on a main
    /// queue, where setting it has no effect. Traps on another negative number.
    open var maxConcurrentOperationCount: Int {
        get { core.state.withLock { $0.maximum == .max ? -1 : $0.maximum } }
        set {
            do { try trySetMaxConcurrentOperationCount(newValue) } catch { trap(error) }
        }
    }

    /// `maxConcurrentOperationCount = value`, but throws `OperationError.negativeMaximum`.
    public func trySetMaxConcurrentOperationCount(_ value: Int) throws {
        guard value >= -1 else { throw OperationError.negativeMaximum(queue: label, value: value) }
        if core.isMain { return }
        core.change(face: self) { state in
            let old = state.maximum == .max ? -1 : state.maximum
            state.observation?.mailbox.record(.maxConcurrentOperationCount, old: old, new: value)
            state.maximum = value == -1 ? .max : value
        }
    }

    /// While true nothing starts; what executes goes on.
    open var isSuspended: Bool {
        get { core.state.withLock { $0.isSuspended } }
        set {
            core.change(face: self) { state in
                state.observation?.mailbox.record(.isSuspended, old: state.isSuspended, new: newValue)
                state.isSuspended = newValue
            }
        }
    }

    /// A name for messages; nil by default.
    open var name: String? {
        get { core.state.withLock { $0.name } }
        set {
            core.change(face: self) { state in
                state.observation?.mailbox.record(.name, old: state.name, new: newValue)
                state.name = newValue
            }
        }
    }

    /// How much the work in this queue matters: that of operations that do not say it themselves. It decides on which threads they
    /// run, not when. See `Operation.qualityOfService`. That of an underlying queue wins.
    open var qualityOfService: QualityOfService {
        get { core.state.withLock { $0.executorQuality ?? $0.qualities.own }.quality }
        set { core.change(face: self) { $0.qualities.own = QualityRank(newValue) } }
    }

    /// The policy of operations that are added from now on and have none of their own.
    public var dependencyPolicy: Operation.DependencyPolicy {
        get { core.requiresSuccess.load(ordering: .relaxed) ? .succeeded : .finished }
        set { core.requiresSuccess.store(newValue == .succeeded, ordering: .relaxed) }
    }

    // MARK: Looking

    /// What has been added and has not finished, in order of addition. O(n); O(n log n) where they became ready in quite another order.
    open var operations: [Operation] { core.members() }

    /// How many operations have been added and have not finished.
    open var operationCount: Int { core.state.withLock { $0.count } }

    /// How messages call it.
    var label: String { name.map { "queue \($0)" } ?? (core.isMain ? "the main queue" : "the queue") }

    /// Waits until the queue is empty; what is added meanwhile is waited for as well. Traps when called by one of its operations, or
    /// when nothing can end the wait.
    open func waitUntilAllOperationsAreFinished() {
        do { try tryWaitUntilAllOperationsAreFinished() } catch { trap(error) }
    }

    // MARK: Cancelling

    /// Cancels every operation in the queue, except that a barrier still runs in its place. O(n).
    ///
    /// What executes is cancelled last, dependents before what they depend on, otherwise what was added last first: the end of one does not
    /// let another begin that is to be cancelled, too.
    open func cancelAllOperations() { core.members().filter { !$0.isBarrier }.cancelAll() }
}

extension OperationQueue: Hashable {
    /// Queues are equal when they are the same object.
    public static func == (left: OperationQueue, right: OperationQueue) -> Bool { left === right }

    /// Hashes the identity.
    public func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }
}
