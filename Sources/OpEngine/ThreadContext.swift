import CPlatform
import Glibc
import OpPlatform
import Synchronization

/// The engine's data about a thread: the operation that it runs, its parker, and its worker. Created on first use.
@safe final class ThreadContext {
    let parker: Parker
    /// The thread's worker. Nil outside a pool. The worker's thread keeps the worker alive.
    unowned(unsafe) var worker: Worker?
    /// The worker's inbox, which lives as long as the worker.
    private let inbox: Unmanaged<Inbox>?
    /// The operation whose body runs on this thread. Its runner keeps it alive.
    var operation: Operation? { unsafe running?.takeUnretainedValue() }
    /// Backs `operation`. Unmanaged, because a strong reference would retain the outer operation while a nested one runs.
    private var running: Unmanaged<Operation>?
    /// The core of the queue that started the operation. Nil if the operation was started manually.
    private var core: Unmanaged<OperationQueue.Core>?
    /// The queue that this worker takes its next operation from. Operations that become ready there wake no other worker. The worker
    /// retains the queue.
    private var serving: Unmanaged<OperationQueue.Core>?
    /// The simulated engine for which this thread performs a step.
    unowned(unsafe) var simulation: Engine?
    /// The operation whose `isFinished` this thread asks after `main`. See `Operation.isAskedHere`. The caller that sets it retains the
    /// operation.
    var asked: Unmanaged<Operation>?
    /// The records of this thread. Nil until it records something. Retained, see `keep`.
    private(set) var recordBuffer: Unmanaged<RecordBuffer>?
    /// See `Mailbox.asRecorded`.
    var readsAsRecorded = false
    /// Members of groups that were deallocated here. See `release(membersOfGroup:)`. Used only on this thread.
    @safe @exclusivity(unchecked) var releasedMembers: [[Operation]] = []
    @safe @exclusivity(unchecked) var isReleasingMembers = false
    /// Decides when the worker stands by.
    @safe @exclusivity(unchecked) var trials = Standby.Trials()
    /// The number of operations that the worker had to give back in its turn, because something that they need is taken.
    @safe @exclusivity(unchecked) var refusals = 0
    /// The runs of main inboxes on this thread, innermost last.
    var mainRuns: [MainRun] = []

    /// A run of a main inbox, with the operation that runs it, if any, and that operation's queue.
    struct MainRun {
        let inbox: Inbox
        let operation: Operation?
        let core: OperationQueue.Core?
    }

    /// The context of the calling thread. Lives as long as the thread.
    static var current: ThreadContext {
        // Safety: the slot holds what `make` stored, which is valid until the thread ends.
        if let pointer = unsafe cplatform_get_thread_context() {
            return unsafe Unmanaged<ThreadContext>.fromOpaque(pointer).takeUnretainedValue()
        }
        return make(worker: nil)
    }

    /// Calls `body` with the context of the calling thread, without retaining it.
    @inline(__always)
    static func withCurrent<Result>(_ body: (ThreadContext) -> Result) -> Result {
        // Safety: as in `current`.
        if let pointer = unsafe cplatform_get_thread_context() {
            return unsafe Unmanaged<ThreadContext>.fromOpaque(pointer)._withUnsafeGuaranteedRef(body)
        }
        return body(make(worker: nil))
    }

    deinit { dropRecordBuffer() }

    /// Keeps the buffer into which this thread records.
    func keep(_ buffer: RecordBuffer) {
        dropRecordBuffer()
        unsafe recordBuffer = Unmanaged.passRetained(buffer)
    }

    private func dropRecordBuffer() {
        guard let buffer = unsafe recordBuffer else { return }
        // Safety: `keep` has retained it.
        unsafe buffer._withUnsafeGuaranteedRef { $0.isAbandoned.store(true, ordering: .releasing) }
        unsafe buffer.release()
    }

    private init(worker: Worker?) {
        parker = worker?.parker ?? Parker()
        unsafe self.worker = worker
        unsafe inbox = worker.map { unsafe Unmanaged.passUnretained($0.inbox) }
    }

    /// The context of the calling thread, if it has been created.
    private static var existing: ThreadContext? {
        // Safety: the slot holds what `make` stored, which is valid until the thread ends.
        guard let pointer = unsafe cplatform_get_thread_context() else { return nil }
        return unsafe Unmanaged<ThreadContext>.fromOpaque(pointer).takeUnretainedValue()
    }

    /// Creates the context of the calling thread.
    @inline(never)
    @discardableResult
    static func make(worker: Worker?) -> ThreadContext {
        let context = ThreadContext(worker: worker)
        // Safety: the key's destructor releases the context when the thread ends.
        let pointer = unsafe Unmanaged.passRetained(context).toOpaque()
        unsafe pthread_setspecific(threadEndKey, pointer)
        unsafe cplatform_set_thread_context(pointer)
        return context
    }

    // MARK: What the thread runs

    /// Runs `body` as the body of `operation`.
    @inline(__always)
    func whileRunning(_ operation: Operation?, in core: OperationQueue.Core?, _ body: () -> Void) {
        // Safety: the previous values are restored before the caller releases `operation` and `core`.
        let outer = unsafe running
        let outerCore = unsafe self.core
        unsafe running = operation.map { unsafe Unmanaged.passUnretained($0) }
        unsafe self.core = core.map { unsafe Unmanaged.passUnretained($0) }
        body()
        unsafe running = outer
        unsafe self.core = outerCore
    }

    /// Runs `body`, which takes operations from `core` and runs them.
    @inline(__always)
    func whileServing<Result>(_ core: OperationQueue.Core, _ body: () -> Result) -> Result {
        // Safety: the caller retains the core meanwhile.
        unsafe serving = .passUnretained(core)
        defer { unsafe serving = nil }
        return body()
    }

    /// Whether this thread takes its next operation from `core`. If the thread blocks before, it schedules the queue for others.
    @inline(__always)
    func serves(_ core: OperationQueue.Core) -> Bool { unsafe serving?.toOpaque() == Unmanaged.passUnretained(core).toOpaque() }

    /// Schedules the queue that this thread serves, because the thread is about to block or to run foreign code, which may wait for an
    /// operation of that queue.
    func scheduleServedQueue() { unsafe serving?._withUnsafeGuaranteedRef { $0.scheduleIfRunnable() } }

    /// Runs `body`, a consequence of the end of `operation`. The body does not run as part of the operation, even if the operation is still
    /// on the stack.
    static func whileNotRunning(_ operation: Operation, _ body: () -> Void) {
        // Safety: the slot holds what `make` stored. The context lives until the thread ends, so it need not be retained.
        guard let pointer = unsafe cplatform_get_thread_context() else { return body() }
        unsafe Unmanaged<ThreadContext>.fromOpaque(pointer)._withUnsafeGuaranteedRef { context in
            let isRunning = unsafe context.running?.toOpaque() == Unmanaged.passUnretained(operation).toOpaque()
            if isRunning { context.whileRunning(nil, in: nil, body) } else { body() }
        }
    }

    /// Whether the calling thread is the one on which a queue starts `operation`.
    @inline(__always)
    static func isLaunching(_ operation: Operation) -> Bool {
        guard let context = existing else { return false }
        // Safety: the reference is only compared, and the operation's runner keeps it alive.
        return unsafe context.operation === operation && context.core != nil
    }

    /// Whether jobs are waiting in this worker's inbox.
    @inline(__always) var hasJobs: Bool {
        // Safety: a thread's worker lives as long as the thread, and its inbox as long as the worker.
        unsafe inbox?._withUnsafeGuaranteedRef { $0.hasJobs } ?? false
    }

    static var currentOperation: Operation? {
        // Safety: the operation's runner keeps it alive.
        existing?.operation
    }

    var currentCore: OperationQueue.Core? {
        // Safety: the queue of a running operation is alive.
        unsafe core?.takeUnretainedValue()
    }

    static var currentQueue: OperationQueue? {
        if let context = existing {
            if let core = context.currentCore { return core.queue }
            if let inbox = context.mainRuns.last?.inbox { return inbox.engine?.mainQueue }
            if unsafe context.operation != nil && context.worker != nil { return nil }
        }
        return cplatform_thread_id() == getpid() ? Engine.shared.mainQueue : nil
    }

    /// The engine that this thread belongs to, or the shared one.
    var engine: Engine { engineInside ?? .shared }

    /// The engine whose code currently runs on this thread, if any.
    var engineInside: Engine? {
        // Safety: a worker lives as long as its thread, and a simulation as long as its step.
        unsafe worker?.engine ?? simulation ?? currentCore?.engine ?? mainRuns.last?.inbox.engine
    }
}

/// The key whose destructor releases a thread's context when the thread ends.
private let threadEndKey: pthread_key_t = {
    var key = pthread_key_t()
    // Safety: the pointer is what `ThreadContext.make` retained. The slot is cleared before the context is released.
    unsafe pthread_key_create(&key) { pointer in
        cplatform_set_thread_context(nil)
        if let pointer = unsafe pointer { unsafe Unmanaged<ThreadContext>.fromOpaque(pointer).release() }
    }
    return key
}()
