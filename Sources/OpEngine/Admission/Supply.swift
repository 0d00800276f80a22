/// How much there is of a requirement, who has it, and who waits for it. Guarded by the lock of `Engine.admissions`, so accesses need no
/// exclusivity checks.
@safe final class Supply {
    let requirement: Requirement
    /// Whether an operation returns what it has taken when it ends.
    let comesBack: Bool
    /// The total. Not used for starts.
    @safe @exclusivity(unchecked) var capacity: Int
    @safe @exclusivity(unchecked) var used = 0
    /// For starts.
    @safe @exclusivity(unchecked) var bucket: TokenBucket?
    /// The operations that have taken something that they will return. Only a resource has others than the first, so a key needs no array.
    @safe @exclusivity(unchecked) private var firstHolder: Operation?
    @safe @exclusivity(unchecked) private var otherHolders: [Operation] = []
    /// The queues with operations that wait, or that were invited to try again.
    @safe @exclusivity(unchecked) var lines: [Line] = []
    /// Whether a timer will invite operations when the next start is allowed; it has this number once it was set.
    @safe @exclusivity(unchecked) var awaitsTimer = false
    @safe @exclusivity(unchecked) var timer: EngineTimers.Number?
    /// Tells the timer that is awaited from former ones.
    @safe @exclusivity(unchecked) var timerSerial: UInt64 = 0

    /// The capacity as long as nobody has set it.
    private let usualCapacity: Int

    init(of requirement: Requirement) {
        self.requirement = requirement
        (usualCapacity, comesBack) =
            switch requirement {
            case .key: (1, true)
            case .resource: (0, true)
            case .start: (.max, false)
            }
        capacity = usualCapacity
    }

    /// How much may be taken now.
    @inline(__always)
    func available(on engine: Engine) -> Int {
        if let bucket { return bucket.available(at: engine.now) }
        return capacity - used
    }

    /// Whether nothing is lost if the supply is made anew when it is needed.
    var isIdle: Bool { used == 0 && lines.isEmpty && bucket == nil && capacity == usualCapacity }

    /// Whether nobody waits, and nothing comes with time.
    var isPlain: Bool { lines.isEmpty && bucket == nil }

    /// Whether an operation that waits comes before one of the queue `core` that asks.
    @inline(__always)
    func hasWaiting(before rank: Line.Rank, in core: ObjectIdentifier) -> Bool {
        !lines.isEmpty && linesHaveWaiting(before: rank, in: core)
    }

    private func linesHaveWaiting(before rank: Line.Rank, in core: ObjectIdentifier) -> Bool {
        lines.contains { line in
            // Behind an invited operation of another queue, others wait only for that queue, which may be suspended or full.
            guard let first = line.first(within: capacity), line.core == core || line.invited == nil else { return false }
            return first.rank < rank
        }
    }

    func indexOfLine(of core: ObjectIdentifier) -> Int {
        if let index = lines.firstIndex(where: { $0.core == core }) { return index }
        lines.append(Line(core: core))
        return lines.count - 1
    }

    func removeEmptyLines() {
        for index in lines.indices.reversed() where lines[index].isEmpty { lines.remove(at: index) }
    }

    /// Makes the operation with the best place, of all lines from which none is invited, the invited one of its line. Nil if there is none, or if
    /// that operation needs more than `amount`.
    func popBest(needingAtMost amount: Int) -> Operation? {
        var best: (index: Int, entry: Line.Entry)?
        for index in lines.indices where lines[index].invited == nil {
            guard let entry = lines[index].first(within: capacity) else { continue }
            if best.map({ entry.rank < $0.entry.rank }) ?? true { best = (index, entry) }
        }
        guard let best, best.entry.amount <= amount else { return nil }
        lines[best.index].inviteFirst(within: capacity)
        return best.entry.operation
    }

    func give(_ amount: Int, to operation: Operation) {
        used += amount
        if firstHolder == nil { firstHolder = operation } else { otherHolders.append(operation) }
    }

    func takeBack(_ amount: Int, from operation: Operation) {
        used -= amount
        if firstHolder === operation { firstHolder = nil } else { otherHolders.removeFirst { $0 === operation } }
    }

    var holders: [Operation] { (firstHolder.map { [$0] } ?? []) + otherHolders }
}
