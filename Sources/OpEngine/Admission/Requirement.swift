/// Something that only so many operations of an engine may have at once, and that an operation takes when it starts.
enum Requirement: Hashable, Sendable {
    /// One of an operation's `exclusiveKeys`. There is one of each.
    case key(String)
    /// One of an operation's `needs`. The engine's `resources` say how much there is.
    case resource(String)
    /// A start that the rate limit of a queue allows. It does not come back when the operation has finished.
    case start(ObjectIdentifier)
}

/// How much there is of a requirement, who has it, and who waits for it. Guarded by the lock of `Engine.admissions`.
final class Supply {
    /// The total. Not used for starts.
    var capacity: Int
    var used = 0
    /// For starts.
    var bucket: TokenBucket?
    /// The operations that have taken something that they will return.
    var holders: [Operation] = []
    /// The queues with operations that wait, or that were invited to try again.
    var lines: [Line] = []
    /// The timer that invites operations when the next start is allowed.
    var timer: EngineTimers.Number?

    /// The capacity as long as nobody has set it.
    private let usualCapacity: Int

    init(of requirement: Requirement) {
        usualCapacity =
            switch requirement {
            case .key: 1
            case .resource: 0
            case .start: .max
            }
        capacity = usualCapacity
    }

    /// How much may be taken now.
    func available(at now: ContinuousClock.Instant) -> Int { bucket.map { $0.available(at: now) } ?? capacity - used }

    /// Whether nothing is lost if the supply is made anew when it is needed.
    var isIdle: Bool { used == 0 && lines.isEmpty && bucket == nil && capacity == usualCapacity }

    /// Whether an operation that waits comes before one of the queue `core` that asks.
    func hasWaiting(before rank: Line.Rank, in core: ObjectIdentifier) -> Bool {
        lines.contains { line in
            // Behind an invited operation of another queue, others wait only for that queue, which may be suspended or full.
            guard let first = line.first, line.core == core || line.invited == nil else { return false }
            return first.rank < rank
        }
    }

    func indexOfLine(of core: ObjectIdentifier) -> Int {
        if let index = lines.firstIndex(where: { $0.core == core }) { return index }
        lines.append(Line(core: core))
        return lines.count - 1
    }
}

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

    var isEmpty: Bool { invited == nil && first == nil }
    var first: Entry? { waiting.first { !$0.isEmpty }?.first }

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

    mutating func popFirst() -> Entry? {
        guard let level = waiting.firstIndex(where: { !$0.isEmpty }) else { return nil }
        return waiting[level].popFirst()
    }

    mutating func remove(_ operation: Operation, at level: UInt8) {
        waiting[Int(level)].removeAll { $0.operation === operation }
    }
}
