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
    /// How much of what was added to this queue has finished.
    public let progress: Progress

    /// A queue of `Engine.shared`.
    public convenience init() { self.init(engine: .shared) }

    /// A queue of `engine`.
    public init(engine: Engine) {
        self.engine = engine
        core = Core(engine: engine, isMain: false)
        progress = Progress(core: core)
        core.face = self
    }

    /// The face of an engine's main queue.
    init(engine: Engine, mainCore: Core) {
        self.engine = engine
        core = mainCore
        progress = Progress(core: mainCore)
    }

    deinit {
        if !core.isMain { core.abandon() }
    }

    /// The main queue of `Engine.shared`: its operations run on the thread that drains it.
    public static var main: OperationQueue { Engine.shared.mainQueue }

    /// The queue whose operation runs on this thread; on the thread that drains a main queue, that queue; else nil.
    public static var current: OperationQueue? { ThreadContext.currentQueue }

    // MARK: Settings

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

    /// What has been added and has not finished, in order of addition. O(n).
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
    open func cancelAllOperations() {
        for operation in core.members() where !operation.isBarrier { operation.cancel() }
    }
}

extension OperationQueue: Hashable {
    /// Queues are equal when they are the same object.
    public static func == (left: OperationQueue, right: OperationQueue) -> Bool { left === right }

    /// Hashes the identity.
    public func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }
}
