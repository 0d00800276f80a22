/// Who has taken what of an engine's requirements, and who waits. A part of `Engine`, guarded by its lock.
///
/// An operation takes everything that it needs at one moment, when a worker has taken it from its queue: nobody holds one requirement and
/// waits for another one. If something is missing, the operation goes back to its queue and waits in a line of what is missing; it is posted
/// again when that may be there. Until it starts, it holds nothing, so a suspended or full queue is in nobody's way.
struct Admissions {
    /// What the caller must do after the lock is released.
    struct Consequences {
        /// The operations to post to their queues, the best first.
        var invited: [Operation] = []
        /// The rate limits that allow the next start at a moment to come.
        var timers: [(requirement: Requirement, serial: UInt64, moment: ContinuousClock.Instant)] = []
        /// The timers that nothing waits for any more.
        var ended: [EngineTimers.Number] = []
    }

    private var supplies: [Requirement: Supply] = [:]
    private var lastTicket: UInt64 = 0

    // MARK: Settings

    /// How much there is of a resource; 0 for an unknown one.
    func capacity(of resource: String) -> Int { supplies[.resource(resource)]?.capacity ?? 0 }

    var resources: [String: Int] {
        var all: [String: Int] = [:]
        for (requirement, supply) in supplies {
            if case .resource(let name) = requirement, supply.capacity > 0 { all[name] = supply.capacity }
        }
        return all
    }

    mutating func setResources(_ amounts: [String: Int], at now: ContinuousClock.Instant) -> Consequences {
        var consequences = Consequences()
        for name in Set(amounts.keys).union(resources.keys) {
            let supply = supply(of: .resource(name))
            supply.capacity = amounts[name] ?? 0
            attend(to: .resource(name), at: now, &consequences)
        }
        return consequences
    }

    mutating func setRate(_ rate: RateLimit?, of core: ObjectIdentifier, at now: ContinuousClock.Instant) -> Consequences {
        var consequences = Consequences()
        let supply = supply(of: .start(core))
        forgetTimer(of: supply, &consequences)
        supply.bucket = rate.map { TokenBucket($0, at: now) }
        attend(to: .start(core), at: now, &consequences)
        return consequences
    }

    func rate(of core: ObjectIdentifier) -> RateLimit? { supplies[.start(core)]?.bucket?.rate }

    private mutating func supply(of requirement: Requirement) -> Supply {
        if let supply = supplies[requirement] { return supply }
        let made = Supply(of: requirement)
        supplies[requirement] = made
        return made
    }

    // MARK: Operations

    /// Takes everything that an operation of the queue `core` needs. Returns nil if something is missing; nothing has been taken then.
    mutating func admit(
        _ operation: Operation, _ admission: Operation.Admission, in core: ObjectIdentifier, at now: ContinuousClock.Instant
    ) -> Consequences? {
        guard missing(operation, admission, in: core, at: now) == nil else { return nil }
        for (requirement, amount) in admission.requirements {
            let supply = supply(of: requirement)
            if case .start = requirement {
                supply.bucket?.take(at: now)
            } else {
                supply.used += amount
                supply.holders.append(operation)
            }
        }
        admission.hasTaken = true
        admission.ticket = nil
        // Not before: the next in line would be invited for nothing.
        var consequences = leaveLine(admission, at: now)
        // There may be enough left for another one.
        for (requirement, _) in admission.requirements { attend(to: requirement, at: now, &consequences) }
        return consequences
    }

    /// Puts an operation, which is back in its queue, in the line of what it misses. `waits` is false if nothing is missing any more.
    mutating func wait(
        _ operation: Operation, _ admission: Operation.Admission, in core: ObjectIdentifier, at now: ContinuousClock.Instant
    ) -> (waits: Bool, Consequences) {
        // Another worker may have launched it already.
        if admission.hasTaken { return (true, Consequences()) }
        // An invited operation keeps its place meanwhile, so that nobody overtakes it.
        guard let requirement = missing(operation, admission, in: core, at: now) else { return (false, Consequences()) }
        var consequences = leaveLine(admission, at: now)
        if admission.ticket == nil {
            lastTicket += 1
            admission.ticket = lastTicket
        }
        let supply = supply(of: requirement), rank = rank(of: operation, admission)
        let index = supply.indexOfLine(of: core)
        supply.lines[index].insert(Line.Entry(operation: operation, rank: rank, amount: admission.amount(of: requirement)))
        admission.place = Operation.Admission.Place(requirement: requirement, core: core, rank: rank)
        attend(to: requirement, at: now, &consequences)
        return (true, consequences)
    }

    /// Returns what an operation has taken.
    mutating func end(_ operation: Operation, _ admission: Operation.Admission, at now: ContinuousClock.Instant) -> Consequences {
        var consequences = leaveLine(admission, at: now)
        guard admission.hasTaken else { return consequences }
        admission.hasTaken = false
        for (requirement, amount) in admission.requirements {
            if case .start = requirement { continue }
            let supply = supply(of: requirement)
            supply.used -= amount
            supply.holders.removeFirst { $0 === operation }
            attend(to: requirement, at: now, &consequences)
        }
        return consequences
    }

    /// Takes an operation that is not to be invited out of its line.
    mutating func leaveLine(_ admission: Operation.Admission, at now: ContinuousClock.Instant) -> Consequences {
        var consequences = Consequences()
        guard let place = admission.place.take(), let supply = supplies[place.requirement] else { return consequences }
        let index = supply.indexOfLine(of: place.core)
        if supply.lines[index].invited === admission.operation {
            supply.lines[index].invited = nil
        } else {
            supply.lines[index].remove(place.rank)
        }
        attend(to: place.requirement, at: now, &consequences)
        return consequences
    }

    /// Moves an operation that waits to the place of its new priority.
    mutating func reprioritise(_ operation: Operation, _ admission: Operation.Admission, at now: ContinuousClock.Instant) -> Consequences {
        guard let place = admission.place, let supply = supplies[place.requirement] else { return Consequences() }
        let index = supply.indexOfLine(of: place.core)
        if supply.lines[index].invited === operation { return Consequences() }
        supply.lines[index].remove(place.rank)
        let rank = rank(of: operation, admission)
        supply.lines[index].insert(Line.Entry(operation: operation, rank: rank, amount: admission.amount(of: place.requirement)))
        admission.place?.rank = rank
        var consequences = Consequences()
        attend(to: place.requirement, at: now, &consequences)
        return consequences
    }

    /// Remembers the timer of a rate limit. Returns false if it is not needed any more.
    mutating func note(_ timer: EngineTimers.Number, serial: UInt64, for requirement: Requirement) -> Bool {
        guard let supply = supplies[requirement], supply.awaitsTimer, supply.timerSerial == serial else { return false }
        supply.timer = timer
        return true
    }

    /// The next start of a rate limit is allowed.
    mutating func timerHasFired(serial: UInt64, for requirement: Requirement, at now: ContinuousClock.Instant) -> Consequences {
        var consequences = Consequences()
        if let supply = supplies[requirement], supply.timerSerial == serial { (supply.awaitsTimer, supply.timer) = (false, nil) }
        attend(to: requirement, at: now, &consequences)
        return consequences
    }

    private func forgetTimer(of supply: Supply, _ consequences: inout Consequences) {
        if let timer = supply.timer.take() { consequences.ended.append(timer) }
        supply.awaitsTimer = false
    }

    private func rank(of operation: Operation, _ admission: Operation.Admission) -> Line.Rank {
        Line.Rank(level: operation.loadState().level, ticket: admission.ticket ?? .max)
    }

    /// The first requirement of which there is not enough, or for which others with a better place wait.
    private mutating func missing(
        _ operation: Operation, _ admission: Operation.Admission, in core: ObjectIdentifier, at now: ContinuousClock.Instant
    ) -> Requirement? {
        let rank = rank(of: operation, admission)
        for (requirement, amount) in admission.requirements {
            guard let supply = supplies[requirement] else {
                if case .resource = requirement { return requirement }
                continue
            }
            if supply.available(at: now) < amount || supply.hasWaiting(before: rank, in: core) { return requirement }
        }
        return nil
    }

    /// Invites the first of each line, as long as there is enough. Whoever has the best place must not be overtaken by those that need less.
    private mutating func attend(to requirement: Requirement, at now: ContinuousClock.Instant, _ consequences: inout Consequences) {
        guard let supply = supplies[requirement] else { return }
        supply.lines.removeAll(where: \.isEmpty)
        if supply.isIdle {
            supplies[requirement] = nil
            return
        }
        let available = supply.available(at: now)
        let first = supply.lines.enumerated().compactMap { index, line in line.first(within: supply.capacity).map { (index, $0) } }
        for (index, entry) in first.sorted(by: { $0.1.rank < $1.1.rank }) where supply.lines[index].invited == nil {
            if entry.amount > available { break }
            guard let entry = supply.lines[index].popFirst(within: supply.capacity) else { continue }
            supply.lines[index].invited = entry.operation
            consequences.invited.append(entry.operation)
        }
        guard let bucket = supply.bucket else { return }
        let waits = supply.lines.contains { $0.first(within: .max) != nil }
        if !waits {
            forgetTimer(of: supply, &consequences)
        } else if available < 1, !supply.awaitsTimer {
            supply.awaitsTimer = true
            supply.timerSerial += 1
            consequences.timers.append((requirement, supply.timerSerial, bucket.next(at: now)))
        }
    }

    // MARK: Diagnosis

    /// What keeps an operation from starting: the requirement whose line it is in, who has it, and how much there is.
    func lack(of admission: Operation.Admission, at now: ContinuousClock.Instant) -> Operation.Lack? {
        guard let place = admission.place, let supply = supplies[place.requirement] else { return nil }
        return Operation.Lack(
            requirement: place.requirement, amount: admission.amount(of: place.requirement), capacity: supply.capacity,
            available: supply.available(at: now), holders: supply.holders, next: supply.bucket?.next(at: now))
    }
}
