import OpPlatform
import Synchronization

/// The blocks of one operation. Several threads take blocks from it.
final class BlockShare: Sendable {
    private let blocks: [@Sendable () throws -> Void]
    private let parker: Parker
    private let next = Atomic<Int>(0)
    private let unfinished: Atomic<Int>

    init(blocks: [@Sendable () throws -> Void], parker: Parker) {
        self.blocks = blocks
        self.parker = parker
        unfinished = Atomic(blocks.count)
    }

    var isDone: Bool { unfinished.load(ordering: .acquiring) == 0 }

    /// Runs blocks until none is left. The thread that finishes the last block wakes the owner.
    func runRest(_ run: (@Sendable () throws -> Void) -> Void) {
        while true {
            let index = next.wrappingAdd(1, ordering: .relaxed).oldValue
            if index >= blocks.count { return }
            run(blocks[index])
            if unfinished.wrappingSubtract(1, ordering: .acquiringAndReleasing).newValue == 0 { parker.unpark() }
        }
    }
}
