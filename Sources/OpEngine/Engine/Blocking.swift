extension ThreadContext {
    /// Sleeps until `predicate` is true; on a worker another thread takes its place meanwhile. Whoever makes the predicate true
    /// unparks `parker`.
    ///
    /// - Parameter canStall: whether to give up when nothing can happen any more.
    func block(
        parker: Parker, deadline: ContinuousClock.Instant?, canStall: Bool, until predicate: () -> Bool
    ) -> Inbox.Outcome {
        if predicate() { return .satisfied }
        // Safety: a thread's worker lives as long as the thread.
        guard let engine = unsafe worker?.engine else {
            return sleep(parker, deadline, engine: nil, predicate)
        }
        let isTimed = deadline != nil
        engine.perform(engine.pool.withLock { $0.beginBlocking(parker: parker, timed: isTimed, engine: engine) })
        engine.reportStall()
        let outcome = sleep(parker, deadline, engine: canStall && !isTimed ? engine : nil, predicate)
        engine.pool.withLock { $0.endBlocking(parker: parker, timed: isTimed) }
        return outcome
    }

    private func sleep(
        _ parker: Parker, _ deadline: ContinuousClock.Instant?, engine: Engine?, _ predicate: () -> Bool
    ) -> Inbox.Outcome {
        while true {
            if predicate() { return .satisfied }
            if let deadline, ContinuousClock.now >= deadline { return .timedOut }
            if let engine, engine.isStalledForWorker, !predicate() { return .stalled }
            _ = parker.park(until: deadline)
        }
    }
}

extension Engine {
    /// Declares that `body` may sleep, in a system call or on a lock. On a worker another thread takes its place meanwhile; on
    /// other threads nothing happens.
    public static func blocking<Result>(_ body: () throws -> Result) rethrows -> Result {
        let context = ThreadContext.current
        // Safety: a thread's worker lives as long as the thread.
        guard let engine = unsafe context.worker?.engine else { return try body() }
        // A section that sleeps outside of the engine ends by itself, as a timed wait does.
        engine.perform(engine.pool.withLock { $0.beginBlocking(parker: context.parker, timed: true, engine: engine) })
        defer { engine.pool.withLock { $0.endBlocking(parker: context.parker, timed: true) } }
        return try body()
    }
}
