/// The operations of one queue that wait for the same requirement.
///
/// Only the first one is invited, that is, posted to its queue again: if the queue cannot start that one, it cannot start the others
/// either. Operations of different queues are invited together, because the engine does not know which of the queues can start one.
struct Line {
    /// The place of an operation: the higher priority first, then the one that has waited longer.
    struct Rank: Comparable {
        let level: UInt8
        let ticket: UInt64

        static func < (one: Rank, other: Rank) -> Bool {
            one.level != other.level ? one.level < other.level : one.ticket < other.ticket
        }
    }

    struct Entry {
        let operation: Operation
        let rank: Rank
        let amount: Int
    }

    let core: ObjectIdentifier
    var invited: Operation?
    /// For each priority level, the entries in order.
    private var levels = InlineArray<5, Entries>(repeating: Entries())
    private var waitingCount = 0

    init(core: ObjectIdentifier) { self.core = core }

    var isEmpty: Bool { invited == nil && waitingCount == 0 }

    /// The first entry that needs at most `capacity`, the total. An entry that needs more waits until the total grows, and blocks no
    /// others.
    func first(within capacity: Int) -> Entry? {
        if waitingCount == 0 { return nil }
        for level in levels.indices {
            if let index = levels[level].firstIndex(within: capacity) { return levels[level][index] }
        }
        return nil
    }

    mutating func insert(_ entry: Entry) {
        levels[Int(entry.rank.level)].insert(entry)
        waitingCount += 1
    }

    /// Makes the operation of `first(within: capacity)` the invited one.
    mutating func inviteFirst(within capacity: Int) {
        for level in levels.indices {
            guard let index = levels[level].firstIndex(within: capacity) else { continue }
            invited = levels[level].remove(at: index)?.operation
            waitingCount -= 1
            return
        }
    }

    /// Removes the entry with this rank. O(log n), and moves the entries behind it. Operations that are cancelled together are cancelled
    /// last first, so that few entries move.
    mutating func remove(_ rank: Rank) {
        if levels[Int(rank.level)].remove(rank) { waitingCount -= 1 }
    }

    /// Entries in the order of their ranks. Adding at the end, adding in front where places are empty, and removing the first are O(1) on
    /// average.
    private struct Entries {
        /// The places before `start` are empty.
        private var places: ContiguousArray<Entry?> = []
        private var start = 0

        subscript(index: Int) -> Entry? { places[index] }

        func firstIndex(within capacity: Int) -> Int? {
            for index in start..<places.count where places[index].map({ $0.amount <= capacity }) == true { return index }
            return nil
        }

        mutating func insert(_ entry: Entry) {
            let index = firstIndex(notBefore: entry.rank)
            // An invited operation that returns is the first, and takes an empty place in front.
            if index == start, start > 0 {
                start -= 1
                places[start] = entry
            } else {
                places.insert(entry, at: index)
            }
        }

        mutating func remove(at index: Int) -> Entry? {
            if index > start { return places.remove(at: index) }
            let entry = places[start].take()
            start += 1
            if 2 * start > places.count {
                places.removeFirst(start)
                start = 0
            }
            return entry
        }

        /// Returns false if no entry has this rank.
        mutating func remove(_ rank: Rank) -> Bool {
            let index = firstIndex(notBefore: rank)
            guard index < places.count, places[index]?.rank == rank else { return false }
            _ = remove(at: index)
            return true
        }

        private func firstIndex(notBefore rank: Rank) -> Int {
            if let last = places.last ?? nil, last.rank < rank { return places.count }
            var (low, high) = (start, places.count)
            while low < high {
                let middle = low + (high - low) / 2
                if let entry = places[middle], entry.rank < rank { low = middle + 1 } else { high = middle }
            }
            return low
        }
    }
}
