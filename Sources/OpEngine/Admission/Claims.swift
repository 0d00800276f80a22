/// A part of what an operation takes when it starts.
struct Claim {
    let supply: Supply
    let amount: Int
}

/// Everything that an operation takes when it starts. Most operations need one thing, which is stored without memory of its own.
struct Claims {
    private var first: Claim?
    private var others: [Claim]?

    mutating func append(_ claim: Claim) {
        if first == nil {
            first = claim
        } else if others == nil {
            others = [claim]
        } else {
            others?.append(claim)
        }
    }

    @inline(__always)
    func forEach(_ body: (Claim) -> Void) {
        if let first { body(first) }
        if let others { others.forEach(body) }
    }

    /// The first claim that `fits`.
    @inline(__always)
    func first(where fits: (Claim) -> Bool) -> Claim? {
        if let first, fits(first) { return first }
        return others?.first(where: fits)
    }

    /// Whether there is one claim, and it is of this supply.
    func isOnly(_ supply: Supply) -> Bool { others == nil && first?.supply === supply }

    func amount(of supply: Supply) -> Int { first { $0.supply === supply }?.amount ?? 0 }
}
