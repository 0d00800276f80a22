/// The supplies of one kind of requirement. Idle ones stay until there are many, because the same keys tend to be needed again: making a
/// supply, entering it and removing it costs more than all the rest of taking a free key.
struct SupplyTable<Name: Hashable> {
    private var supplies: [Name: Supply] = [:]
    /// The one that was used last: a comparison takes less time than a hash.
    private var latest: Supply?
    /// The number of supplies at which the idle ones go. Twice as many as were left the last time, so that this costs O(1) for each addition.
    private var limit = SupplyTable.leastLimit
    private static var leastLimit: Int { 128 }

    var all: some Collection<Supply> { supplies.values }

    subscript(name: Name) -> Supply? { supplies[name] }

    /// Makes the supply if there is none. Looks for it once.
    @inline(__always)
    mutating func supply(of requirement: Requirement, named name: Name) -> Supply {
        if let latest, latest.requirement == requirement { return latest }
        func current(_ supply: inout Supply) -> Supply { supply }
        let supply = current(&supplies[name, default: Supply(of: requirement)])
        latest = supply
        return supply
    }

    /// Removes the idle supplies if there are many. The caller must not have looked up one that it is about to use: whoever needs the same would
    /// get another one.
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
