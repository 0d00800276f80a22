/// The operations of one queue that wait for the same requirement.
///
/// Only the first of them is invited, that is, posted to its queue again: if the queue cannot start that one, it cannot start the others
/// either. Operations of different queues are invited together, because nobody knows which of the queues can start one.
struct Line {
    /// The place of an operation: the higher priority first, then the one that has waited longer.
    struct Rank: Comparable {
        let level: UInt8
        let ticket: UInt64

        static func < (one: Rank, other: Rank) -> Bool { (one.level, one.ticket) < (other.level, other.ticket) }
    }

    struct Entry {
        let operation: Operation
        let rank: Rank
        let amount: Int
    }

    let core: ObjectIdentifier
    var invited: Operation?
    /// For each priority level, the entries in order.
    private var waiting = [ArraySlice<Entry>](repeating: [], count: 5)

    init(core: ObjectIdentifier) { self.core = core }

    var isEmpty: Bool { invited == nil && waiting.allSatisfy(\.isEmpty) }

    /// The first entry that does not need more than there ever is.
    func first(within capacity: Int) -> Entry? {
        for entries in waiting { if let entry = entries.first(where: { $0.amount <= capacity }) { return entry } }
        return nil
    }

    mutating func insert(_ entry: Entry) {
        let level = Int(entry.rank.level)
        // A new one comes last, and one that was invited comes first.
        if let first = waiting[level].first, entry.rank < first.rank {
            waiting[level].insert(entry, at: waiting[level].startIndex)
        } else {
            let index = waiting[level].lastIndex { $0.rank < entry.rank }.map { $0 + 1 } ?? waiting[level].startIndex
            waiting[level].insert(entry, at: index)
        }
    }

    /// Removes and returns the entry `first(within: capacity)`.
    mutating func popFirst(within capacity: Int) -> Entry? {
        for level in waiting.indices {
            guard let index = waiting[level].firstIndex(where: { $0.amount <= capacity }) else { continue }
            return index == waiting[level].startIndex ? waiting[level].popFirst() : waiting[level].remove(at: index)
        }
        return nil
    }

    /// Removes the entry with this rank. O(log n), and moves the entries behind it: those that are cancelled together are cancelled from behind.
    mutating func remove(_ rank: Rank) {
        let level = Int(rank.level)
        var (low, high) = (waiting[level].startIndex, waiting[level].endIndex)
        while low < high {
            let middle = low + (high - low) / 2
            if waiting[level][middle].rank < rank { low = middle + 1 } else { high = middle }
        }
        if low < waiting[level].endIndex, waiting[level][low].rank == rank { waiting[level].remove(at: low) }
    }
}
