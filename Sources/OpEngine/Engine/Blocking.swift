extension ThreadContext {
    /// Sleeps until `predicate` is true; on a worker another thread takes its place meanwhile. Whoever makes the predicate true
    /// unparks `parker`.
    ///
    /// - Parameters:
    ///   - waited: the engine of what it waits for.
    ///   - canStall: whether to give up when nothing can happen any more.
    ///   - runsJobs: whether the caller runs what comes into the thread's inbox meanwhile.
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
        letOthersTake()
        if let worker { worker.engine.perform(worker.engine.pool.withLock { $0.willBlock(worker, timed: deadline != nil) }) }
        defer { if let worker { worker.engine.pool.withLock { $0.endBlocking(worker, timed: deadline != nil) } } }
        while true {
            if predicate() { return .satisfied }
            if let deadline, ContinuousClock.now >= deadline { return .timedOut }
            if waited?.isWorthWatching ?? false, parker.spin() { continue }
            if let engine, deadline == nil {
                let isStalled = engine.sleepUnlessStalled(parker, canStall: canStall, inbox: worker?.inbox, runsJobs: runsJobs)
                if isStalled { return predicate() ? .satisfied : .stalled }
            } else {
                _ = parker.park(until: deadline)
            }
        }
    }
}

extension Engine {
    /// Declares that `body` may sleep, in a system call or on a lock. On a worker another thread takes its place meanwhile; on
    /// other threads nothing happens.
    ///
    /// Without it the engine finds out by itself, some milliseconds later.
    public static func blocking<Result>(_ body: () throws -> Result) rethrows -> Result {
        // Safety: a thread's worker lives as long as the thread.
        let context = ThreadContext.current
        guard let worker = unsafe context.worker else { return try body() }
        let engine = worker.engine
        context.letOthersTake()
        // A section that sleeps outside of the engine ends by itself, as a timed wait does.
        engine.perform(engine.pool.withLock { $0.willBlock(worker, timed: true) })
        defer { engine.pool.withLock { $0.endBlocking(worker, timed: true) } }
        return try body()
    }

    /// Declares that the worker with this inbox is in a call that does not return, and that nobody can end: another thread takes its place
    /// until `endReplacingWorker`. For the layer above, which knows what a worker is doing. From any thread.
    public func beginReplacingWorker(with inbox: Inbox) {
        let wake = pool.withLock { pool in
            pool.workers.first { $0.inbox === inbox }.map { pool.beginBlocking($0, timed: true) }
        }
        if let wake { perform(wake) }
    }

    /// The call has returned after all. On the worker's thread.
    public func endReplacingWorker() {
        guard let worker = Worker.current else { return }
        pool.withLock { $0.endBlocking(worker, timed: true) }
    }

    /// Sleeps until the parker is notified or a signal comes; true when nothing can notify it any more.
    ///
    /// The caller has seen that what it waits for has not happened. Whatever makes it happen notifies the parker; so while the
    /// sleep is registered and the parker is not notified, this thread has nothing to do. The wake-up is taken only after the
    /// sleep is no longer registered, so that there is no moment at which a thread that has been woken looks asleep.
    ///
    /// - Parameters:
    ///   - inbox: the thread's.
    ///   - runsJobs: the caller runs what comes into it.
    func sleepUnlessStalled(_ parker: Parker, canStall: Bool, inbox: Inbox?, runsJobs: Bool) -> Bool {
        let sleep = { self.sleepUnlessStalled(parker, canStall: canStall) }
        return inbox?.whileJobsSleep(runsJobs: runsJobs, sleep) ?? sleep()
    }

    private func sleepUnlessStalled(_ parker: Parker, canStall: Bool) -> Bool {
        pool.withLock { $0.beginSleep(Pool.Sleep(parker: parker, canStall: canStall)) }
        reportStall()
        _ = parker.waitForNotification()
        let isStalled = pool.withLock { $0.endSleep(of: parker) }
        _ = parker.consumeNotification()
        return isStalled
    }

    /// If nothing will happen by itself any more, one wait fails: the youngest, since what it was for may end others. The main
    /// thread's is the last.
    func reportStall() {
        if hostMayAddOperations { return }
        let chosen = pool.withLock { nothingIsUnderWay($0) ? $0.chooseStalled(main: mainInbox.parker) : nil }
        chosen?.unpark()
    }
}
