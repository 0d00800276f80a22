import CPlatform
import Glibc
import Synchronization

/// What the engine knows about a thread: what it runs, where it sleeps, whose worker it is. Made when first asked for.
@safe final class ThreadContext {
    let parker: Parker
    /// Set on the threads of a pool. The worker holds the context.
    unowned(unsafe) var worker: Worker?
    /// The worker's, which has it for as long as the thread runs operations.
    private let inbox: Unmanaged<Inbox>?
    /// The operation whose body runs here. Kept alive by whoever runs it.
    var operation: Operation? { unsafe running?.takeUnretainedValue() }
    /// The same. Not a reference: that would be retained for as long as another one runs.
    private var running: Unmanaged<Operation>?
    /// The queue that started it; nil when it was started by hand.
    private var core: Unmanaged<OperationQueue.Core>?
    /// The queue from which this thread, a worker's, takes next: of what may start there meanwhile it tells nobody. Kept by the worker.
    private var serving: Unmanaged<OperationQueue.Core>?
    /// The simulated engine of which this thread makes a step.
    unowned(unsafe) var simulation: Engine?
    /// See `Operation.isAskedHere`. Kept by the caller that set it.
    var asked: Unmanaged<Operation>?
    /// See `Mailbox.asRecorded`.
    var readsAsRecorded = false
    /// The main inboxes that this thread is running, innermost last.
    var runningInboxes: [Inbox] = []

    /// The calling thread's. Its lifetime is the thread's.
    static var current: ThreadContext {
        // Safety: the slot holds what `make` stored, until the thread ends.
        if let pointer = unsafe cplatform_get_thread_context() {
            return unsafe Unmanaged<ThreadContext>.fromOpaque(pointer).takeUnretainedValue()
        }
        return make(worker: nil)
    }

    private init(worker: Worker?) {
        parker = worker?.parker ?? Parker()
        unsafe self.worker = worker
        unsafe inbox = worker.map { unsafe Unmanaged.passUnretained($0.inbox) }
    }

    /// The calling thread's, if it has one.
    private static var existing: ThreadContext? {
        // Safety: as above.
        guard let pointer = unsafe cplatform_get_thread_context() else { return nil }
        return unsafe Unmanaged<ThreadContext>.fromOpaque(pointer).takeUnretainedValue()
    }

    /// Gives the calling thread its context.
    @inline(never)
    @discardableResult
    static func make(worker: Worker?) -> ThreadContext {
        let context = ThreadContext(worker: worker)
        // Safety: released by the key's destructor when the thread ends.
        let pointer = unsafe Unmanaged.passRetained(context).toOpaque()
        unsafe pthread_setspecific(threadEndKey, pointer)
        unsafe cplatform_set_thread_context(pointer)
        return context
    }

    /// The thread sleeps in `body` until another gives a lock of the engine back: no reason to replace it.
    static func whileWaitingForLock(_ body: () -> Void) {
        // Safety: a thread's worker lives as long as the thread.
        let worker = unsafe existing?.worker
        worker?.waitsForLock.store(true, ordering: .releasing)
        body()
        worker?.waitsForLock.store(false, ordering: .releasing)
    }

    // MARK: What the thread runs

    /// Runs `body` as the body of `operation`.
    @inline(__always)
    func whileRunning(_ operation: Operation?, in core: OperationQueue.Core?, _ body: () -> Void) {
        // Safety: restored before the caller lets go of them.
        let outer = unsafe running
        let outerCore = unsafe self.core
        unsafe running = operation.map { unsafe Unmanaged.passUnretained($0) }
        unsafe self.core = core.map { unsafe Unmanaged.passUnretained($0) }
        body()
        unsafe running = outer
        unsafe self.core = outerCore
    }

    /// Takes from `core`, and runs what it takes, until `body` returns.
    @inline(__always)
    func whileServing(_ core: OperationQueue.Core, _ body: () -> Void) {
        // Safety: the caller keeps it meanwhile.
        unsafe serving = .passUnretained(core)
        body()
        unsafe serving = nil
    }

    /// Whether this thread takes from `core` next, and tells others when it comes to wait before.
    @inline(__always)
    func serves(_ core: OperationQueue.Core) -> Bool { unsafe serving?.toOpaque() == Unmanaged.passUnretained(core).toOpaque() }

    /// This thread does not come to take for a while: code of somebody is about to run or to wait, which may wait for what is to be taken.
    func letOthersTake() { unsafe serving?._withUnsafeGuaranteedRef { $0.scheduleIfRunnable() } }

    /// Runs `body`, which follows from the end of `operation`: it is part of it no more, though the operation may be on the stack.
    static func whileNotRunning(_ operation: Operation, _ body: () -> Void) {
        // Safety: as for `current`; there until the thread ends, so that it need not be retained.
        guard let pointer = unsafe cplatform_get_thread_context() else { return body() }
        unsafe Unmanaged<ThreadContext>.fromOpaque(pointer)._withUnsafeGuaranteedRef { context in
            if context.isRunning(operation) { context.whileRunning(nil, in: nil, body) } else { body() }
        }
    }

    /// Whether the body of `operation` runs here, and none within that.
    @inline(__always)
    private func isRunning(_ operation: Operation) -> Bool {
        // Safety: compared only.
        unsafe running?.toOpaque() == Unmanaged.passUnretained(operation).toOpaque()
    }

    /// Whether the calling thread is the one that a queue starts `operation` on.
    @inline(__always)
    static func isLaunching(_ operation: Operation) -> Bool {
        guard let context = existing else { return false }
        // Safety: compared only.
        return unsafe context.operation === operation && context.core != nil
    }

    /// Whether something waits to run on this thread, a worker's, between two operations.
    @inline(__always) var hasJobs: Bool {
        // Safety: a thread's worker lives as long as the thread, and its inbox as long as the worker.
        unsafe inbox?._withUnsafeGuaranteedRef { $0.hasJobs } ?? false
    }

    static var currentOperation: Operation? {
        // Safety: whoever runs the operation keeps it.
        existing?.operation
    }

    var currentCore: OperationQueue.Core? {
        // Safety: the queue of a running operation lives.
        unsafe core?.takeUnretainedValue()
    }

    static var currentQueue: OperationQueue? {
        if let context = existing {
            if let core = context.currentCore { return core.queue }
            if let inbox = context.runningInboxes.last { return inbox.mainQueue }
            if unsafe context.operation != nil && context.worker != nil { return nil }
        }
        return cplatform_thread_id() == getpid() ? Engine.shared.mainQueue : nil
    }

    /// The engine whose thread this is, or the shared one.
    var engine: Engine { engineInside ?? .shared }

    /// The engine whose code runs here now.
    var engineInside: Engine? {
        // Safety: the context's worker lives as long as its thread, a simulation as long as its step.
        unsafe worker?.engine ?? simulation ?? currentCore?.engine ?? runningInboxes.last?.engine
    }
}

/// Ends a thread's context with the thread.
private let threadEndKey: pthread_key_t = {
    var key = pthread_key_t()
    // Safety: the value is what `ThreadContext.make` retained; the slot is cleared before it goes.
    unsafe pthread_key_create(&key) { pointer in
        cplatform_set_thread_context(nil)
        if let pointer = unsafe pointer { unsafe Unmanaged<ThreadContext>.fromOpaque(pointer).release() }
    }
    return key
}()
