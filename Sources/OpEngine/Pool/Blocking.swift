import OpPlatform
import Synchronization

extension ThreadContext {
    /// Blocks the thread until `predicate` is true. On a worker, another thread takes over its share of the work meanwhile. The thread that
    /// makes the predicate true must unpark `parker`.
    ///
    /// - Parameters:
    ///   - waited: the engine that the thread waits for.
    ///   - canStall: whether to give up when nothing can make the predicate true any more.
    ///   - runsJobs: whether the caller runs the jobs that arrive in the thread's inbox meanwhile.
    func block(
        on waited: Engine?, parker: Parker, deadline: ContinuousClock.Instant?, canStall: Bool, runsJobs: Bool = false,
        until predicate: () -> Bool
    ) -> Inbox.Outcome {
        if predicate() { return .satisfied }
        if let inside = engineInside, let simulated = inside.simulated {
            return simulated.run(self, inside.mainInbox, until: predicate, deadline: deadline)
        }
        // Safety: a thread's worker lives as long as the thread.
        let worker = unsafe self.worker
        let engine = worker?.engine
        scheduleServedQueue()
        if let worker { worker.engine.perform(worker.engine.pool.withLock { $0.willBlock(worker, timed: deadline != nil) }) }
        defer { if let worker { worker.engine.pool.withLock { $0.endBlocking(worker, timed: deadline != nil) } } }
        while true {
            if predicate() { return .satisfied }
            if let deadline, ContinuousClock.now >= deadline { return .timedOut }
            if parker.spin(for: waited) { continue }
            if let engine, deadline == nil {
                let isStalled = engine.sleepUnlessStalled(parker, canStall: canStall, inbox: worker?.inbox, runsJobs: runsJobs)
                if isStalled { return predicate() ? .satisfied : .stalled }
            } else {
                _ = parker.park(until: deadline)
            }
        }
    }
}

extension ThreadContext {
    /// Blocks the thread of a worker like `block`, but nothing takes over its share of the work: a program has the worker's place. Without a
    /// worker, like `block`.
    func blockInPlace(parker: Parker, deadline: ContinuousClock.Instant?, until predicate: () -> Bool) -> Inbox.Outcome {
        // Safety: a thread's worker lives as long as the thread.
        guard let worker = unsafe self.worker else {
            return block(on: engineInside, parker: parker, deadline: deadline, canStall: true, runsJobs: true, until: predicate)
        }
        scheduleServedQueue()
        // The thread runs. If the monitor had replaced the worker, that replacement ends here.
        worker.engine.pool.withLock { $0.didReturn(worker) }
        while true {
            if predicate() { return .satisfied }
            if let deadline, ContinuousClock.now >= deadline { return .timedOut }
            worker.waitsInPlace.store(true, ordering: .releasing)
            _ = parker.park(until: deadline)
            worker.endsWaitInPlace()
        }
    }
}

extension Engine {
    /// Calls `body`, which starts a program and may sleep for a moment. A worker keeps its place meanwhile.
    package static func inPlace<Result, Cause: Error>(_ body: () throws(Cause) -> Result) throws(Cause) -> Result {
        guard let worker = Worker.current else { return try body() }
        worker.waitsInPlace.store(true, ordering: .releasing)
        defer { worker.endsWaitInPlace() }
        return try body()
    }

    /// Declares that `body` may block, in a system call or on a lock. On a worker, another thread takes over its share of the work
    /// meanwhile. On other threads this method only calls `body`.
    ///
    /// Without the declaration the engine detects the blocked thread after some milliseconds.
    public static func blocking<Result>(_ body: () throws -> Result) rethrows -> Result {
        // Safety: a thread's worker lives as long as the thread.
        let context = ThreadContext.current
        guard let worker = unsafe context.worker else { return try body() }
        let engine = worker.engine
        context.scheduleServedQueue()
        // Blocking outside the engine ends without the engine's help, so it counts as a timed wait.
        engine.perform(engine.pool.withLock { $0.willBlock(worker, timed: true) })
        defer { engine.pool.withLock { $0.endBlocking(worker, timed: true) } }
        return try body()
    }

    /// Declares that the worker with this inbox is in a call that does not return and that nothing can end. Another thread takes over the
    /// worker's share of the work until `endReplacingWorker`. For the module above, which knows what a worker is doing. Safe to call from
    /// any thread.
    public func beginReplacingWorker(with inbox: Inbox) {
        let wake = pool.withLock { pool in
            pool.workers.first { $0.inbox === inbox }.map { pool.beginBlocking($0, timed: true) }
        }
        if let wake { perform(wake) }
    }

    /// Declares that the call has returned after all. Must be called on the worker's thread.
    public func endReplacingWorker() {
        guard let worker = Worker.current else { return }
        pool.withLock { $0.endBlocking(worker, timed: true) }
    }

    /// Sleeps until the parker is notified or a signal arrives. Returns true if nothing can notify the parker any more.
    ///
    /// The caller has checked that the event it waits for has not happened. The event notifies the parker, so while the sleep is registered
    /// and the parker is not notified, this thread has nothing to do. The notification is consumed only after the sleep is unregistered. A
    /// thread that has been woken therefore never looks asleep.
    ///
    /// - Parameters:
    ///   - inbox: the thread's inbox.
    ///   - runsJobs: whether the caller runs the jobs that arrive in the inbox.
    func sleepUnlessStalled(_ parker: Parker, canStall: Bool, inbox: Inbox?, runsJobs: Bool) -> Bool {
        func sleep() -> Bool {
            pool.withLock { $0.beginSleep(Pool.Sleep(parker: parker, canStall: canStall)) }
            reportStall()
            _ = parker.waitForNotification()
            let isStalled = pool.withLock { $0.endSleep(of: parker) }
            _ = parker.consumeNotification()
            return isStalled
        }
        return inbox?.whileJobsSleep(runsJobs: runsJobs, sleep) ?? sleep()
    }

    /// Fails one wait if the engine is quiescent. Chooses the most recent wait, because its failure may let others succeed, and the main
    /// thread's wait last.
    func reportStall() {
        if hostMayAddOperations { return }
        let chosen = pool.withLock { isQuiescent($0) ? $0.chooseStalled(main: mainInbox.parker) : nil }
        chosen?.unpark()
    }
}
