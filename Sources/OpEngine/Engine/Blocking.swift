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
        let engine = unsafe worker?.engine
        letOthersTake()
        if let engine { engine.perform(engine.pool.withLock { $0.beginBlocking(timed: deadline != nil, engine: engine) }) }
        defer { engine?.pool.withLock { $0.endBlocking(timed: deadline != nil) } }
        while true {
            if predicate() { return .satisfied }
            if let deadline, ContinuousClock.now >= deadline { return .timedOut }
            if waited?.isWorthWatching ?? false, parker.spin() { continue }
            if let engine, deadline == nil {
                // Safety: as above.
                let isStalled = engine.sleepUnlessStalled(parker, canStall: canStall, inbox: unsafe worker?.inbox, runsJobs: runsJobs)
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
    public static func blocking<Result>(_ body: () throws -> Result) rethrows -> Result {
        // Safety: a thread's worker lives as long as the thread.
        let context = ThreadContext.current
        guard let engine = unsafe context.worker?.engine else { return try body() }
        context.letOthersTake()
        // A section that sleeps outside of the engine ends by itself, as a timed wait does.
        engine.perform(engine.pool.withLock { $0.beginBlocking(timed: true, engine: engine) })
        defer { engine.pool.withLock { $0.endBlocking(timed: true) } }
        return try body()
    }

    /// Declares that one of this engine's workers is in a call that does not return, and that nobody can end: another thread takes its
    /// place until `endReplacingWorker`. For the layer above, which knows what a worker is doing. From any thread.
    public func beginReplacingWorker() { perform(pool.withLock { $0.beginBlocking(timed: true, engine: self) }) }

    /// The call has returned after all.
    public func endReplacingWorker() { pool.withLock { $0.endBlocking(timed: true) } }

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
