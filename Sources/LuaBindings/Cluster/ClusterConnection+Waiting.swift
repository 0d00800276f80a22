import OpCluster
@_spi(Locking) import OpEngine

/// What a person is told about operations that wait for workers.
extension ClusterConnection {
    /// The number of workers that take operations, and of those that they run at once.
    var capacity: (workers: Int, slots: Int) {
        let workers = coordinator.workers.filter { $0.slots > 0 }
        return (workers.count, workers.reduce(0) { $0 + $1.slots })
    }

    /// What operations wait for, after the word `waits`.
    var purposeOfWait: String {
        let slots = coordinator.slotCount
        let place = "for a worker of the cluster at \(shownURL)"
        return slots == 0 ? "\(place), where none answers" : "\(place), which has \(slots) slot\(slots == 1 ? "" : "s")"
    }

    /// Seconds without a worker after which a person is told.
    private static let patience = 5.0

    /// Operations wait and there is no worker: tells a person if that lasts.
    func noWorkerAnswers() {
        guard let absence = waiting.withLock({ $0.beginWatching() }) else { return }
        coordinator.after(Self.patience) { [weak self] in
            guard let self, waiting.withLock({ $0.endWatching(absence) }), hasWaitingOperations else { return }
            tell(
                "no worker of the cluster at \(shownURL) answers; operations wait (opscript worker --cluster \(shownURL))")
        }
    }

    /// There are workers again.
    func workersAnswer() { waiting.withLock { $0.absence += 1 } }

    /// When a person is told that there are no workers: once each time that they are gone.
    struct Waiting {
        /// Counts how often workers have come.
        fileprivate var absence = 0
        private var watched: Int?
        private var told: Int?

        /// Returns the number of the absence if somebody has to look later whether it lasts.
        fileprivate mutating func beginWatching() -> Int? {
            if watched == absence || told == absence { return nil }
            watched = absence
            return absence
        }

        /// Returns whether it has lasted.
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

        /// Describes them.
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
