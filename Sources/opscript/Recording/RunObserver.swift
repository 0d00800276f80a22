/// Receives the events of a recorded run during the run.
///
/// The recorder's thread makes all calls, after the log has changed: `log.end` is the time of the event, and `log.thread` the thread that has
/// caused it.
protocol RunObserver: AnyObject {
    /// An operation was added, is in another phase, or has run on a worker of a cluster.
    ///
    /// - Parameter old: the operation before the change, with the times that the change has ended; nil if it was added.
    func operationChanged(_ index: Int, from old: RunOperation?, in log: RunLog)
    /// An operation was told to cancel.
    func operationCancelled(_ index: Int, in log: RunLog)
    /// The work of an operation is done already. The end of the operation follows.
    func operationSkipped(_ index: Int, in log: RunLog)
    /// An operation that has just started, or has ended without a start, depends on another one.
    func dependencyFound(of index: Int, on dependency: Int, in log: RunLog)
    /// A thread, which runs an operation, was blocked until now.
    func threadUnblocked(_ thread: Int, since begin: UInt64, in log: RunLog)
    /// The settings of a queue have changed, or are known now.
    func queueChanged(_ index: Int, from old: RunLog.Queue, in log: RunLog)
    /// A program has started.
    ///
    /// - Parameter operation: the operation that has started it; nil if none has.
    func programStarted(_ number: Int, by operation: Int?, in log: RunLog)
    /// A program of `log.programs` has ended.
    func programEnded(_ number: Int, _ detail: String, in log: RunLog)
}

extension RunObserver {
    func operationCancelled(_ index: Int, in log: RunLog) {}
    func operationSkipped(_ index: Int, in log: RunLog) {}
    func dependencyFound(of index: Int, on dependency: Int, in log: RunLog) {}
    func threadUnblocked(_ thread: Int, since begin: UInt64, in log: RunLog) {}
    func queueChanged(_ index: Int, from old: RunLog.Queue, in log: RunLog) {}
}
