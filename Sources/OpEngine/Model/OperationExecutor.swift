import OpPlatform

/// Runs jobs. A queue can start its operations on an executor instead of on the engine's threads.
///
/// A class-bound protocol, because `DispatchQueue` is a class and code compares `queue.underlyingQueue === executor`.
public protocol OperationExecutor: AnyObject, Sendable {
    /// Runs `job` once, soon, on any thread, either before this method returns or after. Called from any thread with no lock held.
    ///
    /// The job runs at most one operation and returns when the operation's `start` returns. An operation that runs before this method returns
    /// must not wait for other operations: the calling thread may be finishing an operation whose dependents it has not released yet.
    func execute(_ job: @escaping @Sendable () -> Void)

    /// The quality of service of the executor's threads. Takes precedence over the queue's. Nil, the default, means unknown.
    var qualityOfService: QualityOfService? { get }

    /// Whether jobs run on the main thread. The default is false. A queue refuses such an executor: use `OperationQueue.main` instead.
    var isMain: Bool { get }
}

extension OperationExecutor {
    /// Nil: unknown.
    public var qualityOfService: QualityOfService? { nil }
    /// Always false.
    public var isMain: Bool { false }
}

/// An executor whose operations may finish after `main` has returned, even those of classes that finish with `main`. The engine calls `start`
/// of each.
package protocol FinishingExecutor: OperationExecutor {
    /// The reason why operations that could start wait, such as `for a worker of the cluster`; nil if this is not known.
    var purposeOfWait: String? { get }
}

extension BeyondFoundation where Self: OperationQueue {
    /// Sets `underlyingQueue`, but throws `OperationError.underlyingQueueOfMainQueue`, `.underlyingQueueIsMain` or
    /// `.underlyingQueueSetTooLate` instead of trapping.
    public func trySetUnderlyingQueue(_ executor: (any OperationExecutor)?) throws {
        if core.isMain { throw OperationError.underlyingQueueOfMainQueue }
        if let executor, executor.isMain { throw OperationError.underlyingQueueIsMain(queue: label) }
        let quality = executor?.qualityOfService.map { QualityRank($0) }
        let replaced = core.state.withLock { state -> (any OperationExecutor)?? in
            guard state.count == 0 else { return .none }
            let before = state.executor
            state.executor = executor
            state.executorQuality = quality
            state.executorNumber &+= 1
            state.qualities.isOutside = executor != nil
            return .some(before)
        }
        if replaced == nil { throw OperationError.underlyingQueueSetTooLate(queue: label) }
        // Release the previous executor outside the lock.
        withExtendedLifetime(replaced) {}
    }
}

extension OperationQueue.Core {
    /// Asks the executor to run one operation. The job retains what it needs. While the job is pending, the engine does not count as
    /// quiescent, because the executor may take any time.
    func scheduleWithExecutor() {
        let (executor, number) = state.withLock { ($0.executor, $0.executorNumber) }
        // Safety: a caller that schedules a queue retains the queue or works for its engine.
        let engine: Engine = unsafe self.engine
        // The executor was removed after the queue was scheduled, so the engine's workers must look again.
        guard let executor else { return reschedule() }
        engine.hold()
        executor.execute { [self] in
            runOne(sentBy: number, finishesLater: executor is any FinishingExecutor)
            engine.release()
        }
    }

    /// Runs the next operation on the executor's thread. Ignores a job of an executor that the queue no longer has.
    private func runOne(sentBy number: UInt32, finishesLater: Bool) {
        if state.withLock({ $0.executorNumber != number }) { return reschedule() }
        _ = runOne(on: ThreadContext.current, by: .outside, finishesLater: finishesLater)
    }
}
