import OpCluster
import OpEngine
import OpPlatform

/// The messages about operations that wait for workers.
extension ClusterConnection {
    /// The number of workers that take operations, and the number of operations that they run at once.
    var capacity: (workers: Int, slots: Int) {
        let workers = coordinator.workers.filter { $0.slots > 0 }
        return (workers.count, workers.reduce(0) { $0 + $1.slots })
    }

    /// The reason why operations wait, for messages: it follows the word `waits`.
    var purposeOfWait: String {
        let slots = coordinator.slotCount
        let place = "for a worker of the cluster at \(shownURL)"
        return slots == 0 ? "\(place), where none answers" : "\(place), which has \(slots) slot\(slots == 1 ? "" : "s")"
    }

    /// Seconds without a worker until a person is told.
    private static let patience = 5.0

    /// Tells a person if operations wait without any worker, and this lasts.
    func noWorkerAnswers() {
        guard let absence = waiting.withLock({ $0.beginWatching() }) else { return }
        coordinator.after(Self.patience) { [weak self] in
            guard let self, waiting.withLock({ $0.endWatching(absence) }), hasWaitingOperations else { return }
            tell(
                "no worker of the cluster at \(shownURL) answers; operations wait (opscript worker --cluster \(shownURL))")
        }
    }

    /// Ends the absence of workers.
    func workersAnswer() { waiting.withLock { $0.absence += 1 } }

    /// Decides when a person is told that no worker answers: once for each absence.
    struct Waiting {
        /// The number of this absence. The number grows whenever workers answer.
        fileprivate var absence = 0
        private var watched: Int?
        private var told: Int?

        /// Returns the number of the absence if the caller must check later whether it lasts.
        fileprivate mutating func beginWatching() -> Int? {
            if watched == absence || told == absence { return nil }
            watched = absence
            return absence
        }

        /// Returns whether the absence has lasted.
        fileprivate mutating func endWatching(_ absence: Int) -> Bool {
            guard absence == self.absence else { return false }
            watched = nil
            told = absence
            return true
        }
    }
}

extension RunMonitor {
    /// The workers of the clusters that queues use.
    public struct Clusters: Sendable, Hashable {
        /// The number of workers that answer.
        public let workers: Int
        /// The number of operations that they run at once.
        public let slots: Int
        /// Whether operations wait for a worker, and none answers.
        public let isWaiting: Bool

        /// Makes a description of the workers.
        public init(workers: Int, slots: Int, isWaiting: Bool) {
            (self.workers, self.slots, self.isWaiting) = (workers, slots, isWaiting)
        }
    }

    /// The workers of the clusters that queues use; nil if none uses one.
    public func clusters() -> Clusters? {
        let connections = core.clusters.all
        if connections.isEmpty { return nil }
        let capacities = connections.map(\.capacity)
        return Clusters(
            workers: capacities.reduce(0) { $0 + $1.workers }, slots: capacities.reduce(0) { $0 + $1.slots },
            isWaiting: connections.contains { $0.coordinator.slotCount == 0 && $0.hasWaitingOperations })
    }
}
