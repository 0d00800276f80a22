import OpCluster
public import OpEngine
import OpPlatform

/// Runs the operations of one queue on a cluster.
///
/// The queue decides what runs next, as always. This executor takes operations only while the cluster has room. So waiting operations can
/// still be cancelled, and a more urgent one still overtakes them. Operations that do not belong to a script run in this process.
public final class ClusterExecutor: FinishingExecutor, Sendable {
    /// The handling of operations whose worker is lost.
    public struct Delivery: Sendable {
        /// Whether no operation may begin twice. If so, an operation whose worker is lost fails with the kind `lost`. If not, another
        /// worker runs it.
        public var isAtMostOnce = false
        /// An operation fails with the kind `lost` when so many workers were lost with it.
        public var maximumDeliveries = 3

        /// Makes the usual delivery.
        public init() {}
    }

    fileprivate struct State {
        /// Functions of the queue. Each one starts an operation.
        var jobs: [@Sendable () -> Void] = []
        /// The number of operations that are with workers, or on their way.
        var inFlight = 0
        /// The number of operations that were cancelled before they left, and have not finished.
        var cancelledCount = 0
        /// The seconds that a body takes: an average in which the last ones count most.
        var averageSeconds = 0.1
    }

    let connection: ClusterConnection
    let queueName: String
    let delivery: Delivery
    private let state = Guarded(State())

    /// Workers have this many seconds of work in advance, so that they need not wait for the network.
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

    /// Whether operations wait to start, are with workers, or are on their way.
    var hasOperations: Bool { state.withLock { $0.inFlight > 0 || !$0.jobs.isEmpty } }

    package var purposeOfWait: String? { connection.purposeOfWait }

    /// Starts operations while the cluster has room.
    func startMore() {
        let slots = connection.coordinator.slotCount
        while let job = state.withLock({ $0.next(slots: slots) }) {
            // The engine's threads have Lua states.
            connection.run { [self] in
                job()
                operationDidFinish(nil)
            }
        }
    }

    /// Counts an operation of the queue that was cancelled before it left. A cancelled operation finishes only after it was started.
    /// Without workers there is no room to start it, so `next` ignores the limit until it has finished.
    func hasCancelled(_ operation: Operation) {
        state.withLock { $0.cancelledCount += 1 }
        operation.whenFinished { [self] in state.withLock { $0.cancelledCount -= 1 } }
        startMore()
    }

    /// Counts an operation that is sent to a worker.
    func operationDidStart() { state.withLock { $0.inFlight += 1 } }

    /// Ends the count of an operation that has returned, or of a function that has started one.
    ///
    /// - Parameter seconds: the time that the body took at a worker; nil if no worker has run one.
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
        // The operations before a cancelled one are sent as well. All of these wait in the stream for a worker.
        guard inFlight < most || slots == 0 && cancelledCount > 0, !jobs.isEmpty else { return nil }
        inFlight += 1
        return jobs.removeFirst()
    }
}
