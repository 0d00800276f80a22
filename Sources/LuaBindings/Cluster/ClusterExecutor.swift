import OpCluster
@_spi(Locking) public import OpEngine

/// Runs the operations of one queue on a cluster.
///
/// The queue decides what runs next, as always. This executor takes operations from it while the cluster has room, so that those that wait can
/// still be cancelled, and a more urgent one still comes first. Operations that are not those of a script run in this process.
public final class ClusterExecutor: FinishingExecutor, Sendable {
    /// What happens to the operations of a worker that is lost.
    public struct Delivery: Sendable {
        /// Whether no operation may begin twice. One whose worker is lost fails then with the kind `lost`. Otherwise it runs again elsewhere.
        public var isAtMostOnce = false
        /// How many workers may be lost with an operation before it fails with the kind `lost`.
        public var maximumDeliveries = 3

        /// Makes the usual delivery.
        public init() {}
    }

    fileprivate struct State {
        /// What the queue wants to start.
        var jobs: [@Sendable () -> Void] = []
        /// The operations that are with workers, or on their way.
        var inFlight = 0
        /// So many were cancelled before they could leave, and have not finished.
        var cancelledCount = 0
        /// Seconds that a body took, the last ones counting most.
        var averageSeconds = 0.1
    }

    let connection: ClusterConnection
    let queueName: String
    let delivery: Delivery
    private let state = Guarded(State())

    /// So much work is under way that workers need not wait for the network: this many seconds of it.
    fileprivate static let aheadSeconds = 0.02
    fileprivate static let leastAhead = 2, mostAhead = 64

    init(_ connection: ClusterConnection, queue: String, _ delivery: Delivery) {
        (self.connection, queueName, self.delivery) = (connection, queue, delivery)
    }

    /// See `OperationExecutor.execute`.
    public func execute(_ job: @escaping @Sendable () -> Void) {
        state.withLock { $0.jobs.append(job) }
        startMore()
        if connection.coordinator.slotCount == 0 { connection.operationsWait() }
    }

    /// Whether there are operations to start, or at workers, or on their way.
    var hasOperations: Bool { state.withLock { $0.inFlight > 0 || !$0.jobs.isEmpty } }

    package var purposeOfWait: String? { connection.purposeOfWait }

    /// Starts what there is room for.
    func startMore() {
        let slots = connection.coordinator.slotCount
        while let job = state.withLock({ $0.next(slots: slots) }) {
            // On a thread of the engine, which has a Lua state.
            connection.run { [self] in
                job()
                operationDidFinish(nil)
            }
        }
    }

    /// An operation of the queue was cancelled before it could leave. It ends when it is its turn, for which there may be no room: without
    /// workers, never.
    func hasCancelled(_ operation: Operation) {
        state.withLock { $0.cancelledCount += 1 }
        operation.whenFinished { [self] in state.withLock { $0.cancelledCount -= 1 } }
        startMore()
    }

    /// Counts an operation that goes to a worker.
    func operationDidStart() { state.withLock { $0.inFlight += 1 } }

    /// An operation has come back, after so many seconds at a worker; or one was started, if that is nil.
    func operationDidFinish(_ seconds: Double?) {
        state.withLock { state in
            state.inFlight -= 1
            if let seconds { state.averageSeconds = 0.9 * state.averageSeconds + 0.1 * seconds }
        }
        startMore()
    }
}

extension ClusterExecutor.State {
    fileprivate mutating func next(slots: Int) -> (@Sendable () -> Void)? {
        let ahead = Int(ClusterExecutor.aheadSeconds / max(averageSeconds, 1e-6))
        let most = slots * min(max(ahead, ClusterExecutor.leastAhead), ClusterExecutor.mostAhead)
        // Those that are sent because they come before one that was cancelled wait for a worker in the stream.
        guard inFlight < most || slots == 0 && cancelledCount > 0, !jobs.isEmpty else { return nil }
        inFlight += 1
        return jobs.removeFirst()
    }
}
