/// What `TraceWriter` knows of an operation that exists, or was the last one with its number. Times are those of the records, and 0 for what
/// never happened.
struct TraceOperation {
    enum Phase { case unknown, waiting, ready, running, open, betweenAttempts, finished }

    var serial = 0
    var name: JSONText?
    var place: JSONText?
    var queue = -1
    var added: UInt64 = 0
    var ready: UInt64 = 0
    var started: UInt64 = 0
    var returned: UInt64 = 0
    var finished: UInt64 = 0
    var thread = -1
    var error: JSONText?
    /// The number of the attempt that runs, or has run last.
    var attempt = 0
    /// Where and when a worker of a cluster has run the attempt that ran last; nil if it ran here.
    var elsewhere: (track: Int, began: UInt64, ended: UInt64)?
    /// Whether its work was done already.
    var isSkipped = false
    var phase = Phase.unknown
    /// The index of the group's box if it is a group; -1 if it is none.
    var box = -1
    /// Its row in the box of the group that it is a member of; -1 if it is in none.
    var row = -1

    /// The track and the time of its slice, given that it has left its thread or ended.
    var slice: (track: Int, from: UInt64, to: UInt64) {
        if let elsewhere { return (elsewhere.track, elsewhere.began, elsewhere.ended) }
        return (thread + 1, started, returned > 0 ? returned : finished)
    }

    var label: JSONText { name ?? place ?? JSONText("operation") }
}
