import OpPlatform
import Synchronization

extension BeyondFoundation where Self: Operation {
    /// Like `waitUntilFinished`, but throws `OperationError.waitsForItself` or `.neverFinishes` instead of trapping.
    ///
    /// - Returns: false if `deadline` passed first.
    @discardableResult
    public func tryWaitUntilFinished(until deadline: ContinuousClock.Instant? = nil) throws -> Bool {
        if hasEnded { return true }
        let context = ThreadContext.current
        if let waiting = context.firstOnStack({ operation, _ in operation === self || operation.isMember(of: self) }) {
            throw OperationError.waitsForItself(operation: waiting.label)
        }
        // Other code may finish an operation that does not end with its body.
        if deadline == nil, isEndedByWorker,
            let waiting = context.firstOnStack({ operation, core in
                core.map(isBehindBarrier) ?? false && operation.endsWithItsBody
            })
        {
            throw OperationError.neverFinishes(self, becauseInFrontOfItsBarrier: waiting)
        }
        // Safety: the queue of a linked operation retains itself, and this only reads a constant of it.
        let engine = withQueueCore { core in unsafe core.engine } ?? context.engine
        let outcome = context.wait(on: engine, deadline: deadline, isDone: { self.hasEnded }) { parker in
            lock.withLock { ensureRareExtras().waiters.append(parker) }
            announceFinishHandler()
        }
        switch outcome {
        case .satisfied: return true
        case .timedOut, .stalled:
            lock.withLock { if let rareExtras { rareExtras.waiters.removeFirst { $0 === context.parker(on: engine) } } }
            if outcome == .stalled { throw OperationError.neverFinishes([self]) }
            return false
        }
    }
}

extension Operation {
    /// Whether the operation has finished. For an operation that is in no queue, a subclass's `isFinished` counts as well.
    var hasEnded: Bool {
        let state = loadState()
        return state.has(State.finished) || (!state.has(State.claimed) && isFinished)
    }

    /// Whether the operation is a barrier that waits for other operations of the queue, or is behind an unfinished barrier.
    fileprivate func isBehindBarrier(of core: OperationQueue.Core) -> Bool {
        withQueueCore { $0 === core && core.state.withLock { queuePosition != .outside && !$0.segments.isCurrent(self) } } ?? false
    }

    /// Whether the operation, whose body is running, can finish only when the body returns.
    fileprivate var endsWithItsBody: Bool {
        !isAsynchronous && !loadState().has(State.finishing | State.finished)
            && (OverriddenMethods.isPlain(self) || !OverriddenMethods.flags(of: self).contains(.isFinished))
    }

    /// Calls `body` with the core of the operation's queue and keeps the core alive meanwhile. Returns nil if the operation is in no queue.
    func withQueueCore<Result>(_ body: (OperationQueue.Core) -> Result) -> Result? {
        let found = Registry.lock.withLock { () -> OperationQueue.Core? in
            let state = loadState()
            guard state.has(State.linked), !state.has(State.finished) else { return nil }
            // Safety: the core of an unfinished operation retains itself until it has acquired the registry's lock.
            return unsafe core.takeUnretainedValue()
        }
        return found.map(body)
    }
}

extension ThreadContext {
    /// The parker on which this thread waits for something of `engine`: the main inbox's on the thread of the main queue, otherwise the
    /// thread's own.
    func parker(on engine: Engine) -> Parker { runsMainQueue(of: engine) ? engine.mainInbox.parker : parker }

    /// Whether the thread runs the main queue of `engine` while it waits: the thread of that queue, or one on which a host drains the queue.
    private func runsMainQueue(of engine: Engine) -> Bool {
        unsafe engine.isMainThread || worker == nil && engine.simulated == nil && mainRuns.last?.inbox === engine.mainInbox
    }

    /// The first operation for which `fits` is true. The candidates are this thread's innermost operation, and those further down its stack that run
    /// the main queue. None of these ends before the calling function returns.
    fileprivate func firstOnStack(_ fits: (Operation, OperationQueue.Core?) -> Bool) -> Operation? {
        if let operation, fits(operation, currentCore) { return operation }
        // Another thread may finish an asynchronous operation while its body waits.
        let below = mainRuns.last { run in run.operation.map { !$0.isAsynchronous && fits($0, run.core) } ?? false }
        return below?.operation
    }

    /// Waits until `isDone` returns true. Calls `register` once, with the parker that must be unparked when the result of `isDone` changes.
    func wait(
        on engine: Engine, deadline: ContinuousClock.Instant?, isDone: () -> Bool, register: (Parker) -> Void
    ) -> Inbox.Outcome {
        register(parker(on: engine))
        if runsMainQueue(of: engine) { return engine.mainInbox.run(until: isDone, deadline: deadline) }
        return block(on: engine, parker: parker, deadline: deadline, canStall: true, until: isDone)
    }
}

extension BeyondFoundation where Self: OperationQueue {
    /// Like `waitUntilAllOperationsAreFinished`, but throws `OperationError.waitsForItself` or `.neverFinishes` instead of trapping.
    ///
    /// - Returns: false if `deadline` passed first.
    @discardableResult
    public func tryWaitUntilAllOperationsAreFinished(until deadline: ContinuousClock.Instant? = nil) throws -> Bool {
        if let waiting = ThreadContext.current.firstOnStack({ $1 === core }) {
            throw OperationError.waitsForItself(operation: waiting.label)
        }
        switch core.waitUntilEmpty(deadline: deadline) {
        case .satisfied: return true
        case .timedOut: return false
        case .stalled: throw OperationError.neverFinishes(operations)
        }
    }
}

extension OperationQueue {
    /// A wait for a queue to become empty. Must be balanced by `end`.
    package final class Wait: Sendable {
        private let core: Core
        /// Wakes the waiting thread or task.
        private let wake: @Sendable () -> Void
        /// Whether the queue may have become empty. Saves taking the queue's lock when it has not.
        private let mayBeOver = Atomic<Bool>(true)

        init(for core: Core, wake: @escaping @Sendable () -> Void) { (self.core, self.wake) = (core, wake) }

        /// Whether the queue is empty. If not, `notify` is called when it becomes empty.
        package var isOver: Bool {
            guard mayBeOver.load(ordering: .acquiring) else { return false }
            return core.state.withLock { state in
                if state.count == 0 { return true }
                mayBeOver.store(false, ordering: .relaxed)
                state.waits.append(self)
                return false
            }
        }

        /// Tells the waiting thread or task that the queue is empty.
        func notify() {
            mayBeOver.store(true, ordering: .releasing)
            wake()
        }

        package func end() { _ = core.state.withLock { $0.waits.removeFirst { $0 === self } } }
    }

    /// A wait for this queue to become empty, for the thread that runs `inbox`.
    package func wait(in inbox: Inbox) -> Wait { Wait(for: core, wake: inbox.parker.unpark) }
}

extension OperationQueue.Core {
    @discardableResult
    func waitUntilEmpty(deadline: ContinuousClock.Instant?) -> Inbox.Outcome {
        // Safety: the caller retains the queue or the engine.
        let engine: Engine = unsafe self.engine
        let context = ThreadContext.current
        let wait = OperationQueue.Wait(for: self, wake: context.parker(on: engine).unpark)
        defer { wait.end() }
        return context.wait(on: engine, deadline: deadline, isDone: { wait.isOver }, register: { _ in })
    }
}

extension Engine {
    /// Whether the calling thread runs this engine's main queue: it made the engine, or is inside the runtime that did.
    package var isMainThread: Bool { entrance.isInside && !(simulated?.isServing ?? false) }

    /// The current time for comparisons with deadlines.
    var now: ContinuousClock.Instant { simulated?.now ?? .now }
}

extension Array {
    /// Removes and returns the first element that satisfies `fits`, if any.
    @discardableResult
    mutating func removeFirst(where fits: (Element) -> Bool) -> Element? { firstIndex(where: fits).map { remove(at: $0) } }
}
