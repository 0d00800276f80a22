import OpPlatform
import Synchronization

/// Counts asynchronous operations that were started manually and have not finished.
///
/// Such operations belong to no engine. While there is one, no engine of the process is quiescent, because the end of the operation may satisfy
/// a wait or bring work to any engine.
enum ManuallyStartedOperations {
    private static let count = Atomic<Int>(0)
    /// The engines that report stalls.
    private static let engines = Guarded<[EngineReference]>([])

    static var isEmpty: Bool { count.load(ordering: .acquiring) == 0 }

    static func begin() { count.wrappingAdd(1, ordering: .acquiringAndReleasing) }

    /// Balances `begin`. O(engines) if no such operation is left.
    static func end() {
        guard count.wrappingSubtract(1, ordering: .acquiringAndReleasing).newValue == 0 else { return }
        let watching = engines.withLock { $0.compactMap { $0.engine.object } }
        for engine in watching { engine.reportStall() }
    }

    static func register(_ engine: Engine) {
        engines.withLock { $0.append(engine.reference) }
    }

    static func unregister(_ engine: Engine) {
        engines.withLock { $0.removeAll { $0 === engine.reference } }
    }
}

extension Operation {
    /// Counts the operation if it continues after a manually called `start` has returned.
    func manualStartHasReturned() {
        if endsFromWithin { return }
        ManuallyStartedOperations.begin()
        if !transition({ $0.manualStartReturned() }) { ManuallyStartedOperations.end() }
    }
}
