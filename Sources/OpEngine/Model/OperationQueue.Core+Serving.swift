import OpPlatform

/// A worker's turn at a queue.
extension OperationQueue.Core {
    /// The number of operations of one queue that a worker runs before it checks the other queues.
    private static let turn = 64

    /// Runs operations on a worker that was scheduled to this queue. If another worker runs them so fast that a second one would slow it down,
    /// the worker stands by instead.
    func serveOrStandBy(on worker: Worker, as group: ThreadGroup, _ context: ThreadContext) {
        guard group == .foreground, worker.group == group else {
            context.trials = Standby.Trials()
            _ = serveTurn(on: worker, as: group, context)
            return
        }
        guard context.trials.isDue(at: self), let standby = Standby(at: self, refusedTurns: context.trials.refusedTurns) else {
            let isFull = serveTurn(on: worker, as: group, context)
            return context.trials.turnHasEnded(at: self, isFull: isFull, isRefused: isRefused(context))
        }
        let serves = standBy(standby, on: worker)
        if !standby.isFast { context.trials.keysAreHeldForLong() }
        if !serves { return context.trials.turnHasEnded(at: self, isFull: false, isRefused: false) }
        // Some workers may have returned from waits, so that enough are awake without this one. The queue is scheduled for them.
        if worker.engine.pool.withLock({ $0.hasTooManyAwake }) { return worker.engine.schedule(self, on: .foreground) }
        _ = serveTurn(on: worker, as: group, context)
        context.trials.turnHasEnded(at: self, isFull: false, isRefused: isRefused(context))
    }

    /// Runs operations until none is left, or until the worker's turn is over. Returns true in the second case.
    private func serveTurn(on worker: Worker, as group: ThreadGroup, _ context: ThreadContext) -> Bool {
        context.refusals = 0
        return context.whileServing(self) { runOperations(on: worker, as: group, context) }
    }

    @inline(__always)
    private func runOperations(on worker: Worker, as group: ThreadGroup, _ context: ThreadContext) -> Bool {
        var next = unsafe take(arriving: true, by: group)
        var left = Self.turn
        while let operation = unsafe next {
            left -= 1
            if left == 0 && mayGoOn(on: worker, context) { left = Self.turn }
            // Safety: `take` states who retains the operation.
            unsafe next = operation._withUnsafeGuaranteedRef {
                unsafe $0.run(on: context, from: self, thenTakingBy: left > 0 ? group : nil)
            }
            if unsafe next != nil { continue }
            if worker.inbox.hasJobs {
                context.scheduleServedQueue()
                worker.inbox.runJobs()
                // The worker may have returned from blocking, while others took over its work. Or it may have been asked to serve a more
                // urgent queue.
                if worker.engine.pool.withLock({ $0.hasTooManyAwake || $0.runQueues.hasMoreUrgent(than: self, in: worker.group) }) {
                    scheduleIfRunnable()
                    return left == 0
                }
            }
            if left == 0 {
                scheduleIfRunnable()
                return true
            }
            unsafe next = take(arriving: false, by: group)
        }
        return false
    }

    /// Whether the worker had to give back most operations of its turn.
    private func isRefused(_ context: ThreadContext) -> Bool { context.refusals > Self.turn / 2 }

    /// Whether the worker's turn begins anew, because no other queue needs the worker, and another worker stands by at this one.
    private func mayGoOn(on worker: Worker, _ context: ThreadContext) -> Bool {
        if isRefused(context) { return false }
        context.refusals = 0
        return state.withLock(\.hasStandby) && worker.engine.pool.withLock { !$0.hasScheduled && !$0.hasTooManyAwake }
    }
}
