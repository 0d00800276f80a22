import Synchronization

/// The things that the game shows. Scripts change them only from the main state, which the loop enters in `drain`.
final class World: Sendable {
    private let trees = Mutex<[Int: Double]>([:])

    var treeCount: Int { trees.withLock { $0.count } }

    func place(_ tree: Int, _ height: Double) { trees.withLock { $0[tree] = height } }

    func update() {}

    func draw() {}
}
