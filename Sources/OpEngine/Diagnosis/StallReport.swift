/// Operations that are not running, and why.
public struct StallReport: Sendable, Hashable {
    /// How many operations a message names.
    static let messageLimit = 8

    /// Those that were looked at.
    public private(set) var entries: [Operation.Blockage] = []
    /// How many more there are.
    public private(set) var omittedCount = 0

    /// Whether there is none.
    public var isEmpty: Bool { entries.isEmpty }

    /// What keeps `operations` from finishing: why each does not run, and then why those do not run that it waits for.
    ///
    /// - Parameters:
    ///   - operations: what somebody waits for.
    ///   - limit: how many operations to look at.
    public init(waitingFor operations: [Operation], limit: Int = 8) {
        var pending = operations.filter { !$0.isFinished }
        var seen = Set(pending)
        while entries.count < pending.count && entries.count < limit {
            let blockage = Operation.Blockage(of: pending[entries.count])
            entries.append(blockage)
            for blocker in blockage.blockers {
                switch blocker {
                case .dependency(let dependency):
                    // That one was never added is said already.
                    guard dependency.loadState().has(Operation.State.claimed) || dependency.isExecuting else { continue }
                    if seen.insert(dependency).inserted { pending.append(dependency) }
                case .cycle(let path):
                    // Once for all of them.
                    for member in path where seen.insert(member).inserted {}
                case .barrier(let other, _):
                    if seen.insert(other).inserted { pending.append(other) }
                default: break
                }
            }
        }
        omittedCount = pending.count - entries.count
    }

    /// Those of `operations` that are not running.
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
    /// A sentence for each operation, separated by semicolons.
    public var description: String { description(naming: .standard) }

    /// `description` with other names.
    public func description(naming: Operation.Naming) -> String {
        sentences(naming: naming).joined(separator: "; ")
    }

    func sentences(naming: Operation.Naming = .standard) -> [String] {
        entries.map { $0.description(naming: naming) } + (omittedCount > 0 ? ["and \(omittedCount) more"] : [])
    }
}

extension Engine {
    /// Which operations of this engine's queues are not running now, and why. In a program that makes progress it is a snapshot; when
    /// the engine `isQuiescent`, these are the operations that nothing will run unless the host does something.
    ///
    /// - Parameter limit: how many operations to look at. What is not looked at is only counted, running ones included.
    public func stallReport(limit: Int = 100) -> StallReport { StallReport(of: unfinishedOperations(), limit: limit) }
}

extension OperationError {
    /// A wait that nothing can end, with the reasons.
    static func neverFinishes(_ operations: [Operation]) -> OperationError {
        let report = StallReport(waitingFor: operations)
        return .neverFinishes(operations: operations.map(\.label), reasons: report.sentences())
    }
}
