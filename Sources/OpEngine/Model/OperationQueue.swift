import OpPlatform
import Synchronization

/// Runs operations on the threads of an engine: those that are ready, by priority, and first in, first out within a priority.
///
/// Operations that are ready when they are added run in order of addition, which is all that Apple promises. An operation that becomes
/// ready later joins the end of its priority. If the end of one operation makes several others ready, they join in the order in which they
/// were made to depend on it. Keeping the order of addition for them too would require the queue to search.
///
/// Every method is safe to call from any thread. A queue lives at least until its operations have finished, unless it is suspended or its
/// maximum is 0.
open class OperationQueue: @unchecked Sendable {
    // Safety: `@unchecked Sendable` because the stored properties are constants that are safe to use from any thread, or say what guards
    // them.

    /// Lets the engine decide how many operations run at once.
    public static let defaultMaxConcurrentOperationCount = -1

    let core: Core
    /// The same as `engine`. A separate property, because a subclass may declare its own `engine`.
    final let ownEngine: Engine
    /// Whether this is its engine's main queue. Duplicates `core.isMain`, because workers keep changing the core's cache lines.
    package final let isMain: Bool
    /// The progress of the operations added to this queue.
    open var progress: OperationQueueProgress {
        core.state.withLock { _ in
            if let madeProgress { return madeProgress }
            let made = OperationQueueProgress(core: core)
            madeProgress = made
            return made
        }
    }
    /// Made at the first request. Guarded by the lock of the queue.
    @safe @exclusivity(unchecked) private var madeProgress: OperationQueueProgress?

    /// An object that the queue keeps for the layer above.
    package final var companion: (any AnyObject & Sendable)? {
        get { core.state.withLock { _ in keptCompanion } }
        set {
            let replaced = core.state.withLock { _ in exchange(&keptCompanion, with: newValue) }
            withExtendedLifetime(replaced) {}
        }
    }
    /// Guarded by the lock of the queue.
    @safe @exclusivity(unchecked) private var keptCompanion: (any AnyObject & Sendable)?

    // Both initializers are designated, so that a subclass may call and override either, and inherits both if it defines none.

    /// Creates a queue that runs its operations on `Engine.shared`.
    public init() {
        ownEngine = .shared
        core = Core(engine: .shared, isMain: false)
        isMain = false
        core.reference.refer(to: self)
    }

    /// Creates a queue that runs its operations on `engine`.
    public init(engine: Engine) {
        ownEngine = engine
        core = Core(engine: engine, isMain: false)
        isMain = false
        core.reference.refer(to: self)
    }

    /// Creates the queue object of an engine's main queue.
    init(engine: Engine, mainCore: Core) {
        ownEngine = engine
        core = mainCore
        isMain = true
    }

    deinit {
        core.reference.forget(self)
        if core.isMain { return }
        core.abandon()
        if core.has(.rateLimited) { rateLimit = nil }
    }

    /// The main queue of `Engine.shared`. Its operations run on the thread that drains it.
    open class var main: OperationQueue { Engine.shared.mainQueue }

    /// The queue whose operation is running on this thread. Otherwise the main queue that this thread drains, or `main` on the process's first
    /// thread. Otherwise nil.
    open class var current: OperationQueue? { ThreadContext.currentQueue }

    // MARK: Adding

    /// Adds an operation, which runs when it is ready and its turn has come. Traps if the operation was already added, is executing, or has
    /// finished.
    open func addOperation(_ operation: Operation) {
        do { try tryAddOperation(operation) } catch { trap(error) }
    }

    /// Adds a block as an operation.
    open func addOperation(_ block: @escaping @Sendable () -> Void) { addBlock(block, .normal) }

    @inline(__always)
    func addBlock(_ block: @escaping @Sendable () throws -> Void, _ priority: Operation.QueuePriority) {
        let made = unsafe Unmanaged<Operation>.passRetained(BlockOperation(block: block))
        if priority != .normal { unsafe made._withUnsafeGuaranteedRef { $0.storedPriority = priority } }
        // A subclass may override `addOperation`. Otherwise the queue takes over the reference.
        if isOfKnownClass && !ownEngine.hasEnded,
            unsafe core.add(made, isOfPlainClass: true, isBarrier: false, queue: self) == .added
        {
            return
        }
        // Safety: `add` did not consume the reference.
        unsafe addOperation(made.takeRetainedValue())
    }

    /// Adds operations in order, either all of them or none. Traps under the same conditions as `addOperation`.
    ///
    /// - Parameters:
    ///   - operations: the operations to add. The same operation must not occur twice.
    ///   - wait: whether to return only when all of them have finished.
    open func addOperations(_ operations: [Operation], waitUntilFinished wait: Bool) {
        do { try tryAddOperations(operations, waitUntilFinished: wait) } catch { trap(error) }
    }

    /// Adds a block that runs after everything added before it has finished, and before anything added after it starts.
    open func addBarrierBlock(_ barrier: @escaping @Sendable () -> Void) { addBarrier(barrier) }

    func addBarrier(_ barrier: @escaping @Sendable () throws -> Void) {
        do { try tryAddBarrier(BlockOperation(block: barrier)) } catch { trap(error) }
    }

    // MARK: Settings

    /// The executor that runs the operations of this queue. Nil, the default, for the engine's threads.
    ///
    /// Each operation is one job of the executor. The maximum, the order, barriers and suspension apply as usual. An operation that waits
    /// inside a job occupies the executor's thread, which the engine cannot replace.
    ///
    /// Traps if set while the queue has operations, on a main queue, or to an executor that runs jobs on the main thread.
    open var underlyingQueue: (any OperationExecutor)? {
        get { core.state.withLock { $0.executor } }
        set {
            do { try trySetUnderlyingQueue(newValue) } catch { trap(error) }
        }
    }

    /// The maximum number of operations that execute at once. -1 lets the engine decide; 0 runs nothing. A change takes effect immediately.
    /// Always 1 on a main queue, where setting it has no effect. Traps on other negative numbers.
    open var maxConcurrentOperationCount: Int {
        get { core.state.withLock { $0.maximum == .max ? -1 : $0.maximum } }
        set {
            do { try trySetMaxConcurrentOperationCount(newValue) } catch { trap(error) }
        }
    }

    /// Whether the queue starts no operations. Executing operations continue.
    open var isSuspended: Bool {
        get { core.state.withLock { $0.isSuspended } }
        set {
            core.change(queue: self) { state in
                state.observation?.mailbox.record(.isSuspended, old: state.isSuspended, new: newValue)
                state.isSuspended = newValue
            }
        }
    }

    /// The queue's name in messages. The default, which setting nil restores, is `NSOperationQueue` followed by the queue's address, as in
    /// Foundation.
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

    /// The value of `name` while none is set.
    package final var defaultName: String {
        if isMain { return "NSOperationQueue Main Queue" }
        // Safety: the address is only printed.
        let address = unsafe UInt(bitPattern: Unmanaged.passUnretained(self).toOpaque())
        return "NSOperationQueue 0x" + String(address, radix: 16)
    }

    /// The name that was set, if any.
    package final var givenName: String? { core.state.withLock { $0.name } }

    /// How important the work in this queue is, for operations that do not specify a quality themselves. Determines which threads run the
    /// operations, not when they run. See `Operation.qualityOfService`. An underlying queue's quality takes precedence.
    open var qualityOfService: QualityOfService {
        get { core.state.withLock { $0.executorQuality ?? $0.qualities.own }.quality }
        set { core.change(queue: self) { $0.qualities.own = QualityRank(newValue) } }
    }

    // MARK: Inspection

    /// The operations that have been added and have not finished, in order of addition. Usually O(n); O(n log n) if they became ready in a
    /// very different order.
    open var operations: [Operation] { core.members() }

    /// The number of operations that have been added and have not finished. O(1).
    open var operationCount: Int { core.state.withLock { $0.count } }

    /// Whether no subclass may override `addOperation`.
    @inline(__always) private var isOfKnownClass: Bool { type(of: self) == OperationQueue.self || type(of: self) == MemberQueue.self }

    /// The queue itself if it is that of a group. Cheaper than a cast.
    var asMemberQueue: MemberQueue? { nil }

    /// Whether operations that are added are cancelled at once.
    var cancelsAdditions: Bool { ownEngine.isEnding && !core.isHelper.load(ordering: .relaxed) }

    /// The queue's name in messages.
    var label: String { givenName.map { "queue \($0.shown)" } ?? (core.isMain ? "the main queue" : "the queue") }

    /// Blocks the calling thread until the queue is empty, including operations that are added in the meantime. Traps if called by one of
    /// the queue's operations, or if nothing can end the wait.
    open func waitUntilAllOperationsAreFinished() {
        do { try tryWaitUntilAllOperationsAreFinished() } catch { trap(error) }
    }

    // MARK: Cancelling

    /// Cancels all operations in the queue except barriers, which still run in their turn. O(n).
    ///
    /// Executing operations are cancelled last, and dependents before their dependencies. Otherwise the order of addition is reversed. No
    /// operation that is about to be cancelled can start because another one finishes.
    open func cancelAllOperations() { core.members().filter { !$0.isBarrier }.cancelAll() }

    /// The keys whose changes also change the value of `key`, for observers. See `Operation.keyPathsForValuesAffectingValue(forKey:)`.
    open class func keyPathsForValuesAffectingValue(forKey key: String) -> Set<String> { [] }

    // MARK: Identity and description

    /// The class and the address, in the format of Foundation's objects.
    open var description: String { objectDescription(self) }

    /// The same as `description`, unless a subclass overrides it.
    open var debugDescription: String { description }

    /// Whether `object` equals this queue. `==` calls this method. The default implementation compares identity.
    open func isEqual(_ object: Any?) -> Bool { self === object as AnyObject? }

    /// The value that `hash(into:)` feeds to the hasher. Derived from the identity by default. Equal objects must have equal values.
    open var hash: Int { ObjectIdentifier(self).hashValue }
}

extension OperationQueue: Hashable, CustomStringConvertible, CustomDebugStringConvertible {
    /// Whether two queues are equal according to `isEqual`: by default, whether they are the same object.
    public static func == (left: OperationQueue, right: OperationQueue) -> Bool { left.isEqual(right) }

    /// Feeds `hash` to the hasher.
    public func hash(into hasher: inout Hasher) { hasher.combine(hash) }
}
