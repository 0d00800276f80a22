/// An event of a recorded run. See `Recorder`.
public struct OperationRecord: Sendable {
    /// The kind of a record, with its details.
    public enum Event: Sendable {
        /// The first record of a thread. `worker` is the number of the worker; nil on a thread that is in no engine's pool.
        case thread(worker: Int?, isMain: Bool)
        /// The worker with this number is blocked, so that another one may run in its place. `thread` is the thread that has noticed it.
        case workerBlocked(Int)
        /// The worker with this number is no longer blocked. The worker may have returned, and even finished an operation, some time
        /// before.
        case workerReturned(Int)
        /// A queue got its first recorded operation, or its settings have changed. `maximum` is nil if the engine decides.
        case queue(Int, name: String?, maximum: Int?, isSuspended: Bool)
        /// The operation is a group, and its members are in the queue with this number. Precedes the first record of that queue, and
        /// perhaps `added` of the group itself.
        case group(queue: Int)
        /// The operation was added to a queue. `creator` is the operation that added it, if one did.
        case added(queue: Int, creator: Int?, priority: Operation.QueuePriority, isReady: Bool)
        /// The place in a script where the operation was made or added, such as `build.lua:12`; empty if it is unknown. Precedes `added`. A
        /// place that is not final counts only if no other was recorded before.
        case place(String, isFinal: Bool)
        /// The operation has this name from now on; empty for none. Follows `added` immediately if the operation had a name then.
        case name(String)
        /// The operation depends on another operation that was added to a queue. Follows each `started` immediately. Precedes `finished` if the
        /// operation did not start.
        case dependency(Int)
        /// The operation's dependencies allow it to start. May occur again.
        case ready
        /// The thread is about to run the operation. Occurs once for each attempt.
        case started
        /// The operation has left the thread without having finished.
        case returned
        /// The work of the operation was done outside of this process, by a worker that does at most `slots` operations at once. Precedes
        /// `attemptFailed` or `finished`. The times are of the same clock as `time`, after the operation's start and not after `time`.
        case ranElsewhere(worker: String, slots: Int, began: UInt64, ended: UInt64)
        /// The operation has failed and will be tried again, beginning with another `started`. The record of the error precedes this one.
        case attemptFailed
        /// The work of the operation was done already. The operation finishes without having done the work again.
        case skipped
        /// The operation was cancelled while it was in the queue.
        case cancelled
        /// The operation recorded an error.
        case error(String)
        /// The operation has finished.
        case finished(OperationOutcome)
        /// Something outside the engine's threads has begun, such as a program. `operation` is the operation that began it.
        case activityBegan(Int, name: String)
        /// The activity with this number has ended, with `detail` as its result.
        case activityEnded(Int, detail: String)
    }

    /// The time in nanoseconds of the monotonic clock.
    public let time: UInt64
    /// The number of the thread that caused the record, counting from 0 within the recorder.
    public let thread: Int
    /// The number of the operation; -1 if the record is about none. Numbers count from 0. An operation may have the number of an earlier one
    /// that was deallocated; its `added` is then the first record with this number since.
    public let operation: Int
    /// The kind, with its details.
    public let event: Event
}

/// Receives the records of a run, in order of time and on one thread at a time. `receive` and `finishBatch` must not use operations or queues: a
/// thread with a full buffer waits for them, perhaps while it holds a queue's lock.
public protocol OperationRecordReceiver: AnyObject, Sendable {
    /// Called for each record.
    func receive(_ record: OperationRecord)
    /// Called after the records of some milliseconds, even if there were none, and once at the end.
    func finishBatch()
    /// Returns the text of an operation's error. Called on the thread that has recorded the error, with no lock held.
    func describe(_ error: any Error) -> String
}
