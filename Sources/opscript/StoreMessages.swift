import LuaBindings
import Synchronization

/// Writes the decisions of the store about operations, as `--dry-run` and `--explain` demand, and the operations that it does not record.
final class StoreMessages: Sendable {
    private let name: String
    private let isDryRun: Bool
    private let explains: Bool
    private let wouldRun = Atomic<Int>(0)
    private let isDone = Atomic<Int>(0)

    /// - Parameter name: The command's name.
    init(_ options: Options.Store, name: String) {
        self.name = name
        isDryRun = options.mode == .dryRun
        explains = options.explains
    }

    /// Called on any thread.
    func tell(_ explanation: Runtime.Explanation) {
        switch explanation.decision {
        case .isSkipped: isDone.wrappingAdd(1, ordering: .relaxed)
        case .runs(let reason):
            wouldRun.wrappingAdd(1, ordering: .relaxed)
            if isDryRun {
                Message.output("\(explanation.name) would run: \(reason)\n")
            } else if explains {
                Message.write("\(name): \(explanation.name) runs: \(reason)\n")
            }
        case .isNotRecorded(let reason): Message.write("\(name): \(explanation.name) is not recorded and will run again: \(reason)\n")
        }
    }

    /// Says how many operations a dry run has met.
    ///
    /// - Parameter plainOperationCount: The number of operations that ask no store. They run, because a script may need their results.
    func finish(plainOperationCount: Int) {
        if !isDryRun { return }
        let count = wouldRun.load(ordering: .relaxed), done = isDone.load(ordering: .relaxed)
        if plainOperationCount > 0 {
            let operations = "\(plainOperationCount) operation\(plainOperationCount == 1 ? "" : "s")"
            Message.output("\(operations) without inputs, outputs and memoize \(plainOperationCount == 1 ? "was" : "were") not left out\n")
        }
        Message.output("\(count) operation\(count == 1 ? "" : "s") would run, \(done) \(done == 1 ? "is" : "are") done\n")
    }
}
