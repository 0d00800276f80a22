/// The rows of operations that workers of a cluster have run: one row for each operation that a worker runs at once.
///
/// A worker does not report the slot of an operation, so the operation gets a slot that was free.
struct WorkerSlots: Sendable {
    /// A row.
    struct Slot {
        let workerName: String
        /// The place of the worker in the order in which the workers were seen first, and the slot's place among those of the worker.
        let worker: Int
        let number: Int
        /// When the last operation in it ended.
        fileprivate(set) var end: UInt64

        /// The name of the row, such as `w1 on host, slot 2`.
        var name: String { "\(workerName), slot \(number + 1)" }
    }

    private struct Worker {
        var slotCount = 0
        var slots: [Int] = []
    }

    /// Times of one worker may seem to overlap by so many nanoseconds, because its clock is estimated: badly at first, if the first messages
    /// were slow.
    private static let slack: UInt64 = 1_000_000_000

    private(set) var all: [Slot] = []
    private var workers: [Worker] = []
    private var indices: [String: Int] = [:]

    /// The number of operations that the workers run at once.
    var capacity: Int { workers.reduce(0) { $0 + max($1.slotCount, $1.slots.count) } }
    /// The number of workers.
    var workerCount: Int { workers.count }

    /// Finds a slot for an operation. Call it for operations in the order in which they have ended, or nearly so.
    ///
    /// - Parameters:
    ///   - slotCount: the number of operations that the worker runs at once; 0 if that is unknown.
    ///   - now: when the operation's outcome arrived.
    /// - Returns: the index of the slot, and the operation's time there, which begins later than `began` if the operation
    ///   before had not ended by then.
    mutating func place(
        on worker: String, slotCount: Int, from began: UInt64, to ended: UInt64, at now: UInt64
    ) -> (slot: Int, began: UInt64, ended: UInt64) {
        let index = indices[worker] ?? workers.count
        if index == workers.count {
            indices[worker] = index
            workers.append(Worker())
        }
        workers[index].slotCount = max(workers[index].slotCount, slotCount)
        let slots = workers[index].slots
        // The slot that has been free for the shortest time is taken, so no more slots are needed than operations ran at once.
        let free = slots.filter { all[$0].end <= began }.max { all[$0].end < all[$1].end }
        let isFull = workers[index].slotCount > 0 && slots.count >= workers[index].slotCount
        let next = isFull ? slots.min { all[$0].end < all[$1].end } : nil
        if let slot = free ?? next, all[slot].end <= min(began + Self.slack, now) {
            let begin = max(began, all[slot].end)
            all[slot].end = min(ended + (begin - began), now)
            return (slot, begin, all[slot].end)
        }
        workers[index].slots.append(all.count)
        all.append(Slot(workerName: worker, worker: index, number: slots.count, end: ended))
        return (all.count - 1, began, ended)
    }
}
