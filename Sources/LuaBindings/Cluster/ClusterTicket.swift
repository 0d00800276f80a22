import OpCluster
import OpEngine
import OpPlatform

/// Identifies an operation on a cluster, in order to stop it there.
final class ClusterTicket: Sendable {
    private struct State {
        var number: UInt64?
        var request: StopRequest?
        var hasEnded = false
        /// The errors of other operations that were sent along, in the order of `WireWriter.failures`.
        var failures: [OperationFailure] = []
    }

    let executor: ClusterExecutor
    private let state = Guarded(State())

    init(_ executor: ClusterExecutor) { self.executor = executor }

    /// Records the number of the operation's task.
    func isSubmitted(as number: UInt64) {
        let request = state.withLock { state in
            state.number = number
            return state.request
        }
        // This stop was requested before the task had a number.
        if let request { executor.connection.coordinator.stop(number, request) }
    }

    /// The reason why the operation waits; nil if a worker has it.
    var purposeOfWait: String? {
        let connection = executor.connection
        let isTaken = state.withLock { $0.number }.map { connection.coordinator.worker(of: $0) != nil } ?? false
        return isTaken ? nil : connection.purposeOfWait
    }

    /// Tells the worker that the operation is cancelled.
    func cancel() { stop(.cancel) }
    /// Has the worker stop the body.
    func interrupt() { stop(.interrupt) }
    /// Tells the worker that the operation is no longer needed.
    func drop() { stop(.drop) }

    /// Asks the worker to stop the operation. Repeating this does no harm.
    private func stop(_ request: StopRequest) {
        let number = state.withLock { state in
            if state.request == nil || request != .cancel { state.request = request }
            return state.number
        }
        if let number { executor.connection.coordinator.stop(number, request) }
    }

    /// Releases the inputs, which no worker asks for any more.
    func releaseFiles() { if let number = state.withLock({ $0.number }) { executor.connection.releaseInputs(of: number) } }

    /// Finishes the operation if its worker does not report that the body has stopped.
    func abandon() { if let number = state.withLock({ $0.number }) { executor.connection.coordinator.abandon(number) } }

    func hasSent(_ failures: [OperationFailure]) { state.withLock { $0.failures = failures } }

    /// Marks the errors that were sent along and that the body has read. Ignores other indices, which a faulty worker may send.
    func markRead(_ indices: [Int]) {
        let failures = state.withLock { $0.failures }
        for index in indices where failures.indices.contains(index) { failures[index].markRead() }
    }

    /// Returns true for the first caller only.
    func claimEnd() -> Bool {
        state.withLock { state in
            defer { state.hasEnded = true }
            return !state.hasEnded
        }
    }
}
