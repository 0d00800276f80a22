import OpEngine

/// An operation of a recorded run. Times are nanoseconds since the run began, and 0 for events that never happened.
struct RunOperation {
    /// The phase of the operation.
    enum Phase: Int { case waiting, ready, running, open, betweenAttempts, finished }

    /// The place in the order in which all operations of the run were added.
    var serial = 0
    /// The indices of texts and of an error of `RunLog`; nil without one.
    var name: Int32?
    var place: Int32?
    var error: Int32?
    /// The index of the queue.
    let queue: Int
    /// The index of the queue of the members if it is a group; nil for other operations.
    var members: Int?
    /// The index of the operation that added it; nil if none did.
    var creator: Int32?
    /// The number of the thread or of the slot that ran it; -1 if none did. See `RunLog.firstSlotThread`.
    var thread = -1
    let added: UInt64
    var ready: UInt64
    /// The number of the last attempt that began.
    var attempt = 0
    /// When that attempt began.
    var started: UInt64 = 0
    /// The time from the beginning of the first attempt to that of the last.
    var earlierTime: UInt64 = 0
    /// When the operation left its thread without having finished; 0 if it did not.
    var returned: UInt64 = 0
    /// The part of the time on its thread in which it was blocked, so that another thread could take its place.
    var blockedTime: UInt64 = 0
    /// When it finished, or between two attempts when the former one failed. For an operation that never finished, the end of the recording.
    var finished: UInt64 = 0
    /// The part of the time from `ready` to `started` in which the queue was suspended, or had as many operations as it may run.
    var suspendedTime: UInt64 = 0
    var maximumTime: UInt64 = 0
    /// The time from the start on the thread that sent it to a cluster until the start at a worker there.
    var clusterTime: UInt64 = 0
    /// When the queue's last suspension before the start ended.
    var resumed: UInt64 = 0
    var phase: Phase
    /// Whether its work was done already.
    var isSkipped = false
    /// Nil if the operation has not finished.
    var outcome: OperationOutcome?

    var hasStarted: Bool { thread >= 0 }
    /// When the thread was free again.
    var leftThread: UInt64 { returned > 0 ? returned : finished }
    /// The time that the operation was on its thread.
    var threadTime: UInt64 { hasStarted ? leftThread - started : 0 }
    /// The part of `threadTime` in which no other thread could take its place.
    var busyTime: UInt64 { threadTime - blockedTime }
    /// The time from the start to the end.
    var runTime: UInt64 { hasStarted ? finished - started : 0 }
    /// The end of the waiting.
    var begin: UInt64 { hasStarted ? started : finished }
    var dependencyTime: UInt64 { min(ready, begin) - added }
    /// The time that it waited for a free worker.
    var workerTime: UInt64 {
        let waited = begin - added - dependencyTime
        return waited - min(suspendedTime + maximumTime + earlierTime + clusterTime, waited)
    }
}
