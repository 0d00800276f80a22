import OpPlatform
import Synchronization

/// The requirements that an engine's operations have taken, and the lines of operations that wait. Guarded by the lock of
/// `Engine.admissions`.
///
/// An operation takes everything that it needs at one moment, when a worker has taken it from its queue. So no operation holds one
/// requirement while it waits for another one. If something is missing, the operation returns to its queue and waits in the line of the missing
/// requirement. The engine posts the operation again when the requirement may be available. Until it starts, the operation holds nothing, so a
/// suspended or full queue blocks no other one.
///
/// The engine's clock is read only for rate limits, because that costs as much as taking a key.
struct Admissions {
    /// Work that the caller must do after it has released the lock.
    final class Consequences {
        /// The operations to post to their queues, the best first.
        var invited: [Operation] = []
        /// The timers to set, each for the moment at which a rate limit allows its next start.
        var timers: [(requirement: Requirement, serial: UInt64, moment: ContinuousClock.Instant)] = []
        /// The timers to cancel, because no operation waits for them any more.
        var ended: [Timers.Number] = []
    }

    /// Has the time, if the engine is simulated.
    private let simulated: SimulatedWorkers?
    private var supplies = SupplyTable()
    private var lastTicket: UInt64 = 0
    /// The consequences of the change in progress; nil while there are none.
    private var consequences: Consequences?

    init(simulated: SimulatedWorkers?) { self.simulated = simulated }

    private var now: ContinuousClock.Instant { simulated?.now ?? .now }

    /// Ends a change. The caller must perform its consequences.
    mutating func takeConsequences() -> Consequences? { consequences.take() }

    // MARK: Settings

    /// The total of a resource; 0 for an unknown one.
    func capacity(of resource: String) -> Int { supplies[.resource(resource)]?.capacity ?? 0 }

    var resources: [String: Int] {
        var all: [String: Int] = [:]
        for supply in supplies.all {
            if case .resource(let name) = supply.requirement, supply.capacity > 0 { all[name] = supply.capacity }
        }
        return all
    }

    mutating func setResources(_ amounts: [String: Int]) {
        for name in Set(amounts.keys).union(resources.keys) {
            let supply = supplies.supply(of: .resource(name))
            supply.capacity = amounts[name] ?? 0
            attend(to: supply)
        }
    }

    mutating func setRate(_ rate: RateLimit?, of core: ObjectIdentifier) {
        supplies.makeRoom()
        let supply = supplies.supply(of: .start(core))
        forgetTimer(of: supply)
        supply.bucket = rate.map { TokenBucket($0, at: now) }
        attend(to: supply)
    }

    func rate(of core: ObjectIdentifier) -> RateLimit? { supplies[.start(core)]?.bucket?.rate }

    // MARK: Operations

    /// Finds the supplies of everything that an operation needs now. Takes the operation's lock inside that of the admissions.
    @inline(__always)
    private mutating func claims(of operation: Operation, _ admission: Operation.Admission, in core: OperationQueue.Core) -> Few<Claim> {
        supplies.makeRoom()
        var claims = Few<Claim>()
        operation.lock.withLock {
            admission.exclusiveKeys.forEach { key in claims.append(Claim(supply: supplies.supply(of: .key(key)), amount: 1)) }
            guard let needs = admission.further?.needs else { return }
            for (name, amount) in needs { claims.append(Claim(supply: supplies.supply(of: .resource(name)), amount: amount)) }
        }
        if core.has(.rateLimited) {
            claims.append(Claim(supply: supplies.supply(of: .start(ObjectIdentifier(core))), amount: 1))
        }
        return claims
    }

    /// Takes everything that an operation of the queue `core` needs. If something is missing, takes nothing, puts the operation into the line of the
    /// missing requirement, and returns false. The caller must then give the operation back to its queue.
    mutating func admit(_ operation: Operation, _ admission: Operation.Admission, in core: OperationQueue.Core) -> Bool {
        let claims = claimsOfInvited(admission, in: core) ?? claims(of: operation, admission, in: core)
        // An invited operation keeps its place until here, so that no other one overtakes it.
        let missing = missing(of: claims, rank(of: operation, admission), in: ObjectIdentifier(core))
        admission.claims = claims
        if let missing {
            leaveLine(operation, admission)
            enterLine(of: missing, operation, admission, in: ObjectIdentifier(core))
            return false
        }
        claims.forEach { claim in
            if claim.supply.comesBack {
                claim.supply.give(claim.amount, to: operation)
            } else {
                claim.supply.bucket?.take(at: now)
            }
        }
        admission.ticket = 0
        // Leaving the line earlier would invite the next operation, which cannot start yet.
        leaveLine(operation, admission)
        // The rest may be enough for another operation.
        claims.forEach { attend(to: $0.supply) }
        admission.hasTaken = true
        return true
    }

    /// The claims of an operation that was invited for the only thing that it needs. It made them when it entered the line, and they are
    /// still valid: a change of its needs takes it out of the line, and a supply with a line is not removed.
    @inline(__always)
    private func claimsOfInvited(_ admission: Operation.Admission, in core: OperationQueue.Core) -> Few<Claim>? {
        guard let place = admission.place, admission.claims.only?.supply === place.supply, !core.has(.rateLimited) else {
            return nil
        }
        return admission.claims
    }

    private mutating func enterLine(
        of claim: Claim, _ operation: Operation, _ admission: Operation.Admission, in core: ObjectIdentifier
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
        attend(to: supply)
    }

    /// Gives back everything that an operation has taken.
    mutating func end(_ operation: Operation, _ admission: Operation.Admission) {
        leaveLine(operation, admission)
        guard admission.hasTaken else { return }
        admission.hasTaken = false
        exchange(&admission.claims, with: Few()).forEach { claim in
            guard claim.supply.comesBack else { return }
            claim.supply.takeBack(claim.amount, from: operation)
            attend(to: claim.supply)
        }
    }

    /// Takes an operation out of its line, so that it is not invited.
    @inline(__always)
    mutating func leaveLine(_ operation: Operation, _ admission: Operation.Admission) {
        guard admission.place != nil, let place = admission.place.take() else { return }
        admission.isInLine.store(false, ordering: .relaxed)
        let supply = place.supply, index = supply.indexOfLine(of: place.core)
        if supply.lines[index].invited === operation {
            supply.lines[index].invited = nil
        } else {
            supply.lines[index].remove(place.rank)
        }
        attend(to: supply)
    }

    /// Moves a waiting operation to the place of its new priority.
    mutating func reprioritise(_ operation: Operation, _ admission: Operation.Admission) {
        guard let place = admission.place else { return }
        let supply = place.supply, index = supply.indexOfLine(of: place.core)
        if supply.lines[index].invited === operation { return }
        supply.lines[index].remove(place.rank)
        let rank = rank(of: operation, admission)
        supply.lines[index].insert(Line.Entry(operation: operation, rank: rank, amount: admission.claims.amount(of: supply)))
        admission.place?.rank = rank
        attend(to: supply)
    }

    /// Keeps the timer of a rate limit. Returns false if the timer is no longer needed.
    mutating func keep(_ timer: Timers.Number, serial: UInt64, for requirement: Requirement) -> Bool {
        guard let supply = supplies[requirement], supply.awaitsTimer, supply.timerSerial == serial else { return false }
        supply.timer = timer
        return true
    }

    /// Invites operations, because a rate limit allows its next start.
    mutating func timerHasFired(serial: UInt64, for requirement: Requirement) {
        guard let supply = supplies[requirement] else { return }
        if supply.timerSerial == serial { (supply.awaitsTimer, supply.timer) = (false, nil) }
        attend(to: supply)
    }

    private mutating func forgetTimer(of supply: Supply) {
        if let timer = supply.timer.take() { ensureConsequences().ended.append(timer) }
        supply.awaitsTimer = false
    }

    private func rank(of operation: Operation, _ admission: Operation.Admission) -> Line.Rank {
        Line.Rank(level: operation.loadState().level, ticket: admission.ticket == 0 ? .max : admission.ticket)
    }

    /// The first claim that cannot be met: too little is available, or an operation with a better place waits for it.
    @inline(__always)
    private func missing(of claims: Few<Claim>, _ rank: Line.Rank, in core: ObjectIdentifier) -> Claim? {
        claims.first { claim in
            claim.supply.available(at: now) < claim.amount || claim.supply.hasWaiting(before: rank, in: core)
        }
    }

    /// Invites the first operation of each line, as long as enough is available. Operations that need less must not overtake the one with
    /// the best place.
    @inline(__always)
    private mutating func attend(to supply: Supply) {
        if !supply.isPlain { attendToLines(of: supply) }
    }

    @inline(never)
    private mutating func attendToLines(of supply: Supply) {
        supply.removeEmptyLines()
        let available = supply.available(at: now)
        while let operation = supply.popBest(needingAtMost: available) { ensureConsequences().invited.append(operation) }
        guard let bucket = supply.bucket else { return }
        let waits = supply.lines.contains { $0.first(within: .max) != nil }
        if !waits {
            forgetTimer(of: supply)
        } else if available < 1, !supply.awaitsTimer {
            supply.awaitsTimer = true
            supply.timerSerial += 1
            ensureConsequences().timers.append((supply.requirement, supply.timerSerial, bucket.next(at: now)))
        }
    }

    private mutating func ensureConsequences() -> Consequences {
        if let consequences { return consequences }
        let made = Consequences()
        consequences = made
        return made
    }

    // MARK: Diagnosis

    /// The reason why an operation does not start: the requirement in whose line it is, with its holders and its amounts.
    func lack(of admission: Operation.Admission) -> Operation.Lack? {
        guard let place = admission.place else { return nil }
        let supply = place.supply
        return Operation.Lack(
            requirement: supply.requirement, amount: admission.claims.amount(of: supply), capacity: supply.capacity,
            available: supply.available(at: now), holders: supply.holders.all, next: supply.bucket?.next(at: now))
    }
}
