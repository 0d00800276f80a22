import Synchronization

/// A queue as the pool sees it. The only subclass is `OperationQueue.Core`.
///
/// A class and not a protocol, because the run queues read and link its stored properties. The pool calls a method once for each turn, not
/// for each operation.
@safe class ServedQueue: @unchecked Sendable {
    // Safety: `@unchecked Sendable` because each variable states what guards it.

    /// The level of a queue without a priority of its own.
    static let usualLevel: UInt8 = 2

    // Safety: the queue object retains the engine, and a queue works only while it has a queue object or runs on a worker of the engine.
    unowned(unsafe) let engine: Engine
    /// The priority among the scheduled queues, the highest first: `usualLevel`, unless the queue is a group's. Atomic, to be read without
    /// the lock.
    let level = Atomic<UInt8>(ServedQueue.usualLevel)
    /// Whether the user has set a maximum, so that the engine does not decide on one. Atomic, to be read without the lock.
    let hasExplicitMaximum = Atomic<Bool>(false)
    /// The next one in the engine's run queue. Guarded by the lock of the engine's pool.
    @safe @exclusivity(unchecked) var nextScheduled: ServedQueue?
    /// The value of `level` when the queue entered the run queue. Guarded by the lock of the engine's pool.
    @safe @exclusivity(unchecked) var scheduledLevel: UInt8 = 0

    init(engine: Engine) { unsafe self.engine = engine }

    /// Whether an operation may start.
    var isRunnable: Bool { abstract() }

    /// Runs operations on a worker that was scheduled to this queue, until the worker's turn is over.
    func serve(on worker: Worker, as group: ThreadGroup, _ context: ThreadContext) { abstract() }

    /// Takes one operation and runs it on a thread that was scheduled to this queue. Returns false if there was none.
    ///
    /// - Parameter finishesLater: whether the operation may finish after its `main` has returned, whatever its class.
    func runOne(on context: ThreadContext, by group: ThreadGroup, finishesLater: Bool) -> Bool { abstract() }

    /// Schedules the queue again if an operation may start, because the thread for which it was scheduled will not serve it.
    func reschedule() { abstract() }

    private func abstract() -> Never { fatalError("opscript bug: a queue without operations") }
}
