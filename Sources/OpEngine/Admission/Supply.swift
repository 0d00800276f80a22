import OpPlatform

/// The total of a requirement, its holders, and the operations that wait for it. Guarded by the lock of `Engine.admissions`, so accesses
/// need no exclusivity checks.
@safe final class Supply {
    let requirement: Requirement
    /// Whether an operation returns the amount that it has taken when it ends.
    let comesBack: Bool
    /// The total. Not used for starts.
    @safe @exclusivity(unchecked) var capacity: Int
    @safe @exclusivity(unchecked) var used = 0
    /// The tokens of starts; nil for other requirements.
    @safe @exclusivity(unchecked) var bucket: TokenBucket?
    /// The operations that have taken something that they will return.
    @safe @exclusivity(unchecked) private(set) var holders = Few<Operation>()
    /// The queues with operations that wait, or that were invited to try again.
    @safe @exclusivity(unchecked) var lines: [Line] = []
    /// Whether a timer will invite operations when the next start is allowed. `timer` is that timer, once it was set.
    @safe @exclusivity(unchecked) var awaitsTimer = false
    @safe @exclusivity(unchecked) var timer: Timers.Number?
    /// Distinguishes the awaited timer from former ones.
    @safe @exclusivity(unchecked) var timerSerial: UInt64 = 0

    /// The capacity until it is set.
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

    /// The amount that may be taken now.
    @inline(__always)
    func available(at now: @autoclosure () -> ContinuousClock.Instant) -> Int {
        if let bucket { return bucket.available(at: now()) }
        return capacity - used
    }

    /// Whether the supply can be made anew when it is needed, without any loss.
    var isIdle: Bool { used == 0 && lines.isEmpty && bucket == nil && capacity == usualCapacity }

    /// Whether no operation waits, and time makes nothing available.
    var isPlain: Bool { lines.isEmpty && bucket == nil }

    /// Whether a waiting operation precedes one with this rank in the queue `core`.
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

    /// Invites the operation with the best place in all lines without an invited one, and returns it. Nil if no operation waits there, or
    /// if that operation needs more than `amount`.
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
        holders.append(operation)
    }

    func takeBack(_ amount: Int, from operation: Operation) {
        used -= amount
        holders.removeFirst { $0 === operation }
    }
}

/// A part of what an operation takes when it starts.
struct Claim {
    let supply: Supply
    let amount: Int
}

extension Few<Claim> {
    func amount(of supply: Supply) -> Int { first { $0.supply === supply }?.amount ?? 0 }
}
