import Synchronization

extension BeyondFoundation where Self: Operation {
    /// `start()`, but throws `OperationError.startedWhenNotReady`, `.startedWhenExecuting`, `.startedWhenFinished` or
    /// `.startedWhenInQueue`. The throwing twin of the base class's `start`: an override of `start` is called after the checks.
    public func tryStart() throws {
        let before = loadState()
        typealias State = Operation.State
        if before.has(State.claimed) { throw error(for: before.has(State.finished) ? .finished : .inQueue) }
        if isFinished { throw error(for: .finished) }
        if isExecuting || before.has(State.started) { throw error(for: .executing) }
        if before.mustCancel { cancelBecauseOfDependency() }
        if !isReady { throw notReady }
        start()
        // An override's; the base class's has done this.
        if isExecuting { startedByHandHasReturned() }
    }
}

extension Operation {
    /// `startOrRefuse`, of what cannot throw: nothing happens to an operation that has finished, as Apple's documentation says; another
    /// mistake traps.
    func startAsDocumented(endsWithMain: Bool = true) {
        guard let error = startOrRefuse(endsWithMain: endsWithMain) else { return }
        if case .startedWhenFinished = error { return }
        trap(error)
    }

    /// The base class's `start`; returns the caller's mistake.
    ///
    /// - Parameters:
    ///   - endsWithMain: whether the operation has ended when `main` returns; else `end()` has to be called.
    ///   - endsFromWithin: whether only operations, inbox jobs and holders can call `end()`. Then waits for it are reported when none of
    ///     them is left; else they last, because somebody outside may call it.
    package func startOrRefuse(endsWithMain: Bool = true, endsFromWithin: Bool = false) -> OperationError? {
        let before = loadState()
        let launched = before.has(State.claimed) && ThreadContext.isLaunching(self)
        if !launched && !before.has(State.claimed | State.executing | State.finishing | State.finished) {
            if before.mustCancel { cancelBecauseOfDependency() }
            if !isReady { return notReady }
        }
        switch transition({ $0.start(launched: launched) }) {
        case .run:
            if endsFromWithin { transition { $0.set(State.endedFromWithin) } }
            deliverChanges()
            if launched { main() } else { ThreadContext.current.whileRunning(self, in: nil) { main() } }
            if endsWithMain && isFinishedAfterMain {
                end(takesNext: launched)
            } else if !launched {
                startedByHandHasReturned()
            }
        case .finishCancelled: end(takesNext: launched)
        case .refuse(let refusal): return error(for: refusal)
        case .ignore: break
        }
        return nil
    }

    /// `main` has returned. False: a subclass says by its `isFinished` that its work goes on, and will announce the end.
    private var isFinishedAfterMain: Bool {
        if !hasOwnGetters || OperationClass.isPlain(self) { return true }
        // An override may combine what it knows with what its superclass says: that is yes, but for nobody else before it is true.
        transition { $0.set(State.isAskedAfterMain) }
        let context = ThreadContext.current
        let outer = unsafe context.asked
        unsafe context.asked = .passUnretained(self)
        let isFinishedHere = isFinished
        unsafe context.asked = outer
        if isFinishedHere { return true }
        transition { $0.set(State.goesOnAfterMain) }
        // Who has announced the end meanwhile may have been told by its superclass that it has not come.
        return isFinished
    }

    /// The calling thread wants to know whether a subclass says that the operation goes on after `main`.
    @inline(never)
    var isAskedHere: Bool {
        // Safety: compared only.
        unsafe ThreadContext.current.asked?.toOpaque() == Unmanaged.passUnretained(self).toOpaque()
    }

    /// Says, before anybody else has it, that `start` is the base class's, that nobody but that ends it, and that to let it go runs no code
    /// of anybody until `keepsMore`. For a subclass that nobody derives from.
    ///
    /// - Parameter tellsWhenFinished: as if `tellWhenFinished()` had been called.
    package func endsWithMain(tellsWhenFinished: Bool = false) {
        state.store(State.endsWithMain | State.isInert | (tellsWhenFinished ? State.notifiesSubclass : 0), ordering: .relaxed)
    }

    /// It has got what may run anybody's code when it is let go.
    package func keepsMore() {
        if loadState().has(State.isInert) { transition { $0.clear(State.isInert) } }
    }

    fileprivate var notReady: OperationError {
        .startedWhenNotReady(operation: label, dependencies: dependencies.filter { !$0.isFinished }.map(\.label))
    }

    fileprivate func error(for refusal: State.Refusal) -> OperationError {
        switch refusal {
        case .inQueue: .startedWhenInQueue(operation: label)
        case .executing: .startedWhenExecuting(operation: label)
        case .finished: .startedWhenFinished(operation: label)
        }
    }

    /// A block operation of no subclass.
    @inline(__always) private var isPlain: Bool { type(of: self) == BlockOperation.self }

    /// When a worker has taken it, nobody else can end it.
    @inline(__always) var isEndedByWorker: Bool { isPlain || loadState().has(State.endsWithMain) }

    /// A worker took it: evaluates the subclass's getters and starts it.
    ///
    /// - Parameter group: the caller takes from the same queue next, with threads of this group.
    /// - Returns: what it has taken already.
    @inline(__always)
    func run(on context: ThreadContext, from core: OperationQueue.Core, thenTakingBy group: ThreadGroup?) -> Unmanaged<Operation>? {
        let kept = unsafe Unmanaged.passUnretained(self)
        if isPlain {
            if transition({ $0.launchUnobserved() }) { return unsafe runBlocks(on: context, from: core, thenTakingBy: group) }
        } else if loadState().has(State.endsWithMain) {
            if isReady && transition({ $0.launchUnobserved() }) { return unsafe runMain(on: context, from: core, thenTakingBy: group) }
        }
        // Safety: balanced below; the queue keeps it until here.
        if isEndedByWorker { _ = unsafe kept.retain() }
        runAnyKind(on: context, from: core)
        // Safety: balances the line above, or `OperationQueue.State.take`.
        unsafe kept.release()
        return nil
    }

    /// Between the end of the blocks and that of the operation there is no code of anybody else.
    @inline(__always)
    private func runBlocks(
        on context: ThreadContext, from core: OperationQueue.Core, thenTakingBy group: ThreadGroup?
    ) -> Unmanaged<Operation>? {
        var isBare = false
        // Safety: the type was checked.
        context.whileRunning(self, in: core) { isBare = unsafe unsafeDowncast(self, to: BlockOperation.self).runBlocks() }
        return unsafe endAndTake(from: core, isBare: isBare, by: context.hasJobs ? nil : group)
    }

    /// The same for one that ends with its `main`.
    @inline(__always)
    private func runMain(
        on context: ThreadContext, from core: OperationQueue.Core, thenTakingBy group: ThreadGroup?
    ) -> Unmanaged<Operation>? {
        context.whileRunning(self, in: core) { main() }
        // The class of a plain one has nothing to be told.
        var last = loadState()
        if !last.has(State.isOfPlainClass) {
            last = transition { state in
                state.beginEnd()
                return state
            }
            if last.has(State.notifiesSubclass) { willFinish() }
        }
        let isBare = last.has(State.isInert) && lock.withLock { extras == nil && dependencyList.isEmpty }
        return unsafe endAndTake(from: core, isBare: isBare, by: context.hasJobs ? nil : group)
    }

    @inline(never)
    private func runAnyKind(on context: ThreadContext, from core: OperationQueue.Core) {
        if !loadState().has(State.cancelled) && !isReady {
            deferUntilReady(core)
            return
        }
        switch transition({ $0.launch() }) {
        case .start: break
        case .notReady: return deferUntilReady(core)
        case .ended: return
        }
        deliverChanges()
        context.whileRunning(self, in: core) { start() }
        // The usual case: the base class's `start` has finished it.
        if loadState().has(State.finished) { return }
        if isFinished {
            end(takesNext: false)
        } else if transition({ $0.startReturned() }) {
            core.operationOutlivesStart()
        }
    }

    /// The subclass says that it is not ready: it waits until `isReady` is announced. Or a dependency was added after it was taken.
    @inline(never)
    private func deferUntilReady(_ core: OperationQueue.Core) {
        guard core.giveBack(self) else { return }
        // Whoever made it ready, or cancelled it, before it was marked had nothing to post. The fence pairs with the one in
        // `didChangeValue`: of two threads that write, then look at what the other wrote, at least one sees it.
        atomicMemoryFence(ordering: .sequentiallyConsistent)
        if loadState().has(State.cancelled) || isReady { retryDeferred() }
    }

    /// Posts it again if it waits for its subclass.
    func retryDeferred() {
        if transition({ $0.undefer() }) { postToQueue() }
    }
}
