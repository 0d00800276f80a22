/// The supplies of requirements. The same keys tend to be needed again, so idle supplies stay until there are many: making a
/// supply, entering it and removing it costs more than all the rest of taking a free key.
struct SupplyTable {
    private var supplies: [Requirement: Supply] = [:]
    /// The supply that was used last: comparing takes less time than hashing.
    private var latest: Supply?
    /// The number of supplies at which the idle ones are removed. Twice as many as the last removal left, so that it costs O(1) for each
    /// addition.
    private var limit = SupplyTable.leastLimit
    private static let leastLimit = 128

    var all: some Collection<Supply> { supplies.values }

    subscript(requirement: Requirement) -> Supply? { supplies[requirement] }

    /// Makes the supply if it does not exist. Looks for it once.
    @inline(__always)
    mutating func supply(of requirement: Requirement) -> Supply {
        if let latest, latest.requirement == requirement { return latest }
        func current(_ supply: inout Supply) -> Supply { supply }
        let supply = current(&supplies[requirement, default: Supply(of: requirement)])
        latest = supply
        return supply
    }

    /// Removes the idle supplies if there are many. The caller must not be about to use one that it has looked up: the next operation with the
    /// same requirement would get another one.
    @inline(__always)
    mutating func makeRoom() {
        if supplies.count >= limit { removeIdle() }
    }

    @inline(never)
    private mutating func removeIdle() {
        supplies = supplies.filter { !$0.value.isIdle }
        latest = nil
        limit = max(2 * supplies.count, SupplyTable.leastLimit)
        supplies.reserveCapacity(limit)
    }
}
