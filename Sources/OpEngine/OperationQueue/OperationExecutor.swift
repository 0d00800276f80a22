/// Something that runs jobs, on which a queue can start its operations instead of on the engine's threads.
/// A class, as `DispatchQueue` is, so that `queue.underlyingQueue === executor` can be asked.
public protocol OperationExecutor: AnyObject, Sendable {
    /// Runs `job` once, soon, on any thread, after this has returned or before. It is called from any thread, with no lock held. The
    /// job runs one operation and returns when its `start` does. An operation that an executor runs before it returns must not wait for
    /// others: the one that is just ending on that thread may not have released them yet.
    func execute(_ job: @escaping @Sendable () -> Void)

    /// The quality of service of its threads, which wins over that of the queue; nil, the default: not known.
    var qualityOfService: QualityOfService? { get }

    /// Whether it runs jobs on the main thread; false by default. One that does is refused: that is what `OperationQueue.main` is for.
    var isMain: Bool { get }
}

extension OperationExecutor {
    /// Nil: not known.
    public var qualityOfService: QualityOfService? { nil }
    /// False.
    public var isMain: Bool { false }
}

extension BeyondFoundation where Self: OperationQueue {
    /// `underlyingQueue = executor`, but throws `OperationError.underlyingQueueOfMainQueue`, `.underlyingQueueIsMain` or
    /// `.underlyingQueueSetTooLate`.
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
        // Released here, after the lock.
        withExtendedLifetime(replaced) {}
    }
}

extension OperationQueue.Core {
    /// Asks the executor to come and take an operation. The job keeps what it needs; while it is on its way the engine is not
    /// quiescent, because nobody knows how long the executor takes.
    func scheduleWithExecutor() {
        let (executor, number) = state.withLock { ($0.executor, $0.executorNumber) }
        // Safety: whoever schedules a queue holds it or works for its engine.
        let engine: Engine = unsafe self.engine
        // It was taken away while an entry was on its way: the workers look again.
        guard let executor else { return arriveLate() }
        engine.hold()
        executor.execute { [self] in
            runOne(sentBy: number)
            engine.release()
        }
    }

    /// Runs the next operation on the calling thread, the executor's.
    private func runOne(sentBy number: UInt32) {
        if state.withLock({ $0.executorNumber != number }) { return arriveLate() }
        runOne(on: ThreadContext.current, by: .outside)
    }

    /// The job of an executor that the queue no longer has.
    private func arriveLate() {
        state.withLock { $0.isScheduled = false }
        scheduleIfRunnable()
    }
}
