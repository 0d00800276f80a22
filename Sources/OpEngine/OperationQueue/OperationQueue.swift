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

    let core: Core
    /// The same as `engine`, which a subclass may declare again.
    final let ownEngine: Engine
    /// Whether it is its engine's main queue. Beside what never changes: what the core has is in lines of memory that workers change.
    package final let isMain: Bool
    /// How much of what was added to this queue has finished.
    open var progress: Progress { ownProgress }
    private let ownProgress: Progress

    // Both are designated, so that a subclass may call and override either, and inherits them when it has no initialisers of its own.

    /// A queue of `Engine.shared`.
    public init() {
        ownEngine = .shared
        core = Core(engine: .shared, isMain: false)
        isMain = false
        ownProgress = Progress(core: core)
        core.attach(self)
    }

    /// A queue of `engine`.
    public init(engine: Engine) {
        ownEngine = engine
        core = Core(engine: engine, isMain: false)
        isMain = false
        ownProgress = Progress(core: core)
        core.attach(self)
    }

    /// The queue of an engine's main queue.
    init(engine: Engine, mainCore: Core) {
        ownEngine = engine
        core = mainCore
        isMain = true
        ownProgress = Progress(core: mainCore)
    }

    deinit {
        core.detach(self)
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

    @inline(__always)
    func addBlock(_ block: @escaping @Sendable () throws -> Void, _ priority: Operation.QueuePriority) {
        let made = unsafe Unmanaged<Operation>.passRetained(BlockOperation(block: block))
        // A subclass may want to be asked.
        if type(of: self) == OperationQueue.self, unsafe core.addAtOnce(made, priority, queue: self) { return }
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

    /// While true nothing starts; what executes goes on.
    open var isSuspended: Bool {
        get { core.state.withLock { $0.isSuspended } }
        set {
            core.change(queue: self) { state in
                state.observation?.mailbox.record(.isSuspended, old: state.isSuspended, new: newValue)
                state.isSuspended = newValue
            }
        }
    }

    /// A name for messages. Until one is set, and after nil was: `NSOperationQueue` with the queue's address, as Foundation has it.
    open var name: String? {
        get { givenName ?? defaultName }
        set {
            let byDefault = defaultName
            core.change(queue: self) { state in
                state.observation?.mailbox.record(.name, old: state.name ?? byDefault, new: newValue ?? byDefault)
                state.name = newValue
            }
        }
    }

    /// What `name` is while none was given.
    package final var defaultName: String {
        if isMain { return "NSOperationQueue Main Queue" }
        // Safety: the address is only printed.
        let address = unsafe UInt(bitPattern: Unmanaged.passUnretained(self).toOpaque())
        return "NSOperationQueue 0x" + String(address, radix: 16)
    }

    /// The name that was set; nil when none was.
    package final var givenName: String? { core.state.withLock { $0.name } }

    /// How much the work in this queue matters: that of operations that do not say it themselves. It decides on which threads they
    /// run, not when. See `Operation.qualityOfService`. That of an underlying queue wins.
    open var qualityOfService: QualityOfService {
        get { core.state.withLock { $0.executorQuality ?? $0.qualities.own }.quality }
        set { core.change(queue: self) { $0.qualities.own = QualityRank(newValue) } }
    }

    // MARK: Looking

    /// What has been added and has not finished, in order of addition. O(n); O(n log n) where they became ready in quite another order.
    open var operations: [Operation] { core.members() }

    /// How many operations have been added and have not finished.
    open var operationCount: Int { core.state.withLock { $0.count } }

    /// How messages call it.
    var label: String { givenName.map { "queue \($0)" } ?? (core.isMain ? "the main queue" : "the queue") }

    /// Waits until the queue is empty; what is added meanwhile is waited for as well. Traps when called by one of its operations, or
    /// when nothing can end the wait.
    open func waitUntilAllOperationsAreFinished() {
        do { try tryWaitUntilAllOperationsAreFinished() } catch { trap(error) }
    }

    // MARK: Cancelling

    /// Cancels every operation in the queue, except that a barrier still runs in its queuePosition. O(n).
    ///
    /// What executes is cancelled last, dependents before what they depend on, otherwise what was added last first: the end of one does not
    /// let another begin that is to be cancelled, too.
    open func cancelAllOperations() { core.members().filter { !$0.isBarrier }.cancelAll() }

    // MARK: As an object

    /// The class and the address, as Foundation's objects have it.
    open var description: String { objectDescription(self) }

    /// `description`, unless a subclass says more.
    open var debugDescription: String { description }

    /// Whether `object` equals this one: by default, whether it is the same. `==` asks it.
    open func isEqual(_ object: Any?) -> Bool { self === object as AnyObject? }

    /// What `hash(into:)` feeds: by default, it follows from the identity. Equal objects need equal values.
    open var hash: Int { ObjectIdentifier(self).hashValue }
}

extension OperationQueue: Hashable, CustomStringConvertible, CustomDebugStringConvertible {
    /// Whether they are equal as `isEqual` says: by default, when they are the same object.
    public static func == (left: OperationQueue, right: OperationQueue) -> Bool { left.isEqual(right) }

    /// Hashes `hash`.
    public func hash(into hasher: inout Hasher) { hasher.combine(hash) }
}
