import Synchronization

/// Counts asynchronous operations that were started by hand and have not ended. They belong to no engine, so while there is one no
/// engine of the process is quiescent: its end may be what a wait waits for, and may bring work to any of them.
enum StartedByHand {
    private static let count = Atomic<Int>(0)
    /// The engines that report stalls.
    private static let engines = Guarded<[WeakEngine]>([])

    private struct WeakEngine {
        let identifier: ObjectIdentifier
        weak var engine: Engine?
    }

    static var isEmpty: Bool { count.load(ordering: .acquiring) == 0 }

    static func begin() { count.wrappingAdd(1, ordering: .acquiringAndReleasing) }

    /// Balances `begin`. O(engines) when it was the last.
    static func end() {
        guard count.wrappingSubtract(1, ordering: .acquiringAndReleasing).newValue == 0 else { return }
        let watching = engines.withLock { $0.compactMap(\.engine) }
        for engine in watching { engine.reportStall() }
    }

    static func register(_ engine: Engine) {
        engines.withLock { $0.append(WeakEngine(identifier: ObjectIdentifier(engine), engine: engine)) }
    }

    static func unregister(_ engine: Engine) {
        let identifier = ObjectIdentifier(engine)
        engines.withLock { $0.removeAll { $0.identifier == identifier } }
    }
}

extension Operation {
    /// `start`, called by hand, has returned, and the operation may go on.
    func startedByHandHasReturned() {
        StartedByHand.begin()
        if !transition({ $0.goesOnAlone() }) { StartedByHand.end() }
    }
}
