import Glibc

/// One claim about operations, tested in a process of its own.
struct Case {
    /// The number of the clause in docs/operation-semantics.md.
    let clause: Int
    let name: String
    /// A trap must end the process.
    var traps = false
    let body: () throws -> Void

    init(_ clause: Int, _ name: String, traps: Bool = false, _ body: @escaping () throws -> Void) {
        self.clause = clause
        self.name = name
        self.traps = traps
        self.body = body
    }
}

/// Thrown when the claim does not hold.
struct Wrong: Error { let what: String }

/// Thrown when this implementation does not have the feature.
struct NotAvailable: Error {}

func expect(_ condition: Bool, _ what: String) throws {
    if !condition { throw Wrong(what: what) }
}

/// Lets other threads run for a while. For claims that something does not happen.
func giveOthersTime() {
    var time = timespec(tv_sec: 0, tv_nsec: 50_000_000)
    nanosleep(&time, nil)
}

let allCases = [
    stateCases, subclassCases, blockCases, dependencyCases, scaleCases, cancellingCases, completionCases, orderCases, queueCases,
    barrierCases, progressCases, threadCases, underlyingQueueCases, waitingCases, misuseCases, observationCases, idiomCases,
].flatMap { $0 }
