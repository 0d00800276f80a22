/// Operations that are not running, with the reasons.
public struct StallReport: Sendable, Hashable {
    /// The operations that were examined, with the reasons.
    public private(set) var entries: [OperationBlockage] = []
    /// The number of operations that were not examined.
    public private(set) var omittedCount = 0

    /// Whether the report has no entries.
    public var isEmpty: Bool { entries.isEmpty }

    /// Explains why `operations` do not finish: first why each of them does not run, then the same for the operations that they wait for.
    ///
    /// - Parameters:
    ///   - operations: the operations that a thread or a task waits for.
    ///   - limit: the maximum number of operations to examine.
    public init(waitingFor operations: [Operation], limit: Int = 8) {
        var pending = operations.filter { !$0.isFinished }
        // Not a set of operations, because a subclass may declare distinct operations equal.
        var seen = Set(pending.map { ObjectIdentifier($0) })
        func add(_ operation: Operation) { if seen.insert(ObjectIdentifier(operation)).inserted { pending.append(operation) } }
        while entries.count < pending.count && entries.count < limit {
            let blockage = OperationBlockage(of: pending[entries.count])
            entries.append(blockage)
            for blocker in blockage.blockers {
                switch blocker {
                case .dependency(let dependency):
                    // Its entry would only say that it was never added, as the dependent's reason does already.
                    guard dependency.loadState().has(Operation.State.claimed) || dependency.isExecuting else { continue }
                    add(dependency)
                case .cycle(let path):
                    // A cycle is explained once, not for each member.
                    seen.formUnion(path.map { ObjectIdentifier($0) })
                case .members(let others), .resource(_, _, _, _, let others): others.forEach(add)
                case .barrier(let other, _), .key(_, let other?), .groupNotStarted(let other): add(other)
                default: break
                }
            }
        }
        omittedCount = pending.count - entries.count
    }

    /// Collects those of `operations` that are not running.
    init(of operations: [Operation], limit: Int) {
        for operation in operations {
            if entries.count == limit {
                omittedCount += 1
            } else if let blockage = operation.whyNotRunning {
                entries.append(blockage)
            }
        }
    }
}

extension StallReport: CustomStringConvertible {
    /// One sentence for each operation, separated by semicolons.
    public var description: String { description(naming: .standard) }

    /// `description` with custom names.
    public func description(naming: OperationNaming) -> String {
        sentences(naming: naming).joined(separator: "; ")
    }

    func sentences(naming: OperationNaming = .standard) -> [String] {
        entries.map { $0.description(naming: naming) } + (omittedCount > 0 ? ["and \(omittedCount) more"] : [])
    }
}

extension Engine {
    /// The operations of this engine's queues that are not running now, with the reasons. In a program that makes progress this is a
    /// snapshot. If the engine `isQuiescent`, nothing will run these operations unless the host acts.
    ///
    /// - Parameter limit: the maximum number of entries. The operations after the last entry are only counted, including running ones.
    public func stallReport(limit: Int = 100) -> StallReport { StallReport(of: unfinishedOperations(), limit: limit) }
}

extension OperationError {
    /// The error for a wait that nothing can end, with the reasons.
    static func neverFinishes(_ operations: [Operation]) -> OperationError {
        let report = StallReport(waitingFor: operations)
        return .neverFinishes(operations: operations.map(\.label), reasons: report.sentences())
    }

    /// The error for a wait inside `waiting` for an operation that is a barrier or behind one, while the barrier waits for `waiting`.
    static func neverFinishes(_ operation: Operation, becauseInFrontOfItsBarrier waiting: Operation) -> OperationError {
        let barriers = OperationBlockage(of: operation).blockers.filter {
            switch $0 {
            case .barrier, .before: true
            default: false
            }
        }
        // An operation that executes and is a barrier is the one in front of the other operation, which may be a barrier, too.
        let isBarrier = waiting.isBarrier && !operation.isBarrier
        return .neverFinishes(
            operations: [operation.label],
            reasons: [
                "\(OperationBlockage(operation: operation, blockers: barriers))",
                (isBarrier ? "\(waiting.label) waits here" : "the barrier waits for \(waiting.label), which waits here")
                    + "; make the rest of \(waiting.label) an operation that depends on \(operation.label)",
            ])
    }
}
