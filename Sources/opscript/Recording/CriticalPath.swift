/// The chain of operations that decided how long a run took.
///
/// The chain is found backwards, from the operation that finished last. There are three candidates for the predecessor of an operation:
/// the dependency that finished last, the operation that left the same worker before, and, if the queue was at its maximum, the operation
/// of the queue that finished before. The candidate that ended last wins. If all of them ended before the operation was added, the operation
/// that added it is the predecessor. If the script added it, the chain begins there.
struct CriticalPath {
    /// Why an operation started when it did.
    enum Reason: String { case added, first, creator, dependency, worker, maximum, suspension }

    /// An operation of the chain, and why it did not start earlier.
    struct Step: Equatable {
        let operation: Int
        let reason: Reason
    }

    private let operations: [RunOperation]
    private let dependencies: [Int: [Int]]
    /// The operations of each thread by the time at which they left it, and those of each queue by the time at which they finished.
    private var ofThread: [Int: [Int]] = [:]
    private var ofQueue: [Int: [Int]] = [:]

    /// The chain in order of time; empty if no operation has run.
    static func steps(of operations: [RunOperation], edges: [(operation: Int32, dependency: Int32)]) -> [Step] {
        let path = CriticalPath(operations, edges)
        let ran = operations.indices.filter { operations[$0].hasStarted }
        guard var current = ran.max(by: { operations[$0].finished < operations[$1].finished }) else { return [] }
        var steps: [Step] = []
        while true {
            let (reason, previous) = path.predecessor(of: current)
            steps.append(Step(operation: current, reason: reason))
            // A predecessor starts earlier, so the chain ends.
            guard let previous, operations[previous].started < operations[current].started else { break }
            current = previous
        }
        return steps.reversed()
    }

    private init(_ operations: [RunOperation], _ edges: [(operation: Int32, dependency: Int32)]) {
        self.operations = operations
        dependencies = Dictionary(grouping: edges, by: { Int($0.operation) }).mapValues { $0.map { Int($0.dependency) } }
        for (index, operation) in operations.enumerated() where operation.hasStarted {
            ofThread[operation.thread, default: []].append(index)
            ofQueue[operation.queue, default: []].append(index)
        }
        for key in Array(ofThread.keys) { ofThread[key]?.sort { operations[$0].leftThread < operations[$1].leftThread } }
        for key in Array(ofQueue.keys) { ofQueue[key]?.sort { operations[$0].finished < operations[$1].finished } }
    }

    private func predecessor(of index: Int) -> (Reason, Int?) {
        let operation = operations[index]
        let dependency = dependencies[index]?.filter { operations[$0].finished <= operation.started }
            .max { operations[$0].finished < operations[$1].finished }
        // A later candidate replaces an earlier one only if it ended after that.
        var (reason, previous, end) = (Reason.added, Int?.none, operation.added)
        if let dependency, operations[dependency].finished >= end {
            (reason, previous, end) = (.dependency, dependency, operations[dependency].finished)
        }
        if operation.suspendedTime > 0, operation.resumed > end { (reason, end) = (.suspension, operation.resumed) }
        let worker = last(of: ofThread[operation.thread] ?? [], endingAt: \.leftThread, by: operation.started, not: index)
        if let worker, operations[worker].leftThread > end, operation.workerTime > 0 || operation.maximumTime > 0 {
            (reason, previous, end) = (.worker, worker, operations[worker].leftThread)
        }
        if operation.maximumTime > 0 {
            let other = last(of: ofQueue[operation.queue] ?? [], endingAt: \.finished, by: operation.started, not: index)
            if let other, operations[other].finished > end || (other == worker && reason == .worker) {
                (reason, previous) = (.maximum, other)
            }
        }
        if reason != .added { return (reason, previous) }
        if let creator = operation.creator { return (.creator, Int(creator)) }
        return (worker == nil ? .first : .added, nil)
    }

    /// The last operation of a sorted list that ended at `time` or before.
    private func last(
        of list: [Int], endingAt end: KeyPath<RunOperation, UInt64>, by time: UInt64, not index: Int
    ) -> Int? {
        var (low, high) = (0, list.count)
        while low < high {
            let middle = (low + high) / 2
            if operations[list[middle]][keyPath: end] <= time { low = middle + 1 } else { high = middle }
        }
        return list[..<low].last { $0 != index }
    }
}
