import Synchronization

/// Who has taken what of an engine's requirements, and who waits. A part of `Engine`, guarded by its lock.
///
/// An operation takes everything that it needs at one moment, when a worker has taken it from its queue: nobody holds one requirement and
/// waits for another one. If something is missing, the operation goes back to its queue and waits in a line of what is missing; it is posted
/// again when that may be there. Until it starts, it holds nothing, so a suspended or full queue is in nobody's way.
///
/// The engine's clock is read only where there is a rate limit, because that costs as much as taking a key.
struct Admissions {
    /// What the caller must do after the lock is released.
    final class Consequences {
        /// The operations to post to their queues, the best first.
        var invited: [Operation] = []
        /// The rate limits that allow the next start at a moment to come.
        var timers: [(requirement: Requirement, serial: UInt64, moment: ContinuousClock.Instant)] = []
        /// The timers that nothing waits for any more.
        var ended: [EngineTimers.Number] = []
    }

    private var keySupplies = SupplyTable<String>()
    private var resourceSupplies = SupplyTable<String>()
    private var startSupplies = SupplyTable<ObjectIdentifier>()
    private var lastTicket: UInt64 = 0

    // MARK: Settings

    /// How much there is of a resource; 0 for an unknown one.
    func capacity(of resource: String) -> Int { resourceSupplies[resource]?.capacity ?? 0 }

    var resources: [String: Int] {
        var all: [String: Int] = [:]
        for supply in resourceSupplies.all {
            if case .resource(let name) = supply.requirement, supply.capacity > 0 { all[name] = supply.capacity }
        }
        return all
    }

    mutating func setResources(_ amounts: [String: Int], on engine: Engine) -> Consequences? {
        var consequences: Consequences?
        for name in Set(amounts.keys).union(resources.keys) {
            let supply = supply(of: .resource(name))
            supply.capacity = amounts[name] ?? 0
            attend(to: supply, on: engine, &consequences)
        }
        return consequences
    }

    mutating func setRate(
        _ rate: RateLimit?, of core: ObjectIdentifier, on engine: Engine
    ) -> Consequences? {
        makeRoom()
        var consequences: Consequences?
        let supply = supply(of: .start(core))
        forgetTimer(of: supply, &consequences)
        supply.bucket = rate.map { TokenBucket($0, at: engine.now) }
        attend(to: supply, on: engine, &consequences)
        return consequences
    }

    func rate(of core: ObjectIdentifier) -> RateLimit? { startSupplies[core]?.bucket?.rate }

    /// The supply that a requirement has, if any.
    private func existingSupply(of requirement: Requirement) -> Supply? {
        switch requirement {
        case .key(let key): keySupplies[key]
        case .resource(let name): resourceSupplies[name]
        case .start(let core): startSupplies[core]
        }
    }

    private mutating func supply(of requirement: Requirement) -> Supply {
        switch requirement {
        case .key(let key): keySupplies.supply(of: requirement, named: key)
        case .resource(let name): resourceSupplies.supply(of: requirement, named: name)
        case .start(let core): startSupplies.supply(of: requirement, named: core)
        }
    }

    private mutating func makeRoom() {
        keySupplies.makeRoom()
        resourceSupplies.makeRoom()
        startSupplies.makeRoom()
    }

    // MARK: Operations

    /// Finds the supplies of what an operation needs now. Takes the operation's lock inside that of the admissions.
    @inline(__always)
    private mutating func claims(of operation: Operation, _ admission: Operation.Admission, in core: OperationQueue.Core) -> Claims {
        makeRoom()
        var claims = Claims()
        operation.lock.withLock {
            admission.exclusiveKeys.forEach { key in claims.append(Claim(supply: supply(of: .key(key)), amount: 1)) }
            guard let needs = admission.further?.needs else { return }
            for (name, amount) in needs { claims.append(Claim(supply: supply(of: .resource(name)), amount: amount)) }
        }
        if core.isRateLimited.load(ordering: .relaxed) {
            claims.append(Claim(supply: supply(of: .start(ObjectIdentifier(core))), amount: 1))
        }
        return claims
    }

    /// Takes everything that an operation of the queue `core` needs. If something is missing, takes nothing, puts the operation in the line of
    /// that, and returns false. The caller must give the operation back to its queue then.
    mutating func admit(
        _ operation: Operation, _ admission: Operation.Admission, in core: OperationQueue.Core,
        on engine: Engine, _ consequences: inout Consequences?
    ) -> Bool {
        let claims = claimsOfInvited(admission, in: core) ?? claims(of: operation, admission, in: core)
        // An invited operation keeps its place meanwhile, so that nobody overtakes it.
        let missing = missing(of: claims, rank(of: operation, admission), in: ObjectIdentifier(core), on: engine)
        admission.claims = claims
        if let missing {
            leaveLine(operation, admission, on: engine, &consequences)
            enterLine(of: missing, operation, admission, in: ObjectIdentifier(core), on: engine, &consequences)
            return false
        }
        claims.forEach { claim in
            if claim.supply.comesBack {
                claim.supply.give(claim.amount, to: operation)
            } else {
                claim.supply.bucket?.take(at: engine.now)
            }
        }
        admission.ticket = 0
        // Not before: the next in line would be invited for nothing.
        leaveLine(operation, admission, on: engine, &consequences)
        // There may be enough left for another one.
        claims.forEach { attend(to: $0.supply, on: engine, &consequences) }
        admission.hasTaken = true
        return true
    }

    /// The claims of an operation that was invited for the only thing that it needs. They are those of when it entered the line: a change of what
    /// it needs takes it out, and a supply with a line is not removed.
    @inline(__always)
    private func claimsOfInvited(_ admission: Operation.Admission, in core: OperationQueue.Core) -> Claims? {
        guard let place = admission.place, admission.claims.isOnly(place.supply), !core.isRateLimited.load(ordering: .relaxed) else {
            return nil
        }
        return admission.claims
    }

    private mutating func enterLine(
        of claim: Claim, _ operation: Operation, _ admission: Operation.Admission, in core: ObjectIdentifier,
        on engine: Engine, _ consequences: inout Consequences?
    ) {
        if admission.ticket == 0 {
            lastTicket += 1
            admission.ticket = lastTicket
        }
        let supply = claim.supply, rank = rank(of: operation, admission)
        let index = supply.indexOfLine(of: core)
        supply.lines[index].insert(Line.Entry(operation: operation, rank: rank, amount: claim.amount))
        admission.place = Operation.Admission.Place(supply: supply, core: core, rank: rank)
        admission.isInLine.store(true, ordering: .relaxed)
        attend(to: supply, on: engine, &consequences)
    }

    /// Returns what an operation has taken.
    mutating func end(
        _ operation: Operation, _ admission: Operation.Admission, on engine: Engine
    ) -> Consequences? {
        var consequences: Consequences?
        leaveLine(operation, admission, on: engine, &consequences)
        guard admission.hasTaken else { return consequences }
        admission.hasTaken = false
        exchange(&admission.claims, with: Claims()).forEach { claim in
            guard claim.supply.comesBack else { return }
            claim.supply.takeBack(claim.amount, from: operation)
            attend(to: claim.supply, on: engine, &consequences)
        }
        return consequences
    }

    /// Takes an operation that is not to be invited out of its line.
    mutating func leaveLine(
        _ operation: Operation, _ admission: Operation.Admission, on engine: Engine
    ) -> Consequences? {
        var consequences: Consequences?
        leaveLine(operation, admission, on: engine, &consequences)
        return consequences
    }

    @inline(__always)
    private func leaveLine(
        _ operation: Operation, _ admission: Operation.Admission, on engine: Engine,
        _ consequences: inout Consequences?
    ) {
        if admission.place == nil { return }
        guard let place = admission.place.take() else { return }
        admission.isInLine.store(false, ordering: .relaxed)
        let supply = place.supply, index = supply.indexOfLine(of: place.core)
        if supply.lines[index].invited === operation {
            supply.lines[index].forgetInvited()
        } else {
            supply.lines[index].remove(place.rank)
        }
        attend(to: supply, on: engine, &consequences)
    }

    /// Moves an operation that waits to the place of its new priority.
    mutating func reprioritise(
        _ operation: Operation, _ admission: Operation.Admission, on engine: Engine
    ) -> Consequences? {
        guard let place = admission.place else { return nil }
        let supply = place.supply, index = supply.indexOfLine(of: place.core)
        if supply.lines[index].invited === operation { return nil }
        supply.lines[index].remove(place.rank)
        let rank = rank(of: operation, admission)
        supply.lines[index].insert(Line.Entry(operation: operation, rank: rank, amount: admission.claims.amount(of: supply)))
        admission.place?.rank = rank
        var consequences: Consequences?
        attend(to: supply, on: engine, &consequences)
        return consequences
    }

    /// Remembers the timer of a rate limit. Returns false if it is not needed any more.
    mutating func note(_ timer: EngineTimers.Number, serial: UInt64, for requirement: Requirement) -> Bool {
        guard let supply = existingSupply(of: requirement), supply.awaitsTimer, supply.timerSerial == serial else { return false }
        supply.timer = timer
        return true
    }

    /// The next start of a rate limit is allowed.
    mutating func timerHasFired(
        serial: UInt64, for requirement: Requirement, on engine: Engine
    ) -> Consequences? {
        var consequences: Consequences?
        guard let supply = existingSupply(of: requirement) else { return consequences }
        if supply.timerSerial == serial { (supply.awaitsTimer, supply.timer) = (false, nil) }
        attend(to: supply, on: engine, &consequences)
        return consequences
    }

    private func forgetTimer(of supply: Supply, _ consequences: inout Consequences?) {
        if let timer = supply.timer.take() { made(&consequences).ended.append(timer) }
        supply.awaitsTimer = false
    }

    private func rank(of operation: Operation, _ admission: Operation.Admission) -> Line.Rank {
        Line.Rank(level: operation.loadState().level, ticket: admission.ticket == 0 ? .max : admission.ticket)
    }

    /// The first claim of which there is not enough, or for which others with a better place wait.
    @inline(__always)
    private func missing(
        of claims: Claims, _ rank: Line.Rank, in core: ObjectIdentifier, on engine: Engine
    ) -> Claim? {
        claims.first { claim in
            claim.supply.available(on: engine) < claim.amount || claim.supply.hasWaiting(before: rank, in: core)
        }
    }

    /// Invites the first of each line, as long as there is enough. Whoever has the best place must not be overtaken by those that need less.
    @inline(__always)
    private func attend(to supply: Supply, on engine: Engine, _ consequences: inout Consequences?) {
        if !supply.isPlain { attendToLines(of: supply, on: engine, &consequences) }
    }

    @inline(never)
    private func attendToLines(of supply: Supply, on engine: Engine, _ consequences: inout Consequences?) {
        supply.removeEmptyLines()
        let available = supply.available(on: engine)
        while let operation = supply.popBest(needingAtMost: available) { made(&consequences).invited.append(operation) }
        guard let bucket = supply.bucket else { return }
        let waits = supply.lines.contains { $0.first(within: .max) != nil }
        if !waits {
            forgetTimer(of: supply, &consequences)
        } else if available < 1, !supply.awaitsTimer {
            supply.awaitsTimer = true
            supply.timerSerial += 1
            made(&consequences).timers.append((supply.requirement, supply.timerSerial, bucket.next(at: engine.now)))
        }
    }

    private func made(_ consequences: inout Consequences?) -> Consequences {
        if let consequences { return consequences }
        let made = Consequences()
        consequences = made
        return made
    }

    // MARK: Diagnosis

    /// What keeps an operation from starting: the requirement whose line it is in, who has it, and how much there is.
    func lack(of admission: Operation.Admission, on engine: Engine) -> Operation.Lack? {
        guard let place = admission.place else { return nil }
        let supply = place.supply
        return Operation.Lack(
            requirement: supply.requirement, amount: admission.claims.amount(of: supply), capacity: supply.capacity,
            available: supply.available(on: engine), holders: supply.holders, next: supply.bucket?.next(at: engine.now))
    }
}
