import OpPlatform
import Synchronization

/// The blocks of one operation. Its thread runs the first one. All threads that take part take the next ones.
final class BlockShare: Sendable {
    private let blocks: [@Sendable () throws -> Void]
    private let parker: Parker
    private let next = Atomic<Int>(1)
    private let unfinished: Atomic<Int>

    init(blocks: [@Sendable () throws -> Void], parker: Parker) {
        self.blocks = blocks
        self.parker = parker
        unfinished = Atomic(blocks.count)
    }

    var isDone: Bool { unfinished.load(ordering: .acquiring) == 0 }

    /// Runs blocks until none is left. The thread that finishes the last block wakes the owner.
    ///
    /// - Parameter isOwner: whether to begin with the first block.
    func runRest(isOwner: Bool = false, _ run: (@Sendable () throws -> Void) -> Void) {
        var index = isOwner ? 0 : takeNext()
        while index < blocks.count {
            run(blocks[index])
            if unfinished.wrappingSubtract(1, ordering: .acquiringAndReleasing).newValue == 0 { parker.unpark() }
            index = takeNext()
        }
    }

    private func takeNext() -> Int { next.wrappingAdd(1, ordering: .relaxed).oldValue }
}
